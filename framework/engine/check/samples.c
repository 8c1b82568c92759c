/* What checks are given: their arguments, and graphs made of samples. */
#include "check/check.h"
#include "check/op_samples/op_samples.h"

#include <math.h>

enum qkv_status qkv_check_arguments(const struct qkv_check_report *report,
                                    const struct qkv_check_options *options, const char *function,
                                    struct qkv_error *error)
{
    if (!report || !options) return qkv_error_set(error, "%s needs a report and options", function);
    if (!(options->tolerance >= 0 && isfinite(options->tolerance)))
        return qkv_error_set(error, "%s: the tolerance is %g, but must be 0 or more", function,
                             options->tolerance);
    if (options->sample < 0)
        return qkv_error_set(error, "%s: the sample is %lld, but must be 0 (all) or more", function,
                             (long long)options->sample);
    bool is_fault = options->fault == QKV_FAULT_NONE || qkv_fault_name(options->fault) != NULL;
    if (!is_fault) return qkv_error_set(error, "%s: there is no fault %d", function, (int)options->fault);
    if (options->fault && (options->fault_op <= QKV_OP_leaf || options->fault_op >= QKV_OP_COUNT))
        return qkv_error_set(error, "%s: fault_op is %d, but there is no such op to plant a fault in",
                             function, (int)options->fault_op);
    return QKV_OK;
}

enum qkv_status qkv_check_tensor(const struct qkv_tensor *y, enum qkv_dtype dtype, const char *subject,
                                 struct qkv_error *error)
{
    if (!y) return qkv_error_set(error, "%s: there is no tensor to check", subject);
    const struct qkv_graph *graph = y->graph;
    if (qkv_graph_check(graph, error)) return QKV_INVALID;
    if (graph->dtype != dtype)
        return qkv_error_set(error, "%s: the graph is %s, but must be %s", subject,
                             graph->dtype == QKV_FLOAT32 ? "float32" : "float64",
                             dtype == QKV_FLOAT32 ? "float32" : "float64");
    if (graph->shares_memory)
        return qkv_error_set(error,
                             "%s: tensors of the graph share memory, so their values are not kept; build "
                             "it without qkv_graph_share_memory",
                             subject);
    for (int i = 0; i < graph->binding_count; i++)
        if (graph->binding[i].accumulate)
            return qkv_error_set(error,
                                 "%s: backward adds to the gradients of parameters; bind them without "
                                 "`accumulate`",
                                 subject);
    return QKV_OK;
}

/* Finds the samples of an op (op_samples/), and builds their inputs and options. */

static const struct qkv_op_samples *const SAMPLES[QKV_OP_COUNT] = {
#define OP(name, parameters, inputs, options) [QKV_OP_##name] = &qkv_samples_##name,
#include "qkv/ops.def"
#undef OP
};

const struct qkv_op_samples *qkv_samples_of(enum qkv_op_id op)
{
    return SAMPLES[op];
}

/* Element i of an input, drawn at random: 0 or 1 if the input is binary (0 or -infinity if it is an additive mask); in
 * low .. high if the sample has bounds; else in +-[0.1, 1], away from the kink of relu at 0. */
static double draw_element(const struct qkv_sample *sample, int input, int64_t i, uint64_t seed)
{
    struct qkv_random random = {seed, QKV_STREAM_CHECK, 1u + (uint32_t)input};
    double drawn = qkv_random_uniform(random, (uint64_t)i);
    const struct qkv_options *options = sample->options;
    bool additive = options && options->attention.mask_values == QKV_MASK_VALUES_ADDITIVE;
    if (sample->binary >> input & 1)
        return additive ? (drawn < 0.5 ? 0.0 : -HUGE_VAL) : drawn < 0.5 ? 1.0 : 0.0;
    if (sample->low < sample->high)
        return (double)sample->low + drawn * ((double)sample->high - (double)sample->low);
    return drawn < 0.5 ? -0.1 - 1.8 * drawn : 0.1 + 1.8 * (drawn - 0.5);
}

void qkv_sample_inputs(struct qkv_graph *graph, const struct qkv_sample_setting *setting,
                       struct qkv_tensor *input[QKV_MAX_INPUTS])
{
    const struct qkv_sample *sample = setting->sample;
    const struct qkv_random random = {.seed = setting->seed, .step = 7};
    qkv_graph_set_dropout(graph, &random);
    for (int k = 0; k < QKV_MAX_INPUTS; k++) {
        struct qkv_shape shape = sample->input[k];
        input[k] = NULL;
        if (!shape.rank) continue;
        if (setting->alias[1] && k == setting->alias[1]) {
            input[k] = input[setting->alias[0]];
            continue;
        }
        input[k] = setting->varied >> k & 1 ? qkv_variable(graph, shape) : qkv_constant(graph, shape);
        for (int64_t i = 0; input[k] && i < input[k]->count; i++) {
            double value = (double)(float)draw_element(sample, k, i, setting->seed);
            qkv_dtype_set(graph->dtype, input[k]->value, i, value);
        }
    }
}

struct qkv_tensor *qkv_sample_node(struct qkv_graph *graph, const struct qkv_sample_setting *setting,
                                   struct qkv_tensor *input[QKV_MAX_INPUTS])
{
    static const struct qkv_options NONE = {0};
    const struct qkv_options *options = setting->sample->options;
    return qkv_node(graph, setting->op, input, options ? options : &NONE);
}
