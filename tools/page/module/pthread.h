/* The part of pthread.h that the engine uses, for a module that has one thread: a lock is always free. */
#ifndef QKV_PAGE_PTHREAD_H
#define QKV_PAGE_PTHREAD_H

typedef char pthread_mutex_t;
typedef char pthread_cond_t;
typedef char pthread_t;

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

static inline int pthread_cond_init(pthread_cond_t *condition, const void *attributes)
{
    (void)attributes;
    *condition = 0;
    return 0;
}

/* No other thread could end the wait: whoever waits would wait for ever. */
static inline int pthread_cond_wait(pthread_cond_t *condition, pthread_mutex_t *mutex)
{
    (void)condition, (void)mutex;
    __builtin_trap();
}

static inline int pthread_cond_broadcast(pthread_cond_t *condition)
{
    (void)condition;
    return 0;
}

static inline int pthread_cond_destroy(pthread_cond_t *condition)
{
    (void)condition;
    return 0;
}

/* Fails: there is no second thread, so that nobody waits for one. */
static inline int pthread_create(pthread_t *thread, const void *attributes, void *(*function)(void *),
                                 void *context)
{
    (void)thread, (void)attributes, (void)function, (void)context;
    return 1;
}

static inline int pthread_join(pthread_t thread, void **result)
{
    (void)thread, (void)result;
    return 1;
}

#endif
