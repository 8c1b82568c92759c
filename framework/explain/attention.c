/* The part of the walk that all attentions share: from the projections to the output. */
#include "explain/walk.h"

#include <math.h>
#include <string.h>

static struct words numbered(int64_t count)
{
    return (struct words){count, NULL};
}

/* What is noted on the way of one of queries, keys and values. */
struct line {
    const char *name, *title, *letter; /* "queries", "queries", "Q" */
    const char *input;                 /* "X" */
    const char *weight_name, *weight_title, *weight_letter, *bias_name, *bias_title, *bias_letter;
};

static const struct line QUERY = {"queries",       "queries", "Q",          "X",          "query_weights",
                                  "query weights", "W_Q",     "query_bias", "query bias", "b_Q"},
                         KEY = {"keys",        "keys", "K",        "X",        "key_weights",
                                "key weights", "W_K",  "key_bias", "key bias", "b_K"},
                         VALUE = {"values",        "values", "V",          "X",          "value_weights",
                                  "value weights", "W_V",    "value_bias", "value bias", "b_V"};

static void note_weights(struct walk *walk, const struct line *line, const struct projection *projection,
                         int64_t heads)
{
    if (projection->weight.rows)
        qkv_walk_note_matrix(walk, line->weight_name, line->weight_title, line->weight_letter,
                             projection->weight, heads, numbered(projection->weight.rows));
    if (projection->bias.rows)
        qkv_walk_note_matrix(walk, line->bias_name, line->bias_title, line->bias_letter, projection->bias,
                             heads, numbered(1));
}

/* input W + b, or the input itself where there is no W: [N, H width] */
static struct qkv_tensor *project(struct walk *walk, struct qkv_tensor *input,
                                  const struct projection *projection)
{
    if (!projection->weight.rows) return input;
    struct qkv_tensor *bias = NULL;
    if (projection->bias.rows) {
        bias = qkv_constant(walk->graph, QKV_SHAPE(projection->bias.columns));
        if (bias) qkv_tensor_write(bias, projection->bias.value);
    }
    return qkv_linear(walk->graph, input, qkv_walk_constant(walk, projection->weight), bias, false);
}

static void note_line(struct walk *walk, const struct line *line, const char *input, bool made,
                      const struct projection *projection, const struct qkv_tensor *tensor, int64_t heads,
                      int64_t width, struct words words)
{
    const char *formula = "";
    if (made && projection->bias.rows)
        formula = qkv_walk_text(walk, "%s = %s %s + %s", line->letter, input, line->weight_letter,
                                line->bias_letter);
    else if (made && projection->weight.rows)
        formula = qkv_walk_text(walk, "%s = %s %s", line->letter, input, line->weight_letter);
    else
        formula = made ? qkv_walk_text(walk, "%s = %s", line->letter, input) : line->letter;
    qkv_walk_note_tensor(walk, line->name, line->title, formula, tensor, heads, true, words, numbered(width));
}

/* ---- scores ---- */

/* Rows head * K .. of a matrix that has one head below the other. */
static struct qkv_matrix rows_of_head(struct qkv_matrix matrix, int64_t head, int64_t heads)
{
    int64_t rows = matrix.rows / heads;
    return (struct qkv_matrix){rows, matrix.columns, matrix.value + head * rows * matrix.columns};
}

/* Columns of one head: [N, width] */
static struct qkv_tensor *columns_of_head(struct walk *walk, struct qkv_tensor *x, int64_t head,
                                          int64_t width)
{
    return qkv_slice(walk->graph, x, 1, head * width, width);
}

/* q W for each head with its own W, [Nq, H K] */
static struct qkv_tensor *turn_queries(struct walk *walk, const struct attention_parts *parts,
                                       struct qkv_tensor *query)
{
    struct qkv_tensor *all = NULL;
    for (int64_t h = 0; h < parts->heads; h++) {
        struct qkv_tensor *weight = qkv_walk_constant(walk, rows_of_head(parts->general, h, parts->heads));
        struct qkv_tensor *one =
            qkv_linear(walk->graph, columns_of_head(walk, query, h, parts->key_width), weight, NULL, false);
        all = all ? qkv_concat(walk->graph, all, one, 1) : one;
    }
    return all;
}

