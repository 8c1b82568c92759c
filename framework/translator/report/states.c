/* States of layers: the logit lens, and activation patching. */
#include "report/attribution.h"

#include "core/memory.h"
#include "core/numbers.h"
#include "data/tokenizer.h"
#include "models/network.h"
#include "qkv/layers.h"

/* The state after a layer (from 1) of a stack in the last pass; NULL: it is not recorded. */
static const struct qkv_part *state_after(const struct attribution *a, enum qkv_stack_id stack, int64_t layer)
{
    return qkv_trace_stack(&a->collector->trace, QKV_PART_HIDDEN, stack, layer);
}

/* Layers of a stack whose states are recorded. */
static int64_t layers_of(const struct attribution *a, enum qkv_stack_id stack)
{
    int64_t layers = 0;
    while (state_after(a, stack, layers + 1)) layers++;
    return layers;
}

/* Makes an explanation of these matrices. */
static enum qkv_status explain(struct attribution *a, const char *about, int64_t count,
                               const struct qkv_step *matrices, struct qkv_explanation *explanation)
{
    *explanation = (struct qkv_explanation){.about = about,
                                            .kind = a->sources ? QKV_ATTENTION_CROSS : QKV_ATTENTION_DECODER,
                                            .first_head = 1,
                                            .heads = 1,
                                            .layer_heads = 1,
                                            .step_count = count,
                                            .steps = matrices};
    return a->arena->failed ? qkv_no_memory(a->error) : QKV_OK;
}

/* ---- the logit lens ---- */

enum { TOP = 3 }; /* tokens that are shown for being the most probable ones after a layer */

/* Makes the matrix of a step. after, best: [layers], the probabilities of all tokens, and which are the largest. */
static struct qkv_step lens_of(struct attribution *a, int64_t step, int64_t layers,
                               struct qkv_tensor *const *after, struct qkv_tensor *const *best)
{
    const enum qkv_dtype dtype = a->collector->model->parameters.dtype;
    const int64_t classes = a->collector->model->target_size, most = 1 + layers * TOP;
    int32_t *ids = qkv_arena_array(a->arena, most, sizeof *ids);
    const char **names = qkv_arena_array(a->arena, most, sizeof *names);
    double *values = qkv_arena_array(a->arena, layers * most, sizeof *values);
    int64_t count = 0;
    if (!ids || !names || !values) return (struct qkv_step){0};
    for (int64_t i = 0; i < most; i++) { /* the token itself, then those of each layer */
        int32_t id = i ? (int32_t)qkv_dtype_get(dtype, qkv_tensor_value(best[(i - 1) / TOP]),
                                                step * TOP + (i - 1) % TOP)
                       : a->labels[step];
        int64_t known = 0;
        while (known < count && ids[known] != id) known++;
        if (known < count) continue;
        names[count] = i ? qkv_token_shown(qkv_vocabulary_token(a->pair->vocabulary, id), a->arena)
                         : a->report->target_output[step];
        ids[count++] = id;
    }
    for (int64_t i = 0; i < layers * count; i++)
        values[i] = qkv_dtype_get(dtype, qkv_tensor_value(after[i / count]), step * classes + ids[i % count]);
    return (struct qkv_step){.name = qkv_arena_format(a->arena, "token_%lld", (long long)step + 1),
                             .title = names[0],
                             .formula = "rows: layers, columns: tokens",
                             .rows = layers,
                             .columns = count,
                             .values = values,
                             .column_names = names};
}

enum qkv_status qkv_lens(struct qkv_attention_collector *collector, const struct qkv_attention_pair *pair,
                         struct qkv_explanation *explanation, struct qkv_error *error)
{
    struct qkv_attention_report report;
    const struct qkv_model *model = collector->model;
    struct qkv_graph *graph = collector->graph;
    struct attribution a = {.collector = collector, .pair = pair, .report = &report, .error = error};
    if (qkv_copies_begin(&a, 1u << QKV_ATTENTION_CROSS)) return QKV_INVALID;
    const int64_t layers = layers_of(&a, QKV_STACK_DECODER);
    if (!layers)
        return qkv_error_set(error, "network %s: records no states after layers of its decoder",
                             model->interface->name);
    const struct qkv_norm *norm = qkv_model_attention(model, QKV_ATTENTION_DECODER, layers).last_norm;
    struct qkv_tensor **after = qkv_arena_array(a.arena, layers, sizeof *after),
                      **best = qkv_arena_array(a.arena, layers, sizeof *best);
    struct qkv_step *matrices = qkv_arena_array(a.arena, a.steps, sizeof *matrices);
    if (a.arena->failed) return qkv_no_memory(error);
    for (int64_t l = 0; l < layers; l++) {
        struct qkv_tensor *state = state_after(&a, QKV_STACK_DECODER, l + 1)->node;
        if (norm) state = qkv_norm_apply(norm, graph, state);
        after[l] = qkv_softmax(graph, qkv_model_logits(model, graph, state));
        best[l] = qkv_top_k_indices(graph, after[l], TOP);
    }
    if (qkv_graph_check(graph, error)) return QKV_INVALID;
    qkv_forward(graph);
    if (qkv_graph_check(graph, error)) return QKV_INVALID;
    for (int64_t t = 0; t < a.steps; t++) matrices[t] = lens_of(&a, t, layers, after, best);
    return explain(&a,
                   "What each layer of the decoder would predict: the probability of the token that is "
                   "there, then those of the three most probable tokens after each layer.",
                   a.steps, matrices, explanation);
}

/* ---- patching ---- */

/* Patches, each of which is for a copy of its own, and the matrices [rows, columns] that they fill, one after the other. */
struct patches {
    struct change *change;
    double *moved; /* how the probability changes */
    int64_t count;
    struct qkv_step *matrix;
    int64_t matrices;
};

