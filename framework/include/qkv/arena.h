/* A chained bump arena: many small allocations with one life, released together. Not thread safe: one arena
 * belongs to one thread at a time. */
#ifndef QKV_ARENA_H
#define QKV_ARENA_H

#include "qkv/error.h"

#include <stddef.h>

/* `size` bytes for numbers, not zeroed, of which the first `used` are sure to be written: aligned to 64, and
 * from 1 MB on to the large pages of the machine (2 MB), which the system is asked for where they will be
 * used. NULL when there is no memory. */
QKV_API void *qkv_block_new(size_t size, size_t used);

/* Gives a block (or NULL) back; `size` as it was asked for. */
QKV_API void qkv_block_free(void *block, size_t size);

struct qkv_arena_chunk;

/* Caller's storage. An arena that is all zero is valid and empty. */
struct qkv_arena {
    struct qkv_arena_chunk *first, *current;
    size_t used; /* bytes handed out since the last reset */
    size_t peak; /* most bytes ever handed out between two resets */
};

/* Returns `size` bytes aligned to 64, not zeroed, or NULL when the system has no memory. Size 0 gives a valid
 * pointer. */
QKV_API void *qkv_arena_allocate(struct qkv_arena *arena, size_t size);

/* The same, filled with zeros. */
QKV_API void *qkv_arena_zeroed(struct qkv_arena *arena, size_t size);

/* Copies a string into the arena; NULL when there is no memory. */
QKV_API char *qkv_arena_string(struct qkv_arena *arena, const char *string);

/* Formats into the arena; NULL when there is no memory. */
QKV_API char *qkv_arena_format(struct qkv_arena *arena, const char *format, ...) QKV_PRINTF(2, 3);

/* Forgets every allocation but keeps the memory: rounds that need no more than the first ones call malloc
 * zero times. Memory that was chained while the arena grew is joined here. */
QKV_API void qkv_arena_reset(struct qkv_arena *arena);

/* Gives all memory back; the arena is empty and can be used again. */
QKV_API void qkv_arena_release(struct qkv_arena *arena);

#endif
