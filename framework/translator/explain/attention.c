/* The steps that all walks share: from the projections over the scores to the output. */
#include "explain/walk.h"
#include "graph/attention_rule.h"
#include "layers/layer.h"

#include <math.h>

/* Adds a step that shows a tensor [N, heads * width], the matrix of each head for itself. */
static struct qkv_tensor *add_heads(struct walk *walk, const char *name, const char *formula,
                                    struct qkv_texts rows, int64_t heads, struct qkv_tensor *x)
{
    qkv_walk_add_tensor(walk, name, NULL, formula,
                        (struct layout){rows, .heads = heads, .side_by_side = true}, x);
    return x;
}

/* ---- queries, keys and values ---- */

/* Adds queries, keys or values, which are given or projected from x. */
static struct qkv_tensor *add_vectors(struct walk *walk, const struct product *p, struct qkv_tensor *given,
                                      struct shown x)
{
    return given ? add_heads(walk, p->name, p->letter, p->rows, p->heads, given)
                 : qkv_walk_add_product(walk, p, x).tensor;
}

/* Norms each head of queries or keys [N, heads K] (QK-norm, Henry et al. 2020). */
static struct qkv_tensor *norm_heads(struct walk *walk, const struct attention_setup *setup,
                                     struct qkv_tensor *x, const struct product *p)
{
    bool keys = *p->letter == 'K';
    const struct qkv_matrix gains = keys ? setup->key_norm : setup->query_norm;
    if (!gains.rows) return x;
    struct qkv_graph *graph = walk->graph;
    const struct qkv_shape shape = {2, {p->rows.count, p->heads * gains.columns}};
    struct qkv_tensor *gain = qkv_reshape(graph, qkv_walk_constant(walk, gains), QKV_SHAPE(gains.columns));
    x = qkv_reshape(graph, x, QKV_SHAPE(p->rows.count * p->heads, gains.columns));
    x = qkv_reshape(graph, qkv_rms_norm(graph, x, gain, setup->norm_epsilon), shape);
    return add_heads(walk, keys ? "normed_keys" : "normed_queries",
                     qkv_walk_text(walk, "rms_norm(%s), head by head", p->letter), p->rows, p->heads, x);
}

/* Rotates queries or keys [N, heads K] by the position of their word (Su et al. 2021). */
static struct qkv_tensor *rotate(struct walk *walk, const struct attention_setup *setup, struct qkv_tensor *x,
                                 const struct product *p)
{
    bool keys = *p->letter == 'K';
    if (!setup->rotation.rows) return x;
    struct qkv_tensor *table = qkv_walk_constant(walk, setup->rotation);
    const int32_t *positions = keys ? setup->key_positions : setup->positions;
    if (positions) table = qkv_gather_rows(walk->graph, table, positions, p->rows.count);
    x = qkv_rotate(walk->graph, x, table, (struct qkv_segments){0}, 0);
    return add_heads(walk, keys ? "rotated_keys" : "rotated_queries",
                     qkv_walk_text(walk, "%s rotated by the position of each word", p->letter), p->rows,
                     p->heads, x);
}

/* Queries, keys and values. */
struct inputs {
    struct qkv_tensor *query, *key, *value; /* query and key NULL: scores by length need only values */
};

static struct inputs add_inputs(struct walk *walk, const struct attention_setup *setup)
{
    bool compares = setup->score != QKV_SCENE_SCORE_LENGTH;
    int64_t heads = setup->rule.heads, groups = setup->rule.key_value_heads;
    const struct product
        queries = {"queries", NULL, "Q", "query", "Q", &setup->query_projection, heads, setup->query_words},
        keys = {"keys", NULL, "K", "key", "K", &setup->key_projection, groups, setup->key_words},
        values = {"values", NULL, "V", "value", "V", &setup->value_projection, groups, setup->key_words};
    struct inputs inputs = {0};
    if (compares && !setup->query) qkv_walk_add_weights(walk, &queries);
    if (compares && !setup->key) qkv_walk_add_weights(walk, &keys);
    if (!setup->value) qkv_walk_add_weights(walk, &values);
    if (compares) {
        inputs.query = add_vectors(walk, &queries, setup->query, setup->x);
        inputs.query = norm_heads(walk, setup, inputs.query, &queries);
        inputs.query = rotate(walk, setup, inputs.query, &queries);
        inputs.key = add_vectors(walk, &keys, setup->key, setup->memory);
        if (groups < heads)
            walk->step[walk->count - 1].note =
                "Each head of keys and values is shared by several consecutive heads of queries.";
        inputs.key = norm_heads(walk, setup, inputs.key, &keys);
        inputs.key = rotate(walk, setup, inputs.key, &keys);
    }
    inputs.value = add_vectors(walk, &values, setup->value, setup->memory);
    return inputs;
}

