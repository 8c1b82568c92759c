/* Decoding step by step: the part that is the same for all networks. */
#include "data/batch.h"
#include "models/network.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

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

void qkv_decoding_add_output(struct qkv_decoding *decoding, struct qkv_tensor *hidden)
{
    struct qkv_tensor *logits = qkv_model_logits(decoding->model, decoding->decoder, hidden);
    struct qkv_tensor *group_max = qkv_group_max(decoding->decoder, logits);
    struct qkv_tensor *log_sum_exp =
        decoding->needs_log_sum_exp ? qkv_log_sum_exp(decoding->decoder, logits) : NULL;
    const struct qkv_shape shape = qkv_tensor_shape(logits);
    decoding->next = (struct qkv_next_scores){0};
    if (!group_max || (decoding->needs_log_sum_exp && !log_sum_exp)) return; /* the graph has failed */
    qkv_graph_plan(decoding->decoder, logits);
    decoding->next =
        (struct qkv_next_scores){.dtype = qkv_graph_dtype(decoding->decoder),
                                 .rows = shape.rank == 2 ? shape.size[0] : 0,
                                 .classes = decoding->model->target_size,
                                 .logits = qkv_tensor_value(logits),
                                 .group_max = qkv_tensor_value(group_max),
                                 .log_sum_exp = log_sum_exp ? qkv_tensor_value(log_sum_exp) : NULL};
}

