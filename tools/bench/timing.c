/* Clocks, and the timing of steps. */
#include "bench.h"
#include "core/numbers.h"
#include "core/system.h"
#include "malloc_counter.h"

#include <sys/resource.h>
#include <time.h>

enum { WARM_UP = 3, MIN_STEPS = 5 };

static double read_clock(clockid_t clock)
{
    struct timespec now;
    clock_gettime(clock, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

double bench_thread_seconds(void)
{
    return read_clock(CLOCK_THREAD_CPUTIME_ID);
}

int64_t bench_warm_up(const struct bench_options *options)
{
    return options->steps < WARM_UP ? 1 : WARM_UP;
}

enum qkv_status bench_time(const struct bench_options *options, struct bench_result *result,
                           enum qkv_status (*step)(void *context, int64_t i, struct qkv_error *error),
                           void *context, struct qkv_error *error)
{
    double *seconds = required(malloc((size_t)options->steps * sizeof *seconds));
    enum qkv_status status = QKV_OK;
    int64_t warm_up = bench_warm_up(options);
    for (int64_t i = 0; i < warm_up && !status; i++) status = step(context, i, error);
    double ends = qkv_clock_seconds() + options->seconds;
    long before = malloc_calls();
    double used = read_clock(CLOCK_PROCESS_CPUTIME_ID);
    int64_t count = 0;
    while (!status && count < options->steps && (count < MIN_STEPS || qkv_clock_seconds() < ends)) {
        double started = qkv_clock_seconds();
        status = step(context, warm_up + count, error);
        seconds[count++] = qkv_clock_seconds() - started;
    }
    used = read_clock(CLOCK_PROCESS_CPUTIME_ID) - used;
    long after = malloc_calls();
    if (!status) {
        double sum = 0;
        for (int64_t i = 0; i < count; i++) sum += seconds[i];
        result->steps = count;
        result->mean = 1e3 * sum / (double)count;
        qsort(seconds, (size_t)count, sizeof *seconds, qkv_by_value);
        result->median = 1e3 * (seconds[count / 2] + seconds[(count - 1) / 2]) / 2;
        result->low = 1e3 * seconds[count / 10];
        result->high = 1e3 * seconds[(count - 1) * 9 / 10];
        result->processor = 1e3 * used / (double)count;
        struct rusage usage;
        getrusage(RUSAGE_SELF, &usage);
        result->peak = (double)usage.ru_maxrss / 1024;
        result->mallocs = before < 0 ? -1 : (double)(after - before) / (double)count;
    }
    free(seconds);
    return status;
}
