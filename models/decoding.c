/* Decoding step by step: the part that is the same for all networks, the decoding of networks that have none of their own, and
 * that of ensembles. */
#include "config/config_keys.h"
#include "data/batch.h"
#include "models/network.h"

#include "core/memory.h"
#include "core/numbers.h"
#include "graph/internal.h"

#include <math.h>

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

/* ---- for every network: each step runs the forced pass over all tokens so far ----
 * Slow, because nothing is kept between steps; faster decodings are tested against it. */

struct plain_decoding {
    struct qkv_decoding base; /* the first member: the interface passes pointers to it */
    const struct qkv_batch_view *sources;
    struct qkv_batch batch;        /* of a step: row i is the source of row i with its tokens so far */
    int32_t *tokens, *next_tokens; /* [rows, length]: what was fed; reordering writes the second and swaps */
    int32_t *last;                 /* [rows]: the last token of each row, in the batch */
    bool *masked, *target_masked;  /* [rows * longest]: of the batch; NULL: nothing is masked */
};

static enum qkv_status start_plain(struct qkv_decoding *decoding, const struct qkv_batch_view *sources,
                                   struct qkv_error *error)
{
    struct plain_decoding *d = (struct plain_decoding *)decoding;
    int64_t rows = decoding->rows, cells = rows * decoding->length, longest = 1;
    for (int64_t s = 0; s < sources->count; s++)
        if (sources->source_length[s] > longest) longest = sources->source_length[s];
    d->sources = sources;
    d->tokens = qkv_arena_zeros(&decoding->arena, cells, sizeof *d->tokens);
    d->next_tokens = qkv_arena_zeros(&decoding->arena, cells, sizeof *d->next_tokens);
    d->last = qkv_arena_zeros(&decoding->arena, rows, sizeof *d->last);
    d->masked = sources->source_masked ? qkv_arena_zeroed(&decoding->arena, (size_t)(rows * longest)) : NULL;
    d->target_masked = sources->target_masked ? qkv_arena_zeroed(&decoding->arena, (size_t)cells) : NULL;
    bool has_room = !decoding->arena.failed && qkv_batch_reserve(&d->batch, rows, rows * longest, cells);
    return has_room ? QKV_OK : qkv_no_memory(error);
}

/* The batch of this step. */
static struct qkv_batch_view fill(struct plain_decoding *d, int64_t rows, const int64_t *sentences)
{
    struct qkv_batch *batch = &d->batch;
    struct qkv_batch_view view;
    qkv_batch_clear(batch);
    for (int64_t i = 0; i < rows; i++) {
        int64_t at = batch->source_tokens, first = d->sources->source_start[sentences[i]];
        const int32_t *source = d->sources->source + first, *tokens = d->tokens + i * d->base.length;
        size_t count = (size_t)d->sources->source_length[sentences[i]];
        const struct qkv_ids given = {(int64_t)count - 1, source};
        qkv_batch_add(batch, i, count ? &given : NULL, &(struct qkv_ids){d->base.step, tokens + 1});
        if (count) memcpy(batch->source + at, source, count * sizeof *source);
        batch->target_input[batch->target_start[i]] = tokens[0];
        d->last[i] = (int32_t)batch->target_tokens - 1;
        if (d->target_masked)
            memcpy(d->target_masked + batch->target_start[i], d->sources->target_masked,
                   (size_t)(d->base.step + 1) * sizeof *d->target_masked);
        if (d->masked && count) memcpy(d->masked + at, d->sources->source_masked + first, count);
    }
    batch->source_masked = d->masked;
    batch->target_masked = d->target_masked;
    qkv_batch_shard(batch, 0, 1, &view);
    return view;
}

