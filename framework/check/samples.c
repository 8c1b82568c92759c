/* Builds the inputs and options of the samples that every op has. */
#include "check/check.h"

/* Element i of an input, at random: 0 or 1 for binary inputs, else in low .. high, else in +-[0.1,
 * 1], away from the kink of relu at 0. */
static double draw(const struct qkv_sample *sample, int input, int64_t i, uint64_t seed)
{
    struct qkv_random random = {seed, QKV_STREAM_CHECK, 1u + (uint32_t)input};
    double drawn = qkv_random_uniform(random, (uint64_t)i);
    if (sample->binary >> input & 1) return drawn < 0.5 ? 1 : 0;
    if (sample->low < sample->high)
        return (double)sample->low + drawn * ((double)sample->high - (double)sample->low);
    return drawn < 0.5 ? -0.1 - 1.8 * drawn : 0.1 + 1.8 * (drawn - 0.5);
}

static struct qkv_shape shape_of(const struct qkv_sample_input *input)
{
    struct qkv_shape shape = {.rank = input->rank};
    for (int a = 0; a < QKV_MAX_RANK; a++) shape.size[a] = input->size[a];
    return shape;
}

struct qkv_options qkv_sample_options_of(const struct qkv_sample *sample)
{
    const struct qkv_sample_options *given = sample->options;
    if (!given) return (struct qkv_options){0};
    struct qkv_options options = {
#define OPTION(type, name) .name = given->name,
        QKV_SAMPLE_OPTIONS(OPTION)
#undef OPTION
    };
    if (given->attention) options.attention = *given->attention;
    options.shape = shape_of(&given->shape);
    for (int a = 0; a < QKV_MAX_RANK; a++) options.permutation[a] = given->permutation[a];
    return options;
}

void qkv_sample_inputs(struct qkv_graph *graph, const struct qkv_sample_setting *setting,
                       struct qkv_tensor *input[QKV_MAX_INPUTS])
{
    const struct qkv_sample *sample = setting->sample;
    for (int k = 0; k < qkv_op_rule(setting->op)->inputs; k++) {
        struct qkv_shape shape = shape_of(&sample->input[k]);
        input[k] = NULL;
        if (!shape.rank) continue;
        if (setting->alias[1] && k == setting->alias[1]) {
            input[k] = input[setting->alias[0]];
            continue;
        }
        input[k] = setting->varied >> k & 1 ? qkv_variable(graph, shape) : qkv_constant(graph, shape);
        for (int64_t i = 0; input[k] && i < input[k]->count; i++) {
            double value = (double)(float)draw(sample, k, i, setting->seed);
            qkv_dtype_set(graph->dtype, input[k]->value, i, value);
        }
    }
}
