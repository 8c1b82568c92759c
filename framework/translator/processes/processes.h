/* Private: how processes start and find each other; structured data between them; and what they must have in common. */
#pragma once

#include "core/exchange.h"
#include "core/text.h"
#include "qkv/trainer.h"

#include <string.h>

/* The number of processes that mpirun or another launcher started, including this one, as the environment tells; 0: the
 * launcher does not tell; 1: there is no launcher. */
int qkv_launched_processes(void);

/* mpi.c: joins `expected` processes (0: the launcher does not tell). *processes is NULL before, and stays NULL if there is but
 * one. */
enum qkv_status qkv_mpi_join(struct qkv_processes **processes, int expected, struct qkv_error *error);

/* ---- structured data: process 0 sends a task to all others, and gathers their parts of the results ---- */

/* The data of one process as bytes, which one process packs and another unpacks. */
struct qkv_parcel {
    struct bytes packed;     /* what was moved into it */
    char *received;          /* the next byte to unpack; NULL: the parcel is packed */
    bool has_failed;         /* memory runs out */
    bool is_refused;         /* what was received is wrong, as `error` says */
    struct qkv_error *error; /* of qkv_gather in process 0 */
};

/* Moves an object into the parcel, or out of a received one. */
static inline void qkv_parcel_move(struct qkv_parcel *parcel, void *object, size_t size)
{
    if (!parcel->received) {
        qkv_bytes_append(&parcel->packed, object, size);
        return;
    }
    if (size) memcpy(object, parcel->received, size);
    parcel->received += size;
}

struct qkv_parcel_contents {
    void *context;

    /* Moves the data of process `rank`, in an order that is the same in all processes. Allocates memory for received data,
     * and sets has_failed when memory runs out. */
    void (*move)(void *context, int rank, struct qkv_parcel *parcel);
};

/* Copies the contents of process 0 to all other processes. Does nothing if `processes` is NULL. */
enum qkv_status qkv_share(struct qkv_processes *processes, const struct qkv_parcel_contents *contents,
                          struct qkv_error *error);

/* Gathers the results in process 0. All processes call it with the status and message of their part, and all return the
 * common status. Process 0 gets the message of the first part that failed; the other processes get an empty message. */
enum qkv_status qkv_gather(struct qkv_processes *processes, const struct qkv_parcel_contents *contents,
                           enum qkv_status status, struct qkv_error *error);

/* ---- the handshake: before processes work together, each states facts about itself, and process 0 compares them ---- */

/* All zero at first. */
struct qkv_handshake {
    struct bytes facts; /* the name and the value of each, each with a terminating NUL */
};

void qkv_handshake_add(struct qkv_handshake *handshake, const char *name, const char *format, ...)
    QKV_PRINTF(3, 4);
void qkv_handshake_add_checksum(struct qkv_handshake *handshake, const char *name, uint32_t checksum);

/* Adds the version of qkv with a checksum of its source, because many builds share a version, and the kernels. */
void qkv_handshake_add_build(struct qkv_handshake *handshake);

/* Compares the facts that process 0 and another one both state, and releases those of this process. All processes call it with
 * the status and message of their preparation, and all return the same: that of the first process whose preparation has failed,
 * or QKV_INVALID if two facts differ. Process 0 gets the message; in the other processes it is empty. */
enum qkv_status qkv_handshake(struct qkv_processes *processes, struct qkv_handshake *handshake,
                              enum qkv_status status, struct qkv_error *error);

/* ---- threads and failures ---- */

/* Number of threads that this process starts by default: its share of the processors of its machine. 0: all processors. */
int qkv_processes_threads(const struct qkv_processes *processes);

/* Gives all processes the status of process 0, and returns it. */
enum qkv_status qkv_processes_share_status(struct qkv_processes *processes, enum qkv_status status);

/* Declares that this process cannot go on although others wait for it: qkv_processes_leave then ends all processes. */
void qkv_processes_abort(struct qkv_processes *processes);
