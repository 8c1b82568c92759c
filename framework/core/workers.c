#include "qkv/workers.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Threads sleep on `start` between runs; `generation` tells a new run from a spurious wake. Parts are taken
 * from a shared counter, so a slow part does not hold up the others. A step of training is three runs, and
 * waking a thread takes as long as a small one: so threads look for the next run a little while before they
 * sleep, and so does the caller for their end. */
struct qkv_workers {
    pthread_mutex_t mutex;
    pthread_cond_t start, finish;
    atomic_ulong generation; /* this and `busy` are changed under the mutex, and looked at without it */
    atomic_int busy;         /* helper threads still in the current run */
    atomic_bool stop;

    void (*function)(void *context, int part);
    void *context;
    int parts;
    atomic_int next;

    int helpers; /* threads beside the caller */
    pthread_t thread[];
};

enum { LOOKS = 1 << 13 }; /* some ten microseconds */

static void take_parts(struct qkv_workers *workers)
{
    for (;;) {
        int part = atomic_fetch_add(&workers->next, 1);
        if (part >= workers->parts) return;
        workers->function(workers->context, part);
    }
}

static void *helper(void *argument)
{
    struct qkv_workers *workers = argument;
    unsigned long seen = 0;
    for (;;) {
        for (int look = 0; look < LOOKS && workers->generation == seen && !workers->stop; look++) continue;
        pthread_mutex_lock(&workers->mutex);
        while (workers->generation == seen && !workers->stop)
            pthread_cond_wait(&workers->start, &workers->mutex);
        if (workers->stop) break;
        seen = workers->generation;
        pthread_mutex_unlock(&workers->mutex);
        take_parts(workers);
        pthread_mutex_lock(&workers->mutex);
        if (--workers->busy == 0) pthread_cond_signal(&workers->finish);
        pthread_mutex_unlock(&workers->mutex);
    }
    pthread_mutex_unlock(&workers->mutex);
    return NULL;
}

struct qkv_workers *qkv_workers_new(int threads, struct qkv_error *error)
{
    if (threads == 0) {
        long online = sysconf(_SC_NPROCESSORS_ONLN);
        threads = online > 0 ? (int)online : 1;
    }
    int helpers = threads - 1;
    struct qkv_workers *workers = calloc(1, sizeof *workers + (size_t)helpers * sizeof workers->thread[0]);
    if (!workers) {
        qkv_error_set(error, "out of memory for %d threads", threads);
        return NULL;
    }
    pthread_mutex_init(&workers->mutex, NULL);
    pthread_cond_init(&workers->start, NULL);
    pthread_cond_init(&workers->finish, NULL);
    for (int i = 0; i < helpers; i++) {
        int failure = pthread_create(&workers->thread[i], NULL, helper, workers);
        if (failure) {
            qkv_error_set(error, "cannot start thread %d of %d: %s", i + 2, threads, strerror(failure));
            qkv_workers_free(workers);
            return NULL;
        }
        workers->helpers++;
    }
    return workers;
}

int qkv_workers_count(const struct qkv_workers *workers)
{
    return workers->helpers + 1;
}

void qkv_workers_run(struct qkv_workers *workers, int parts, void (*function)(void *context, int part),
                     void *context)
{
    if (workers->helpers == 0 || parts <= 1) {
        for (int part = 0; part < parts; part++) function(context, part);
        return;
    }
    pthread_mutex_lock(&workers->mutex);
    workers->function = function;
    workers->context = context;
    workers->parts = parts;
    atomic_store(&workers->next, 0);
    workers->busy = workers->helpers;
    workers->generation++;
    pthread_cond_broadcast(&workers->start);
    pthread_mutex_unlock(&workers->mutex);
    take_parts(workers);
    for (int look = 0; look < LOOKS && workers->busy > 0; look++) continue;
    pthread_mutex_lock(&workers->mutex);
    while (workers->busy > 0) pthread_cond_wait(&workers->finish, &workers->mutex);
    pthread_mutex_unlock(&workers->mutex);
}

void qkv_workers_free(struct qkv_workers *workers)
{
    if (!workers) return;
    pthread_mutex_lock(&workers->mutex);
    workers->stop = true;
    pthread_cond_broadcast(&workers->start);
    pthread_mutex_unlock(&workers->mutex);
    for (int i = 0; i < workers->helpers; i++) pthread_join(workers->thread[i], NULL);
    pthread_cond_destroy(&workers->finish);
    pthread_cond_destroy(&workers->start);
    pthread_mutex_destroy(&workers->mutex);
    free(workers);
}
