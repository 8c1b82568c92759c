/* Processors, teams of threads, blocks of memory, and the environment. */
#ifndef _GNU_SOURCE
#    define _GNU_SOURCE /* sched_getaffinity, madvise, MAP_ANONYMOUS */
#endif
#include "core/system.h"

#include "core/memory.h"

#include <cblas.h>
#include <limits.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <sys/mman.h>
#include <unistd.h>
#ifdef __x86_64__
#    include <cpuid.h>
#    include <sys/syscall.h>
#endif

/* ---- processors ---- */

int qkv_processors_available(void)
{
    long count = 0;
#ifdef CPU_COUNT
    cpu_set_t allowed; /* too small for machines of more than 1024 processors, on which the call fails */
    if (!sched_getaffinity(0, sizeof allowed, &allowed)) count = CPU_COUNT(&allowed);
#endif
    if (count < 1) count = sysconf(_SC_NPROCESSORS_ONLN);
    return count < 1 ? 1 : count < INT_MAX ? (int)count : INT_MAX;
}

/* ---- teams of threads ---- */

/* Threads take parts from a shared counter, so a slow part does not delay the others. A run ends when all parts are
 * done; a helper that wakes late finds none left. Waking a thread takes as long as a small run, and runs follow each
 * other closely (three per training step, one per decoded word), so helpers spin a short time for the next run before
 * they sleep, and the caller spins for the end of the run. */
struct qkv_workers {
    pthread_mutex_t mutex;
    pthread_cond_t start, finish;
    int asleep; /* helpers that wait for `start` */
    atomic_bool stop;

    atomic_bool is_running;         /* a run has the helpers */
    atomic_int untaken, unfinished; /* parts of the run */
    /* The current run. Needs no lock: the caller writes these before `untaken`, and only threads that have taken a part
     * read them. */
    void (*function)(void *context, int part);
    void *context;
    int parts;
    const bool *interrupt; /* the flag of the caller */

    int helpers; /* threads other than the caller */
    pthread_t thread[];
};

/* Spins until the number is zero (if `zero`) or not zero (otherwise), the team stops, or time is up. The limit is a time,
 * not a count, because the duration of a pause instruction differs tenfold between processors. */
enum { SPIN_NANOSECONDS = 200000, SPINS_PER_CHECK = 64 };

static void spin(const struct qkv_workers *workers, const atomic_int *number, bool zero)
{
    int64_t end = qkv_clock_nanoseconds() + SPIN_NANOSECONDS;
    do
        for (int i = 0; i < SPINS_PER_CHECK; i++) {
            if ((*number == 0) == zero || workers->stop) return;
#if defined(__x86_64__) || defined(__i386__)
            __builtin_ia32_pause();
#endif
        }
    while (qkv_clock_nanoseconds() < end);
}

static void take_parts(struct qkv_workers *workers)
{
    for (int untaken = workers->untaken; untaken > 0;) {
        if (!atomic_compare_exchange_weak(&workers->untaken, &untaken, untaken - 1)) continue;
        qkv_set_interrupt(workers->interrupt);
        workers->function(workers->context, workers->parts - untaken);
        if (atomic_fetch_sub(&workers->unfinished, 1) == 1) {
            pthread_mutex_lock(&workers->mutex);
            pthread_cond_signal(&workers->finish);
            pthread_mutex_unlock(&workers->mutex);
        }
        untaken = workers->untaken;
    }
}

static void *helper(void *argument)
{
    struct qkv_workers *workers = argument;
    while (!workers->stop) {
        spin(workers, &workers->untaken, false);
        pthread_mutex_lock(&workers->mutex);
        workers->asleep++;
        while (workers->untaken == 0 && !workers->stop) pthread_cond_wait(&workers->start, &workers->mutex);
        workers->asleep--;
        pthread_mutex_unlock(&workers->mutex);
        take_parts(workers);
    }
    return NULL;
}

