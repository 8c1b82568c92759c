#ifndef _DEFAULT_SOURCE
#    define _DEFAULT_SOURCE /* madvise, MAP_ANONYMOUS */
#endif
#include "qkv/arena.h"

#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>

enum { VECTOR = 64, LARGE_PAGE = 2 << 20 };

static size_t rounded_to_pages(size_t size)
{
    return (size + LARGE_PAGE - 1) / LARGE_PAGE * LARGE_PAGE;
}

static bool is_mapped(size_t size)
{
    return size >= LARGE_PAGE / 2;
}

/* Maps memory directly, so that it can have large pages and goes back to the system when it is freed. */
static char *map(size_t size)
{
    char *start = mmap(NULL, size + LARGE_PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (start == MAP_FAILED) return NULL;
    size_t before = LARGE_PAGE - (uintptr_t)start % LARGE_PAGE;
    (void)munmap(start, before);
    if (before < LARGE_PAGE) (void)munmap(start + before + size, LARGE_PAGE - before);
    return start + before;
}

/* A training step touches all its memory, so address translation of 4 kB pages costs time: huge pages for parameters
 * save 3 to 4 % of a step (5 and 37 million parameters), and for activations another 3 to 5 %. The last page of `written`
 * is huge only if more than half of it is used. */
void *qkv_block_new(size_t size, size_t written)
{
    if (size > SIZE_MAX / 2) return NULL;
    if (!is_mapped(size)) return aligned_alloc(VECTOR, (size + VECTOR - 1) / VECTOR * VECTOR);
    void *block = map(rounded_to_pages(size));
#ifdef MADV_HUGEPAGE
    size_t large = (written + LARGE_PAGE / 2) / LARGE_PAGE * LARGE_PAGE;
    if (block && large) (void)madvise(block, large, MADV_HUGEPAGE); /* may fail: then only speed is lost */
#else
    (void)written;
#endif
    return block;
}

void qkv_block_free(void *block, size_t size)
{
    if (block && is_mapped(size))
        (void)munmap(block, rounded_to_pages(size));
    else
        free(block);
}
