/* The walk through an attention layer of a trained model: what it reads is taken from a forced pass, what it
 * does is done again step by step. */
#include "explain/learned.h"
#include "explain/visit.h"

#include "graph/graph.h"
#include "report/collect.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum qkv_status qkv_visit_no_memory(struct qkv_error *error)
{
    return qkv_error_set(error, "out of memory for a walk through attention");
}

/* ---- what the pass holds ---- */

/* The words of a side: embedded first in the encoder, then in the decoder, by one table where it is tied. */
static const struct qkv_tensor *find_embedding(const struct qkv_graph *graph, bool encoder)
{
    const struct qkv_tensor *found = NULL;
    for (const struct qkv_tensor *tensor = graph->first; tensor; tensor = tensor->next)
        if (tensor->op == QKV_OP_embedding && (!found || !encoder)) found = tensor;
    return found;
}

/* What adds positions to them; NULL where nothing does. */
static const struct qkv_tensor *find_positions(const struct qkv_graph *graph, bool encoder)
{
    const char *name = encoder ? "encoder.positions" : "decoder.positions";
    for (const struct qkv_tensor *tensor = graph->first; tensor; tensor = tensor->next)
        if (tensor->op == QKV_OP_add_positions && tensor->name && !strcmp(tensor->name, name)) return tensor;
    return NULL;
}

/* The product that queries, keys or values came from, through whatever turned them afterwards. */
static const struct qkv_tensor *find_product(const struct qkv_tensor *tensor)
{
    while (tensor && tensor->op != QKV_OP_linear) tensor = tensor->input[0];
    return tensor;
}

static enum qkv_status no_attention(struct visit *v)
{
    bool recurrent = v->model->config.decoder.type == QKV_NETWORK_RECURRENT;
    const char *kind = qkv_attention_kind_name(v->kind);
    if (recurrent && v->model->config.decoder.attention.score == QKV_ATTENTION_SCORE_NONE)
        return qkv_error_set(v->error,
                             "this model has no attention (model.decoder.attention.score is none): all that "
                             "its decoder knows of the source is the final state of the encoder");
    return qkv_error_set(
        v->error, "the model has no %s attention%s", kind,
        recurrent ? ": in a recurrent network only the decoder attends, to the encoder (cross)" : "");
}

/* Layer 0 becomes the last one. */
static enum qkv_status find_attention(struct visit *v, const struct qkv_trace *trace)
{
    int layers = 0;
    for (int64_t i = 0; i < trace->count; i++)
        if (trace->attention[i].kind == v->kind && trace->attention[i].layer > layers)
            layers = (int)trace->attention[i].layer;
    if (!layers) return no_attention(v);
    if (!v->layer) v->layer = layers;
    for (int64_t i = 0; i < trace->count; i++)
        if (trace->attention[i].kind == v->kind && trace->attention[i].layer == v->layer)
            v->visited = &trace->attention[i];
    if (v->visited) return QKV_OK;
    return qkv_error_set(v->error, "the %s attention has no layer %d: its layers are 1 to %d",
                         qkv_attention_kind_name(v->kind), v->layer, layers);
}

struct qkv_matrix qkv_visit_matrix(struct visit *v, const struct qkv_tensor *tensor)
{
    double *values = tensor ? qkv_walk_memory(v->walk, tensor->count, sizeof *values) : NULL;
    if (!values) return (struct qkv_matrix){0};
    qkv_tensor_read(tensor, values);
    return (struct qkv_matrix){tensor->shape.size[0], tensor->shape.size[1], values};
}

struct qkv_tensor *qkv_visit_copy(struct visit *v, const struct qkv_tensor *tensor)
{
    struct qkv_matrix matrix = qkv_visit_matrix(v, tensor);
    return matrix.rows ? qkv_walk_constant(v->walk, matrix) : NULL;
}

/* ---- words to inputs ---- */

