/* The part of pthread.h that the engine uses, for a module that has one thread: a lock is always free. */
#ifndef QKV_PAGE_PTHREAD_H
#define QKV_PAGE_PTHREAD_H

typedef char pthread_mutex_t;

static inline int pthread_mutex_init(pthread_mutex_t *mutex, const void *attributes)
{
    (void)attributes;
    *mutex = 0;
    return 0;
}

static inline int pthread_mutex_lock(pthread_mutex_t *mutex)
{
    (void)mutex;
    return 0;
}

static inline int pthread_mutex_unlock(pthread_mutex_t *mutex)
{
    (void)mutex;
    return 0;
}

static inline int pthread_mutex_destroy(pthread_mutex_t *mutex)
{
    (void)mutex;
    return 0;
}

#endif
