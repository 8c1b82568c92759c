/* The scores of a walk: the kinds of score, the distance bias (ALiBi, relative positions), and the
 * weights of local-p (Luong et al. 2015, 3.2). */
#include "explain/walk.h"

#include <math.h>

/* The rows of one head of a matrix in which the heads are stacked vertically. */
static struct qkv_matrix rows_of_head(struct qkv_matrix matrix, int64_t head, int64_t heads)
{
    int64_t rows = matrix.rows / heads;
    return (struct qkv_matrix){rows, matrix.columns, matrix.value + head * rows * matrix.columns};
}

/* The columns of one head of x [N, heads width]: [N, width] */
static struct qkv_tensor *columns_of_head(struct walk *walk, struct qkv_tensor *x, int64_t head,
                                          int64_t width)
{
    return qkv_slice(walk->graph, x, 1, head * width, width);
}

/* General scores: q W, [Nq, H K], where each head has its own W [query width, K]. */
static struct qkv_tensor *general_queries(struct walk *walk, const struct attention_setup *setup,
                                          struct qkv_tensor *query)
{
    struct qkv_tensor **heads = qkv_walk_memory(walk, setup->rule.heads, sizeof(struct qkv_tensor *));
    for (int64_t h = 0; heads && h < setup->rule.heads; h++) {
        struct qkv_tensor *weight =
            qkv_walk_constant(walk, rows_of_head(setup->general, h, setup->rule.heads));
        heads[h] =
            qkv_linear(walk->graph, columns_of_head(walk, query, h, setup->query_width), weight, NULL, false);
    }
    return heads ? qkv_concat_all(walk->graph, heads, setup->rule.heads, 1) : NULL;
}

/* All pairs of a query and a key, as row numbers. */
struct pairs {
    int64_t count;
    int32_t *query, *key; /* NULL when memory runs out */
};

static struct pairs pairs_of(struct walk *walk, const struct attention_setup *setup)
{
    int64_t keys = setup->key_words.count, count = setup->query_words.count * keys;
    struct pairs pairs = {count, qkv_walk_memory(walk, count, sizeof *pairs.query),
                          qkv_walk_memory(walk, count, sizeof *pairs.key)};
    for (int64_t i = 0; !walk->failed && i < count; i++) {
        pairs.query[i] = (int32_t)(i / keys);
        pairs.key[i] = (int32_t)(i % keys);
    }
    return pairs;
}

/* v tanh(q W + k U) for each head and pair: [P] */
static struct qkv_tensor *additive_scores(struct walk *walk, const struct attention_setup *setup,
                                          struct qkv_tensor *query, struct qkv_tensor *key)
{
    struct qkv_graph *graph = walk->graph;
    struct pairs pairs = pairs_of(walk, setup);
    struct qkv_tensor **heads = qkv_walk_memory(walk, setup->rule.heads, sizeof(struct qkv_tensor *));
    if (walk->failed) return NULL;
    for (int64_t h = 0; h < setup->rule.heads; h++) {
        struct qkv_matrix vector = rows_of_head(setup->additive_vector, h, setup->rule.heads);
        struct qkv_tensor *w = qkv_walk_constant(walk,
                                                 rows_of_head(setup->additive_query, h, setup->rule.heads)),
                          *u = qkv_walk_constant(walk,
                                                 rows_of_head(setup->additive_key, h, setup->rule.heads)),
                          *v = qkv_walk_constant(walk, (struct qkv_matrix){vector.columns, 1, vector.value});
        struct qkv_tensor *query_part = qkv_linear(graph, columns_of_head(walk, query, h, setup->query_width),
                                                   w, NULL, false); /* [Nq, A] */
        struct qkv_tensor *key_part =
            qkv_linear(graph, columns_of_head(walk, key, h, setup->key_width), u, NULL, false); /* [Nk, A] */
        struct qkv_tensor *hidden =
            qkv_tanh(graph, qkv_add(graph, qkv_gather_rows(graph, query_part, pairs.query, pairs.count),
                                    qkv_gather_rows(graph, key_part, pairs.key, pairs.count)));
        heads[h] = qkv_reshape(graph, qkv_linear(graph, hidden, v, NULL, false), QKV_SHAPE(pairs.count));
    }
    return qkv_concat_all(graph, heads, setup->rule.heads, 0);
}

/* The distance bias of each score: [P]. The score of a zero query is its distance bias alone. The
 * op assumes queries at consecutive positions, but follow may select others: computes a row for
 * every word, and gathers the rows of the query words. */
