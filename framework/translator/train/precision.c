/* training.precision: auto, the type whose products take less time in this model on this machine. */
#include "train/training.h"

#include "core/memory.h"
#include "core/system.h"

#include <math.h>

enum { ROUNDS = 3, MOST_ROWS = 256, LEAST_ROWS = 32 };

/* Of a forward pass with MOST_ROWS rows or fewer, so that all six take a fraction of a second. */
static const double MULTIPLICATIONS = 2e9;

/* bfloat16 has to take less than this share of the time of float32, because it has fewer digits. */
static const double PAYS = 0.9;

/* Multiplies rows of zeros with every matrix of the model but its tables, and lowers *seconds to the time that takes. */
static enum qkv_status measure(struct qkv_parameters *parameters, enum qkv_precision precision,
                               struct qkv_graph *graph, int64_t rows, double *seconds,
                               struct qkv_error *error)
{
    if (qkv_parameters_set_precision(parameters, precision, error)) return QKV_INVALID;
    qkv_graph_reset(graph);
    qkv_graph_set_gradients(graph, false);
    qkv_graph_bind(graph, parameters, NULL, false);
    for (int64_t i = 0; i < parameters->count; i++) {
        const struct qkv_parameter *weight = parameters->list[i];
        if (weight->shape.rank != 2 || weight->is_table) continue;
        qkv_linear(graph, qkv_constant(graph, QKV_SHAPE(rows, weight->shape.size[0])),
                   qkv_graph_parameter(graph, weight), NULL, false);
    }
    if (qkv_graph_check(graph, error)) return QKV_INVALID;
    double began = qkv_clock_seconds();
    qkv_forward(graph);
    *seconds = fmin(*seconds, qkv_clock_seconds() - began);
    return QKV_OK;
}

enum qkv_status qkv_training_choose_precision(struct training *training, struct qkv_error *error)
{
    struct qkv_training_config *config = &training->with_merges.training;
    struct qkv_parameters *parameters = &training->model->parameters;
    double seconds[2] = {INFINITY, INFINITY}, elements = 1;
    if (config->precision != QKV_PRECISION_AUTO) {
        if (config->precision == QKV_PRECISION_BFLOAT16) qkv_notice_precision(training, 0);
        return QKV_OK;
    }
    for (int64_t i = 0; i < parameters->count; i++)
        if (!parameters->list[i]->is_table) elements += (double)parameters->list[i]->count;
    int64_t rows = (int64_t)fmax(LEAST_ROWS, fmin(MOST_ROWS, MULTIPLICATIONS / elements));
    struct qkv_graph *graph = qkv_graph_new(parameters->dtype);
    enum qkv_status status = graph ? QKV_OK : qkv_no_memory(error);
    for (int i = 0; !status && i < 2 * ROUNDS; i++)
        status = measure(parameters, i % 2 ? QKV_PRECISION_BFLOAT16 : QKV_PRECISION_FLOAT32, graph, rows,
                         &seconds[i % 2], error);
    qkv_graph_free(graph);
    if (!status) status = qkv_parameters_set_precision(parameters, QKV_PRECISION_FLOAT32, error);
    if (status) return status;
    config->precision = seconds[1] < PAYS * seconds[0] ? QKV_PRECISION_BFLOAT16 : QKV_PRECISION_FLOAT32;
    qkv_notice_precision(training, seconds[1] / seconds[0]);
    return QKV_OK;
}
