/* Arenas. */
#ifndef _DEFAULT_SOURCE
#    define _DEFAULT_SOURCE /* MAP_ANONYMOUS */
#endif
#include "core/memory.h"

#include "core/text.h"

#include <stdarg.h>
#include <stdatomic.h>
#include <sys/mman.h>
#include <unistd.h>

enum { ALIGNMENT = 64, SMALLEST_CHUNK = 1 << 16 };

/* Chunks are listed in order of first use; those after `current` are free. */
struct qkv_arena_chunk {
    struct qkv_arena_chunk *next;
    size_t size, used; /* bytes after the header */
    size_t guarded; /* bytes of the mapping of a guarded chunk, which holds one allocation; 0: not guarded */
    char padding[ALIGNMENT - 4 * sizeof(size_t)];
};

_Static_assert(sizeof(struct qkv_arena_chunk) == ALIGNMENT, "chunk data must stay aligned");

/* `used`: bytes that the caller will certainly write; they may use huge pages (qkv_block_new). */
static struct qkv_arena_chunk *chunk_new(size_t size, size_t used)
{
    size_t header = sizeof(struct qkv_arena_chunk);
    struct qkv_arena_chunk *chunk = qkv_block_new(header + size, used ? header + used : 0);
    if (!chunk) return NULL;
    chunk->next = NULL;
    chunk->size = size;
    chunk->used = 0;
    chunk->guarded = 0;
    return chunk;
}

/* ---- guards ---- */

static atomic_bool guards;

void qkv_arena_guard(bool on)
{
    guards = on;
}

bool qkv_arena_is_guarded(void)
{
    return guards;
}

/* A chunk for one allocation, [header | gap | allocation | inaccessible page]: the allocation ends where the page
 * begins. */
static void *allocate_guarded(struct qkv_arena *arena, size_t size)
{
    size_t page = (size_t)sysconf(_SC_PAGESIZE), header = sizeof(struct qkv_arena_chunk);
    size_t accessible = (header + size + page - 1) / page * page;
    char *start = mmap(NULL, accessible + page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (start == MAP_FAILED) return NULL;
    if (mprotect(start + accessible, page, PROT_NONE)) {
        munmap(start, accessible + page);
        return NULL;
    }
    /* Filled with NaN in both precisions, as if it had been used before. */
    memset(start + header, 0xFF, accessible - header);
    struct qkv_arena_chunk *chunk = (struct qkv_arena_chunk *)start;
    *chunk = (struct qkv_arena_chunk){.next = arena->first, .guarded = accessible + page};
    arena->first = arena->current = chunk;
    return start + accessible - size;
}

static void chunk_free(struct qkv_arena_chunk *chunk)
{
    if (chunk->guarded)
        (void)munmap(chunk, chunk->guarded);
    else
        qkv_block_free(chunk, sizeof *chunk + chunk->size);
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
    /* Huge pages only for a chunk that one array fills: a chunk of several arrays lives only until the next reset joins the
     * chunks, and with huge pages its unwritten arrays would take physical memory. */
    struct qkv_arena_chunk *chunk = wanted > size ? chunk_new(wanted, 0) : chunk_new(size, size);
    if (!chunk && wanted > size) chunk = chunk_new(size, size);
    if (!chunk) return NULL;
    if (last)
        last->next = chunk;
    else
        arena->first = chunk;
    return chunk;
}

static void *take(struct qkv_arena_chunk *chunk, size_t size)
{
    char *memory = (char *)(chunk + 1) + chunk->used;
    chunk->used += size;
    return memory;
}

/* `size` is a multiple of ALIGNMENT and does not fit in the current chunk. */
static void *allocate_elsewhere(struct qkv_arena *arena, size_t size)
{
    struct qkv_arena_chunk *chunk = find_chunk(arena, size);
    if (!chunk) return NULL;
    arena->current = chunk;
    return take(chunk, size);
}

void *qkv_arena_allocate(struct qkv_arena *arena, size_t size)
{
    size_t aligned = size ? (size + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT : ALIGNMENT;
    char *memory;
    struct qkv_arena_chunk *chunk = arena->current;
    if (size > SIZE_MAX / 2)
        memory = NULL;
    else if (guards)
        memory = allocate_guarded(arena, size);
    else if (chunk && chunk->size - chunk->used >= aligned)
        memory = take(chunk, aligned);
    else
        memory = allocate_elsewhere(arena, aligned);
    arena->failed |= !memory;
    if (!memory) return NULL;
    arena->used += aligned;
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
    size_t size = string ? strlen(string) + 1 : 0;
    if (!size) return NULL;
    char *copy = qkv_arena_allocate(arena, size);
    if (copy) memcpy(copy, string, size);
    return copy;
}

char *qkv_arena_format(struct qkv_arena *arena, const char *format, ...)
{
    if (!format) return NULL;
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
    arena->first = chunk_new(size, peak); /* NULL when memory runs out: a valid, empty arena */
}

void qkv_arena_reset(struct qkv_arena *arena)
{
    if (guards || (arena->first && arena->first->guarded)) {
        size_t peak = arena->peak;
        qkv_arena_release(arena);
        arena->peak = peak;
    }
    if (arena->first && arena->first->next) join_chunks(arena);
    if (arena->first) arena->first->used = 0;
    arena->current = arena->first;
    arena->used = 0;
    arena->failed = false;
}

void qkv_arena_release(struct qkv_arena *arena)
{
    for (struct qkv_arena_chunk *chunk = arena->first, *next; chunk; chunk = next) {
        next = chunk->next;
        chunk_free(chunk);
    }
    *arena = (struct qkv_arena){0};
}

const char *qkv_arena_plain(struct qkv_arena *arena, const char *text)
{
    char one[QKV_PLAIN_SIZE], *copy, *end;
    size_t size = 1;
    int length;
    for (const char *next = text; (length = qkv_plain_next(&next, one));) size += (size_t)length;
    copy = end = qkv_arena_allocate(arena, size);
    if (!copy) return NULL;
    for (; (length = qkv_plain_next(&text, one)); end += length) memcpy(end, one, (size_t)length);
    *end = 0;
    return copy;
}
