/* Counts the calls of malloc and related functions by defining them. Include this header in exactly
 * one file of a program.
 *
 * Nothing is counted where sanitizers bring their own malloc, or without glibc. */
#pragma once

#include <stdatomic.h>
#include <stdlib.h>

#if defined(__has_feature)
#    if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#        define MALLOC_IS_NOT_COUNTED
#    endif
#endif
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__) || !defined(__GLIBC__)
#    define MALLOC_IS_NOT_COUNTED
#endif

#ifdef MALLOC_IS_NOT_COUNTED

/* Calls so far in all threads; -1 where they are not counted. */
static inline long malloc_calls(void)
{
    return -1;
}

#else

static atomic_long malloc_call_count;

void *__libc_malloc(size_t size);
void *__libc_calloc(size_t count, size_t size);
void *__libc_realloc(void *memory, size_t size);
void *__libc_memalign(size_t alignment, size_t size);

static inline long malloc_calls(void)
{
    return atomic_load(&malloc_call_count);
}

/* A function that returns memory, with its parameters, and the call that makes the memory. */
#    define COUNTED(function, call)                                                                          \
        void *function                                                                                       \
        {                                                                                                    \
            atomic_fetch_add(&malloc_call_count, 1);                                                         \
            return call;                                                                                     \
        }
COUNTED(malloc(size_t size), __libc_malloc(size))
COUNTED(calloc(size_t count, size_t size), __libc_calloc(count, size))
COUNTED(realloc(void *memory, size_t size), __libc_realloc(memory, size))
COUNTED(aligned_alloc(size_t alignment, size_t size), __libc_memalign(alignment, size))

int posix_memalign(void **memory, size_t alignment, size_t size)
{
    *memory = aligned_alloc(alignment, size);
    return *memory ? 0 : 12; /* ENOMEM */
}

#endif
