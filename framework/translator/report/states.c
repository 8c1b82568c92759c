/* States of layers: the logit lens, and activation patching. */
#include "report/attribution.h"

#include "core/memory.h"
#include "core/numbers.h"
#include "data/tokenizer.h"
#include "models/network.h"
#include "qkv/layers.h"

/* Layers of a stack whose states are recorded in the last pass. */
static int64_t layers_of(const struct attribution *a, enum qkv_stack_id stack)
{
    int64_t layers = 0;
    while (qkv_copies_state(a, stack, layers + 1)) layers++;
    return layers;
}

/* Begins an explanation that has at most `count` matrices. about NULL: memory is out. */
static enum qkv_status explain(struct attribution *a, const char *about, int64_t count,
                               struct qkv_explanation *explanation)
{
    *explanation =
        (struct qkv_explanation){.about = about,
                                 .kind = a->sources ? QKV_ATTENTION_CROSS : QKV_ATTENTION_DECODER,
                                 .first_head = 1,
                                 .heads = 1,
                                 .layer_heads = 1,
                                 .steps = qkv_arena_zeros(a->arena, count, sizeof(struct qkv_step))};
    return about && explanation->steps ? QKV_OK : qkv_no_memory(a->error);
}

/* Adds a matrix to an explanation. */
static enum qkv_status add_matrix(struct attribution *a, struct qkv_explanation *explanation,
                                  const struct qkv_step *matrix)
{
    ((struct qkv_step *)explanation->steps)[explanation->step_count++] = *matrix;
    return a->arena->failed ? qkv_no_memory(a->error) : QKV_OK;
}

/* ---- the logit lens ---- */

enum { TOP = 3 }; /* tokens that are shown for being the most probable ones after a layer */

/* Adds the matrix of a step. after, best: [layers], the probabilities of all tokens, and which are the largest. */
static enum qkv_status add_lens(struct attribution *a, int64_t step, int64_t layers,
                                struct qkv_tensor *const *after, struct qkv_tensor *const *best,
                                struct qkv_explanation *explanation)
{
    const enum qkv_dtype dtype = a->collector->model->parameters.dtype;
    const int64_t classes = a->collector->model->target_size, most = 1 + layers * TOP;
    int32_t *ids = qkv_arena_array(a->arena, most, sizeof *ids);
    const char **names = qkv_arena_array(a->arena, most, sizeof *names);
    double *values = qkv_arena_array(a->arena, layers * most, sizeof *values);
    int64_t count = 0;
    if (!ids || !names || !values) return qkv_no_memory(a->error);
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
    return add_matrix(
        a, explanation,
        &(struct qkv_step){.name = qkv_arena_format(a->arena, "token_%lld", (long long)step + 1),
                           .title = names[0],
                           .formula = "rows: layers, columns: tokens",
                           .rows = layers,
                           .columns = count,
                           .values = values,
                           .column_names = names});
}

enum qkv_status qkv_lens(struct qkv_attention_collector *collector, const struct qkv_attention_pair *pair,
                         struct qkv_attention_report *report, struct qkv_explanation *explanation,
                         struct qkv_error *error)
{
    const struct qkv_model *model = collector->model;
    struct qkv_graph *graph = collector->graph;
    struct attribution a = {.collector = collector, .pair = pair, .report = report, .error = error};
    if (qkv_copies_begin(&a, 0) || qkv_copies_predict(&a) || qkv_copies_pass(&a)) return QKV_INVALID;
    const int64_t layers = layers_of(&a, QKV_STACK_DECODER);
    if (!layers)
        return qkv_error_set(error, "network %s: records no states after layers of its decoder",
                             model->interface->name);
    const struct qkv_norm *norm = qkv_model_attention(model, QKV_ATTENTION_DECODER, layers).last_norm;
    struct qkv_tensor **after = qkv_arena_array(a.arena, layers, sizeof *after),
                      **best = qkv_arena_array(a.arena, layers, sizeof *best);
    if (!after || !best) return qkv_no_memory(error);
    for (int64_t l = 0; l < layers; l++) {
        struct qkv_tensor *state = qkv_copies_state(&a, QKV_STACK_DECODER, l + 1)->node;
        if (norm) state = qkv_norm_apply(norm, graph, state);
        after[l] = qkv_softmax(graph, qkv_model_logits(model, graph, state));
        best[l] = qkv_top_k_indices(graph, after[l], TOP);
    }
    if (qkv_graph_check(graph, error)) return QKV_INVALID;
    qkv_forward(graph);
    enum qkv_status status = qkv_graph_check(graph, error);
    if (!status)
        status = explain(&a,
                         "What each layer of the decoder would predict: the probability of the token that is "
                         "there, then those of the three most probable tokens after each layer.",
                         a.steps, explanation);
    for (int64_t t = 0; t < a.steps && !status; t++)
        status = add_lens(&a, t, layers, after, best, explanation);
    return status;
}

