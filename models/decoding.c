/* Decoding step by step, for any network: what does not depend on its layers. */
#include "models/network.h"

#include <stdlib.h>

struct qkv_tensor *qkv_model_logits(const struct qkv_model *model, struct qkv_graph *graph,
                                    struct qkv_tensor *hidden)
{
    const char *outer = qkv_graph_scope(graph, "output");
    struct qkv_tensor *logits =
        qkv_linear(graph, hidden, qkv_graph_parameter(graph, model->output_weight),
                   qkv_graph_parameter(graph, model->output_bias), model->output_tied);
    qkv_graph_scope(graph, outer);
    return logits;
}

void qkv_decoding_finish(struct qkv_decoding *decoding, struct qkv_tensor *hidden)
{
    struct qkv_tensor *logits = qkv_model_logits(decoding->model, decoding->decoder, hidden);
    struct qkv_tensor *group_max = qkv_group_max(decoding->decoder, logits);
    struct qkv_tensor *sums = decoding->sums ? qkv_log_sum_exp(decoding->decoder, logits) : NULL;
    if (!group_max || (decoding->sums && !sums)) return; /* the graph has failed */
    qkv_graph_plan(decoding->decoder, logits);
    decoding->next = (struct qkv_next_scores){.dtype = qkv_graph_dtype(decoding->decoder),
                                              .classes = decoding->model->target_size,
                                              .logits = qkv_tensor_value(logits),
                                              .group_max = qkv_tensor_value(group_max),
                                              .sums = sums ? qkv_tensor_value(sums) : NULL};
}

double qkv_next_log_probability(const struct qkv_next_scores *next, int64_t row, int32_t token)
{
    int64_t at = row * next->classes + token;
    QKV_BUG(!next->sums, "log-probabilities of a decoding that has no sums");
    return qkv_dtype_get(next->dtype, next->logits, at) - qkv_dtype_get(next->dtype, next->sums, row);
}

/* A graph to decode with: the model's parameters, no gradients, no dropout. NULL when memory is
 * out. */
static struct qkv_graph *decoding_graph(const struct qkv_model *model)
{
    struct qkv_graph *graph = qkv_graph_new(model->parameters.dtype);
    if (!graph) return NULL;
    qkv_graph_set_gradients(graph, false);
    qkv_graph_bind(graph, &model->parameters, NULL, false);
    return graph;
}

struct qkv_decoding *qkv_decoding_new(const struct qkv_model *model)
{
    struct qkv_decoding *decoding = calloc(1, model->interface->decoding->size);
    if (!decoding) return NULL;
    decoding->model = model;
    decoding->number_size = qkv_dtype_size(model->parameters.dtype);
    decoding->encoder = decoding_graph(model);
    decoding->decoder = decoding_graph(model);
    if (decoding->encoder && decoding->decoder) return decoding;
    qkv_decoding_free(decoding);
    return NULL;
}

void qkv_decoding_free(struct qkv_decoding *decoding)
{
    if (!decoding) return;
    qkv_graph_free(decoding->encoder);
    qkv_graph_free(decoding->decoder);
    qkv_arena_release(&decoding->arena);
    free(decoding);
}

void qkv_decoding_set_workers(struct qkv_decoding *decoding, struct qkv_workers *workers)
{
    qkv_graph_set_workers(decoding->encoder, workers);
    qkv_graph_set_workers(decoding->decoder, workers);
}

void qkv_decoding_read_panels(struct qkv_decoding *decoding, struct qkv_panels *panels)
{
    qkv_graph_set_panels(decoding->encoder, panels);
    qkv_graph_set_panels(decoding->decoder, panels);
}

enum qkv_status qkv_decoding_start(struct qkv_decoding *decoding, const struct qkv_batch_view *batch,
                                   int64_t rows, int64_t length, bool sums, struct qkv_error *error)
{
    decoding->sums = sums;
    return decoding->model->interface->decoding->start(decoding, batch, rows, length, error);
}

const struct qkv_next_scores *qkv_decoding_step(struct qkv_decoding *decoding, int64_t rows,
                                                const int32_t *ids, const int64_t *sentences,
                                                struct qkv_error *error)
{
    return decoding->model->interface->decoding->step(decoding, rows, ids, sentences, error);
}

void qkv_decoding_reorder(struct qkv_decoding *decoding, int64_t rows, const int64_t *parents)
{
    decoding->model->interface->decoding->reorder(decoding, rows, parents);
}