/* v tanh(q W + k U) for each head and pair: [P] */
static struct qkv_tensor *additive_scores(struct walk *walk, const struct attention_parts *parts,
                                          struct qkv_tensor *query, struct qkv_tensor *key)
{
    struct qkv_graph *graph = walk->graph;
    int64_t queries = parts->asking.count, keys = parts->answering.count, pairs = queries * keys;
    int32_t *query_rows = qkv_walk_memory(walk, pairs, sizeof *query_rows),
            *key_rows = qkv_walk_memory(walk, pairs, sizeof *key_rows);
    struct qkv_tensor *all = NULL;
    if (walk->failed) return NULL;
    for (int64_t i = 0; i < pairs; i++) {
        query_rows[i] = (int32_t)(i / keys);
        key_rows[i] = (int32_t)(i % keys);
    }
    for (int64_t h = 0; h < parts->heads; h++) {
        struct qkv_matrix vector = rows_of_head(parts->additive_vector, h, parts->heads);
        struct qkv_tensor *w = qkv_walk_constant(walk, rows_of_head(parts->additive_query, h, parts->heads)),
                          *u = qkv_walk_constant(walk, rows_of_head(parts->additive_key, h, parts->heads)),
                          *v = qkv_walk_constant(walk, (struct qkv_matrix){vector.columns, 1, vector.value});
        struct qkv_tensor *asked = qkv_linear(graph, columns_of_head(walk, query, h, parts->key_width), w,
                                              NULL, false); /* [Nq, A] */
        struct qkv_tensor *told =
            qkv_linear(graph, columns_of_head(walk, key, h, parts->key_width), u, NULL, false); /* [Nk, A] */
        struct qkv_tensor *met =
            qkv_tanh(graph, qkv_add(graph, qkv_gather_rows(graph, asked, query_rows, pairs),
                                    qkv_gather_rows(graph, told, key_rows, pairs)));
        struct qkv_tensor *one = qkv_reshape(graph, qkv_linear(graph, met, v, NULL, false), QKV_SHAPE(pairs));
        all = all ? qkv_concat(graph, all, one, 0) : one;
    }
    return all;
}

/* What is added by distance: the difference that it makes. Gives the scores with it. */
static struct qkv_tensor *add_by_distance(struct walk *walk, const struct attention_parts *parts,
                                          struct qkv_tensor *query, struct qkv_tensor *key,
                                          struct qkv_tensor *scores, struct qkv_attention layout)
{
    if (!parts->alibi && !parts->distance_bias.rows) return scores;
    layout.scale = 1 / sqrt((double)parts->key_width);
    layout.alibi = parts->alibi;
    layout.causal = parts->causal;
    layout.distance = parts->distance;
    if (parts->distance_bias.rows) layout.bias = qkv_walk_constant(walk, parts->distance_bias);
    struct qkv_tensor *whole = qkv_attention_scores(walk->graph, query, key, layout);
    qkv_walk_note_tensor(
        walk, "distance_bias", "added by distance",
        parts->alibi ? "-slope |distance|, a slope a head" : "B, learned for each distance and head",
        qkv_subtract(walk->graph, whole, scores), parts->heads, false, parts->asking, parts->answering);
    qkv_walk_note_tensor(walk, "placed_scores", "scores with distance", "scaled scores + B", whole,
                         parts->heads, false, parts->asking, parts->answering);
    return whole;
}

static void note_head_matrix(struct walk *walk, const char *name, const char *title, const char *formula,
                             struct qkv_matrix matrix, int64_t heads)
{
    /* One head below the other is already the order of a step. */
    struct qkv_step *step =
        qkv_walk_note(walk, name, title, formula, numbered(matrix.rows / heads), numbered(matrix.columns));
    step->heads = heads;
    step->values = matrix.value;
}

/* [P]: head by head, a [Nq, Nk] matrix. */
static struct qkv_tensor *make_scores(struct walk *walk, const struct attention_parts *parts,
                                      struct qkv_tensor *query, struct qkv_tensor *key,
                                      struct qkv_attention layout)
{
    const char *formula = "S = Q Kᵀ";
    struct qkv_tensor *scores = NULL;
    layout.scale = 1;
    switch (parts->score) {
    case QKV_SCORE_SCALED_DOT:
    case QKV_SCORE_DOT:
        scores = qkv_attention_scores(walk->graph, query, key, layout);
        break;
    case QKV_SCORE_GENERAL:
        formula = "S = Q W Kᵀ";
        note_head_matrix(walk, "score_weights", "score weights", "W", parts->general, parts->heads);
        scores = qkv_attention_scores(walk->graph, turn_queries(walk, parts, query), key, layout);
        break;
    case QKV_SCORE_ADDITIVE:
        formula = "s_ij = v · tanh(q_i W + k_j U)";
        note_head_matrix(walk, "score_query", "score weights of queries", "W", parts->additive_query,
                         parts->heads);
        note_head_matrix(walk, "score_key", "score weights of keys", "U", parts->additive_key, parts->heads);
        note_head_matrix(walk, "score_vector", "score vector", "v", parts->additive_vector, parts->heads);
        scores = additive_scores(walk, parts, query, key);
        break;
    case QKV_SCORE_LENGTH:
        formula = "s_j = ln(letters of word j)";
        scores = qkv_constant(walk->graph, QKV_SHAPE(parts->lengths.rows * parts->lengths.columns));
        if (scores) qkv_tensor_write(scores, parts->lengths.value);
        break;
    }
    qkv_walk_note_tensor(walk, "scores", "scores", formula, scores, parts->heads, false, parts->asking,
                         parts->answering);
    if (parts->score != QKV_SCORE_SCALED_DOT) return scores;
    scores = qkv_scale(walk->graph, scores, 1 / sqrt((double)parts->key_width));
    qkv_walk_note_tensor(walk, "scaled_scores", "scaled scores",
                         qkv_walk_text(walk, "S / √%lld, the key width", (long long)parts->key_width), scores,
                         parts->heads, false, parts->asking, parts->answering);
    return add_by_distance(walk, parts, query, key, scores, layout);
}

