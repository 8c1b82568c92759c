/* The measurement of the processor's peak in float32: independent multiplications and additions in registers, on all
 * threads, with the widest instructions of the processor. No kernel can be faster, so the share of the peak that the
 * products of a training step reach says how much better kernels could gain. */
#include "bench.h"

#include "qkv/workers.h"

enum {
    SUMS =
        12, /* more than the latency of an instruction times those that start in a cycle; fits 16 registers */
    ROUNDS = 300000 /* of a step, which then takes about a millisecond */
};

/* Defines name(): ROUNDS times a multiplication and an addition to each of SUMS vectors of `bytes` bytes. */
#define PEAK_LOOP(name, bytes, target)                                                                       \
    target static float name(float factor)                                                                   \
    {                                                                                                        \
        typedef float vector __attribute__((vector_size(bytes)));                                            \
        vector sums[SUMS], x = (vector){0} + factor;                                                         \
        for (int i = 0; i < SUMS; i++) sums[i] = x * (float)i; /* equal sums would be computed once */       \
        for (int round = 0; round < ROUNDS; round++) {                                                       \
            _Pragma("GCC unroll 12") for (int i = 0; i < SUMS; i++) sums[i] = sums[i] * x + x;               \
        }                                                                                                    \
        for (int i = 1; i < SUMS; i++) sums[0] += sums[i];                                                   \
        return sums[0][0];                                                                                   \
    }

PEAK_LOOP(loop_portable, 16, )
#ifdef __x86_64__
PEAK_LOOP(loop_avx2, 32, __attribute__((target("avx2,fma"))))
PEAK_LOOP(loop_avx512, 64, __attribute__((target("avx512f"))))
#endif

struct peak {
    float (*loop)(float factor);
    int64_t lanes; /* numbers of a vector */
    struct qkv_workers *workers;
};

static void choose_loop(struct peak *peak)
{
    peak->loop = loop_portable;
    peak->lanes = 4;
#ifdef __x86_64__
    if (__builtin_cpu_supports("avx512f")) {
        peak->loop = loop_avx512;
        peak->lanes = 16;
    } else if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) {
        peak->loop = loop_avx2;
        peak->lanes = 8;
    }
#endif
}

static void run_loop(void *context, int part)
{
    const struct peak *peak = context;
    volatile float factor = 0.5f, result; /* unknown to the compiler */
    result = peak->loop(factor);
    (void)result, (void)part;
}

static enum qkv_status peak_step(void *context, int64_t i, struct qkv_error *error)
{
    struct peak *peak = context;
    (void)i, (void)error;
    qkv_workers_run(peak->workers, qkv_workers_count(peak->workers), run_loop, peak);
    return QKV_OK;
}

enum qkv_status bench_peak(struct bench_work *work, const struct bench_options *options,
                           const struct bench_sink *sink, struct qkv_error *error)
{
    (void)work;
    struct peak peak = {.workers = qkv_workers_new((int)options->threads, error)};
    if (!peak.workers) return QKV_INVALID;
    choose_loop(&peak);
    struct bench_result result = {.name = "peak", .threads = qkv_workers_count(peak.workers)};
    result.operations = 2.0 * (double)(result.threads * peak.lanes) * SUMS * ROUNDS;
    enum qkv_status status = bench_time(options, &result, peak_step, &peak, error);
    if (!status) sink->result(sink->context, &result);
    qkv_workers_free(peak.workers);
    return status;
}
