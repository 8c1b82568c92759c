/* The attention kernels on one long sentence, forward and backward: exact and flash, with and
 * without a window. `peak MB` is the memory that the op saves and works in, without queries, keys,
 * values, result and their gradients. */
#include "bench.h"

#include "graph/internal.h"

#include <stdlib.h>
#include <string.h>

enum { TOKENS = 4096, HEADS = 8, WIDTH = 64, WINDOW = 128, NUMBERS = TOKENS * HEADS * WIDTH };

struct variant {
    const char *name;
    enum qkv_attention_kernel kernel;
    int64_t window;
};

static const struct variant VARIANTS[] = {
    {"exact", QKV_KERNEL_EXACT, 0},
    {"flash", QKV_KERNEL_FLASH, 0},
    {"exact w128", QKV_KERNEL_EXACT, WINDOW},
    {"flash w128", QKV_KERNEL_FLASH, WINDOW},
};

struct pass {
    struct qkv_graph *graph;
    const struct variant *variant;
    float *inputs; /* query, key and value, NUMBERS each */
};

static enum qkv_status run(void *context, int64_t i, struct qkv_error *error)
{
    struct pass *pass = context;
    struct qkv_graph *graph = pass->graph;
    const struct qkv_attention attention = {
        .rule = {.heads = HEADS, .kernel = pass->variant->kernel, .window = pass->variant->window}};
    struct qkv_tensor *x[3];
    (void)i;
    qkv_graph_reset(graph);
    for (int k = 0; k < 3; k++) x[k] = qkv_variable(graph, QKV_SHAPE(TOKENS, HEADS * WIDTH));
    struct qkv_tensor *y = qkv_attention(graph, x[0], x[1], x[2], NULL, attention);
    if (qkv_graph_check(graph, error)) return QKV_INVALID;
    for (int k = 0; k < 3; k++)
        memcpy(qkv_tensor_value(x[k]), pass->inputs + k * NUMBERS, NUMBERS * sizeof(float));
    qkv_forward(graph);
    qkv_backward(graph, y, NULL);
    return QKV_OK;
}

/* Multiplications and additions, forward and backward. Pairs outside the window have no score. */
static double operations_of(const struct variant *variant)
{
    double pairs = 0, window = variant->window ? (double)variant->window : TOKENS;
    for (double i = 0; i < TOKENS; i++) {
        double first = i < window ? 0 : i - window, last = i + window < TOKENS - 1 ? i + window : TOKENS - 1;
        pairs += last - first + 1;
    }
    return 2 * 6 * pairs * HEADS * WIDTH;
}

enum qkv_status bench_attention(struct bench_work *work, const struct bench_options *options,
                                struct bench_report *report, struct qkv_error *error)
{
    struct pass pass = {.inputs = malloc(3 * NUMBERS * sizeof(float))};
    const struct qkv_random random = {.seed = 1};
    if (!pass.inputs) return qkv_error_set(error, "out of memory for a long sentence");
    for (int i = 0; i < 3 * NUMBERS; i++)
        pass.inputs[i] = (float)(2 * qkv_random_uniform(random, (uint64_t)i) - 1);
    enum qkv_status status = QKV_OK;
    for (size_t i = 0; i < sizeof VARIANTS / sizeof VARIANTS[0] && !status; i++) {
        struct bench_result result = {.name = VARIANTS[i].name, .threads = 1, .tokens = TOKENS};
        pass.variant = &VARIANTS[i];
        pass.graph = qkv_graph_new(QKV_FLOAT32); /* a new graph, to measure the memory of each variant */
        status = pass.graph ? bench_time(options, &result, run, &pass, error)
                            : qkv_error_set(error, "out of memory for a graph");
        if (!status) {
            result.operations = operations_of(&VARIANTS[i]);
            result.peak =
                ((double)qkv_graph_peak_bytes(pass.graph) - 8.0 * NUMBERS * sizeof(float)) / (1 << 20);
            bench_report_result(report, work, &result);
        }
        qkv_graph_free(pass.graph);
    }
    free(pass.inputs);
    return status;
}
