/* The steps that all walks share: from the projections to the output. */
#include "explain/walk.h"
#include "layers/layer.h"

#include <math.h>

/* ---- queries, keys and values ---- */

/* The texts for queries, for keys or for values. */
struct projection_texts {
    const char *name, *letter; /* "queries", "Q" */
    const char *weight_name, *weight_title, *weight_letter, *bias_name, *bias_title, *bias_letter;
};

static const struct projection_texts QUERY = {"queries", "Q",          "query_weights", "query weights",
                                              "W_Q",     "query_bias", "query bias",    "b_Q"},
                                     KEY = {"keys", "K",        "key_weights", "key weights",
                                            "W_K",  "key_bias", "key bias",    "b_K"},
                                     VALUE = {"values", "V",          "value_weights", "value weights",
                                              "W_V",    "value_bias", "value bias",    "b_V"};

/* Queries, keys or values: given, or projected from an input. */
struct projected {
    const struct projection_texts *texts;
    struct qkv_tensor *given; /* NULL: projected */
    struct qkv_tensor *input;
    const char *input_name, *input_step;
    const struct projection *projection;
    int64_t heads;
    struct qkv_texts words;
    const char *note;
};

static void add_weights(struct walk *walk, const struct projected *p)
{
    if (p->given) return;
    if (p->projection->weight.rows)
        qkv_walk_add_matrix(walk, p->texts->weight_name, p->texts->weight_title, p->texts->weight_letter,
                            p->projection->weight, p->heads);
    if (p->projection->bias.rows)
        qkv_walk_add_matrix(walk, p->texts->bias_name, p->texts->bias_title, p->texts->bias_letter,
                            p->projection->bias, p->heads);
}

/* Adds queries, keys or values and returns them, [N, heads width]. */
static struct qkv_tensor *add_projected(struct walk *walk, const struct projected *p)
{
    const struct projection_texts *texts = p->texts;
    bool has_weight = p->projection->weight.rows, has_bias = p->projection->bias.rows;
    struct qkv_tensor *result = p->given ? p->given : qkv_walk_project(walk, p->input, p->projection);
    const char *formula = texts->letter;
    if (!p->given)
        formula = qkv_walk_text(walk, "%s = %s%s%s%s%s", texts->letter, p->input_name, has_weight ? " " : "",
                                has_weight ? texts->weight_letter : "", has_bias ? " + " : "",
                                has_bias ? texts->bias_letter : "");
    qkv_walk_add(walk, &(struct new_step){.name = texts->name,
                                          .title = texts->name,
                                          .formula = formula,
                                          .same_as = p->given || has_weight ? NULL : p->input_step,
                                          .tensor = result,
                                          .heads = p->heads,
                                          .side_by_side = true,
                                          .rows = p->words});
    qkv_walk_note(walk, p->note);
    if (!p->given && has_weight && p->input_step)
        qkv_walk_rule(walk, QKV_STEP_RULE_PRODUCT, p->input_step, texts->weight_name,
                      has_bias ? texts->bias_name : NULL);
    return result;
}

/* Rotates queries or keys [N, heads K] by the position of their word (Su et al. 2021). */
static struct qkv_tensor *rotate(struct walk *walk, const struct attention_setup *setup, struct qkv_tensor *x,
                                 bool keys)
{
    if (!setup->rotation.rows) return x;
    struct qkv_tensor *table = qkv_walk_constant(walk, setup->rotation);
    if (setup->positions && !keys)
        table = qkv_gather_rows(walk->graph, table, setup->positions, setup->query_words.count);
    x = qkv_rotate(walk->graph, x, table, (struct qkv_segments){0}, 0);
    qkv_walk_add(walk, &(struct new_step){.name = keys ? "rotated_keys" : "rotated_queries",
                                          .title = keys ? "rotated keys" : "rotated queries",
                                          .formula = keys ? "K rotated by the position of each word"
                                                          : "Q rotated by the position of each word",
                                          .tensor = x,
                                          .heads = keys ? setup->rule.key_value_heads : setup->rule.heads,
                                          .side_by_side = true,
                                          .rows = keys ? setup->key_words : setup->query_words});
    return x;
}

/* Adds queries, keys and values; projects those that are not given, and adds the weights of the
 * projections. Scores by length need only values. */
