/* Collects attention maps: a forced pass over sentence pairs, and the weights of every head. */
#include "report/collect.h"

#include "config/config_keys.h"
#include "core/memory.h"
#include "data/tokenizer.h"
#include "models/network.h"

#include <math.h>

/* ---- sentences of users ---- */

enum qkv_status qkv_too_many_tokens(const char *what, int64_t count, int64_t longest, struct qkv_error *error)
{
    return qkv_error_set(error, "%s has %lld tokens, but the model has positions for %lld", what,
                         (long long)count, (long long)longest);
}

enum qkv_status qkv_user_sentence_encode(struct qkv_sentence *sentence, const struct qkv_run *run,
                                         bool is_target, const char *what, const char *text,
                                         struct qkv_error *error)
{
    const struct qkv_data_config *data = &run->config.data;
    struct qkv_error inner;
    if (qkv_sentence_encode(sentence, is_target ? &data->trg : &data->src,
                            is_target ? &run->target : &run->source, text, strlen(text), &inner))
        return qkv_error_set(error, "%s: %s", what, inner.message);
    const int64_t count = sentence->tokens.count;
    if (!count) return qkv_error_set(error, "%s contains no words", what);
    const int64_t longest = qkv_model_max_length(run->model) - 1; /* </s> or <s> takes one position */
    return count > longest ? qkv_too_many_tokens(what, count, longest, error) : QKV_OK;
}

/* ---- the collector ---- */

struct qkv_attention_collector *qkv_attention_collector_new(const struct qkv_model *model,
                                                            struct qkv_error *error)
{
    struct qkv_attention_collector *collector = calloc(1, sizeof *collector);
    if (collector) collector->graph = qkv_graph_new(model->parameters.dtype);
    if (collector) collector->gram = calloc((size_t)qkv_model_head_count(model) + 1, sizeof *collector->gram);
    if (!collector || !collector->graph || !collector->gram) {
        qkv_attention_collector_free(collector);
        qkv_no_memory(error);
        return NULL;
    }
    collector->model = model;
    qkv_graph_set_gradients(collector->graph, false);
    qkv_graph_bind(collector->graph, &model->parameters, NULL, false);
    return collector;
}

void qkv_attention_collector_free(struct qkv_attention_collector *collector)
{
    if (!collector) return;
    qkv_graph_free(collector->graph);
    qkv_batch_release(&collector->batch);
    qkv_arena_release(&collector->arena);
    qkv_arena_release(&collector->gram_arena);
    free(collector->gram);
    free(collector);
}

void qkv_attention_collector_measure_norms(struct qkv_attention_collector *collector, bool norms)
{
    collector->has_norms = norms;
    memset(collector->gram, 0, (size_t)qkv_model_head_count(collector->model) * sizeof *collector->gram);
    qkv_arena_reset(&collector->gram_arena);
}

/* Whether the decoder outputs the last target token without reading it. */
static bool is_cut(const struct qkv_attention_pair *pair)
{
    return pair->unfinished && pair->target.length > 0;
}

/* The tokens that the decoder reads after <s>. */
static struct qkv_ids decoder_input(const struct qkv_attention_pair *pair)
{
    return (struct qkv_ids){pair->target.length - is_cut(pair), pair->target.ids};
}

/* A model without encoder may have no source. */
static bool has_source(const struct qkv_model *model)
{
    return model->config.decoder.type != QKV_NETWORK_DECODER_ONLY || qkv_has_prefix(model);
}

enum qkv_status qkv_pair_check_length(const struct qkv_model *model, const struct qkv_attention_pair *pair,
                                      const char *source, const char *target, struct qkv_error *error)
{
    if (pair->source.length < 0 || pair->source.length >= INT32_MAX || pair->target.length < 0 ||
        pair->target.length >= INT32_MAX)
        return qkv_error_set(error, "invalid sentence: %lld source and %lld target tokens",
                             (long long)pair->source.length, (long long)pair->target.length);
    int64_t read = pair->source.length, predicted = decoder_input(pair).length, /* without </s> and <s> */
        most_read = qkv_max_length(&model->config, false) - has_source(model),
            most_predicted = qkv_max_length(&model->config, true) - 1;
    if (read > most_read) return qkv_too_many_tokens(source, read, most_read, error);
    return predicted > most_predicted ? qkv_too_many_tokens(target, predicted, most_predicted, error)
                                      : QKV_OK;
}

