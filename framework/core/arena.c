#include "qkv/arena.h"

#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { ALIGNMENT = 64, SMALLEST_CHUNK = 1 << 16 };

/* Chunks are listed in order of first use; those after `current` are free. */
struct qkv_arena_chunk {
    struct qkv_arena_chunk *next;
    size_t size, used; /* bytes after the header */
    char padding[ALIGNMENT - 3 * sizeof(size_t)];
};

_Static_assert(sizeof(struct qkv_arena_chunk) == ALIGNMENT, "chunk data must stay aligned");

/* `used`: bytes that the caller will certainly write, for huge pages; see qkv_block_new. */
static struct qkv_arena_chunk *chunk_new(size_t size, size_t used)
{
    size_t header = sizeof(struct qkv_arena_chunk);
    struct qkv_arena_chunk *chunk = qkv_block_new(header + size, used ? header + used : 0);
    if (!chunk) return NULL;
    chunk->next = NULL;
    chunk->size = size;
    chunk->used = 0;
    return chunk;
}

/* A chunk with `size` free bytes (a multiple of ALIGNMENT): the current one, a later one, or a new one, which at least
 * doubles the arena so that the chain stays short. */
static struct qkv_arena_chunk *find_chunk(struct qkv_arena *arena, size_t size)
{
    size_t held = 0;
    bool usable = false; /* true from the current chunk on: earlier chunks are full */
    struct qkv_arena_chunk *last = NULL;
    for (struct qkv_arena_chunk *chunk = arena->first; chunk; chunk = chunk->next) {
        usable = usable || chunk == arena->current;
        if (usable && chunk->size - chunk->used >= size) return chunk;
        held += chunk->size;
        last = chunk;
    }
    size_t wanted = held > SMALLEST_CHUNK ? held : SMALLEST_CHUNK;
    /* Huge pages only for a chunk that one array fills: chained chunks are joined at the next reset, and sparse
     * use would commit whole pages. */
    struct qkv_arena_chunk *chunk = wanted > size ? chunk_new(wanted, 0) : chunk_new(size, size);
    if (!chunk && wanted > size) chunk = chunk_new(size, size);
    if (!chunk) return NULL;
    if (last)
        last->next = chunk;
    else
        arena->first = chunk;
    return chunk;
}

void *qkv_arena_allocate(struct qkv_arena *arena, size_t size)
{
    if (size > SIZE_MAX / 2) return NULL;
    size = size ? (size + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT : ALIGNMENT;
    struct qkv_arena_chunk *chunk = find_chunk(arena, size);
    if (!chunk) return NULL;
    arena->current = chunk;
    char *memory = (char *)(chunk + 1) + chunk->used;
    chunk->used += size;
    arena->used += size;
    if (arena->used > arena->peak) arena->peak = arena->used;
    return memory;
}

void *qkv_arena_zeroed(struct qkv_arena *arena, size_t size)
{
    void *memory = qkv_arena_allocate(arena, size);
    if (memory) memset(memory, 0, size);
    return memory;
}

char *qkv_arena_string(struct qkv_arena *arena, const char *string)
{
    size_t size = strlen(string) + 1;
    char *copy = qkv_arena_allocate(arena, size);
    if (copy) memcpy(copy, string, size);
    return copy;
}

char *qkv_arena_format(struct qkv_arena *arena, const char *format, ...)
{
    va_list arguments, again;
    va_start(arguments, format);
    va_copy(again, arguments);
    int length = vsnprintf(NULL, 0, format, arguments);
    va_end(arguments);
    char *text = length < 0 ? NULL : qkv_arena_allocate(arena, (size_t)length + 1);
    if (text) vsnprintf(text, (size_t)length + 1, format, again);
    va_end(again);
    return text;
}

/* Replaces all chunks by one of 9/8 of the peak: a chain wastes the ends of its chunks, and the next use may need a
 * little more. */
static void join_chunks(struct qkv_arena *arena)
{
    size_t size = (arena->peak + arena->peak / 8 + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
    size_t peak = arena->peak;
    qkv_arena_release(arena);
    arena->peak = peak;
    arena->first = chunk_new(size, peak); /* NULL when memory is out: a valid, empty arena */
}

void qkv_arena_reset(struct qkv_arena *arena)
{
    if (arena->first && arena->first->next) join_chunks(arena);
    if (arena->first) arena->first->used = 0;
    arena->current = arena->first;
    arena->used = 0;
}

void qkv_arena_release(struct qkv_arena *arena)
{
    for (struct qkv_arena_chunk *chunk = arena->first, *next; chunk; chunk = next) {
        next = chunk->next;
        qkv_block_free(chunk, sizeof *chunk + chunk->size);
    }
    *arena = (struct qkv_arena){0};
}