static void add_inputs(struct walk *walk, const struct attention_setup *setup, struct qkv_tensor **query,
                       struct qkv_tensor **key, struct qkv_tensor **value)
{
    bool compares = setup->score != QKV_SCENE_SCORE_LENGTH;
    int64_t heads = setup->rule.heads, groups = setup->rule.key_value_heads;
    const char *shared =
        groups < heads ? "Each head of keys and values is shared by several consecutive heads of queries."
                       : NULL;
    const struct projected queries = {&QUERY,        setup->query,       setup->x,
                                      setup->x_name, setup->x_step,      &setup->query_projection,
                                      heads,         setup->query_words, NULL},
                           keys = {&KEY,
                                   setup->key,
                                   setup->memory,
                                   setup->memory_name,
                                   setup->memory_step,
                                   &setup->key_projection,
                                   groups,
                                   setup->key_words,
                                   shared},
                           values = {&VALUE,
                                     setup->value,
                                     setup->memory,
                                     setup->memory_name,
                                     setup->memory_step,
                                     &setup->value_projection,
                                     groups,
                                     setup->key_words,
                                     NULL};
    *query = *key = NULL;
    if (compares) add_weights(walk, &queries);
    if (compares) add_weights(walk, &keys);
    add_weights(walk, &values);
    if (compares) {
        *query = rotate(walk, setup, add_projected(walk, &queries), false);
        *key = rotate(walk, setup, add_projected(walk, &keys), true);
    }
    *value = add_projected(walk, &values);
}

/* ---- mask ---- */

/* Adds the mask and the masked scores. The softmax applies setup->visible, so only added_mask
 * changes the scores that are returned. */
static struct qkv_tensor *apply_mask(struct walk *walk, const struct attention_setup *setup,
                                     struct qkv_tensor *scores)
{
    int64_t cells = setup->query_words.count * setup->key_words.count;
    const char *unmasked = walk->step[walk->count - 1].name;
    if (!setup->visible && !setup->added_mask) return scores;
    qkv_walk_add(
        walk, &(struct new_step){.name = "mask",
                                 .title = "mask",
                                 .formula = setup->added_mask ? "added to the scores" : "1 visible, 0 hidden",
                                 .values = setup->added_mask ? setup->added_mask : setup->visible,
                                 .rows = setup->query_words,
                                 .columns = setup->key_words});
    qkv_walk_note(walk, setup->mask_note);
    if (setup->added_mask) {
        double *repeated = qkv_walk_memory(walk, cells * setup->rule.heads, sizeof *repeated);
        struct qkv_tensor *added = qkv_constant(walk->graph, QKV_SHAPE(cells * setup->rule.heads));
        if (!repeated || !added) return NULL;
        for (int64_t i = 0; i < cells * setup->rule.heads; i++) {
            double value = setup->added_mask[i % cells];
            repeated[i] = isinf(value) ? 0 : value; /* hidden by setup->visible: no infinity in sums */
        }
        qkv_tensor_write(added, repeated);
        scores = qkv_add(walk->graph, scores, added);
    }
    qkv_walk_add(walk, &(struct new_step){.name = "masked_scores",
                                          .title = "masked scores",
                                          .formula = setup->added_mask ? "scores + mask" : "hidden: -inf",
                                          .tensor = scores,
                                          .visible = setup->visible,
                                          .heads = setup->rule.heads,
                                          .rows = setup->query_words,
                                          .columns = setup->key_words});
    qkv_walk_rule(walk, QKV_STEP_RULE_SUM, unmasked, setup->added_mask ? "mask" : NULL, NULL);
    return scores;
}