/* ---- mask ---- */

/* Adds what is added, once a head, and notes the mask; the boolean part is left to the softmax. */
static struct qkv_tensor *apply_mask(struct walk *walk, const struct attention_parts *parts,
                                     struct qkv_tensor *scores)
{
    int64_t cells = parts->asking.count * parts->answering.count;
    if (!parts->visible && !parts->added) return scores;
    struct qkv_step *step =
        qkv_walk_note(walk, "mask", "mask", parts->added ? "M, added to the scores" : "1 visible, 0 hidden",
                      parts->asking, parts->answering);
    step->values = parts->added ? parts->added : parts->visible;
    step->note = parts->mask_note;
    walk->visible = parts->visible;
    if (parts->added) {
        double *repeated = qkv_walk_memory(walk, cells * parts->heads, sizeof *repeated);
        struct qkv_tensor *added = qkv_constant(walk->graph, QKV_SHAPE(cells * parts->heads));
        if (!repeated || !added) return NULL;
        for (int64_t i = 0; i < cells * parts->heads; i++) {
            double value = parts->added[i % cells];
            repeated[i] = isinf(value) ? 0 : value; /* hidden by the boolean part: no infinity in sums */
        }
        qkv_tensor_write(added, repeated);
        scores = qkv_add(walk->graph, scores, added);
    }
    qkv_walk_note_tensor(walk, "masked_scores", "masked scores", parts->added ? "scores + M" : "hidden: -inf",
                         scores, parts->heads, false, parts->asking, parts->answering);
    return scores;
}

/* Remarks on rows that see nothing, so that zeros are no surprise. */
static const char *remark_on_rows(const struct attention_parts *parts)
{
    int64_t keys = parts->answering.count;
    for (int64_t i = 0; parts->visible && i < parts->asking.count; i++) {
        bool sees = false;
        for (int64_t j = 0; j < keys; j++) sees = sees || parts->visible[i * keys + j] > 0;
        if (!sees) return "A row that sees no word has no weights: its sum is 0, and so is its context.";
    }
    return NULL;
}

/* ---- all of it ---- */

/* The only sentence of the graph, as segments: the ops that follow do not know how many rows there are. */
static struct qkv_segments one_sentence(struct walk *walk, int64_t length)
{
    int64_t *numbers = qkv_walk_memory(walk, 2, sizeof *numbers);
    if (!numbers) return (struct qkv_segments){0};
    numbers[1] = length;
    return (struct qkv_segments){1, numbers, numbers + 1};
}

static void note_output(struct walk *walk, const struct attention_parts *parts, struct qkv_tensor *context)
{
    const struct projection *output = &parts->output_weight;
    const char *joined = "Z";
    if (parts->heads > 1) {
        joined = "C";
        qkv_walk_note_tensor(walk, "joined", "heads joined",
                             qkv_walk_text(walk, "C = [Z_1 ... Z_%lld]", (long long)parts->heads), context, 0,
                             false, parts->asking, numbered(parts->heads * parts->value_width));
    }
    if (!output->weight.rows) return;
    qkv_walk_note_matrix(walk, "output_weights", "output weights", "W_O", output->weight, 0,
                         numbered(output->weight.rows));
    if (output->bias.rows)
        qkv_walk_note_matrix(walk, "output_bias", "output bias", "b_O", output->bias, 0, numbered(1));
    qkv_walk_note_tensor(walk, "output", "output",
                         qkv_walk_text(walk, "Y = %s W_O%s", joined, output->bias.rows ? " + b_O" : ""),
                         project(walk, context, output), 0, false, parts->asking,
                         numbered(output->weight.columns));
}