static struct qkv_tensor *distance_scores(struct walk *walk, const struct attention_setup *setup,
                                          struct qkv_tensor *key, struct qkv_attention layout)
{
    struct qkv_graph *graph = walk->graph;
    int64_t words = setup->key_words.count, queries = setup->query_words.count, heads = setup->rule.heads;
    int32_t *rows = qkv_walk_memory(walk, heads * queries, sizeof *rows);
    layout.rule = setup->rule;
    layout.queries = layout.keys; /* self-attention */
    if (setup->distance_bias.rows) layout.bias = qkv_walk_constant(walk, setup->distance_bias);
    struct qkv_tensor *zeros = qkv_constant(graph, QKV_SHAPE(words, heads * setup->key_width));
    if (!rows || !zeros) return NULL;
    for (int64_t i = 0; i < heads * queries; i++)
        rows[i] =
            (int32_t)(i / queries * words + (setup->positions ? setup->positions[i % queries] : i % queries));
    struct qkv_tensor *all = qkv_attention_scores(graph, zeros, key, layout);
    struct qkv_tensor *picked =
        qkv_gather_rows(graph, qkv_reshape(graph, all, QKV_SHAPE(heads * words, words)), rows,
                        heads * queries); /* [H Nq, Nk] */
    return qkv_reshape(graph, picked, QKV_SHAPE(heads * queries * words));
}

/* Adds a step that shows scores [P] as a [Nq, Nk] matrix per head. */
static void add_scores(struct walk *walk, const struct attention_setup *setup, const char *name,
                       const char *title, const char *formula, const struct qkv_tensor *scores)
{
    qkv_walk_add(walk, &(struct new_step){.name = name,
                                          .title = title,
                                          .formula = formula,
                                          .tensor = scores,
                                          .heads = setup->rule.heads,
                                          .rows = setup->query_words,
                                          .columns = setup->key_words});
}

/* Returns the scores plus the distance bias, and adds steps for both. */
static struct qkv_tensor *add_distance_scores(struct walk *walk, const struct attention_setup *setup,
                                              struct qkv_tensor *key, struct qkv_tensor *scores,
                                              struct qkv_attention layout)
{
    if (!qkv_attention_adds_distance(&setup->rule)) return scores;
    struct qkv_tensor *bias = distance_scores(walk, setup, key, layout);
    struct qkv_tensor *sum = qkv_add(walk->graph, scores, bias);
    add_scores(walk, setup, "distance_bias", "distance bias",
               setup->rule.alibi ? "B = -slope |distance|, one slope per head"
                                 : "B, learned for each distance and head",
               bias);
    add_scores(walk, setup, "biased_scores", "scores with distance bias", "scaled scores + B", sum);
    qkv_walk_rule(walk, QKV_STEP_RULE_SUM, "scaled_scores", "distance_bias", NULL);
    return sum;
}

/* Adds a step for a matrix that has the rows of head 0, then those of head 1, and so on: the order
 * in which a step stores its values. */
static void add_head_matrix(struct walk *walk, const char *name, const char *title, const char *formula,
                            struct qkv_matrix matrix, int64_t heads)
{
    qkv_walk_add(walk, &(struct new_step){.name = name,
                                          .title = title,
                                          .formula = formula,
                                          .values = matrix.value,
                                          .heads = heads,
                                          .rows = {matrix.rows / heads, NULL},
                                          .columns = {matrix.columns, NULL}});
}

/* Adds the weights of additive scores and returns the formula. */
static const char *add_additive_weights(struct walk *walk, const struct attention_setup *setup)
{
    if (setup->concat_weight.rows) {
        add_head_matrix(walk, "score_weights", "score weights", "W", setup->concat_weight, 1);
    } else {
        add_head_matrix(walk, "score_query", "score weights of queries", "W", setup->additive_query,
                        setup->rule.heads);
        add_head_matrix(walk, "score_key", "score weights of keys", "U", setup->additive_key,
                        setup->rule.heads);
    }
    add_head_matrix(walk, "score_vector", "score vector", "v", setup->additive_vector, setup->rule.heads);
    return setup->concat_weight.rows ? "s_ij = v · tanh([q_i k_j] W)" : "s_ij = v · tanh(q_i W + k_j U)";
}