/* A note for rows of weights that are all zero; NULL when there are none. */
static const char *note_on_weights(const struct attention_setup *setup)
{
    int64_t keys = setup->key_words.count;
    for (int64_t i = 0; setup->visible && i < setup->query_words.count; i++) {
        bool sees = false;
        for (int64_t j = 0; j < keys; j++) sees = sees || setup->visible[i * keys + j] > 0;
        if (!sees) return "A row that sees no word has no weights: its sum is 0, and so is its context.";
    }
    return NULL;
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

/* `context`: 0 for silent heads. Returns the output; NULL without output projection. */
static struct qkv_tensor *add_output(struct walk *walk, const struct attention_setup *setup,
                                     struct qkv_tensor *context)
{
    const struct projection *output = &setup->output_projection;
    bool has_heads = setup->rule.heads > 1, is_silent = qkv_silence_any(setup->silent, setup->rule.heads),
         joins = has_heads || (is_silent && output->weight.rows);
    if (joins) {
        qkv_walk_add_tensor(
            walk, "concatenated", has_heads ? "heads concatenated" : "context of the silent head",
            has_heads ? qkv_walk_text(walk, "C = [Z_1 ... Z_%lld]", (long long)setup->rule.heads) : "C = 0",
            context, setup->query_words);
        qkv_walk_rule(walk, QKV_STEP_RULE_JOIN, "context", NULL, NULL);
        if (is_silent) qkv_walk_note(walk, "The context of a silent head counts as 0.");
    }
    if (!output->weight.rows) return NULL;
    qkv_walk_add_matrix(walk, "output_weights", "output weights", "W_O", output->weight, 0);
    if (output->bias.rows) qkv_walk_add_matrix(walk, "output_bias", "output bias", "b_O", output->bias, 0);
    struct qkv_tensor *result = qkv_walk_project(walk, context, output);
    qkv_walk_add_tensor(
        walk, "output", "output",
        qkv_walk_text(walk, "Y = %s W_O%s", joins ? "C" : "Z", output->bias.rows ? " + b_O" : ""), result,
        setup->query_words);
    qkv_walk_rule(walk, QKV_STEP_RULE_PRODUCT, joins ? "concatenated" : "context", "output_weights",
                  output->bias.rows ? "output_bias" : NULL);
    return result;
}

static const char *formula_of_weights(struct walk *walk, const struct attention_setup *setup)
{
    if (setup->predictor.weight.rows)
        return qkv_walk_text(walk, "A = softmax(S, where |j - p_i| <= %lld) times G",
                             (long long)setup->predictor.window);
    bool by_distance = qkv_attention_adds_distance(&setup->rule);
    const char *scores = setup->visible || setup->added_mask          ? "masked scores"
                         : setup->score != QKV_SCENE_SCORE_SCALED_DOT ? "S"
                         : by_distance                                ? "scores with distance"
                                                                      : "scaled scores";
    return qkv_walk_text(walk, "A = softmax(%s), row by row", scores);
}

static struct qkv_tensor *add_attention_weights(struct walk *walk, const struct attention_setup *setup,
                                                struct qkv_tensor *query, struct qkv_tensor *scores,
                                                struct qkv_attention layout)
{
    struct qkv_matrix visible = {setup->query_words.count, setup->key_words.count, setup->visible};
    struct qkv_tensor *mask = setup->visible ? qkv_walk_constant(walk, visible) : NULL;
    const char *logits = walk->step[walk->count - 1].name; /* the final scores, with bias and mask */
    struct qkv_tensor *weights = setup->predictor.weight.rows
                                     ? qkv_walk_local_weights(walk, setup, query, scores, layout)
                                     : qkv_attention_weights(walk->graph, scores, mask, layout); /* [P] */
    qkv_walk_add(walk, &(struct new_step){.name = "weights",
                                          .title = "weights",
                                          .formula = formula_of_weights(walk, setup),
                                          .content = QKV_STEP_WEIGHTS,
                                          .tensor = weights,
                                          .heads = setup->rule.heads,
                                          .rows = setup->query_words,
                                          .columns = setup->key_words});
    qkv_walk_note(walk, note_on_weights(setup));
    if (!setup->predictor.weight.rows) qkv_walk_rule(walk, QKV_STEP_RULE_SOFTMAX, logits, NULL, NULL);
    return weights;
}

struct attention_result qkv_walk_attention(struct walk *walk, const struct attention_setup *given)
{
    struct attention_setup complete = *given;
    const struct attention_setup *setup = &complete;
    if (!complete.rule.key_value_heads) complete.rule.key_value_heads = complete.rule.heads;
    if (!complete.query_width) complete.query_width = complete.key_width;
    /* Scale, distance bias and mask are steps of the walk, so the ops get a rule without them. */
    const struct qkv_attention layout = {.rule.heads = setup->rule.heads,
                                         .rule.key_value_heads = setup->rule.key_value_heads,
                                         .queries = one_sentence(walk, setup->query_words.count),
                                         .keys = one_sentence(walk, setup->key_words.count)};
    struct qkv_tensor *query, *key, *value;
    if (walk->failed) return (struct attention_result){0};
    add_inputs(walk, setup, &query, &key, &value);
    struct qkv_tensor *scores = qkv_walk_scores(walk, setup, query, key, layout);
    scores = apply_mask(walk, setup, scores);
    struct qkv_tensor *weights = add_attention_weights(walk, setup, query, scores, layout);
    struct qkv_tensor *context = qkv_attention_mix(walk->graph, weights, value, layout); /* [Nq, H V] */
    qkv_walk_add(walk, &(struct new_step){.name = "context",
                                          .title = "context",
                                          .formula = "Z = A V",
                                          .tensor = context,
                                          .heads = setup->rule.heads,
                                          .side_by_side = true,
                                          .rows = setup->query_words});
    qkv_walk_rule(walk, QKV_STEP_RULE_PRODUCT, "weights", "values", NULL);
    context = qkv_silence_apply(setup->silent, setup->rule.heads, walk->graph, context);
    struct qkv_tensor *output = add_output(walk, setup, context);
    return (struct attention_result){layout, weights, value, context, output};
}
