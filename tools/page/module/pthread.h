/* The part of pthread.h that the engine uses, for a module that has one thread: a lock is always free. */
#pragma once

typedef char pthread_mutex_t, pthread_cond_t, pthread_t;

#define pthread_mutex_init(mutex, attributes)    (*(mutex) = 0)
#define pthread_mutex_lock(mutex)                ((void)(mutex))
#define pthread_mutex_unlock(mutex)              ((void)(mutex))
#define pthread_mutex_destroy(mutex)             ((void)(mutex))
#define pthread_cond_init(condition, attributes) (*(condition) = 0)
#define pthread_cond_broadcast(condition)        ((void)(condition))
#define pthread_cond_destroy(condition)          ((void)(condition))

/* No other thread could end the wait: whoever waits would wait for ever. */
#define pthread_cond_wait(condition, mutex) __builtin_trap()

/* Fails: there is no second thread, so that nobody waits for one. */
#define pthread_create(thread, attributes, function, context)                                                \
    ((void)(thread), (void)(function), (void)(context), 1)
#define pthread_join(thread, result) ((void)(thread), 1)
