/* Arena allocation: many allocations that are released together.
 *
 * Example:
 *     struct qkv_arena arena = {0};
 *     double *numbers = qkv_arena_zeroed(&arena, 100 * sizeof *numbers);
 *     char *name = qkv_arena_format(&arena, "layer.%d", 3);
 *     if (numbers && name) printf("%s: %g\n", name, numbers[99]);
 *     qkv_arena_release(&arena);
 *
 * Only one thread at a time may use an arena. */
#ifndef QKV_ARENA_H
#define QKV_ARENA_H

#include "qkv/error.h"

#include <stdbool.h>
#include <stddef.h>

/* Allocates `size` bytes, not zeroed, aligned to 64 bytes, or to 2 MB if `size` is at least 1 MB. Requests huge pages for
 * the first `written` bytes: as many as the caller will write. NULL when memory runs out. */
QKV_API void *qkv_block_new(size_t size, size_t written);

/* Frees a block (or NULL); `size` as in qkv_block_new. */
QKV_API void qkv_block_free(void *block, size_t size);

struct qkv_arena_chunk;

/* Caller's storage; all zero is an empty arena. */
struct qkv_arena {
    struct qkv_arena_chunk *first, *current;
    size_t used; /* bytes allocated since the last reset */
    size_t peak; /* most bytes ever allocated between two resets */
};

/* Allocates `size` bytes, not zeroed, aligned to 64 bytes. NULL when memory runs out. Size 0 gives a valid pointer. */
QKV_API void *qkv_arena_allocate(struct qkv_arena *arena, size_t size);

/* The same, filled with zeros. */
QKV_API void *qkv_arena_zeroed(struct qkv_arena *arena, size_t size);

/* Copies a string into the arena; NULL when memory runs out or `string` is NULL. */
QKV_API char *qkv_arena_string(struct qkv_arena *arena, const char *string);

/* Formats a string into the arena; NULL when memory runs out or `format` is NULL. */
QKV_API char *qkv_arena_format(struct qkv_arena *arena, const char *format, ...) QKV_PRINTF(2, 3);

/* Frees every allocation but keeps the memory for the next ones: when the same amount is allocated again, malloc
 * is not called. If the arena has several chunks, replaces them by one. */
QKV_API void qkv_arena_reset(struct qkv_arena *arena);

/* Returns all memory to the system. The arena is empty and can be used again. */
QKV_API void qkv_arena_release(struct qkv_arena *arena);

/* ---- to find accesses outside an allocation ---- */

/* Turns guarding on or off for later allocations of all arenas in the process. A guarded allocation has its own pages and
 * ends where an inaccessible page begins: an access past its end raises SIGSEGV, and so does an access after a reset or
 * release has freed it. It is aligned only to the largest power of two that divides its size, and its bytes start as 0xFF.
 * Off at first, at no cost; meant for tests, because it is slow. */
QKV_API void qkv_arena_guard(bool on);
QKV_API bool qkv_arena_is_guarded(void);

#endif
