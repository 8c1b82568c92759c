/* More of arenas (qkv/base.h), blocks of memory, and arrays that grow. */
#pragma once

#include "qkv/base.h"

#include <stdlib.h>
#include <string.h>

/* Sets the error of memory that has run out; returns QKV_INVALID. */
static inline enum qkv_status qkv_no_memory(struct qkv_error *error)
{
    return qkv_error_set(error, "out of memory");
}

/* Fails once the flag of this thread is true (qkv_set_interrupt). */
enum qkv_status qkv_check_interrupt(struct qkv_error *error);

/* The flag of this thread. */
const bool *qkv_interrupt_flag(void);

/* ---- arenas ---- */

/* Copies a string into the arena; NULL when memory runs out or `string` is NULL. */
char *qkv_arena_string(struct qkv_arena *arena, const char *string);

/* Formats a string into the arena; NULL when memory runs out or `format` is NULL. */
char *qkv_arena_format(struct qkv_arena *arena, const char *format, ...) QKV_PRINTF(2, 3);

/* The same, but "" for NULL: for names, whose owner looks at arena->failed once, at the end. */
#define QKV_ARENA_NAME(...) qkv_text_or_empty(qkv_arena_format(__VA_ARGS__))
static inline const char *qkv_text_or_empty(const char *text)
{
    return text ? text : "";
}

/* An array of `count` elements in the arena, not zeroed, or all zero; NULL when memory runs out. */
static inline void *qkv_arena_array(struct qkv_arena *arena, int64_t count, size_t element_size)
{
    return qkv_arena_allocate(arena, (size_t)count * element_size);
}
static inline void *qkv_arena_zeros(struct qkv_arena *arena, int64_t count, size_t element_size)
{
    return qkv_arena_zeroed(arena, (size_t)count * element_size);
}

/* Frees every allocation but keeps the memory for the next ones: when the same amount is allocated again, malloc
 * is not called. If the arena has several chunks, replaces them by one. */
void qkv_arena_reset(struct qkv_arena *arena);

/* The same as qkv_arena_string, escaped as by qkv_plain_next (core/text.h). */
const char *qkv_arena_plain(struct qkv_arena *arena, const char *text);

/* Turns guarding on or off for later allocations of all arenas in the process. A guarded allocation has its own pages and
 * ends where an inaccessible page begins: an access past its end raises SIGSEGV, and so does an access after a reset or
 * release has freed it. It is aligned only to the largest power of two that divides its size, and its bytes start as 0xFF.
 * Off at first, at no cost; meant for tests, because it is slow. */
void qkv_arena_guard(bool on);
bool qkv_arena_is_guarded(void);

/* ---- blocks ---- */

/* Allocates `size` bytes, not zeroed, aligned to 64 bytes, or to 2 MB if `size` is at least 1 MB. Requests huge pages for
 * the first `written` bytes: as many as the caller will write. NULL when memory runs out. */
void *qkv_block_new(size_t size, size_t written);

/* Frees a block (or NULL); `size` as in qkv_block_new. */
void qkv_block_free(void *block, size_t size);

/* ---- arrays that grow, in amortised constant time per element ---- */

/* Reallocates an array for at least `wanted` elements and at least half as many again as before. When memory is
 * out, frees the array, sets `capacity` to 0 and returns NULL: the caller must then forget its elements. */
static inline void *qkv_grow(void *array, int64_t *capacity, int64_t wanted, size_t element_size)
{
    int64_t larger = *capacity + *capacity / 2 + 16;
    if (larger < wanted) larger = wanted;
    void *grown =
        (uint64_t)larger > SIZE_MAX / 2 / element_size ? NULL : realloc(array, (size_t)larger * element_size);
    if (!grown) free(array);
    *capacity = grown ? larger : 0;
    return grown;
}

/* True when `array` has memory for `wanted` elements; grows `array` and `capacity` if necessary. */
#define QKV_RESERVE(array, capacity, wanted)                                                                 \
    ((wanted) <= (capacity) || ((array) = qkv_grow((array), &(capacity), (wanted), sizeof *(array))) != NULL)