static void note_ids(struct visit *v, const char *name, const char *title, struct words words,
                     const struct qkv_tensor *embedding)
{
    static const char *const ROW[] = {"number"};
    double *ids = qkv_walk_memory(v->walk, words.count, sizeof *ids);
    for (int64_t i = 0; ids && i < words.count; i++) ids[i] = embedding->options.indices[i];
    struct qkv_step *step =
        qkv_walk_note(v->walk, name, title, "in the vocabulary", (struct words){1, ROW}, words);
    step->values = ids;
    step->content = QKV_STEP_TOKENS;
}

static struct words positions_named(struct walk *walk, int64_t count)
{
    const char **names = qkv_walk_memory(walk, count, sizeof *names);
    for (int64_t i = 0; names && i < count; i++) names[i] = qkv_walk_text(walk, "%lld", (long long)i);
    return (struct words){count, names};
}

void qkv_visit_front(struct visit *v, bool encoder, bool source, struct words words)
{
    struct walk *walk = v->walk;
    const struct qkv_tensor *embedding = find_embedding(v->pass, encoder),
                            *sum = find_positions(v->pass, encoder);
    if (!embedding) return;
    struct words numbered = {embedding->shape.size[1], NULL};
    double factor = embedding->options.factor;
    const char *letter = source ? "E_source" : "E";
    note_ids(v, source ? "source_tokens" : "tokens", source ? "source tokens" : "tokens", words, embedding);
    qkv_walk_note_tensor(walk, source ? "source_embeddings" : "embeddings",
                         source ? "source embeddings" : "embeddings",
                         factor > 1 ? qkv_walk_text(walk, "%s = row of the learned table times √%lld", letter,
                                                    (long long)numbered.count)
                                    : qkv_walk_text(walk, "%s = row of the learned table", letter),
                         qkv_visit_copy(v, embedding), 0, false, words, numbered);
    if (!sum) return;
    double *table = qkv_walk_memory(walk, words.count * numbered.count, sizeof *table);
    double *whole = qkv_walk_memory(walk, sum->input[1]->count, sizeof *whole);
    if (!table || !whole) return;
    qkv_tensor_read(sum->input[1], whole);
    memcpy(table, whole, (size_t)(words.count * numbered.count) * sizeof *table);
    bool learned = sum->input[1]->parameter;
    if (!source)
        qkv_walk_note_matrix(
            walk, "positions", "position encoding",
            learned ? "P, learned" : "P[p, 2i] = sin(p / base^(2i/D)), P[p, 2i+1] = cos of the same",
            (struct qkv_matrix){words.count, numbered.count, table}, 0, positions_named(walk, words.count));
    qkv_walk_note_tensor(walk, source ? "source_inputs" : "inputs", source ? "source inputs" : "inputs",
                         qkv_walk_text(walk, "%s + P", letter), qkv_visit_copy(v, sum), 0, false, words,
                         numbered);
}

/* ---- the layer ---- */

struct qkv_tensor *qkv_visit_asking(struct visit *v, struct qkv_tensor *x)
{
    return v->asking ? qkv_gather_rows(v->walk->graph, x, v->asking, v->asking_count) : x;
}

/* Whether the word at position p sees the one at position j; struct qkv_attention says it in words. */
static bool sees(const struct qkv_options *options, int64_t p, int64_t j)
{
    int64_t distance = p > j ? p - j : j - p;
    if (options->causal && j > p) return false;
    return !options->window || distance <= options->window || p < options->global_tokens ||
           j < options->global_tokens;
}

static void make_mask(struct visit *v, struct attention_parts *parts)
{
    const struct qkv_options *options = &v->visited->node->options;
    int64_t keys = v->columns.count;
    if (!options->causal && !options->window) return;
    double *visible = qkv_walk_memory(v->walk, v->asking_count * keys, sizeof *visible);
    for (int64_t i = 0; visible && i < v->asking_count; i++)
        for (int64_t j = 0; j < keys; j++)
            visible[i * keys + j] = sees(options, v->asking ? v->asking[i] : i, j);
    parts->visible = visible;
    if (options->window)
        parts->mask_note = qkv_walk_text(v->walk, "A word sees others at a distance of %lld at most.",
                                         (long long)options->window);
    else
        parts->mask_note = "No word sees one behind it: while translating there is none yet.";
}

