/* The gradient check of layers, on the samples that every layer has (struct
 * qkv_layer_interface). */
#include "check/check.h"
#include "check/layer_samples/layer_samples.h"
#include "core/memory.h"

#include <stdlib.h>
#include <string.h>

static const struct qkv_layer_interface *const LAYERS[QKV_LAYER_COUNT] = {
#define LAYER(name) [QKV_LAYER_##name] = &qkv_##name##_layer,
#include "qkv/layers.def"
#undef LAYER
};

const struct qkv_layer_interface *qkv_layer_interface(enum qkv_layer_id layer)
{
    return (int)layer >= 0 && (int)layer < QKV_LAYER_COUNT ? LAYERS[layer] : NULL;
}

enum qkv_layer_id qkv_layer_find(const char *name)
{
    for (int layer = 0; layer < QKV_LAYER_COUNT; layer++)
        if (name && !strcmp(qkv_layer_interface((enum qkv_layer_id)layer)->name, name))
            return (enum qkv_layer_id)layer;
    return QKV_LAYER_COUNT;
}

/* Sets a tensor to random numbers in -1 .. 1. */
static void fill(struct qkv_tensor *x, uint64_t seed, uint32_t random_step)
{
    double *value = x ? qkv_tensor_value(x) : NULL;
    struct qkv_random random = {seed, QKV_STREAM_CHECK, random_step};
    for (int64_t i = 0; x && i < qkv_tensor_count(x); i++)
        value[i] = 2 * qkv_random_uniform(random, (uint64_t)i) - 1;
}

/* Checks one sample: creates a layer with random parameters and inputs. Biases are random too,
 * because zeros would hide faults. */
static enum qkv_status check_sample(struct qkv_check_report *report,
                                    const struct qkv_layer_interface *interface,
                                    const struct qkv_layer_sample *sample,
                                    const struct qkv_check_options *options, struct qkv_error *error)
{
    struct qkv_parameters parameters = {0};
    struct qkv_graph *graph = qkv_graph_new(QKV_FLOAT64);
    void *layer = calloc(1, interface->size), *gradients = NULL;
    const char *subject = qkv_arena_format(&report->arena, "layer %s (%s)", interface->name, sample->name);
    enum qkv_status status = QKV_INVALID;
    if (!graph || !layer || !subject) {
        qkv_error_set(error, "out of memory for layer %s", interface->name);
        goto end;
    }
    interface->init(layer, &parameters, sample->options, interface->name);
    if (qkv_parameters_allocate(&parameters, QKV_FLOAT64, error)) goto end;
    gradients = calloc((size_t)parameters.elements + 1, sizeof(double));
    if (!gradients) {
        qkv_error_set(error, "out of memory for layer %s", interface->name);
        goto end;
    }
    struct qkv_random random = {.seed = options->seed, .step = 3};
    for (int64_t i = 0; i < parameters.elements; i++)
        ((double *)parameters.values)[i] =
            2 * qkv_random_uniform((struct qkv_random){options->seed, QKV_STREAM_CHECK, 9}, (uint64_t)i) - 1;
    qkv_graph_bind(graph, &parameters, gradients, false);
    qkv_graph_set_dropout(graph, &random);
    struct qkv_tensor *input[2] = {NULL, NULL};
    for (int i = 0; i < 2; i++) {
        if (!sample->input[i].rank) continue;
        input[i] = qkv_variable(graph, sample->input[i]);
        fill(input[i], options->seed, (uint32_t)i + 1);
    }
    status = qkv_check_graph(report, subject, graph, interface->apply(layer, graph, input, sample), options,
                             error);
end:
    free(gradients);
    free(layer);
    qkv_graph_free(graph);
    qkv_parameters_release(&parameters);
    return status;
}

enum qkv_status qkv_check_layer(struct qkv_check_report *report, enum qkv_layer_id layer,
                                const struct qkv_check_options *options, struct qkv_error *error)
{
    if (qkv_check_arguments(report, options, "qkv_check_layer", error)) return QKV_INVALID;
    if ((int)layer < 0 || layer >= QKV_LAYER_COUNT)
        return qkv_error_set(error, "qkv_check_layer: there is no layer %d", (int)layer);
    const struct qkv_layer_interface *interface = qkv_layer_interface(layer);
    if (!interface->samples || !interface->samples[0].name) {
        struct qkv_check_row *row = qkv_check_add(report, interface->name, "samples");
        if (!row) return qkv_error_set(error, "out of memory");
        qkv_check_fail(report, row, "the layer has no samples");
    }
    enum qkv_status status = QKV_OK;
    for (const struct qkv_layer_sample *s = interface->samples; !status && s && s->name; s++)
        status = check_sample(report, interface, s, options, error);
    return status;
}