/* ---- patching ---- */

/* What is replaced: a head, or, with head 0, the state of a token after a layer. */
struct patch {
    struct qkv_head head;
    enum qkv_stack_id stack;
    int64_t layer, token;
};

static bool is_of(const struct patch *patch, const struct qkv_part *part)
{
    return patch->head.head
               ? part->role == QKV_PART_CONTEXT && part->attention == patch->head.attention &&
                     part->layer == patch->head.layer
               : part->role == QKV_PART_HIDDEN && part->stack == patch->stack && part->layer == patch->layer;
}

/* Copies what the first pair has computed for each patch into the copy for it. */
static void replace(const struct attribution *a, const struct qkv_part *part)
{
    const size_t size = qkv_dtype_size(a->collector->model->parameters.dtype);
    bool of_source = part->stack == QKV_STACK_ENCODER;
    for (int64_t i = 1; i < a->copies; i++) {
        const struct patch *patch = &a->patch[a->first + i - 1];
        if (!is_of(patch, part)) continue;
        char *value = qkv_tensor_value(part->node);
        int64_t width = qkv_tensor_shape(part->node).size[1], head = patch->head.head,
                columns = head ? width / part->heads : width, column = head ? (head - 1) * columns : 0,
                row = head ? 0 : patch->token, last = !head ? row : (of_source ? a->sources : a->steps) - 1;
        for (; row <= last; row++) {
            int64_t from = (qkv_copies_first_row(a, of_source, 0) + row) * width + column,
                    to = (qkv_copies_first_row(a, of_source, i) + row) * width + column;
            memcpy(value + (size_t)to * size, value + (size_t)from * size, (size_t)columns * size);
        }
    }
}

/* The changes of the probability of step a->step by patches: [count]. */
static enum qkv_status measure(struct attribution *a, const struct patch *patches, int64_t count,
                               double *change)
{
    double *values = qkv_arena_array(a->arena, (count + 1) * a->steps, sizeof *values);
    if (!values) return qkv_no_memory(a->error);
    a->patch = patches;
    a->change = replace;
    enum qkv_status status = QKV_OK;
    for (a->first = 0; a->first < count && !status; a->first += a->copies - 1) {
        a->copies = 1 + qkv_copies_at_once(a, count - a->first, a->collector->model->target_size);
        status = qkv_copies_pass(a);
        if (!status) status = qkv_copies_read(a, values, NULL);
        for (int64_t i = 1; i < a->copies && !status; i++)
            change[a->first + i - 1] =
                qkv_scalar_exp(values[i * a->steps + a->step]) - qkv_scalar_exp(a->log_probability[a->step]);
    }
    return status;
}

/* Adds the matrix of patches [rows, columns] to the explanation. column_names NULL: heads. */
static enum qkv_status add_patches(struct attribution *a, struct qkv_explanation *explanation,
                                   const char *name, const struct patch *patches, int64_t rows,
                                   int64_t columns, const char *const *column_names)
{
    double *change = qkv_arena_array(a->arena, rows * columns, sizeof *change);
    const struct qkv_step matrix = {
        .name = qkv_arena_format(a->arena, "%s_%s", name, column_names ? "states" : "heads"),
        .title =
            qkv_arena_format(a->arena, column_names ? "states of the %s" : "heads of %s attention", name),
        .formula = column_names ? "rows: layers, columns: tokens" : "rows: layers, columns: heads",
        .rows = rows,
        .columns = columns,
        .values = change,
        .column_names = column_names};
    return add_matrix(a, explanation, &matrix) ? QKV_INVALID : measure(a, patches, rows * columns, change);
}

