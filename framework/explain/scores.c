/* The scores of a walk: what each kind of score makes of queries and keys. */
#include "explain/walk.h"

#include <math.h>

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

/* q W for each head with its own W, [Nq, H K]; W [query width, K] */
static struct qkv_tensor *general_queries(struct walk *walk, const struct attention_parts *parts,
                                          struct qkv_tensor *query)
{
    struct qkv_tensor *all = NULL;
    for (int64_t h = 0; h < parts->heads; h++) {
        struct qkv_tensor *weight = qkv_walk_constant(walk, rows_of_head(parts->general, h, parts->heads));
        struct qkv_tensor *one =
            qkv_linear(walk->graph, columns_of_head(walk, query, h, parts->query_width), weight, NULL, false);
        all = all ? qkv_concat(walk->graph, all, one, 1) : one;
    }
    return all;
}

/* Every pair of a query and a key, by their rows. */
struct pairs {
    int64_t count;
    int32_t *query, *key; /* NULL when memory is out */
};

static struct pairs pairs_of(struct walk *walk, const struct attention_parts *parts)
{
    int64_t keys = parts->key_words.count, count = parts->query_words.count * keys;
    struct pairs pairs = {count, qkv_walk_memory(walk, count, sizeof *pairs.query),
                          qkv_walk_memory(walk, count, sizeof *pairs.key)};
    for (int64_t i = 0; !walk->failed && i < count; i++) {
        pairs.query[i] = (int32_t)(i / keys);
        pairs.key[i] = (int32_t)(i % keys);
    }
    return pairs;
}

/* v tanh(q W + k U) for each head and pair: [P] */
static struct qkv_tensor *additive_scores(struct walk *walk, const struct attention_parts *parts,
                                          struct qkv_tensor *query, struct qkv_tensor *key)
{
    struct qkv_graph *graph = walk->graph;
    struct pairs pairs = pairs_of(walk, parts);
    struct qkv_tensor *all = NULL;
    if (walk->failed) return NULL;
    for (int64_t h = 0; h < parts->heads; h++) {
        struct qkv_matrix vector = rows_of_head(parts->additive_vector, h, parts->heads);
        struct qkv_tensor *w = qkv_walk_constant(walk, rows_of_head(parts->additive_query, h, parts->heads)),
                          *u = qkv_walk_constant(walk, rows_of_head(parts->additive_key, h, parts->heads)),
                          *v = qkv_walk_constant(walk, (struct qkv_matrix){vector.columns, 1, vector.value});
        struct qkv_tensor *query_part = qkv_linear(graph, columns_of_head(walk, query, h, parts->query_width),
                                                   w, NULL, false); /* [Nq, A] */
        struct qkv_tensor *key_part =
            qkv_linear(graph, columns_of_head(walk, key, h, parts->key_width), u, NULL, false); /* [Nk, A] */
        struct qkv_tensor *met =
            qkv_tanh(graph, qkv_add(graph, qkv_gather_rows(graph, query_part, pairs.query, pairs.count),
                                    qkv_gather_rows(graph, key_part, pairs.key, pairs.count)));
        struct qkv_tensor *one =
            qkv_reshape(graph, qkv_linear(graph, met, v, NULL, false), QKV_SHAPE(pairs.count));
        all = all ? qkv_concat(graph, all, one, 0) : one;
    }
    return all;
}

/* What distance adds to the scores of the words that ask: [P]. That of all words is what scores are made of
 * where queries are 0; those of the words that ask are picked from it. */
static struct qkv_tensor *added_by_distance(struct walk *walk, const struct attention_parts *parts,
                                            struct qkv_tensor *key, struct qkv_attention layout)
{
    struct qkv_graph *graph = walk->graph;
    int64_t all = parts->key_words.count, queries = parts->query_words.count, heads = parts->heads;
    int32_t *rows = qkv_walk_memory(walk, heads * queries, sizeof *rows);
    layout.alibi = parts->alibi;
    layout.causal = parts->causal;
    layout.distance = parts->distance;
    layout.queries = layout.keys; /* self attention */
    if (parts->distance_bias.rows) layout.bias = qkv_walk_constant(walk, parts->distance_bias);
    struct qkv_tensor *nothing = qkv_constant(graph, QKV_SHAPE(all, heads * parts->key_width));
    if (!rows || !nothing) return NULL;
    for (int64_t i = 0; i < heads * queries; i++)
        rows[i] =
            (int32_t)(i / queries * all + (parts->positions ? parts->positions[i % queries] : i % queries));
    struct qkv_tensor *added = qkv_attention_scores(graph, nothing, key, layout);
    added =
        qkv_gather_rows(graph, qkv_reshape(graph, added, QKV_SHAPE(heads * all, all)), rows, heads * queries);
    return qkv_reshape(graph, added, QKV_SHAPE(heads * queries * all));
}

/* Gives the scores with what distance adds to them. */
static struct qkv_tensor *add_by_distance(struct walk *walk, const struct attention_parts *parts,
                                          struct qkv_tensor *key, struct qkv_tensor *scores,
                                          struct qkv_attention layout)
{
    if (!parts->alibi && !parts->distance_bias.rows) return scores;
    struct qkv_tensor *added = added_by_distance(walk, parts, key, layout);
    struct qkv_tensor *whole = qkv_add(walk->graph, scores, added);
    qkv_walk_add_tensor(walk, "distance_bias", "added by distance",
                        parts->alibi ? "B = -slope |distance|, a slope a head"
                                     : "B, learned for each distance and head",
                        added, parts->heads, false, parts->query_words, parts->key_words);
    qkv_walk_add_tensor(walk, "placed_scores", "scores with distance", "scaled scores + B", whole,
                        parts->heads, false, parts->query_words, parts->key_words);
    return whole;
}