static void add_patch(struct patches *patches, struct change patch)
{
    patch.copy = patches->count;
    patches->change[patches->count++] = patch;
}

/* Adds the matrix of the patches from `first` on, if there are any: a row for each layer. column_names NULL: heads. */
static void add_matrix(struct attribution *a, struct patches *patches, int64_t first, const char *name,
                       const char *const *column_names)
{
    const int64_t count = patches->count - first,
                  layers = count ? patches->change[patches->count - 1].of.layer : 0;
    if (!count) return;
    patches->matrix[patches->matrices++] = (struct qkv_step){
        .name = qkv_arena_format(a->arena, "%s_%s", name, column_names ? "states" : "heads"),
        .title =
            qkv_arena_format(a->arena, column_names ? "states of the %s" : "heads of %s attention", name),
        .formula = column_names ? "rows: layers, columns: tokens" : "rows: layers, columns: heads",
        .rows = layers,
        .columns = count / layers,
        .values = patches->moved + first,
        .column_names = column_names};
}

/* Adds the heads of a kind of attention. */
static void add_heads(struct attribution *a, enum qkv_attention_kind kind, struct patches *patches)
{
    const struct qkv_model *model = a->collector->model;
    const int64_t first = patches->count, rows = kind == QKV_ATTENTION_ENCODER ? a->sources : a->steps;
    if (kind == QKV_ATTENTION_CROSS && qkv_has_prefix(model)) return; /* the decoder's own heads */
    for (int64_t i = 0; i < qkv_model_head_count(model); i++) {
        const struct qkv_head head = qkv_model_head(model, i);
        const struct qkv_part part = {.role = QKV_PART_CONTEXT, .attention = kind, .layer = head.layer};
        if (head.attention == kind && qkv_trace_attention(&a->collector->trace, part.role, kind, part.layer))
            add_patch(patches, (struct change){.of = part, .rows = rows, .head = head.head});
    }
    add_matrix(a, patches, first, qkv_attention_kind_name(kind), NULL);
}

/* Adds the states of the first tokens of a stack. */
static void add_states(struct attribution *a, enum qkv_stack_id stack, int64_t tokens,
                       struct patches *patches)
{
    bool is_encoder = stack == QKV_STACK_ENCODER;
    const int64_t first = patches->count, layers = layers_of(a, stack);
    for (int64_t i = 0; i < layers * tokens; i++)
        add_patch(patches,
                  (struct change){.of = {.role = QKV_PART_HIDDEN, .stack = stack, .layer = 1 + i / tokens},
                                  .row = i % tokens,
                                  .rows = 1});
    add_matrix(a, patches, first, is_encoder ? "encoder" : "decoder",
               is_encoder ? a->report->source : a->report->target_input);
}

enum qkv_status qkv_patch(struct qkv_attention_collector *collector, const struct qkv_attention_pair *pair,
                          struct qkv_ids other, int64_t step, struct qkv_explanation *explanation,
                          struct qkv_error *error)
{
    struct qkv_attention_report report;
    struct qkv_attention_pair with_other = *pair;
    struct qkv_ids *side = pair->source.length ? &with_other.source : &with_other.target;
    struct attribution a = {.collector = collector, .pair = pair, .report = &report, .error = error};
    if (side->length != other.length)
        return qkv_error_set(
            error,
            "the other sentence has %lld tokens, but the sentence has %lld: patching replaces "
            "token by token, and needs as many",
            (long long)other.length, (long long)side->length);
    *side = other;
    if (qkv_copies_begin(&a, 1u << QKV_ATTENTION_CROSS)) return QKV_INVALID;
    const int64_t most = qkv_model_head_count(collector->model) +
                         layers_of(&a, QKV_STACK_ENCODER) * a.sources +
                         layers_of(&a, QKV_STACK_DECODER) * (step + 1);
    struct patches patches = {.change = qkv_arena_array(a.arena, most, sizeof *patches.change),
                              .moved = qkv_arena_array(a.arena, most, sizeof *patches.moved),
                              .matrix =
                                  qkv_arena_zeros(a.arena, QKV_ATTENTION_KINDS + 2, sizeof *patches.matrix)};
    double *values = qkv_arena_array(a.arena, (most + 1) * a.steps, sizeof *values);
    if (a.arena->failed) return qkv_no_memory(error);
    for (int kind = 0; kind < QKV_ATTENTION_KINDS; kind++)
        add_heads(&a, (enum qkv_attention_kind)kind, &patches);
    add_states(&a, QKV_STACK_ENCODER, a.sources, &patches);
    add_states(&a, QKV_STACK_DECODER, step + 1, &patches);
    a.pair = &with_other;
    if (qkv_copies_measure(&a, (struct copies){.count = 1}, values)) return QKV_INVALID;
    const double with = qkv_scalar_exp(values[step]);
    a.pair = pair;
    if (qkv_copies_measure(&a, (struct copies){patches.count, patches.change, patches.count, &with_other},
                           values))
        return QKV_INVALID;
    const double probability = qkv_scalar_exp(a.log_probability[step]);
    for (int64_t i = 0; i < patches.count; i++)
        patches.moved[i] = qkv_scalar_exp(values[i * a.steps + step]) - probability;
    const char *about = qkv_arena_format(
        a.arena,
        "The probability of %s as token %lld is %.4f; with the other sentence it is %.4f. The cells: by how "
        "much it changes when a head's output, or a token's state after a layer, is that of the other "
        "sentence.",
        report.target_output[step], (long long)step + 1, probability, with);
    return explain(&a, about, patches.matrices, patches.matrix, explanation);
}