/* Adds the matrix of the heads of a kind of attention, if the model has it. */
static enum qkv_status add_heads(struct attribution *a, enum qkv_attention_kind kind,
                                 struct qkv_explanation *explanation)
{
    const struct qkv_model *model = a->collector->model;
    const int64_t all = qkv_model_head_count(model);
    int64_t count = 0;
    struct patch *patches = qkv_arena_zeros(a->arena, all + 1, sizeof *patches);
    if (!patches) return qkv_no_memory(a->error);
    for (int64_t i = 0; i < all; i++) {
        const struct qkv_head head = qkv_model_head(model, i);
        bool is_shared = kind == QKV_ATTENTION_CROSS && qkv_has_prefix(model); /* with the decoder's own */
        if (head.attention == kind && !is_shared &&
            qkv_trace_attention(&a->collector->trace, QKV_PART_CONTEXT, kind, head.layer))
            patches[count++].head = head;
    }
    if (!count) return QKV_OK;
    int64_t layers = patches[count - 1].head.layer;
    return add_patches(a, explanation, qkv_attention_kind_name(kind), patches, layers, count / layers, NULL);
}

/* Adds the matrix of the states of a stack, if it has layers. */
static enum qkv_status add_states(struct attribution *a, enum qkv_stack_id stack,
                                  struct qkv_explanation *explanation)
{
    bool is_encoder = stack == QKV_STACK_ENCODER;
    int64_t layers = layers_of(a, stack), tokens = is_encoder ? a->sources : a->step + 1;
    struct patch *patches = qkv_arena_zeros(a->arena, layers * tokens + 1, sizeof *patches);
    if (!patches) return qkv_no_memory(a->error);
    if (!layers) return QKV_OK;
    for (int64_t i = 0; i < layers * tokens; i++)
        patches[i] = (struct patch){.stack = stack, .layer = 1 + i / tokens, .token = i % tokens};
    return add_patches(a, explanation, is_encoder ? "encoder" : "decoder", patches, layers, tokens,
                       is_encoder ? a->report->source : a->report->target_input);
}

enum qkv_status qkv_patch(struct qkv_attention_collector *collector, const struct qkv_attention_pair *pair,
                          const struct qkv_attention_pair *other, int64_t step,
                          struct qkv_attention_report *report, struct qkv_explanation *explanation,
                          struct qkv_error *error)
{
    struct attribution a = {
        .collector = collector, .pair = pair, .report = report, .error = error, .step = step};
    int64_t tokens = pair->source.length ? pair->source.length : pair->target.length,
            of_other = pair->source.length ? other->source.length : other->target.length;
    if (tokens != of_other || pair->target.length != other->target.length)
        return qkv_error_set(
            error,
            "the other sentence has %lld tokens, but the sentence has %lld: patching replaces "
            "token by token, and needs as many",
            (long long)of_other, (long long)tokens);
    if (qkv_copies_begin(&a, 0) || qkv_copies_predict(&a)) return QKV_INVALID;
    double *values = qkv_arena_array(a.arena, a.steps, sizeof *values);
    if (!values) return qkv_no_memory(error);
    a.other = other;
    if (qkv_copies_pass(&a) || qkv_copies_read(&a, values, NULL)) return QKV_INVALID;
    const char *about = qkv_arena_format(
        a.arena,
        "The probability of %s as token %lld is %.4f; with the other sentence it is %.4f. The cells: by how "
        "much it changes when a head's output, or a token's state after a layer, is that of the other "
        "sentence.",
        report->target_output[step], (long long)step + 1, qkv_scalar_exp(a.log_probability[step]),
        qkv_scalar_exp(values[step]));
    enum qkv_status status = explain(&a, about, QKV_ATTENTION_KINDS + 2, explanation);
    for (int kind = 0; kind < QKV_ATTENTION_KINDS && !status; kind++)
        status = add_heads(&a, (enum qkv_attention_kind)kind, explanation);
    for (int stack = 0; stack < 2 && !status; stack++)
        status = add_states(&a, (enum qkv_stack_id)stack, explanation);
    return status;
}