/* Joins the masks of the sources or the targets of the pairs, if there are any, to that of the batch. False when memory runs
 * out. */
static bool join_masks(struct qkv_attention_collector *collector, int64_t count,
                       const struct qkv_attention_pair *pairs, bool of_target, const bool **joined)
{
    const struct qkv_batch *batch = &collector->batch;
    const int64_t *start = of_target ? batch->target_start : batch->source_start,
                  *length = of_target ? batch->target_length : batch->source_length;
    bool *masked = NULL;
    for (int64_t i = 0; i < count; i++) {
        const bool *of_pair = of_target ? pairs[i].target_masked : pairs[i].source_masked;
        if (!of_pair) continue;
        if (!masked) masked = qkv_arena_zeroed(&collector->arena, (size_t)start[count]);
        if (!masked) return false;
        memcpy(masked + start[i], of_pair, (size_t)length[i] * sizeof *masked);
    }
    *joined = masked;
    return true;
}

enum qkv_status qkv_attention_collector_run(struct qkv_attention_collector *collector, int64_t count,
                                            const struct qkv_attention_pair *pairs, struct qkv_error *error)
{
    struct qkv_ids *source = qkv_arena_array(&collector->arena, count, sizeof *source);
    struct qkv_ids *target = qkv_arena_array(&collector->arena, count, sizeof *target);
    struct qkv_batch_view view;
    if (!source || !target) return qkv_no_memory(error);
    for (int64_t i = 0; i < count; i++) {
        if (qkv_pair_check_length(collector->model, &pairs[i], "the source sentence", "the target sentence",
                                  error))
            return QKV_INVALID;
        source[i] = pairs[i].source;
        target[i] = decoder_input(&pairs[i]);
    }
    qkv_graph_reset(collector->graph);
    struct qkv_batch *batch = &collector->batch;
    if (qkv_batch_make(batch, count, has_source(collector->model) ? source : NULL, target, error))
        return QKV_INVALID;
    for (int64_t i = 0; i < count && pairs[0].before; i++)
        batch->target_input[batch->target_start[i]] = *pairs[i].before;
    if (!join_masks(collector, count, pairs, false, &batch->source_masked) ||
        !join_masks(collector, count, pairs, true, &batch->target_masked))
        return qkv_no_memory(error);
    qkv_batch_shard(&collector->batch, 0, 1, &view);
    collector->trace = (struct qkv_trace){0};
    /* Stops at hidden states unless a pair asks for more: probabilities of target words take most of the time. */
    struct qkv_tensor *hidden = collector->hidden =
        qkv_model_forward(collector->model, collector->graph, &view, &collector->trace);
    collector->probabilities =
        pairs[0].vocabulary
            ? qkv_softmax(collector->graph, qkv_model_logits(collector->model, collector->graph, hidden))
            : NULL;
    if (qkv_graph_check(collector->graph, error)) return QKV_INVALID;
    qkv_forward(collector->graph);
    return qkv_graph_check(collector->graph, error);
}

/* The list of tokens as they are shown, with one special token before it, or after it; the other one, or both, are NULL. NULL
 * when memory is out. */
static const char *const *with_special(struct qkv_arena *arena, const char *before, const char *const *tokens,
                                       int64_t count, const char *after)
{
    const char **all = qkv_arena_array(arena, count + 1, sizeof *all);
    if (all) all[before ? 0 : count] = before ? before : after;
    for (int64_t i = 0; all && i < count; i++)
        if (!(all[i + (before != NULL)] = qkv_token_shown(tokens[i], arena))) return NULL;
    return all;
}

static bool name_tokens(struct qkv_attention_collector *collector, const struct qkv_attention_pair *pair,
                        struct qkv_attention_report *report)
{
    struct qkv_arena *arena = &collector->arena;
    int64_t length = decoder_input(pair).length;
    const char *before = pair->before_token ? qkv_token_shown(pair->before_token, arena)
                         : pair->before     ? "</s>"
                                            : "<s>";
    if (!before) return false;
    *report = (struct qkv_attention_report){
        .source = with_special(arena, NULL, pair->source_tokens, pair->source.length, "</s>"),
        .source_length = has_source(collector->model) ? pair->source.length + 1 : 0,
        .target_input = with_special(arena, before, pair->target_tokens, length, NULL),
        .target_output = with_special(arena, NULL, pair->target_tokens, pair->target.length,
                                      is_cut(pair)   ? NULL
                                      : pair->before ? "…"
                                                     : "</s>"),
        .target_length = length + 1,
    };
    return report->source && report->target_input && report->target_output;
}