/* ---- scores ---- */

/* Adds a step that shows a tensor [P] as a [Nq, Nk] matrix per head. */
static struct qkv_step *add_scores(struct walk *walk, const struct attention_setup *setup, const char *name,
                                   const char *title, const char *formula, const struct qkv_tensor *scores)
{
    return qkv_walk_add_tensor(walk, name, title, formula,
                               (struct layout){setup->query_words, setup->key_words, setup->rule.heads},
                               scores);
}

/* The rows of one head of a matrix in which the heads are stacked vertically. */
static struct qkv_matrix rows_of_head(struct qkv_matrix matrix, int64_t head, int64_t heads)
{
    int64_t rows = matrix.rows / heads;
    return (struct qkv_matrix){rows, matrix.columns, matrix.value + head * rows * matrix.columns};
}

/* The columns of one head of x [N, heads width] times the rows of this head of a matrix: [N, matrix.columns] */
static struct qkv_tensor *product_of_head(struct walk *walk, struct qkv_tensor *x, struct qkv_matrix matrix,
                                          int64_t head, int64_t heads)
{
    const struct qkv_matrix rows = rows_of_head(matrix, head, heads);
    return qkv_linear(walk->graph, qkv_slice(walk->graph, x, 1, head * rows.rows, rows.rows),
                      qkv_walk_constant(walk, rows), NULL, false);
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

/* q W k: the queries are multiplied by W of their head first. */
static struct qkv_tensor *general_scores(struct walk *walk, const struct attention_setup *setup,
                                         struct inputs inputs, struct qkv_attention layout)
{
    int64_t count = setup->rule.heads;
    struct qkv_tensor **heads = qkv_walk_memory(walk, count, sizeof(struct qkv_tensor *));
    if (!heads) return NULL;
    for (int64_t h = 0; h < count; h++)
        heads[h] = product_of_head(walk, inputs.query, setup->general, h, count);
    return qkv_attention_scores(walk->graph, qkv_concat_all(walk->graph, heads, count, 1), inputs.key,
                                layout);
}

/* v tanh(q W + k U) for each head and pair: [P] */
static struct qkv_tensor *additive_scores(struct walk *walk, const struct attention_setup *setup,
                                          struct inputs inputs)
{
    struct qkv_graph *graph = walk->graph;
    int64_t count = setup->rule.heads;
    struct pairs pairs = pairs_of(walk, setup);
    struct qkv_tensor **heads = qkv_walk_memory(walk, count, sizeof(struct qkv_tensor *));
    if (walk->failed) return NULL;
    for (int64_t h = 0; h < count; h++) {
        struct qkv_matrix vector = rows_of_head(setup->additive_vector, h, count);
        struct qkv_tensor *query = product_of_head(walk, inputs.query, setup->additive_query, h,
                                                   count),                           /* [Nq, A] */
            *key = product_of_head(walk, inputs.key, setup->additive_key, h, count), /* [Nk, A] */
                *v = qkv_walk_constant(walk, (struct qkv_matrix){vector.columns, 1, vector.value});
        struct qkv_tensor *hidden =
            qkv_tanh(graph, qkv_add(graph, qkv_gather_rows(graph, query, pairs.query, pairs.count),
                                    qkv_gather_rows(graph, key, pairs.key, pairs.count)));
        heads[h] = qkv_reshape(graph, qkv_linear(graph, hidden, v, NULL, false), QKV_SHAPE(pairs.count));
    }
    return qkv_concat_all(graph, heads, count, 0);
}

/* Adds a step for a matrix that has the rows of head 0, then those of head 1, and so on. */
static void add_score_weights(struct walk *walk, const struct attention_setup *setup, const char *name,
                              const char *title, const char *letter, struct qkv_matrix matrix)
{
    int64_t heads = setup->rule.heads;
    qkv_walk_add_values(walk, name, title, letter,
                        (struct layout){{.count = matrix.rows / heads}, {.count = matrix.columns}, heads},
                        matrix.value);
}

/* Adds the weights of the score, computes it and adds its step. */
static struct qkv_tensor *add_raw_scores(struct walk *walk, const struct attention_setup *setup,
                                         struct inputs inputs, struct qkv_attention layout)
{
    const char *formula = "S = Q Kᵀ";
    struct qkv_tensor *scores = NULL;
    layout.rule.scale = 1;
    switch (setup->score) {
    case QKV_SCENE_SCORE_SCALED_DOT:
    case QKV_SCENE_SCORE_DOT:
        scores = qkv_attention_scores(walk->graph, inputs.query, inputs.key, layout);
        break;
    case QKV_SCENE_SCORE_GENERAL:
        formula = "S = Q W Kᵀ";
        add_score_weights(walk, setup, "score_weights", NULL, "W", setup->general);
        scores = general_scores(walk, setup, inputs, layout);
        break;
    case QKV_SCENE_SCORE_ADDITIVE:
        formula =
            setup->concat_weight.rows ? "s_ij = v · tanh([q_i k_j] W)" : "s_ij = v · tanh(q_i W + k_j U)";
        if (setup->concat_weight.rows) {
            add_score_weights(walk, setup, "score_weights", NULL, "W", setup->concat_weight);
        } else {
            add_score_weights(walk, setup, "score_query", "score weights of queries", "W",
                              setup->additive_query);
            add_score_weights(walk, setup, "score_key", "score weights of keys", "U", setup->additive_key);
        }
        add_score_weights(walk, setup, "score_vector", NULL, "v", setup->additive_vector);
        scores = additive_scores(walk, setup, inputs);
        break;
    case QKV_SCENE_SCORE_LENGTH:
        formula = "s_j = ln(letters of word j)";
        scores = qkv_constant(walk->graph, QKV_SHAPE(setup->query_words.count * setup->key_words.count));
        if (scores) qkv_tensor_write(scores, setup->length_scores);
        break;
    }
    add_scores(walk, setup, "scores", NULL, formula, scores);
    if (setup->score == QKV_SCENE_SCORE_SCALED_DOT || setup->score == QKV_SCENE_SCORE_DOT) {
        const char *done = setup->rotation.rows ? "rotated_" : setup->query_norm.rows ? "normed_" : "";
        qkv_walk_rule(walk, QKV_STEP_RULE_ROW_PRODUCT, qkv_walk_text(walk, "%squeries", done),
                      qkv_walk_text(walk, "%skeys", done), NULL);
    }
    return scores;
}

/* The distance bias of each score: [P]. The score of a zero query is its distance bias alone. The op assumes queries at
 * consecutive positions, but follow may select others: computes a row for every word, and gathers the rows of the query
 * words. */
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

/* Scales scores, caps them, and adds the distance bias, if there is one. */
static struct qkv_tensor *scale(struct walk *walk, const struct attention_setup *setup,
                                struct qkv_tensor *scores, struct qkv_tensor *key,
                                struct qkv_attention layout)
{
    double factor = 1 / sqrt((double)setup->key_width);
    scores = qkv_scale(walk->graph, scores, factor);
    add_scores(walk, setup, "scaled_scores", NULL,
               qkv_walk_text(walk, "S / √%lld, the key width", (long long)setup->key_width), scores)
        ->factor = factor;
    qkv_walk_rule(walk, QKV_STEP_RULE_SCALE, "scores", NULL, NULL);
    const char *name = "scaled_scores";
    double cap = setup->rule.soft_cap;
    if (cap > 0) {
        scores = qkv_scale(walk->graph, qkv_tanh(walk->graph, qkv_scale(walk->graph, scores, 1 / cap)), cap);
        add_scores(walk, setup, name = "capped_scores", NULL,
                   qkv_walk_text(walk, "%g tanh(scaled scores / %g)", cap, cap), scores);
    }
    if (!qkv_attention_adds_distance(&setup->rule)) return scores;
    struct qkv_tensor *bias = distance_scores(walk, setup, key, layout),
                      *sum = qkv_add(walk->graph, scores, bias);
    add_scores(walk, setup, "distance_bias", NULL,
               setup->rule.alibi ? "B = -slope |distance|, one slope per head"
                                 : "B, learned for each distance and head",
               bias);
    add_scores(walk, setup, "biased_scores", "scores with distance bias",
               cap > 0 ? "capped scores + B" : "scaled scores + B", sum);
    qkv_walk_rule(walk, QKV_STEP_RULE_SUM, name, "distance_bias", NULL);
    return sum;
}

/* Adds the mask and the masked scores. The softmax applies setup->visible, so only added_mask changes the scores that are
 * returned. */
static struct qkv_tensor *apply_mask(struct walk *walk, const struct attention_setup *setup,
                                     struct qkv_tensor *scores)
{
    const double *added_mask = setup->added_mask;
    int64_t cells = setup->query_words.count * setup->key_words.count, count = cells * setup->rule.heads;
    const char *unmasked = walk->step[walk->count - 1].name;
    if (!setup->visible && !added_mask) return scores;
    qkv_walk_add_values(walk, "mask", NULL, added_mask ? "added to the scores" : "1 visible, 0 hidden",
                        (struct layout){setup->query_words, setup->key_words},
                        added_mask ? added_mask : setup->visible)
        ->note = setup->mask_note;
    if (added_mask) {
        double *repeated = qkv_walk_memory(walk, count, sizeof *repeated);
        struct qkv_tensor *added = qkv_constant(walk->graph, QKV_SHAPE(count));
        if (!repeated || !added) return NULL;
        for (int64_t i = 0; i < count; i++) /* setup->visible hides infinity, which must not enter sums */
            repeated[i] = isinf(added_mask[i % cells]) ? 0 : added_mask[i % cells];
        qkv_tensor_write(added, repeated);
        scores = qkv_add(walk->graph, scores, added);
    }
    add_scores(walk, setup, "masked_scores", NULL, added_mask ? "scores + mask" : "hidden: -inf", scores);
    walk->pending[walk->count - 1].visible = setup->visible;
    qkv_walk_rule(walk, QKV_STEP_RULE_SUM, unmasked, added_mask ? "mask" : NULL, NULL);
    return scores;
}

/* ---- weights ---- */

/* The weights of local-p (Luong et al. 2015, 3.2), [P], from the scores and setup->predictor, with their steps. */
static struct qkv_tensor *local_weights(struct walk *walk, const struct attention_setup *setup,
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
    qkv_walk_add_matrix(walk, "predictor_weights", "weights of the position predictor", "W_p", 0,
                        predictor->weight);
    qkv_walk_add_matrix(walk, "predictor_vector", "vector of the position predictor", "v_p", 0, row);
    struct qkv_tensor *hidden = /* [Nq, A] */
        qkv_tanh(graph, qkv_linear(graph, query, qkv_walk_constant(walk, predictor->weight), NULL, false));
    struct qkv_tensor *center = /* [Nq, 1] */
        qkv_sigmoid(graph, qkv_linear(graph, hidden, qkv_walk_constant(walk, vector), NULL, false));
    struct qkv_tensor *positions = qkv_scale(graph, center, (double)keys); /* [Nq, 1] */
    qkv_walk_add_tensor(walk, "predicted_positions", NULL,
                        qkv_walk_text(walk, "p_i = %lld sigmoid(v_p · tanh(q_i W_p))", (long long)keys),
                        (struct layout){setup->query_words, {1, COLUMN}}, positions)
        ->note = "The position in the sentence on which each query centers, from 0.";
    for (int64_t i = 0; i < pairs.count; i++) key_positions[i] = (double)pairs.key[i];
    struct qkv_tensor *distance = /* j - p_i: [P, 1] */
        qkv_subtract(graph, qkv_walk_constant(walk, (struct qkv_matrix){pairs.count, 1, key_positions}),
                     qkv_gather_rows(graph, positions, pairs.query, pairs.count));
    add_scores(
        walk, setup, "gaussian_window", "Gaussian window",
        qkv_walk_text(walk, "g_ij = exp(-(j - p_i)² / (2 · %g²))", sigma),
        qkv_exp(graph, qkv_scale(graph, qkv_multiply(graph, distance, distance), -1 / (2 * sigma * sigma))));
    return qkv_attention_local(graph, scores, center, layout, predictor->window);
}

/* A note for rows of weights that are all zero or sum to less than 1; NULL when there are none. */
static const char *note_on_weights(const struct attention_setup *setup)
{
    int64_t keys = setup->key_words.count;
    for (int64_t i = 0; setup->visible && i < setup->query_words.count; i++) {
        int64_t j = 0;
        while (j < keys && !(setup->visible[i * keys + j] > 0)) j++;
        if (j == keys) return "A row that sees no word has no weights: its sum is 0, and so is its context.";
    }
    return setup->sink.rows ? "The sink takes the rest of each row: its weights sum to less than 1." : NULL;
}

/* Adds the weights between words, which pictures then show in place of `weights`. */
static void add_word_weights(struct walk *walk, struct qkv_step *weights, const struct merged_words *merged)
{
    const struct named_words *rows = &merged->rows, *columns = &merged->columns;
    const struct layout layout = {
        {rows->labels.words, rows->names}, {columns->labels.words, columns->names}, weights->heads};
    weights->content = QKV_STEP_MATRIX;
    qkv_walk_add_values(walk, "word_weights", "weights between words",
                        "A, summed over the tokens of a key word, mean over those of a query word", layout,
                        NULL)
        ->content = QKV_STEP_WEIGHTS;
    walk->pending[walk->count - 1].merged = merged;
}

static struct qkv_tensor *add_attention_weights(struct walk *walk, const struct attention_setup *setup,
                                                struct qkv_tensor *query, struct qkv_tensor *scores,
                                                struct qkv_attention layout)
{
    bool is_local = setup->predictor.weight.rows;
    struct qkv_matrix visible = {setup->query_words.count, setup->key_words.count, setup->visible};
    struct qkv_tensor *mask = setup->visible ? qkv_walk_constant(walk, visible) : NULL;
    const char *logits = walk->step[walk->count - 1].name; /* the final scores, with bias and mask */
    const char *letter = setup->visible || setup->added_mask          ? "masked scores"
                         : setup->score != QKV_SCENE_SCORE_SCALED_DOT ? "S"
                         : qkv_attention_adds_distance(&setup->rule)  ? "scores with distance"
                         : setup->rule.soft_cap > 0                   ? "capped scores"
                                                                      : "scaled scores";
    if (setup->sink.rows) {
        struct qkv_tensor *sink = qkv_walk_constant(walk, setup->sink);
        layout.sink = qkv_reshape(walk->graph, sink, QKV_SHAPE(setup->rule.heads));
        qkv_walk_add_matrix(walk, "sinks", "sinks",
                            "one score per head, which competes with those of the words", 0, setup->sink);
    }
    const char *formula = is_local ? qkv_walk_text(walk, "A = softmax(S, where |j - p_i| <= %lld) times G",
                                                   (long long)setup->predictor.window)
                                   : qkv_walk_text(walk, "A = softmax(%s%s), row by row", letter,
                                                   setup->sink.rows ? " and the sink of the head" : "");
    struct qkv_tensor *weights = is_local
                                     ? local_weights(walk, setup, query, scores, layout)
                                     : qkv_attention_weights(walk->graph, scores, mask, layout); /* [P] */
    struct qkv_step *step = add_scores(walk, setup, "weights", NULL, formula, weights);
    step->content = QKV_STEP_WEIGHTS;
    step->note = note_on_weights(setup);
    if (!is_local && !setup->sink.rows) qkv_walk_rule(walk, QKV_STEP_RULE_SOFTMAX, logits, NULL, NULL);
    if (setup->merged) add_word_weights(walk, step, setup->merged);
    return weights;
}

/* ---- all steps ---- */

/* Segments of one sentence with `length` rows; the ragged ops need segments. */
static struct qkv_segments one_sentence(struct walk *walk, int64_t length)
{
    int64_t *numbers = qkv_walk_memory(walk, 2, sizeof *numbers);
    if (!numbers) return (struct qkv_segments){0};
    numbers[1] = length;
    return (struct qkv_segments){1, numbers, numbers + 1};
}

/* Adds the steps of the output gate, if there is one, and returns the context times the gate. */
static struct shown add_gate(struct walk *walk, const struct attention_setup *setup, struct shown context)
{
    const struct product gate = {
        "output_gate",     NULL, "Γ", "output_gate", "Γ", &setup->gate_projection, setup->rule.heads,
        setup->query_words};
    if (!setup->gate_projection.weight.rows) return context;
    qkv_walk_add_weights(walk, &gate);
    struct qkv_tensor *x = qkv_sigmoid(walk->graph, qkv_walk_add_product(walk, &gate, setup->x).tensor);
    context = (struct shown){qkv_multiply(walk->graph, context.tensor, x), "Z'", "gated_context"};
    add_heads(walk, context.step, "Z' = Z * sigmoid(Γ), number by number", setup->query_words, gate.heads,
              context.tensor);
    return context;
}

/* `x`: the context, 0 for ablated heads. All NULL without output projection. */
static struct shown add_output(struct walk *walk, const struct attention_setup *setup, struct shown x)
{
    const struct product output = {"output",          NULL, "Y", "output", "O", &setup->output_projection, 0,
                                   setup->query_words};
    bool has_heads = setup->rule.heads > 1, is_ablated = qkv_ablation_any(setup->ablated, setup->rule.heads),
         is_projected = output.projection->weight.rows;
    if (has_heads || (is_ablated && is_projected)) {
        const char *formula =
            qkv_walk_text(walk, "C = [%s_1 ... %s_%lld]", x.letter, x.letter, (long long)setup->rule.heads);
        qkv_walk_add_tensor(walk, "concatenated",
                            has_heads ? "heads concatenated" : "context of the silent head",
                            has_heads ? formula : "C = 0", (struct layout){setup->query_words}, x.tensor)
            ->note = is_ablated ? "The context of a silent head counts as 0." : NULL;
        qkv_walk_rule(walk, QKV_STEP_RULE_JOIN, x.step, NULL, NULL);
        x = (struct shown){x.tensor, "C", "concatenated"};
    }
    if (!is_projected) return (struct shown){0};
    qkv_walk_add_weights(walk, &output);
    return qkv_walk_add_product(walk, &output, x);
}

struct attention_result qkv_walk_attention(struct walk *walk, const struct attention_setup *given)
{
    struct attention_setup complete = *given;
    const struct attention_setup *setup = &complete;
    if (!complete.rule.key_value_heads) complete.rule.key_value_heads = complete.rule.heads;
    /* Scale, distance bias and mask are steps of the walk, so the ops get a rule without them. */
    const struct qkv_attention layout = {.rule.heads = setup->rule.heads,
                                         .rule.key_value_heads = setup->rule.key_value_heads,
                                         .queries = one_sentence(walk, setup->query_words.count),
                                         .keys = one_sentence(walk, setup->key_words.count)};
    if (walk->failed) return (struct attention_result){0};
    struct inputs inputs = add_inputs(walk, setup);
    struct qkv_tensor *scores = add_raw_scores(walk, setup, inputs, layout);
    if (setup->score == QKV_SCENE_SCORE_SCALED_DOT) scores = scale(walk, setup, scores, inputs.key, layout);
    scores = apply_mask(walk, setup, scores);
    struct qkv_tensor *weights = add_attention_weights(walk, setup, inputs.query, scores, layout);
    struct qkv_tensor *context =
        qkv_attention_mix(walk->graph, weights, inputs.value, layout); /* [Nq, H V] */
    add_heads(walk, "context", "Z = A V", setup->query_words, setup->rule.heads, context);
    qkv_walk_rule(walk, QKV_STEP_RULE_PRODUCT, "weights", "values", NULL);
    struct shown found = add_gate(walk, setup, (struct shown){context, "Z", "context"});
    found.tensor = qkv_ablation_apply(setup->ablated, setup->rule.heads, walk->graph, found.tensor);
    return (struct attention_result){layout, weights, inputs.value, found.tensor,
                                     add_output(walk, setup, found)};
}
