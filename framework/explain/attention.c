/* The part of the walk that all attentions share: from the projections to the output. */
#include "explain/walk.h"

#include <math.h>
#include <string.h>

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

static void add_weights(struct walk *walk, const struct line *line, const struct projection *projection,
                        int64_t heads)
{
    if (projection->weight.rows)
        qkv_walk_add_matrix(walk, line->weight_name, line->weight_title, line->weight_letter,
                            projection->weight, heads, qkv_walk_numbered(projection->weight.rows));
    if (projection->bias.rows)
        qkv_walk_add_matrix(walk, line->bias_name, line->bias_title, line->bias_letter, projection->bias,
                            heads, qkv_walk_numbered(1));
}

struct qkv_tensor *qkv_walk_project(struct walk *walk, struct qkv_tensor *input,
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

/* `step`: where the input was noted, if it was. */
static void add_line(struct walk *walk, const struct line *line, const char *input, const char *step,
                     bool made, const struct projection *projection, const struct qkv_tensor *tensor,
                     int64_t heads, int64_t width, struct words words)
{
    const char *formula = "";
    if (made && projection->bias.rows)
        formula = qkv_walk_text(walk, "%s = %s %s + %s", line->letter, input, line->weight_letter,
                                line->bias_letter);
    else if (made && projection->weight.rows)
        formula = qkv_walk_text(walk, "%s = %s %s", line->letter, input, line->weight_letter);
    else
        formula = made ? qkv_walk_text(walk, "%s = %s", line->letter, input) : line->letter;
    qkv_walk_add_tensor(walk, line->name, line->title, formula, tensor, heads, true, words,
                        qkv_walk_numbered(width));
    if (made && !projection->weight.rows) walk->step[walk->count - 1].same_as = step;
}

/* ---- mask ---- */

/* Adds what is added, once a head, and notes the mask; the boolean part is left to the softmax. */
static struct qkv_tensor *apply_mask(struct walk *walk, const struct attention_parts *parts,
                                     struct qkv_tensor *scores)
{
    int64_t cells = parts->query_words.count * parts->key_words.count;
    if (!parts->visible && !parts->added) return scores;
    struct qkv_step *step = qkv_walk_add_step(walk, "mask", "mask",
                                              parts->added ? "M, added to the scores" : "1 visible, 0 hidden",
                                              parts->query_words, parts->key_words);
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
    qkv_walk_add_tensor(walk, "masked_scores", "masked scores", parts->added ? "scores + M" : "hidden: -inf",
                        scores, parts->heads, false, parts->query_words, parts->key_words);
    return scores;
}

/* Remarks on rows that see nothing, so that zeros are no surprise. */
static const char *remark_on_rows(const struct attention_parts *parts)
{
    int64_t keys = parts->key_words.count;
    for (int64_t i = 0; parts->visible && i < parts->query_words.count; i++) {
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

static void add_output(struct walk *walk, const struct attention_parts *parts, struct qkv_tensor *context)
{
    const struct projection *output = &parts->output_weight;
    const char *joined = "Z";
    if (parts->heads > 1) {
        joined = "C";
        qkv_walk_add_tensor(walk, "joined", "heads joined",
                            qkv_walk_text(walk, "C = [Z_1 ... Z_%lld]", (long long)parts->heads), context, 0,
                            false, parts->query_words, qkv_walk_numbered(parts->heads * parts->value_width));
    }
    if (!output->weight.rows) return;
    qkv_walk_add_matrix(walk, "output_weights", "output weights", "W_O", output->weight, 0,
                        qkv_walk_numbered(output->weight.rows));
    if (output->bias.rows)
        qkv_walk_add_matrix(walk, "output_bias", "output bias", "b_O", output->bias, 0, qkv_walk_numbered(1));
    qkv_walk_add_tensor(walk, "output", "output",
                        qkv_walk_text(walk, "Y = %s W_O%s", joined, output->bias.rows ? " + b_O" : ""),
                        qkv_walk_project(walk, context, output), 0, false, parts->query_words,
                        qkv_walk_numbered(output->weight.columns));
}

/* Queries or keys turned by the position of their word (Su et al. 2021). */
static struct qkv_tensor *rotate_by_position(struct walk *walk, const struct attention_parts *parts,
                                             struct qkv_tensor *x, bool keys)
{
    if (!parts->rotation.rows) return x;
    struct qkv_tensor *turn = qkv_walk_constant(walk, parts->rotation); /* row by row of all words */
    if (parts->positions && !keys)
        turn = qkv_gather_rows(walk->graph, turn, parts->positions, parts->query_words.count);
    x = qkv_rotate(walk->graph, x, turn, (struct qkv_segments){0}, 0);
    qkv_walk_add_tensor(
        walk, keys ? "turned_keys" : "turned_queries", keys ? "turned keys" : "turned queries",
        keys ? "K turned by the position of each word" : "Q turned by the position of each word", x,
        keys ? parts->key_value_heads : parts->heads, true, keys ? parts->key_words : parts->query_words,
        qkv_walk_numbered(parts->key_width));
    return x;
}

/* Makes queries, keys and values of what was not given, and notes them. */
static void make_lines(struct walk *walk, const struct attention_parts *parts, struct qkv_tensor **query,
                       struct qkv_tensor **key, struct qkv_tensor **value)
{
    bool compares = parts->score != QKV_SCORE_LENGTH;
    int64_t groups = parts->key_value_heads;
    if (compares && !parts->query) add_weights(walk, &QUERY, &parts->query_weight, parts->heads);
    if (compares && !parts->key) add_weights(walk, &KEY, &parts->key_weight, groups);
    if (!parts->value) add_weights(walk, &VALUE, &parts->value_weight, groups);
    *query = parts->query;
    *key = parts->key;
    *value = parts->value;
    if (compares) {
        if (!*query) *query = qkv_walk_project(walk, parts->x, &parts->query_weight);
        add_line(walk, &QUERY, parts->x_name, parts->x_step, !parts->query, &parts->query_weight, *query,
                 parts->heads, parts->query_width, parts->query_words);
        *query = rotate_by_position(walk, parts, *query, false);
        if (!*key) *key = qkv_walk_project(walk, parts->memory, &parts->key_weight);
        add_line(walk, &KEY, parts->memory_name, parts->memory_step, !parts->key, &parts->key_weight, *key,
                 groups, parts->key_width, parts->key_words);
        if (groups < parts->heads)
            walk->step[walk->count - 1].note =
                "Several heads in a row of the queries share each head of keys and values.";
        *key = rotate_by_position(walk, parts, *key, true);
    }
    if (!*value) *value = qkv_walk_project(walk, parts->memory, &parts->value_weight);
    add_line(walk, &VALUE, parts->memory_name, parts->memory_step, !parts->value, &parts->value_weight,
             *value, groups, parts->value_width, parts->key_words);
}

static const char *formula_of_weights(struct walk *walk, const struct attention_parts *parts)
{
    if (parts->place.weight.rows)
        return qkv_walk_text(walk, "A = softmax(S, where |j - p_i| <= %lld) times G",
                             (long long)parts->place.window);
    const char *placed = parts->alibi || parts->distance_bias.rows ? "scores with distance" : "scaled scores";
    const char *before = parts->visible || parts->added         ? "masked scores"
                         : parts->score == QKV_SCORE_SCALED_DOT ? placed
                                                                : "S";
    return qkv_walk_text(walk, "A = softmax(%s), row by row", before);
}

struct attention_result qkv_walk_attention(struct walk *walk, const struct attention_parts *given)
{
    struct attention_parts whole = *given, *parts = &whole;
    if (!parts->key_value_heads) parts->key_value_heads = parts->heads;
    if (!parts->query_width) parts->query_width = parts->key_width;
    const struct qkv_attention layout = {.heads = parts->heads,
                                         .key_value_heads = parts->key_value_heads,
                                         .queries = one_sentence(walk, parts->query_words.count),
                                         .keys = one_sentence(walk, parts->key_words.count)};
    struct qkv_tensor *query, *key, *value, *mask = NULL;
    if (walk->failed) return (struct attention_result){0};
    make_lines(walk, parts, &query, &key, &value);
    struct qkv_tensor *scores = qkv_walk_scores(walk, parts, query, key, layout);
    scores = apply_mask(walk, parts, scores);
    if (parts->visible)
        mask = qkv_walk_constant(
            walk, (struct qkv_matrix){parts->query_words.count, parts->key_words.count, parts->visible});
    struct qkv_tensor *weights = parts->place.weight.rows
                                     ? qkv_walk_place(walk, parts, query, scores, layout)
                                     : qkv_attention_weights(walk->graph, scores, mask, layout); /* [P] */
    qkv_walk_add_tensor(walk, "weights", "weights", formula_of_weights(walk, parts), weights, parts->heads,
                        false, parts->query_words, parts->key_words);
    walk->step[walk->count - 1].note = remark_on_rows(parts);
    walk->step[walk->count - 1].content = QKV_STEP_WEIGHTS;
    struct qkv_tensor *context = qkv_attention_mix(walk->graph, weights, value, layout); /* [Nq, H V] */
    qkv_walk_add_tensor(walk, "context", "context", "Z = A V", context, parts->heads, true,
                        parts->query_words, qkv_walk_numbered(parts->value_width));
    add_output(walk, parts, context);
    return (struct attention_result){layout, weights, value, context};
}
