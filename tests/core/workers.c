/* The team of threads: every part once, whatever the number of threads, parts and runs. */
#ifndef _GNU_SOURCE
#    define _GNU_SOURCE /* sched_setaffinity */
#endif
#include "support.h"

#include "framework/engine/core/system.h"

#include <cblas.h>

#include <dirent.h>
#include <pthread.h>
#include <sched.h>
#include <semaphore.h>
#include <stdatomic.h>

enum { MAX_THREADS = 8, MAX_PARTS = 1000 };

struct tally {
    atomic_int times[MAX_PARTS];
    double results[MAX_PARTS];
};

static void count(void *context, int part)
{
    struct tally *tally = context;
    atomic_fetch_add(&tally->times[part], 1);
}

static struct qkv_workers *team(int threads)
{
    struct qkv_workers *workers = made(qkv_workers_new(threads, &error));
    cr_assert_eq(qkv_workers_count(workers), threads);
    return workers;
}

Test(workers, every_part_runs_exactly_once)
{
    static const int PARTS[] = {0, 1, 2, 3, 7, 8, 9, 64, MAX_PARTS};
    for (int threads = 1; threads <= MAX_THREADS; threads++) {
        struct qkv_workers *workers RELEASED(free_workers) = team(threads);
        for (size_t p = 0; p < sizeof PARTS / sizeof PARTS[0]; p++) {
            struct tally tally = {0};
            qkv_workers_run(workers, PARTS[p], count, &tally);
            for (int i = 0; i < MAX_PARTS; i++)
                cr_assert_eq(atomic_load(&tally.times[i]), i < PARTS[p], "%d threads, part %d of %d", threads,
                             i, PARTS[p]);
        }
    }
}

/* Short runs close after one another: a helper that wakes late must not take a part of the wrong run, nor a
 * run return before its last part is done. */
static void add_one(void *context, int part)
{
    struct tally *tally = context;
    tally->results[part] += 1;
}

Test(workers, runs_do_not_mix)
{
    enum { ROUNDS = 3000, PARTS = 5 };
    for (int threads = 2; threads <= 4; threads++) {
        struct qkv_workers *workers RELEASED(free_workers) = team(threads);
        struct tally tallies[2] = {0};
        for (int round = 0; round < ROUNDS; round++) {
            struct tally *tally = &tallies[round % 2];
            int parts = 1 + round % PARTS;
            double before = tally->results[0];
            qkv_workers_run(workers, parts, add_one, tally);
            /* Read without synchronisation of its own: the end of a run must publish what its parts wrote. */
            cr_assert_eq(tally->results[0], before + 1);
        }
        double sum = 0;
        for (int i = 0; i < PARTS; i++) sum += tallies[0].results[i] + tallies[1].results[i];
        cr_assert_eq(sum, ROUNDS * (1 + PARTS) / 2.0);
    }
}

/* As with taskset: by default there are no more threads than processors that the process may use. */
Test(workers, are_as_many_as_the_process_may_use_processors)
{
#ifdef CPU_COUNT
    cpu_set_t allowed, one;
    if (sched_getaffinity(0, sizeof allowed, &allowed)) cr_skip_test("the processors are not known");
    struct qkv_workers *workers = qkv_workers_new(0, NULL);
    cr_expect_eq(qkv_workers_count(workers), CPU_COUNT(&allowed));
    qkv_workers_free(workers);
    size_t first = 0;
    while (!CPU_ISSET(first, &allowed)) first++;
    CPU_ZERO(&one);
    CPU_SET(first, &one);
    cr_assert_eq(sched_setaffinity(0, sizeof one, &one), 0);
    workers = qkv_workers_new(0, NULL);
    cr_expect_eq(qkv_workers_count(workers), 1);
    qkv_workers_free(workers);
#endif
}

static int threads_of_process(void)
{
    int count = 0;
    DIR *tasks = opendir("/proc/self/task");
    for (struct dirent *task; tasks && (task = readdir(tasks));) count += task->d_name[0] != '.';
    if (tasks) closedir(tasks);
    return count;
}

Test(workers, threads_of_the_matrix_library_end_and_stay_away)
{
    int before = threads_of_process(), blas_threads = openblas_get_num_threads() - 1;
    if (!before) cr_skip_test("no /proc to count threads in");
    qkv_end_openblas_threads();
    qkv_graph_free(qkv_graph_new(QKV_FLOAT32));
    cr_expect_eq(threads_of_process(), before - blas_threads, "%d of %d", threads_of_process(), before);
    qkv_end_openblas_threads();
    cr_expect_eq(threads_of_process(), before - blas_threads);
}

/* ---- calls that a team must survive ---- */

Test(workers, numbers_of_threads_that_cannot_be_are_errors)
{
    static const int COUNTS[] = {-1, -1000000, 1025, 1 << 30};
    for (size_t i = 0; i < sizeof COUNTS / sizeof COUNTS[0]; i++)
        expect_refusal_with(STATUS_OF(qkv_workers_new(COUNTS[i], &error)), "must lie in 0 to 1024");
    qkv_workers_run(NULL, -3, count, NULL);
    qkv_workers_free(team(4)); /* one that never ran */
    qkv_workers_free(NULL);
}

