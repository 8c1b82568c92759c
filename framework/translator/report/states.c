/* States of layers: the logit lens, and activation patching. */
#include "report/attribution.h"

#include "core/memory.h"
#include "core/numbers.h"
#include "models/network.h"
#include "qkv/layers.h"

/* The part with this role of a layer of a stack; NULL: there is none. */
static const struct qkv_part *find_part(const struct qkv_trace *trace, enum qkv_part_role role,
                                        enum qkv_stack_id stack, int64_t layer)
{
    const struct qkv_part *part = trace->first;
    while (part && (part->role != role || part->stack != stack || part->layer != layer)) part = part->next;
    return part;
}

/* Layers of a stack whose states are recorded in the last pass. */
static int64_t layers_of(const struct attribution *a, enum qkv_stack_id stack)
{
    int64_t layers = 0;
    while (find_part(&a->collector->trace, QKV_PART_HIDDEN, stack, layers + 1)) layers++;
    return layers;
}

/* ---- the logit lens ---- */

/* Reads what the output layer makes of the states after each layer. */
static enum qkv_status read_layers(struct attribution *a, struct lens *lens)
{
    const struct qkv_model *model = a->collector->model;
    struct qkv_graph *graph = a->collector->graph;
    const struct qkv_norm *norm = qkv_model_attention(model, QKV_ATTENTION_DECODER, lens->layers).last_norm;
    const int64_t cells = lens->steps * lens->top, classes = model->target_size;
    double *probability = qkv_arena_array(a->arena, lens->layers * lens->steps, sizeof *probability),
           *of_best = qkv_arena_array(a->arena, lens->layers * cells, sizeof *of_best),
           *indices = qkv_arena_array(a->arena, cells, sizeof *indices);
    int32_t *best = qkv_arena_array(a->arena, lens->layers * cells, sizeof *best);
    if (!probability || !of_best || !indices || !best) return qkv_no_memory(a->error);
    for (int64_t l = 0; l < lens->layers; l++) {
        struct qkv_tensor *state =
            find_part(&a->collector->trace, QKV_PART_HIDDEN, QKV_STACK_DECODER, l + 1)->node;
        if (norm) state = qkv_norm_apply(norm, graph, state);
        struct qkv_tensor *all = qkv_softmax(graph, qkv_model_logits(model, graph, state)),
                          *top = qkv_top_k(graph, all, lens->top),
                          *which = qkv_top_k_indices(graph, all, lens->top);
        if (qkv_graph_check(graph, a->error)) return QKV_INVALID;
        qkv_forward(graph);
        qkv_tensor_read(top, of_best + l * cells);
        qkv_tensor_read(which, indices);
        for (int64_t i = 0; i < cells; i++) best[l * cells + i] = (int32_t)indices[i];
        for (int64_t t = 0; t < lens->steps; t++)
            probability[l * lens->steps + t] =
                qkv_dtype_get(model->parameters.dtype, qkv_tensor_value(all), t * classes + a->labels[t]);
    }
    lens->probability = probability;
    lens->best = best;
    lens->best_probability = of_best;
    return qkv_graph_check(graph, a->error);
}

enum qkv_status qkv_lens_look(struct qkv_attention_collector *collector,
                              const struct qkv_attention_pair *pair, int64_t top,
                              struct qkv_attention_report *report, struct lens *lens, struct qkv_error *error)
{
    struct attribution a = {.collector = collector, .pair = pair, .report = report, .error = error};
    enum qkv_status status = qkv_copies_begin(&a, 0);
    if (!status) status = qkv_copies_predict(&a);
    if (!status) status = qkv_copies_pass(&a);
    if (status) return status;
    *lens = (struct lens){.layers = layers_of(&a, QKV_STACK_DECODER), .steps = a.steps, .top = top};
    if (!lens->layers)
        return qkv_error_set(error, "network %s: records no states after layers of its decoder",
                             collector->model->interface->name);
    return read_layers(&a, lens);
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
static enum qkv_status add_matrix(struct attribution *a, struct qkv_explanation *explanation,
                                  const char *name, const struct patch *patches, int64_t rows,
                                  int64_t columns, const char *const *column_names)
{
    double *change = qkv_arena_array(a->arena, rows * columns, sizeof *change);
    struct qkv_step *matrix = (struct qkv_step *)&explanation->steps[explanation->step_count++];
    *matrix = (struct qkv_step){
        .name = qkv_arena_format(a->arena, "%s_%s", name, column_names ? "states" : "heads"),
        .title =
            qkv_arena_format(a->arena, column_names ? "states of the %s" : "heads of %s attention", name),
        .formula = column_names ? "rows: layers, columns: tokens" : "rows: layers, columns: heads",
        .rows = rows,
        .columns = columns,
        .values = change,
        .column_names = column_names};
    if (a->arena->failed) return qkv_no_memory(a->error);
    return measure(a, patches, rows * columns, change);
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
    return add_matrix(a, explanation, qkv_attention_kind_name(kind), patches, layers, count / layers, NULL);
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
    return add_matrix(a, explanation, is_encoder ? "encoder" : "decoder", patches, layers, tokens,
                      is_encoder ? a->report->source : a->report->target_input);
}

/* Begins the explanation, after a pass over both pairs. */
static enum qkv_status describe(struct attribution *a, double other, struct qkv_explanation *explanation)
{
    struct qkv_step *matrices = qkv_arena_zeros(a->arena, QKV_ATTENTION_KINDS + 2, sizeof *matrices);
    *explanation = (struct qkv_explanation){
        .about = qkv_arena_format(
            a->arena,
            "The probability of %s as token %lld is %.4f; with the other sentence it is %.4f. The cells: "
            "by how much it changes when a head's output, or a token's state after a layer, is that of the "
            "other sentence.",
            a->report->target_output[a->step], (long long)a->step + 1,
            qkv_scalar_exp(a->log_probability[a->step]), qkv_scalar_exp(other)),
        .kind = a->sources ? QKV_ATTENTION_CROSS : QKV_ATTENTION_DECODER,
        .first_head = 1,
        .heads = 1,
        .layer_heads = 1,
        .steps = matrices};
    return explanation->about && matrices ? QKV_OK : qkv_no_memory(a->error);
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
    enum qkv_status status = qkv_copies_begin(&a, 0);
    if (!status) status = qkv_copies_predict(&a);
    double *values = status ? NULL : qkv_arena_array(a.arena, a.steps, sizeof *values);
    if (status || !values) return status ? status : qkv_no_memory(error);
    a.other = other;
    if (qkv_copies_pass(&a) || qkv_copies_read(&a, values, NULL) || describe(&a, values[step], explanation))
        return QKV_INVALID;
    for (int kind = 0; kind < QKV_ATTENTION_KINDS && !status; kind++)
        status = add_heads(&a, (enum qkv_attention_kind)kind, explanation);
    for (int stack = 0; stack < 2 && !status; stack++)
        status = add_states(&a, (enum qkv_stack_id)stack, explanation);
    return status;
}