double qkv_next_log_probability(const struct qkv_next_scores *next, int64_t row, int32_t token)
{
    int64_t at = row * next->classes + token;
    bool exists = row >= 0 && row < next->rows && token >= 0 && token < next->classes;
    if (!exists || !next->log_sum_exp) return (double)NAN;
    return qkv_dtype_get(next->dtype, next->logits, at) - qkv_dtype_get(next->dtype, next->log_sum_exp, row);
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

static struct qkv_decoding *decoding_of(const struct qkv_model *model,
                                        const struct qkv_decoding_interface *interface)
{
    struct qkv_decoding *decoding = calloc(1, interface->size);
    if (!decoding) return NULL;
    decoding->interface = interface;
    decoding->model = model;
    decoding->max_length = qkv_stack_max_length(&model->config.decoder);
    decoding->element_size = qkv_dtype_size(model->parameters.dtype);
    decoding->encoder = decoding_graph(model);
    decoding->decoder = decoding_graph(model);
    if (decoding->encoder && decoding->decoder) return decoding;
    qkv_decoding_free(decoding);
    return NULL;
}

struct qkv_decoding *qkv_decoding_new(const struct qkv_model *model)
{
    const struct qkv_decoding_interface *faster = model->interface->decoding;
    return decoding_of(model, faster ? faster : &qkv_plain_decoding);
}

struct qkv_decoding *qkv_decoding_new_plain(const struct qkv_model *model)
{
    return decoding_of(model, &qkv_plain_decoding);
}

void qkv_decoding_free(struct qkv_decoding *decoding)
{
    if (!decoding) return;
    if (decoding->interface->release) decoding->interface->release(decoding);
    qkv_graph_free(decoding->encoder);
    qkv_graph_free(decoding->decoder);
    qkv_arena_release(&decoding->arena);
    free(decoding);
}

struct qkv_decoding *qkv_decoding_member(struct qkv_decoding *decoding, int64_t i)
{
    if (decoding->interface->member) return decoding->interface->member(decoding, i);
    return i == 0 ? decoding : NULL;
}

void qkv_decoding_set_workers(struct qkv_decoding *decoding, struct qkv_workers *workers)
{
    struct qkv_decoding *member;
    for (int64_t i = 0; (member = qkv_decoding_member(decoding, i)); i++) {
        qkv_graph_set_workers(member->encoder, workers);
        qkv_graph_set_workers(member->decoder, workers);
    }
}

void qkv_decoding_set_panels(struct qkv_decoding *decoding, struct qkv_panels *panels)
{
    if (!decoding->encoder) return; /* an ensemble: its members have panels */
    qkv_graph_set_panels(decoding->encoder, panels);
    qkv_graph_set_panels(decoding->decoder, panels);
}

/* Copies numbers into the arena; NULL if `from` is NULL or memory runs out. */
static const void *copy(struct qkv_arena *arena, const void *from, int64_t count, size_t size)
{
    void *to = from ? qkv_arena_allocate(arena, (size_t)count * size) : NULL;
    if (to && count) memcpy(to, from, (size_t)count * size);
    return to;
}

/* Copies the sources of a batch to the arena of the decoding, because steps still read them after the caller may have
 * released or refilled the batch. The copy has no targets. NULL when memory runs out. */
static const struct qkv_batch_view *copy_sources(struct qkv_arena *arena, const struct qkv_batch_view *batch)
{
    struct qkv_batch_view *sources = qkv_arena_allocate(arena, sizeof *sources);
    if (!sources) return NULL;
    *sources = (struct qkv_batch_view){
        .count = batch->count,
        .source_tokens = batch->source_tokens,
        .first = batch->first,
        .index = copy(arena, batch->index, batch->count, sizeof *batch->index),
        .source = copy(arena, batch->source, batch->source_tokens, sizeof *batch->source),
        .source_start = copy(arena, batch->source_start, batch->count, sizeof *batch->source_start),
        .source_length = copy(arena, batch->source_length, batch->count, sizeof *batch->source_length),
        .source_masked =
            copy(arena, batch->source_masked, batch->source_tokens, sizeof *batch->source_masked),
    };
    bool is_complete = !sources->index == !batch->index && !sources->source == !batch->source &&
                       !sources->source_start == !batch->source_start &&
                       !sources->source_length == !batch->source_length &&
                       !sources->source_masked == !batch->source_masked;
    return is_complete ? sources : NULL;
}

enum qkv_status qkv_decoding_start(struct qkv_decoding *decoding, const struct qkv_batch_view *batch,
                                   int64_t rows, int64_t length, bool log_sum_exp, struct qkv_error *error)
{
    decoding->rows = decoding->length = 0;
    if (rows < 1 || length < 1)
        return qkv_error_set(error, "decoding needs a hypothesis and a token, but has %lld of %lld",
                             (long long)rows, (long long)length);
    if (length > INT32_MAX / rows) /* networks number their rows with 32 bits */
        return qkv_error_set(
            error,
            "%lld hypotheses of %lld tokens are too many: translate fewer sentences together or use a "
            "smaller beam",
            (long long)rows, (long long)length);
    if (qkv_batch_view_check(batch, false, error)) return QKV_INVALID;
    decoding->needs_log_sum_exp = log_sum_exp;
    decoding->sentences = batch->count;
    decoding->step = 0;
    decoding->misused = false;
    decoding->rows = decoding->active = rows;
    decoding->length = length;
    decoding->next = (struct qkv_next_scores){0};
    qkv_arena_reset(&decoding->arena);
    const struct qkv_batch_view *sources = copy_sources(&decoding->arena, batch);
    enum qkv_status status = sources ? decoding->interface->start(decoding, sources, error)
                                     : qkv_error_set(error, "out of memory for the sources of a decoding");
    if (status) decoding->rows = decoding->length = 0;
    return status;
}

/* Refuses a step that does not fit in the memory of the decoding. */
static enum qkv_status check_step(const struct qkv_decoding *decoding, int64_t rows, const int64_t *sentences,
                                  struct qkv_error *error)
{
    if (!decoding->rows)
        return qkv_error_set(error, "a step of a decoding that has not started: call qkv_decoding_start");
    if (decoding->misused)
        return qkv_error_set(error, "qkv_decoding_reorder was given a row that the last step did not have");
    if (rows < 1 || rows > decoding->active || decoding->step >= decoding->length)
        return qkv_error_set(error,
                             "step %lld with %lld rows, but decoding has room for %lld steps and %lld rows",
                             (long long)decoding->step + 1, (long long)rows, (long long)decoding->length,
                             (long long)decoding->active);
    for (int64_t i = 0; i < rows; i++)
        if (sentences[i] < 0 || sentences[i] >= decoding->sentences)
            return qkv_error_set(error, "row %lld translates sentence %lld of a batch of %lld", (long long)i,
                                 (long long)sentences[i], (long long)decoding->sentences);
    return QKV_OK;
}

const struct qkv_next_scores *qkv_decoding_step(struct qkv_decoding *decoding, int64_t rows,
                                                const int32_t *ids, const int64_t *sentences,
                                                struct qkv_error *error)
{
    if (check_step(decoding, rows, sentences, error)) return NULL;
    if (decoding->interface->step(decoding, rows, ids, sentences, error)) return NULL;
    if (decoding->next.rows != rows) { /* search reads as many */
        qkv_error_set(error,
                      "network %s: a step of %lld rows ended without scores for each: its last call must be "
                      "qkv_decoding_add_output with a hidden state for each row",
                      decoding->model->interface->name, (long long)rows);
        return NULL;
    }
    decoding->active = rows;
    decoding->step++;
    return &decoding->next;
}

void qkv_decoding_reorder(struct qkv_decoding *decoding, int64_t rows, const int64_t *parents)
{
    if (!decoding->rows || rows < 0 || rows > decoding->rows) decoding->misused = true;
    for (int64_t i = 0; i < rows && !decoding->misused; i++)
        decoding->misused = parents[i] < 0 || parents[i] >= decoding->active;
    if (decoding->misused) return;
    decoding->interface->reorder(decoding, rows, parents);
    decoding->active = rows;
}