struct nested {
    struct qkv_workers *workers;
    struct tally tally;
};

static void run_inner(void *context, int part)
{
    struct nested *nested = context;
    (void)part;
    qkv_workers_run(nested->workers, 7, count, &nested->tally);
}

Test(workers, a_part_may_use_its_own_team)
{
    struct nested nested = {.workers = team(3)};
    qkv_workers_run(nested.workers, 20, run_inner, &nested);
    for (int i = 0; i < 7; i++) cr_expect_eq(atomic_load(&nested.tally.times[i]), 20, "part %d", i);
    qkv_workers_free(nested.workers);
}

static void *run_often(void *context)
{
    struct nested *nested = context;
    for (int round = 0; round < 500; round++) qkv_workers_run(nested->workers, 5, count, &nested->tally);
    return NULL;
}

Test(workers, two_threads_may_use_one_team)
{
    struct qkv_workers *workers RELEASED(free_workers) = team(3);
    struct nested nested[2] = {{.workers = workers}, {.workers = workers}};
    pthread_t other;
    cr_assert_eq(pthread_create(&other, NULL, run_often, &nested[1]), 0);
    run_often(&nested[0]);
    pthread_join(other, NULL);
    for (int k = 0; k < 2; k++)
        for (int i = 0; i < 6; i++)
            cr_expect_eq(atomic_load(&nested[k].tally.times[i]), i < 5 ? 500 : 0, "thread %d, part %d", k, i);
}

/* A run of three parts, two of which wait for what another thread does. */
struct held_run {
    struct qkv_workers *workers;
    sem_t started, may_end;
    struct tally tally;
};

static void count_when_allowed(void *context, int part)
{
    struct held_run *held = context;
    count(&held->tally, part);
    sem_post(&held->started);
    sem_wait(&held->may_end);
}

static void *run_held(void *context)
{
    struct held_run *held = context;
    qkv_workers_run(held->workers, 3, count_when_allowed, held);
    return NULL;
}

/* The second run begins and ends while both threads of the team are in the first one, whose third part is left. */
Test(workers, a_run_within_the_run_of_another_thread_takes_no_part_of_it)
{
    struct held_run held = {.workers = team(2)};
    struct tally tally = {0};
    pthread_t other;
    sem_init(&held.started, 0, 0);
    sem_init(&held.may_end, 0, 0);
    cr_assert_eq(pthread_create(&other, NULL, run_held, &held), 0);
    for (int i = 0; i < 2; i++) sem_wait(&held.started);
    qkv_workers_run(held.workers, 4, count, &tally);
    for (int i = 0; i < 3; i++) sem_post(&held.may_end);
    pthread_join(other, NULL);
    for (int i = 0; i < 5; i++) {
        cr_expect_eq(atomic_load(&held.tally.times[i]), i < 3, "the first run, part %d", i);
        cr_expect_eq(atomic_load(&tally.times[i]), i < 4, "the second run, part %d", i);
    }
    qkv_workers_free(held.workers);
    sem_destroy(&held.started);
    sem_destroy(&held.may_end);
}

Test(workers, a_program_may_keep_the_threads_of_the_matrix_library)
{
    openblas_set_num_threads(2);
    int threads = openblas_get_num_threads();
    qkv_set_openblas_single_threaded(false);
    qkv_graph_free(qkv_graph_new(QKV_FLOAT32));
    cr_expect_eq(openblas_get_num_threads(), threads);
    qkv_set_openblas_single_threaded(true);
    qkv_graph_free(qkv_graph_new(QKV_FLOAT32));
    cr_expect_eq(openblas_get_num_threads(), 1);
}

/* ---- interrupts ---- */

struct interrupted {
    pthread_barrier_t all_threads;
    enum qkv_status status[MAX_THREADS];
};

static void note_status(void *context, int part)
{
    struct interrupted *interrupted = context;
    pthread_barrier_wait(&interrupted->all_threads); /* so that each thread has one part */
    interrupted->status[part] = qkv_check_interrupt(NULL);
}

Test(workers, all_ask_the_flag_of_the_caller)
{
    bool flag = false;
    struct interrupted interrupted;
    struct qkv_workers *workers RELEASED(free_workers) = team(MAX_THREADS);
    pthread_barrier_init(&interrupted.all_threads, NULL, MAX_THREADS);
    qkv_set_interrupt(&flag);
    for (int round = 0; round < 3; round++) {
        flag = round == 1;
        qkv_workers_run(workers, MAX_THREADS, note_status, &interrupted);
        for (int i = 0; i < MAX_THREADS; i++)
            cr_expect_eq(interrupted.status[i], flag ? QKV_INVALID : QKV_OK, "round %d, part %d", round, i);
    }
    flag = true;
    qkv_set_interrupt(NULL);
    qkv_workers_run(workers, MAX_THREADS, note_status, &interrupted);
    for (int i = 0; i < MAX_THREADS; i++) cr_expect_eq(interrupted.status[i], QKV_OK, "part %d", i);
    pthread_barrier_destroy(&interrupted.all_threads);
}