struct qkv_workers *qkv_workers_new(int threads, struct qkv_error *error)
{
    enum { MAX_THREADS = 1024 };
    if (threads < 0 || threads > MAX_THREADS) {
        qkv_error_set(error,
                      "%d threads: the number must lie in 0 to %d, where 0 means one for each processor",
                      threads, MAX_THREADS);
        return NULL;
    }
    if (threads == 0) {
        int available = qkv_processors_available();
        threads = available < MAX_THREADS ? available : MAX_THREADS;
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
    return workers ? workers->helpers + 1 : 1;
}

/* Makes sure that `wanted` helpers, or all if there are fewer, are awake. It does not wake all helpers of a large team,
 * because that would take longer than a small run. */
static void wake(struct qkv_workers *workers, int wanted)
{
    pthread_mutex_lock(&workers->mutex);
    wanted -= workers->helpers - workers->asleep;
    if (wanted > workers->asleep) wanted = workers->asleep;
    pthread_mutex_unlock(&workers->mutex);
    for (int i = 0; i < wanted; i++) pthread_cond_signal(&workers->start);
}

void qkv_workers_run(struct qkv_workers *workers, int parts, void (*function)(void *context, int part),
                     void *context)
{
    if (!workers || workers->helpers == 0 || parts <= 1 || atomic_exchange(&workers->is_running, true)) {
        for (int part = 0; part < parts; part++) function(context, part);
        return;
    }
    workers->function = function;
    workers->context = context;
    workers->parts = parts;
    workers->interrupt = qkv_interrupt_flag();
    workers->unfinished = parts;
    workers->untaken = parts; /* from here on helpers may begin */
    wake(workers, parts - 1);
    take_parts(workers);
    spin(workers, &workers->unfinished, true);
    if (workers->unfinished > 0) {
        pthread_mutex_lock(&workers->mutex);
        while (workers->unfinished > 0) pthread_cond_wait(&workers->finish, &workers->mutex);
        pthread_mutex_unlock(&workers->mutex);
    }
    workers->is_running = false;
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

/* ---- the threads of OpenBLAS, which use processors that the workers need, because they spin before they sleep ---- */

/* Not in the public interface of OpenBLAS, which calls it before a fork; other BLAS libraries lack it. */
extern int blas_thread_shutdown_(void) __attribute__((weak));

static atomic_bool keeps_threads;

void qkv_set_openblas_single_threaded(bool to_one)
{
    keeps_threads = !to_one;
}

void qkv_limit_matrix_threads(void)
{
    if (keeps_threads || openblas_get_num_threads() == 1)
        return; /* setting 1 again would restart ended threads */
    openblas_set_num_threads(1);
}

void qkv_end_openblas_threads(void)
{
    openblas_set_num_threads(1); /* starts the threads if there are none, so it must not follow their end */
    if (blas_thread_shutdown_) blas_thread_shutdown_();
}

/* ---- blocks of memory ---- */

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

/* ---- the environment variable QKV_KERNELS ---- */

const char *qkv_wanted_kernels(void)
{
    const char *wanted = getenv("QKV_KERNELS");
    return wanted && *wanted ? wanted : NULL;
}

bool qkv_blas_is_wanted(void)
{
    static atomic_int known; /* 0: not yet */
    const char *wanted = known ? NULL : qkv_wanted_kernels();
    if (!known) known = wanted && !strcmp(wanted, QKV_KERNELS_BLAS) ? 2 : 1;
    return known == 2;
}

/* ---- AMX and bfloat16 ---- */

/* The permission belongs to the process. The request fails where an alternative stack for signals is too small for the tiles. */
static bool may_use_amx(void)
{
#ifdef __x86_64__
    enum { GET_PERMISSION = 0x1022, REQUEST_PERMISSION = 0x1023, TILE_DATA = 18 };
    const unsigned tiles = 1u << 22 | 1u << 24 | 1u << 25, by_system = 1u << 27, tile_state = 3u << 17;
    unsigned a, b, c, d, state, upper;
    unsigned long allowed = 0;
    if (!__get_cpuid(1, &a, &b, &c, &d) || !(c & by_system)) return false;
    __asm__("xgetbv" : "=a"(state), "=d"(upper) : "c"(0));
    if ((state & tile_state) != tile_state) return false;
    if (!__get_cpuid_count(7, 0, &a, &b, &c, &d) || (~d & tiles)) return false;
    if (!__get_cpuid_count(0x1d, 1, &a, &b, &c, &d) || b >> 16 < 8 || (c & 0xffff) < 16) return false;
    return !syscall(SYS_arch_prctl, REQUEST_PERMISSION, TILE_DATA) &&
           !syscall(SYS_arch_prctl, GET_PERMISSION, &allowed) && allowed >> TILE_DATA & 1;
#else
    return false;
#endif
}

bool qkv_has_amx(void)
{
    static atomic_int known; /* 0: not yet */
    if (!known) known = may_use_amx() ? 2 : 1;
    return known == 2;
}

static const char *const WAYS[] = {[QKV_BFLOAT16_BY_FLOAT32] = "float32",
                                   [QKV_BFLOAT16_BY_VDPBF16PS] = "vdpbf16ps",
                                   [QKV_BFLOAT16_BY_AMX] = "amx"};
enum { ANY = sizeof WAYS / sizeof *WAYS };

/* The way that QKV_BFLOAT16 names; ANY: it is not set, or empty; -1: it names none. */
static int wanted_way(void)
{
    const char *wanted = getenv("QKV_BFLOAT16");
    for (int i = 0; wanted && *wanted && i < ANY; i++)
        if (!strcmp(WAYS[i], wanted)) return i;
    return wanted && *wanted ? -1 : ANY;
}

enum qkv_status qkv_bfloat16_check(struct qkv_error *error)
{
    if (wanted_way() >= 0) return QKV_OK;
    return qkv_error_set(
        error, "the environment variable QKV_BFLOAT16 is '%s', but must be one of float32, vdpbf16ps, amx",
        getenv("QKV_BFLOAT16"));
}

/* On Intel's processors, vdpbf16ps has half the rate of float32 products; on AMD's, it is faster. */
static enum qkv_bfloat16_way fastest_way(void)
{
#ifdef __x86_64__
    int wanted = wanted_way();
    __builtin_cpu_init();
    if (!__builtin_cpu_supports("avx512bf16")) return QKV_BFLOAT16_BY_FLOAT32;
    if (wanted >= QKV_BFLOAT16_BY_AMX && qkv_has_amx()) return QKV_BFLOAT16_BY_AMX;
    if (wanted == QKV_BFLOAT16_BY_VDPBF16PS || (wanted == ANY && __builtin_cpu_is("amd")))
        return QKV_BFLOAT16_BY_VDPBF16PS;
#endif
    return QKV_BFLOAT16_BY_FLOAT32;
}

enum qkv_bfloat16_way qkv_bfloat16_way(void)
{
    static atomic_int known; /* one more than the way; 0: not yet */
    if (!known) known = (int)fastest_way() + 1;
    return (enum qkv_bfloat16_way)(known - 1);
}