/* What turns queries and keys, and what is added by distance. */
static void take_positions(struct visit *v, struct attention_parts *parts)
{
    const struct qkv_tensor *query = v->visited->node->input[0], *bias = v->visited->node->input[4];
    const struct qkv_options *options = &v->visited->node->options;
    if (query->op == QKV_OP_rotate) parts->turn = qkv_visit_matrix(v, query->input[1]);
    parts->alibi = options->alibi;
    parts->causal = options->causal;
    parts->distance = options->distance;
    parts->distance_bias = qkv_visit_matrix(v, bias);
    parts->positions = v->asking;
}

/* "encoder.1.self" of "encoder.1.self.query.weight" */
static const char *layer_name(struct visit *v, const struct qkv_tensor *product)
{
    static const char tail[] = ".query.weight";
    const struct qkv_parameter *weight = product->input[1]->parameter;
    size_t length = weight ? strlen(weight->name) : 0, more = sizeof tail - 1;
    if (length <= more || strcmp(weight->name + length - more, tail) != 0) return NULL;
    return qkv_walk_text(v->walk, "%.*s", (int)(length - more), weight->name);
}

static enum qkv_status visit_transformer(struct visit *v)
{
    struct walk *walk = v->walk;
    const struct qkv_tensor *asked = find_product(v->visited->node->input[0]),
                            *told = find_product(v->visited->node->input[1]);
    struct attention_parts parts = {
        .asking = v->rows, .answering = v->columns, .score = QKV_SCORE_SCALED_DOT};
    bool cross = v->kind == QKV_ATTENTION_CROSS, encoder = v->kind == QKV_ATTENTION_ENCODER;
    const char *name = layer_name(v, asked);
    if (!name)
        return qkv_error_set(v->error, "the %s attention has no weights for queries",
                             qkv_attention_kind_name(v->kind));
    if (qkv_learned_projections(v->model, name, v->visited->node->options.heads, walk, &parts, v->error))
        return QKV_INVALID;
    qkv_visit_front(v, encoder, false, v->inputs);
    if (cross) qkv_visit_front(v, true, true, v->columns);
    struct qkv_tensor *x = qkv_visit_copy(v, asked->input[0]),
                      *memory = cross ? qkv_visit_copy(v, told->input[0]) : x;
    if (walk->failed) return qkv_visit_no_memory(v->error);
    const char *before = v->layer > 1 || cross ? qkv_walk_text(walk, "X, what reaches layer %d", v->layer)
                                               : "X, the inputs as the layer reads them";
    bool normed = qkv_op_name(asked->input[0]->op) && strstr(qkv_op_name(asked->input[0]->op), "norm");
    x = qkv_visit_asking(v, x);
    qkv_walk_note_tensor(walk, "layer_inputs", "inputs of the layer",
                         normed ? qkv_walk_text(walk, "%s, normed", before) : before, x, 0, false, v->rows,
                         (struct words){x ? x->shape.size[1] : 0, NULL});
    if (cross) {
        walk->step[walk->count - 1].note = "From here on a row is named by the word that its step puts out.";
        qkv_walk_note_tensor(walk, "memory", "memory", "M, what the encoder made of the source", memory, 0,
                             false, v->columns, (struct words){memory ? memory->shape.size[1] : 0, NULL});
    }
    parts.x = x;
    parts.memory = memory;
    parts.x_name = "X";
    parts.memory_name = cross ? "M" : "X";
    make_mask(v, &parts);
    take_positions(v, &parts);
    qkv_walk_attention(walk, &parts);
    v->heads = parts.heads;
    return QKV_OK;
}

/* ---- words ---- */

static void name_words(struct visit *v)
{
    const struct qkv_attention_report *report = &v->report;
    bool encoder = v->kind == QKV_ATTENTION_ENCODER, decoder = v->kind == QKV_ATTENTION_DECODER;
    v->inputs = (struct words){encoder ? report->source_length : report->target_length,
                               encoder ? report->source : report->target_input};
    v->rows = (struct words){v->inputs.count, qkv_attention_row_tokens(report, v->kind)};
    v->columns = (struct words){decoder ? report->target_length : report->source_length,
                                qkv_attention_column_tokens(report, v->kind)};
}