static enum qkv_status step_plain(struct qkv_decoding *decoding, int64_t rows, const int32_t *ids,
                                  const int64_t *sentences, struct qkv_error *error)
{
    struct plain_decoding *d = (struct plain_decoding *)decoding;
    struct qkv_graph *graph = decoding->decoder;
    for (int64_t i = 0; i < rows; i++) d->tokens[i * decoding->length + decoding->step] = ids[i];
    const struct qkv_batch_view batch = fill(d, rows, sentences);
    qkv_graph_reset(graph);
    qkv_graph_share_memory(graph, true);
    struct qkv_tensor *hidden =
        qkv_model_forward(decoding->model, graph, &batch, NULL); /* [rows * length, D] */
    qkv_decoding_add_output(decoding, qkv_gather_rows(graph, hidden, d->last, rows));
    if (qkv_graph_check(graph, error)) return QKV_INVALID;
    qkv_forward(graph);
    return qkv_graph_check(graph, error);
}

static void reorder_plain(struct qkv_decoding *decoding, int64_t rows, const int64_t *parents)
{
    struct plain_decoding *d = (struct plain_decoding *)decoding;
    int32_t *previous = d->tokens;
    for (int64_t i = 0; i < rows; i++)
        memcpy(d->next_tokens + i * decoding->length, d->tokens + parents[i] * decoding->length,
               (size_t)decoding->step * sizeof *d->tokens);
    d->tokens = d->next_tokens;
    d->next_tokens = previous;
}

static void release_plain(struct qkv_decoding *decoding)
{
    qkv_batch_release(&((struct plain_decoding *)decoding)->batch);
}

static const struct qkv_decoding_interface PLAIN = {
    .size = sizeof(struct plain_decoding),
    .start = start_plain,
    .step = step_plain,
    .reorder = reorder_plain,
    .release = release_plain,
};

/* ---- making a decoding ---- */

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
    decoding->max_length = qkv_max_length(&model->config, true);
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
    return decoding_of(model, faster ? faster : &PLAIN);
}

