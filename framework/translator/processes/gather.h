/* Transfers structured data between processes: process 0 sends a task to all others, and gathers their parts of the
 * results. */
#ifndef QKV_CORE_GATHER_H
#define QKV_CORE_GATHER_H

#include "core/exchange.h"
#include "qkv/processes.h"

#include <string.h>

/* The data of one process as bytes. A first pass counts the bytes, a second one packs them, and the receiver unpacks
 * them. */
struct qkv_parcel {
    char *bytes; /* NULL: the first pass, which only counts */
    size_t size; /* bytes moved so far */
    bool is_received;
    bool has_failed; /* memory runs out */
};

/* Moves an object into the parcel, or out of a received one. */
static inline void qkv_parcel_move(struct qkv_parcel *parcel, void *object, size_t size)
{
    if (parcel->bytes && size) {
        char *place = parcel->bytes + parcel->size;
        memcpy(parcel->is_received ? object : place, parcel->is_received ? place : object, size);
    }
    parcel->size += size;
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

#endif