/* Queries or keys turned by the position of their word (Su et al. 2021). */
static struct qkv_tensor *turn_by_position(struct walk *walk, const struct attention_parts *parts,
                                           struct qkv_tensor *x, bool keys)
{
    if (!parts->turn.rows) return x;
    x = qkv_rotate(walk->graph, x, qkv_walk_constant(walk, parts->turn), (struct qkv_segments){0}, 0);
    qkv_walk_note_tensor(
        walk, keys ? "turned_keys" : "turned_queries", keys ? "turned keys" : "turned queries",
        keys ? "K turned by the position of each word" : "Q turned by the position of each word", x,
        keys ? parts->key_heads : parts->heads, true, keys ? parts->answering : parts->asking,
        numbered(parts->key_width));
    return x;
}

/* Makes queries, keys and values of what was not given, and notes them. */
static void make_lines(struct walk *walk, const struct attention_parts *parts, struct qkv_tensor **query,
                       struct qkv_tensor **key, struct qkv_tensor **value)
{
    bool compares = parts->score != QKV_SCORE_LENGTH;
    int64_t groups = parts->key_heads;
    if (compares && !parts->query) note_weights(walk, &QUERY, &parts->query_weight, parts->heads);
    if (compares && !parts->key) note_weights(walk, &KEY, &parts->key_weight, groups);
    if (!parts->value) note_weights(walk, &VALUE, &parts->value_weight, groups);
    *query = parts->query;
    *key = parts->key;
    *value = parts->value;
    if (compares) {
        if (!*query) *query = project(walk, parts->x, &parts->query_weight);
        note_line(walk, &QUERY, parts->x_name, !parts->query, &parts->query_weight, *query, parts->heads,
                  parts->key_width, parts->asking);
        *query = turn_by_position(walk, parts, *query, false);
        if (!*key) *key = project(walk, parts->memory, &parts->key_weight);
        note_line(walk, &KEY, parts->memory_name, !parts->key, &parts->key_weight, *key, groups,
                  parts->key_width, parts->answering);
        if (groups < parts->heads)
            walk->step[walk->count - 1].note =
                "Several heads in a row of the queries share each head of keys and values.";
        *key = turn_by_position(walk, parts, *key, true);
    }
    if (!*value) *value = project(walk, parts->memory, &parts->value_weight);
    note_line(walk, &VALUE, parts->memory_name, !parts->value, &parts->value_weight, *value, groups,
              parts->value_width, parts->answering);
}

struct attention_result qkv_walk_attention(struct walk *walk, const struct attention_parts *given)
{
    struct attention_parts whole = *given, *parts = &whole;
    if (!parts->key_heads) parts->key_heads = parts->heads;
    const struct qkv_attention layout = {.heads = parts->heads,
                                         .key_heads = parts->key_heads,
                                         .queries = one_sentence(walk, parts->asking.count),
                                         .keys = one_sentence(walk, parts->answering.count)};
    struct qkv_tensor *query, *key, *value, *mask = NULL;
    if (walk->failed) return (struct attention_result){0};
    make_lines(walk, parts, &query, &key, &value);
    struct qkv_tensor *scores = make_scores(walk, parts, query, key, layout);
    bool masked = parts->visible || parts->added;
    scores = apply_mask(walk, parts, scores);
    if (parts->visible)
        mask = qkv_walk_constant(
            walk, (struct qkv_matrix){parts->asking.count, parts->answering.count, parts->visible});
    struct qkv_tensor *weights = qkv_attention_weights(walk->graph, scores, mask, layout); /* [P] */
    const char *placed = parts->alibi || parts->distance_bias.rows ? "scores with distance" : "scaled scores";
    const char *before = masked ? "masked scores" : parts->score == QKV_SCORE_SCALED_DOT ? placed : "S";
    qkv_walk_note_tensor(walk, "weights", "weights",
                         qkv_walk_text(walk, "A = softmax(%s), row by row", before), weights, parts->heads,
                         false, parts->asking, parts->answering);
    walk->step[walk->count - 1].note = remark_on_rows(parts);
    struct qkv_tensor *context = qkv_attention_mix(walk->graph, weights, value, layout); /* [Nq, H V] */
    qkv_walk_note_tensor(walk, "context", "context", "Z = A V", context, parts->heads, true, parts->asking,
                         numbered(parts->value_width));
    note_output(walk, parts, context);
    return (struct attention_result){layout, weights, value, context};
}
