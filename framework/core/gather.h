/* Structured data between processes: process 0 gives a task to all others, and gathers their parts of the results. */
#ifndef QKV_CORE_GATHER_H
#define QKV_CORE_GATHER_H

#include "core/exchange.h"

#include <string.h>

/* The bytes of one process, which are counted, then packed, and unpacked by process 0. */
struct qkv_parcel {
    char *bytes; /* NULL: they are counted */
    size_t size; /* of what has been moved so far */
    bool is_received;
    bool has_failed; /* memory is out */
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

    /* Moves, in an order that all processes know, what process `rank` has. Allocates memory for what it receives, and sets
     * has_failed where there is none. */
    void (*move)(void *context, int rank, struct qkv_parcel *parcel);
};

/* Copies what process 0 has to all others. Does nothing for NULL. */
enum qkv_status qkv_share(struct qkv_processes *processes, const struct qkv_parcel_contents *contents,
                          struct qkv_error *error);

/* Gathers the results. All processes call it with the status and message of their part, and get the status of all. The message
 * of the first that failed is with process 0, the others have an empty one. */
enum qkv_status qkv_gather(struct qkv_processes *processes, const struct qkv_parcel_contents *contents,
                           enum qkv_status status, struct qkv_error *error);

#endif