/* Adds to a report that name_tokens has just made the probability of each next token. */
static bool add_next_tokens(struct qkv_attention_collector *collector, int64_t sentence,
                            const struct qkv_attention_pair *pair, struct qkv_attention_report *report)
{
    struct qkv_arena *arena = &collector->arena;
    const int64_t steps = report->target_length, classes = pair->vocabulary->size;
    double *all = qkv_arena_array(arena, collector->batch.target_tokens * classes, sizeof *all),
           *next = qkv_arena_array(arena, steps, sizeof *next);
    const char **labels = qkv_arena_array(arena, steps, sizeof *labels),
               **output = (const char **)report->target_output;
    if (!all || !next || !labels) return false;
    qkv_tensor_read(collector->probabilities, all);
    for (int64_t t = 0; t < steps; t++) {
        const double *of = all + (collector->batch.target_start[sentence] + t) * classes;
        int32_t id = t < pair->target.length ? pair->target.ids[t] : QKV_END;
        if (pair->before && t == pair->target.length) {
            for (int32_t i = 0; i < classes; i++) id = of[i] > of[id] ? i : id;
            output[t] = qkv_token_shown(qkv_vocabulary_token(pair->vocabulary, id), arena);
        }
        next[t] = of[id];
        labels[t] = output[t]
                        ? qkv_arena_format(arena, "%s→%s:%.2f", report->target_input[t], output[t], next[t])
                        : NULL;
        if (!labels[t]) return false;
    }
    report->next_probability = next;
    report->step_labels = labels;
    return true;
}

/* The map of a head (from 0) of one sentence. Refuses weights whose shape does not fit the tokens of the sentence, which
 * are the labels of rows and columns. */
static enum qkv_status make_map(struct qkv_attention_collector *collector, const struct qkv_part *part,
                                int64_t sentence, int head, const struct qkv_attention_report *report,
                                struct qkv_attention_map *map, struct qkv_error *error)
{
    const struct qkv_model *model = collector->model;
    const enum qkv_attention_kind kind = part->attention;
    const struct qkv_multi_head *attention = qkv_model_attention(model, kind, part->layer).multi_head;
    int64_t rows = kind == QKV_ATTENTION_ENCODER ? report->source_length : report->target_length,
            columns = kind == QKV_ATTENTION_DECODER ? report->target_length : report->source_length;
    *map = (struct qkv_attention_map){.kind = kind, .layer = (int)part->layer, .head = head + 1};
    if (attention && kind != QKV_ATTENTION_CROSS) map->rule = &attention->rule; /* it may hide keys */
    int64_t
        all; /* columns of the weights; where source and target are one sequence, a map is a block of these */
    const void *weights = qkv_attention_weights_of(part->node, sentence, head, &map->rows, &all);
    bool is_block = kind != QKV_ATTENTION_ENCODER && all == report->source_length + report->target_length;
    int64_t first = is_block && kind == QKV_ATTENTION_DECODER ? report->source_length : 0;
    map->columns = is_block ? columns : all;
    if (first && map->rule && map->rule->global_tokens) { /* which are the first ones of the source */
        struct qkv_attention_rule *rule = qkv_arena_allocate(&collector->arena, sizeof *rule);
        if (!rule) return qkv_no_memory(error);
        *rule = *map->rule;
        rule->global_tokens = first < rule->global_tokens ? rule->global_tokens - first : 0;
        map->rule = rule;
    }
    if (map->rows != rows || map->columns != columns)
        return qkv_error_set(
            error,
            "network %s: QKV_PART_WEIGHTS of layer %lld of %s attention has shape [%lld, %lld] "
            "for a sentence whose map has [%lld, %lld]",
            model->interface->name, (long long)part->layer, qkv_attention_kind_name(kind),
            (long long)map->rows, (long long)map->columns, (long long)rows, (long long)columns);
    double *numbers = qkv_arena_array(&collector->arena, rows * columns, sizeof *numbers);
    if (!weights || !numbers) return qkv_no_memory(error);
    for (int64_t i = 0; i < rows * columns; i++)
        numbers[i] = qkv_dtype_get(model->parameters.dtype, weights, i / columns * all + first + i % columns);
    map->weights = numbers;
    return QKV_OK;
}