static void add_head_matrix(struct walk *walk, const char *name, const char *title, const char *formula,
                            struct qkv_matrix matrix, int64_t heads)
{
    /* One head below the other is already the order of a step. */
    struct qkv_step *step =
        qkv_walk_add_step(walk, name, title, formula, qkv_walk_numbered(matrix.rows / heads),
                          qkv_walk_numbered(matrix.columns));
    step->heads = heads;
    step->values = matrix.value;
}

/* Gives the formula. */
static const char *add_additive(struct walk *walk, const struct attention_parts *parts)
{
    if (parts->joint.rows) {
        add_head_matrix(walk, "score_weights", "score weights", "W", parts->joint, 1);
    } else {
        add_head_matrix(walk, "score_query", "score weights of queries", "W", parts->additive_query,
                        parts->heads);
        add_head_matrix(walk, "score_key", "score weights of keys", "U", parts->additive_key, parts->heads);
    }
    add_head_matrix(walk, "score_vector", "score vector", "v", parts->additive_vector, parts->heads);
    return parts->joint.rows ? "s_ij = v · tanh([q_i k_j] W)" : "s_ij = v · tanh(q_i W + k_j U)";
}

struct qkv_tensor *qkv_walk_scores(struct walk *walk, const struct attention_parts *parts,
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
        add_head_matrix(walk, "score_weights", "score weights", "W", parts->general, parts->heads);
        scores = qkv_attention_scores(walk->graph, general_queries(walk, parts, query), key, layout);
        break;
    case QKV_SCORE_ADDITIVE:
        formula = add_additive(walk, parts);
        scores = additive_scores(walk, parts, query, key);
        break;
    case QKV_SCORE_LENGTH:
        formula = "s_j = ln(letters of word j)";
        scores = qkv_constant(walk->graph, QKV_SHAPE(parts->lengths.rows * parts->lengths.columns));
        if (scores) qkv_tensor_write(scores, parts->lengths.value);
        break;
    }
    qkv_walk_add_tensor(walk, "scores", "scores", formula, scores, parts->heads, false, parts->query_words,
                        parts->key_words);
    if (parts->score != QKV_SCORE_SCALED_DOT) return scores;
    scores = qkv_scale(walk->graph, scores, 1 / sqrt((double)parts->key_width));
    qkv_walk_add_tensor(walk, "scaled_scores", "scaled scores",
                        qkv_walk_text(walk, "S / √%lld, the key width", (long long)parts->key_width), scores,
                        parts->heads, false, parts->query_words, parts->key_words);
    return add_by_distance(walk, parts, key, scores, layout);
}

struct qkv_tensor *qkv_walk_place(struct walk *walk, const struct attention_parts *parts,
                                  struct qkv_tensor *query, struct qkv_tensor *scores,
                                  struct qkv_attention layout)
{
    static const char *const COLUMN[] = {"p"};
    struct qkv_graph *graph = walk->graph;
    int64_t keys = parts->key_words.count, window = parts->place.window;
    struct pairs pairs = pairs_of(walk, parts);
    double *numbers = qkv_walk_memory(walk, pairs.count, sizeof *numbers), sigma = (double)window / 2;
    if (walk->failed) return NULL;
    struct qkv_matrix vector = parts->place.vector, row = {1, vector.rows, vector.value};
    qkv_walk_add_matrix(walk, "place_weights", "weights of the place", "W_p", parts->place.weight, 0,
                        qkv_walk_numbered(parts->place.weight.rows));
    qkv_walk_add_matrix(walk, "place_vector", "vector of the place", "v_p", row, 0, qkv_walk_numbered(1));
    struct qkv_tensor *hidden =
        qkv_tanh(graph, qkv_linear(graph, query, qkv_walk_constant(walk, parts->place.weight), NULL, false));
    struct qkv_tensor *center = qkv_sigmoid(
        graph, qkv_linear(graph, hidden, qkv_walk_constant(walk, vector), NULL, false)); /* [Nq, 1] */
    struct qkv_tensor *places = qkv_scale(graph, center, (double)keys);
    qkv_walk_add_tensor(walk, "places", "predicted places",
                        qkv_walk_text(walk, "p_i = %lld sigmoid(v_p · tanh(q_i W_p))", (long long)keys),
                        places, 0, false, parts->query_words, (struct words){1, COLUMN});
    walk->step[walk->count - 1].note = "Where in the sentence each query looks, counted from 0.";
    for (int64_t i = 0; i < pairs.count; i++) numbers[i] = (double)pairs.key[i];
    struct qkv_tensor *far =
        qkv_subtract(graph, qkv_walk_constant(walk, (struct qkv_matrix){pairs.count, 1, numbers}),
                     qkv_gather_rows(graph, places, pairs.query, pairs.count)); /* j - p_i: [P, 1] */
    qkv_walk_add_tensor(
        walk, "nearness", "nearness", qkv_walk_text(walk, "g_ij = exp(-(j - p_i)² / (2 · %g²))", sigma),
        qkv_exp(graph, qkv_scale(graph, qkv_multiply(graph, far, far), -1 / (2 * sigma * sigma))), 1, false,
        parts->query_words, parts->key_words);
    return qkv_attention_local(graph, scores, center, layout, window);
}