struct qkv_tensor *qkv_walk_scores(struct walk *walk, const struct attention_setup *setup,
                                   struct qkv_tensor *query, struct qkv_tensor *key,
                                   struct qkv_attention layout)
{
    const char *formula = "S = Q Kᵀ";
    struct qkv_tensor *scores = NULL;
    layout.rule.scale = 1;
    switch (setup->score) {
    case QKV_SCENE_SCORE_SCALED_DOT:
    case QKV_SCENE_SCORE_DOT:
        scores = qkv_attention_scores(walk->graph, query, key, layout);
        break;
    case QKV_SCENE_SCORE_GENERAL:
        formula = "S = Q W Kᵀ";
        add_head_matrix(walk, "score_weights", "score weights", "W", setup->general, setup->rule.heads);
        scores = qkv_attention_scores(walk->graph, general_queries(walk, setup, query), key, layout);
        break;
    case QKV_SCENE_SCORE_ADDITIVE:
        formula = add_additive_weights(walk, setup);
        scores = additive_scores(walk, setup, query, key);
        break;
    case QKV_SCENE_SCORE_LENGTH:
        formula = "s_j = ln(letters of word j)";
        scores =
            qkv_constant(walk->graph, QKV_SHAPE(setup->length_scores.rows * setup->length_scores.columns));
        if (scores) qkv_tensor_write(scores, setup->length_scores.value);
        break;
    }
    add_scores(walk, setup, "scores", "scores", formula, scores);
    if (setup->score == QKV_SCENE_SCORE_SCALED_DOT || setup->score == QKV_SCENE_SCORE_DOT)
        qkv_walk_rule(walk, QKV_STEP_RULE_ROW_PRODUCT, setup->rotation.rows ? "rotated_queries" : "queries",
                      setup->rotation.rows ? "rotated_keys" : "keys", NULL);
    if (setup->score != QKV_SCENE_SCORE_SCALED_DOT) return scores;
    scores = qkv_scale(walk->graph, scores, 1 / sqrt((double)setup->key_width));
    add_scores(walk, setup, "scaled_scores", "scaled scores",
               qkv_walk_text(walk, "S / √%lld, the key width", (long long)setup->key_width), scores);
    qkv_walk_rule(walk, QKV_STEP_RULE_SCALE, "scores", NULL, NULL);
    walk->step[walk->count - 1].factor = 1 / sqrt((double)setup->key_width);
    return add_distance_scores(walk, setup, key, scores, layout);
}

struct qkv_tensor *qkv_walk_local_weights(struct walk *walk, const struct attention_setup *setup,
                                          struct qkv_tensor *query, struct qkv_tensor *scores,
                                          struct qkv_attention layout)
{
    static const char *const COLUMN[] = {"p"};
    struct qkv_graph *graph = walk->graph;
    const struct position_predictor *predictor = &setup->predictor;
    int64_t keys = setup->key_words.count;
    struct pairs pairs = pairs_of(walk, setup);
    double *key_positions = qkv_walk_memory(walk, pairs.count, sizeof *key_positions),
           sigma = (double)predictor->window / 2;
    if (walk->failed) return NULL;
    struct qkv_matrix vector = predictor->vector, row = {1, vector.rows, vector.value};
    qkv_walk_add_matrix(walk, "predictor_weights", "weights of the position predictor", "W_p",
                        predictor->weight, 0);
    qkv_walk_add_matrix(walk, "predictor_vector", "vector of the position predictor", "v_p", row, 0);
    struct qkv_tensor *hidden =
        qkv_tanh(graph, qkv_linear(graph, query, qkv_walk_constant(walk, predictor->weight), NULL,
                                   false)); /* [Nq, A] */
    struct qkv_tensor *center = qkv_sigmoid(
        graph, qkv_linear(graph, hidden, qkv_walk_constant(walk, vector), NULL, false)); /* [Nq, 1] */
    struct qkv_tensor *positions = qkv_scale(graph, center, (double)keys);               /* [Nq, 1] */
    qkv_walk_add(walk,
                 &(struct new_step){.name = "predicted_positions",
                                    .title = "predicted positions",
                                    .formula = qkv_walk_text(walk, "p_i = %lld sigmoid(v_p · tanh(q_i W_p))",
                                                             (long long)keys),
                                    .tensor = positions,
                                    .rows = setup->query_words,
                                    .columns = {1, COLUMN}});
    qkv_walk_note(walk, "The position in the sentence on which each query centers, from 0.");
    for (int64_t i = 0; i < pairs.count; i++) key_positions[i] = (double)pairs.key[i];
    struct qkv_tensor *distance =
        qkv_subtract(graph, qkv_walk_constant(walk, (struct qkv_matrix){pairs.count, 1, key_positions}),
                     qkv_gather_rows(graph, positions, pairs.query, pairs.count)); /* j - p_i: [P, 1] */
    add_scores(
        walk, setup, "gaussian_window", "Gaussian window",
        qkv_walk_text(walk, "g_ij = exp(-(j - p_i)² / (2 · %g²))", sigma),
        qkv_exp(graph, qkv_scale(graph, qkv_multiply(graph, distance, distance), -1 / (2 * sigma * sigma))));
    return qkv_attention_local(graph, scores, center, layout, predictor->window);
}