/* Only these rows ask, each a word of them or a number. */
static enum qkv_status follow_words(struct visit *v, const struct qkv_texts *follow)
{
    v->asking_count = v->rows.count;
    if (!follow || !follow->count) return QKV_OK;
    int64_t count = 0;
    int32_t *rows = qkv_walk_memory(v->walk, (follow->count + 1) * v->rows.count, sizeof *rows);
    const char **names = qkv_walk_memory(v->walk, (follow->count + 1) * v->rows.count, sizeof *names);
    if (!rows || !names) return qkv_visit_no_memory(v->error);
    for (int64_t f = 0; f < follow->count; f++) {
        int64_t before = count;
        for (int64_t i = 0; i < v->rows.count; i++)
            if (!strcmp(v->rows.text[i], follow->text[f])) rows[count++] = (int32_t)i;
        char *end;
        long number = strtol(follow->text[f], &end, 10);
        if (count == before && end > follow->text[f] && !*end && number >= 1 && number <= v->rows.count)
            rows[count++] = (int32_t)(number - 1);
        if (count == before)
            return qkv_error_set(
                v->error,
                "there is no word '%s' to follow: name one of the rows, or its number from 1 "
                "to %lld",
                follow->text[f], (long long)v->rows.count);
    }
    for (int64_t i = 0; i < count; i++) names[i] = v->rows.text[rows[i]];
    v->rows = (struct words){count, names};
    v->asking = rows;
    v->asking_count = count;
    return QKV_OK;
}

/* The words of the report die with the collector. */
static void keep_words(struct visit *v)
{
    struct words *all[] = {&v->rows, &v->columns, &v->inputs};
    for (int i = 0; i < 3; i++) {
        const char **kept = qkv_walk_memory(v->walk, all[i]->count, sizeof *kept);
        for (int64_t w = 0; kept && w < all[i]->count; w++) {
            kept[w] = qkv_arena_string(v->walk->arena, all[i]->text[w]);
            if (!kept[w]) v->walk->failed = true;
        }
        all[i]->text = kept;
    }
}

static enum qkv_status visit(struct visit *v, struct qkv_attention_collector *collector,
                             const struct qkv_attention_pair *pair, const struct qkv_texts *follow)
{
    if (qkv_attention_collect(collector, 1, pair, 1u << v->kind, &v->report, v->error)) return QKV_INVALID;
    v->pass = qkv_attention_collector_graph(collector);
    if (find_attention(v, qkv_attention_collector_trace(collector))) return QKV_INVALID;
    name_words(v);
    keep_words(v);
    if (v->walk->failed) return qkv_visit_no_memory(v->error);
    if (follow_words(v, follow)) return QKV_INVALID;
    return v->visited->memory ? qkv_visit_recurrent(v) : visit_transformer(v);
}

enum qkv_status qkv_explain_model(const struct qkv_model *model, const struct qkv_attention_pair *pair,
                                  enum qkv_attention_kind kind, int layer, const struct qkv_texts *follow,
                                  struct qkv_arena *arena, struct qkv_explanation *explanation,
                                  struct qkv_error *error)
{
    struct walk *walk = qkv_arena_zeroed(arena, sizeof *walk);
    struct visit v = {.model = model, .kind = kind, .layer = layer, .walk = walk, .error = error};
    if (walk) walk->arena = arena;
    if (walk) walk->graph = qkv_graph_new(QKV_FLOAT64);
    if (!walk || !walk->graph) return qkv_visit_no_memory(error);
    qkv_graph_set_gradients(walk->graph, false);
    *explanation = (struct qkv_explanation){.about = "", .kind = kind, .first_head = 1};
    struct qkv_attention_collector *collector = qkv_attention_collector_new(model, error);
    enum qkv_status status = collector ? visit(&v, collector, pair, follow) : QKV_INVALID;
    if (!status) status = qkv_walk_finish(walk, explanation, error);
    explanation->heads = explanation->of = v.heads;
    explanation->layer = v.layer;
    qkv_attention_collector_free(collector);
    qkv_graph_free(walk->graph);
    walk->graph = NULL;
    return status;
}
