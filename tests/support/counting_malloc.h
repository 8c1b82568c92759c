/* Counts the calls of malloc and its kin. To be included in one file of a program, which it gives a malloc of
 * its own; a sanitizer, or valgrind, has its own already, which must stay: OTHER_MALLOC is then defined and
 * nothing is counted. */
#ifndef QKV_TESTS_COUNTING_MALLOC_H
#define QKV_TESTS_COUNTING_MALLOC_H

#include <stdatomic.h>
#include <stdlib.h>

#if defined(__has_feature)
#    if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#        define OTHER_MALLOC
#    endif
#endif
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__) || !defined(__GLIBC__)
#    define OTHER_MALLOC
#endif

static atomic_long allocations __attribute__((unused));

#ifndef OTHER_MALLOC
void *__libc_malloc(size_t size);
void *__libc_calloc(size_t count, size_t size);
void *__libc_realloc(void *memory, size_t size);
void *__libc_memalign(size_t alignment, size_t size);

void *malloc(size_t size)
{
    atomic_fetch_add(&allocations, 1);
    return __libc_malloc(size);
}

void *calloc(size_t count, size_t size)
{
    atomic_fetch_add(&allocations, 1);
    return __libc_calloc(count, size);
}

void *realloc(void *memory, size_t size)
{
    atomic_fetch_add(&allocations, 1);
    return __libc_realloc(memory, size);
}

void *aligned_alloc(size_t alignment, size_t size)
{
    atomic_fetch_add(&allocations, 1);
    return __libc_memalign(alignment, size);
}

int posix_memalign(void **memory, size_t alignment, size_t size)
{
    atomic_fetch_add(&allocations, 1);
    *memory = __libc_memalign(alignment, size);
    return *memory ? 0 : 12; /* ENOMEM */
}
#endif

#endif