/* Fills the maps of these kinds of attention of a sentence, kind by kind. */
static enum qkv_status fill_maps(struct qkv_attention_collector *collector, unsigned kinds, int64_t sentence,
                                 struct qkv_attention_report *report, struct qkv_error *error)
{
    const struct qkv_part *part;
    int64_t capacity = 0;
    for (part = collector->trace.first; part; part = part->next)
        if (part->role == QKV_PART_WEIGHTS && kinds & 1u << part->attention) capacity += part->heads;
    struct qkv_attention_map *maps = qkv_arena_array(&collector->arena, capacity, sizeof *maps);
    if (!maps) return qkv_no_memory(error);
    report->maps = maps;
    for (int kind = 0; kind < QKV_ATTENTION_KINDS; kind++)
        for (part = collector->trace.first; part; part = part->next) {
            if (part->role != QKV_PART_WEIGHTS || (int)part->attention != kind || !(kinds & 1u << kind))
                continue;
            for (int head = 0; head < part->heads; head++)
                if (make_map(collector, part, sentence, head, report, &maps[report->map_count++], error))
                    return QKV_INVALID;
        }
    return QKV_OK;
}

/* Lists the ablated heads of the model in a report that name_tokens has just made. */
static bool name_silent_heads(struct qkv_attention_collector *collector, struct qkv_attention_report *report)
{
    const struct qkv_model *model = collector->model;
    const int64_t heads = qkv_model_head_count(model);
    const char **names = qkv_arena_array(&collector->arena, heads + 1, sizeof *names);
    if (!names) return false;
    report->silent_heads = names;
    for (int64_t i = 0; i < heads; i++) {
        char name[64];
        const struct qkv_head head = qkv_model_head(model, i);
        if (!qkv_model_is_ablated(model, head)) continue;
        qkv_head_name(head, name, sizeof name);
        names[report->silent_count] = qkv_arena_format(&collector->arena, "%s", name);
        if (!names[report->silent_count++]) return false;
    }
    return true;
}

/* A map of NaN would look like a map whose row hides all keys. */
static enum qkv_status check_finite(const struct qkv_attention_report *report, struct qkv_error *error)
{
    for (int64_t i = 0; i < report->map_count; i++) {
        const struct qkv_attention_map *map = &report->maps[i];
        for (int64_t k = 0; k < map->rows * map->columns; k++) {
            char name[64];
            if (isfinite(map->weights[k])) continue;
            qkv_attention_map_name(map, name, sizeof name);
            qkv_error_set(
                error,
                "the attention of %s is not finite: the model's weights are too large, or infinity or "
                "NaN",
                name);
            return QKV_FAILED;
        }
    }
    return QKV_OK;
}

enum qkv_status qkv_attention_collect(struct qkv_attention_collector *collector, int64_t count,
                                      const struct qkv_attention_pair *pairs, unsigned kinds,
                                      struct qkv_attention_report *reports, struct qkv_error *error)
{
    const unsigned all = (1u << QKV_ATTENTION_KINDS) - 1;
    if (count < 1)
        return qkv_error_set(error, "attention maps of %lld sentence pairs: there must be at least one",
                             (long long)count);
    if (!kinds) kinds = all;
    if (!(kinds & all)) return qkv_error_set(error, "there is no kind of attention in 0x%x", kinds);
    qkv_arena_reset(&collector->arena);
    if (qkv_attention_collector_run(collector, count, pairs, error)) return QKV_INVALID;
    for (int64_t i = 0; i < count; i++) {
        if (!name_tokens(collector, &pairs[i], &reports[i]) || !name_silent_heads(collector, &reports[i]))
            return qkv_no_memory(error);
        if (collector->probabilities && !add_next_tokens(collector, i, &pairs[i], &reports[i]))
            return qkv_no_memory(error);
        if (fill_maps(collector, kinds, i, &reports[i], error)) return QKV_INVALID;
    }
    if (collector->has_norms && qkv_value_norms_apply(collector, count, reports, error)) return QKV_INVALID;
    for (int64_t i = 0; i < count; i++)
        if (check_finite(&reports[i], error)) return QKV_FAILED;
    return QKV_OK;
}