struct qkv_decoding *qkv_decoding_new_plain(const struct qkv_model *model)
{
    return decoding_of(model, &PLAIN);
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

/* Copies numbers into the arena; NULL if `from` is NULL. */
static const void *copy(struct qkv_arena *arena, const void *from, int64_t count, size_t size)
{
    void *to = from ? qkv_arena_allocate(arena, (size_t)count * size) : NULL;
    if (to && count) memcpy(to, from, (size_t)count * size);
    return to;
}

/* Copies the sources of a batch to the arena of the decoding, because steps still read them after the caller may have
 * released or refilled the batch. The copy has no targets, but the mask of the first `length`. NULL when memory runs out. */
static const struct qkv_batch_view *copy_sources(struct qkv_arena *arena, const struct qkv_batch_view *batch,
                                                 int64_t length)
{
    struct qkv_batch_view *sources = qkv_arena_allocate(arena, sizeof *sources);
    int64_t count = batch->count, tokens = batch->source_tokens;
    if (!sources) return NULL;
    *sources = (struct qkv_batch_view){
        .count = count,
        .source_tokens = tokens,
        .first = batch->first,
        .index = copy(arena, batch->index, count, sizeof *batch->index),
        .source = copy(arena, batch->source, tokens, sizeof *batch->source),
        .source_start = copy(arena, batch->source_start, count, sizeof(int64_t)),
        .source_length = copy(arena, batch->source_length, count, sizeof(int64_t)),
        .source_masked = copy(arena, batch->source_masked, tokens, sizeof(bool)),
        .target_masked = copy(arena, batch->target_masked, length, sizeof(bool)),
    };
    return arena->failed ? NULL : sources;
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
    decoding->next = (struct qkv_next_scores){0}; /* a network may forget to set it */
    qkv_arena_reset(&decoding->arena);
    const struct qkv_batch_view *sources = copy_sources(&decoding->arena, batch, length);
    enum qkv_status status =
        sources ? decoding->interface->start(decoding, sources, error) : qkv_no_memory(error);
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

/* ---- ensembles: every member decodes the same hypotheses, and the probabilities of the next token are averaged ---- */

struct ensemble_decoding {
    struct qkv_decoding base; /* the first member: the interface passes pointers to it */
    int64_t count;
    struct qkv_decoding **member;          /* [count] */
    const struct qkv_next_scores **scores; /* [count]: of this step */
    double *log_probability;               /* [count]: of one token */
    double *logits, *group_max, *sums;     /* as in qkv_next_scores */
};

static enum qkv_status start_ensemble(struct qkv_decoding *decoding, const struct qkv_batch_view *batch,
                                      struct qkv_error *error)
{
    struct ensemble_decoding *d = (struct ensemble_decoding *)decoding;
    struct qkv_next_scores *next = &decoding->next;
    int64_t rows = decoding->rows;
    for (int64_t i = 0; i < d->count; i++)
        if (qkv_decoding_start(d->member[i], batch, rows, decoding->length, true, error)) return QKV_INVALID;
    *next = (struct qkv_next_scores){.dtype = QKV_FLOAT64, .classes = decoding->model->target_size};
    d->logits = qkv_arena_array(&decoding->arena, rows * next->classes, sizeof *d->logits);
    d->group_max = qkv_arena_array(&decoding->arena, rows * qkv_next_groups(next), sizeof *d->group_max);
    d->sums = qkv_arena_array(&decoding->arena, rows, sizeof *d->sums);
    if (decoding->arena.failed) return qkv_no_memory(error);
    next->logits = d->logits;
    next->group_max = d->group_max;
    next->log_sum_exp = decoding->needs_log_sum_exp ? d->sums : NULL;
    return QKV_OK;
}

/* log((p_1 + .. + p_n) / n) of log p_1 .. log p_n. Exact when they are equal. */
static double log_mean(int64_t count, const double *log_probability, double log_count)
{
    double greatest = -HUGE_VAL, sum = 0;
    for (int64_t i = 0; i < count; i++)
        if (log_probability[i] > greatest) greatest = log_probability[i];
    if (greatest <= -HUGE_VAL) return greatest;
    for (int64_t i = 0; i < count; i++) sum += qkv_scalar_exp(log_probability[i] - greatest);
    return greatest + (qkv_scalar_log(sum) - log_count);
}

/* The mean of the members' log-sum-exps of a row; not finite if one of them is not. The search subtracts it from the
 * logits of an ensemble, so any finite number would do. */
static double mean_of_sums(const struct ensemble_decoding *d, int64_t row)
{
    double sum = 0;
    for (int64_t i = 0; i < d->count; i++)
        sum += qkv_dtype_get(d->scores[i]->dtype, d->scores[i]->log_sum_exp, row);
    return sum / (double)d->count;
}

/* The logarithm of the mean of the members' probabilities of a token. */
static double mean_log_probability(struct ensemble_decoding *d, int64_t row, int64_t token, double log_count)
{
    for (int64_t i = 0; i < d->count; i++) {
        const struct qkv_next_scores *scores = d->scores[i];
        d->log_probability[i] = qkv_dtype_get(scores->dtype, scores->logits, row * scores->classes + token) -
                                qkv_dtype_get(scores->dtype, scores->log_sum_exp, row);
    }
    return log_mean(d->count, d->log_probability, log_count);
}

/* Sets the scores of a row: logits, from which the search gets the averaged log-probabilities when it subtracts the row's
 * log-sum-exp, and the maxima of their groups. All are NaN if a member's scores are not finite. */
static void combine_row(struct ensemble_decoding *d, int64_t row, double log_count)
{
    int64_t classes = d->base.next.classes, groups = qkv_next_groups(&d->base.next);
    double *logits = d->logits + row * classes, *group_max = d->group_max + row * groups;
    double sum = mean_of_sums(d, row);
    bool is_finite = isfinite(sum);
    d->sums[row] = sum;
    for (int64_t group = 0; group < groups; group++) group_max[group] = is_finite ? -HUGE_VAL : (double)NAN;
    for (int64_t token = 0; token < classes; token++) {
        logits[token] = is_finite ? mean_log_probability(d, row, token, log_count) + sum : (double)NAN;
        if (logits[token] > group_max[token / QKV_GROUP]) group_max[token / QKV_GROUP] = logits[token];
    }
}

static enum qkv_status step_ensemble(struct qkv_decoding *decoding, int64_t rows, const int32_t *ids,
                                     const int64_t *sentences, struct qkv_error *error)
{
    struct ensemble_decoding *d = (struct ensemble_decoding *)decoding;
    for (int64_t i = 0; i < d->count; i++)
        if (!(d->scores[i] = qkv_decoding_step(d->member[i], rows, ids, sentences, error)))
            return QKV_INVALID;
    double log_count = qkv_scalar_log((double)d->count);
    for (int64_t row = 0; row < rows; row++) combine_row(d, row, log_count);
    decoding->next.rows = rows;
    return QKV_OK;
}

static void reorder_ensemble(struct qkv_decoding *decoding, int64_t rows, const int64_t *parents)
{
    struct ensemble_decoding *d = (struct ensemble_decoding *)decoding;
    for (int64_t i = 0; i < d->count; i++) qkv_decoding_reorder(d->member[i], rows, parents);
}

static void release_ensemble(struct qkv_decoding *decoding)
{
    struct ensemble_decoding *d = (struct ensemble_decoding *)decoding;
    for (int64_t i = 0; d->member && i < d->count; i++) qkv_decoding_free(d->member[i]);
    free(d->member);
    free(d->scores);
    free(d->log_probability);
}

static struct qkv_decoding *member_of(struct qkv_decoding *decoding, int64_t i)
{
    struct ensemble_decoding *d = (struct ensemble_decoding *)decoding;
    return i >= 0 && i < d->count ? d->member[i] : NULL;
}

static const struct qkv_decoding_interface ENSEMBLE = {
    .size = sizeof(struct ensemble_decoding),
    .start = start_ensemble,
    .step = step_ensemble,
    .reorder = reorder_ensemble,
    .release = release_ensemble,
    .member = member_of,
};

enum qkv_status qkv_ensemble_check(struct qkv_ensemble ensemble, struct qkv_error *error)
{
    if (ensemble.count < 1)
        return qkv_error_set(error, "an ensemble needs a model, but has %lld", (long long)ensemble.count);
    if (!ensemble.models)
        return qkv_error_set(error, "an ensemble of %lld models has no array of them",
                             (long long)ensemble.count);
    for (int64_t i = 0; i < ensemble.count; i++) {
        const struct qkv_model *first = ensemble.models[0], *model = ensemble.models[i];
        if (!model) return qkv_error_set(error, "model %lld of the ensemble is NULL", (long long)i + 1);
        if (model->source_size != first->source_size || model->target_size != first->target_size)
            return qkv_error_set(error,
                                 "model %lld of the ensemble has vocabularies of %d and %d entries, but the "
                                 "first has %d and %d",
                                 (long long)i + 1, (int)model->source_size, (int)model->target_size,
                                 (int)first->source_size, (int)first->target_size);
    }
    return QKV_OK;
}

static bool make_members(struct ensemble_decoding *d, struct qkv_ensemble ensemble)
{
    size_t count = (size_t)ensemble.count;
    d->member = calloc(count, sizeof(struct qkv_decoding *));
    d->scores = calloc(count, sizeof(const struct qkv_next_scores *));
    d->log_probability = calloc(count, sizeof *d->log_probability);
    if (!d->member || !d->scores || !d->log_probability) return false;
    d->base.max_length = INT64_MAX;
    for (; d->count < ensemble.count; d->count++) {
        struct qkv_decoding *made = qkv_decoding_new(ensemble.models[d->count]);
        if (!made) return false;
        d->member[d->count] = made;
        if (made->max_length < d->base.max_length) d->base.max_length = made->max_length;
    }
    return true;
}

struct qkv_decoding *qkv_decoding_new_ensemble(struct qkv_ensemble ensemble, struct qkv_error *error)
{
    if (qkv_ensemble_check(ensemble, error)) return NULL;
    struct ensemble_decoding *d = calloc(1, sizeof *d);
    if (d) {
        d->base.interface = &ENSEMBLE;
        d->base.model = ensemble.models[0];
        d->base.element_size = sizeof(double);
        if (make_members(d, ensemble)) return &d->base;
        qkv_decoding_free(&d->base);
    }
    qkv_no_memory(error);
    return NULL;
}
