/* Private: Explanations of attention as data: a list of matrices with formula, shape and names, and
 * functions that write it in any format of qkv/attention_map.h. explain/explain.h computes explanations of
 * scenes and models.
 *
 * Example:
 *     const double weights[] = {0.75, 0.25, 0, 1};
 *     const char *const words[] = {"the", "cat"};
 *     const struct qkv_step step = {.name = "weights", .title = "weights", .formula = "softmax(S)",
 *                                   .content = QKV_STEP_WEIGHTS, .rows = 2, .columns = 2,
 *                                   .values = weights, .row_names = words, .column_names = words};
 *     const struct qkv_explanation explanation = {.title = "two words", .step_count = 1, .steps = &step};
 *     struct qkv_error error;
 *     char *bytes;
 *     size_t size;
 *     if (qkv_explanation_render(&explanation, 1, qkv_format_find("html"), NULL, &bytes, &size, &error))
 *         fprintf(stderr, "%s\n", error.message);
 *
 * An explanation owns nothing: steps, names and numbers must outlive it. */
#pragma once

#include "qkv/attention_map.h"

/* What the numbers of a step are. Writers draw and store each kind of content differently. */
enum qkv_step_content {
    QKV_STEP_MATRIX,
    QKV_STEP_TOKENS, /* ids of tokens, or their numbers from 1 in a scene; column_names are the tokens */
    QKV_STEP_WEIGHTS, /* attention weights: a row sums to 1; to less with a sink or local_p, to 0 if it sees no key */
};

/* How the numbers of a step follow from those of earlier steps X, Y and Z (struct qkv_step: from). */
enum qkv_step_rule {
    QKV_STEP_RULE_NONE,        /* the numbers are given, or are not computed as a sum */
    QKV_STEP_RULE_PRODUCT,     /* X Y, plus Z in each row unless Z is NULL */
    QKV_STEP_RULE_ROW_PRODUCT, /* X Yᵀ: products of a row of X and a row of Y */
    QKV_STEP_RULE_SUM,         /* X + Y */
    QKV_STEP_RULE_SCALE,       /* X times struct qkv_step: factor */
    QKV_STEP_RULE_SOFTMAX,     /* exp(X), divided by the sum of its row */
    QKV_STEP_RULE_JOIN,        /* the heads of X side by side; 0 where a head is ablated */
};

/* One matrix, or one matrix per head. */
struct qkv_step {
    const char *name;    /* unique within an explanation: "scaled_scores" */
    const char *title;   /* for people: "scaled scores" */
    const char *formula; /* "S / √3"; "" for none */
    const char *note;    /* a sentence for the reader; NULL: none */
    const char *same_as; /* name of an earlier step with the same numbers; NULL: none */
    enum qkv_step_content content;
    int64_t heads; /* 0: one matrix that all heads share */
    int64_t rows, columns;
    const double *values; /* [rows, columns], or [heads, rows, columns]; masked scores are -INFINITY */
    const char *const *row_names, *const *column_names; /* NULL: numbered from 1 */
    enum qkv_step_rule rule;
    const char *from[3]; /* X, Y and Z of the rule: names of earlier steps; NULL: none */
    double factor;       /* of QKV_STEP_RULE_SCALE; otherwise 0 */
};

/* The steps through one attention layer. */
struct qkv_explanation {
    const char *title; /* NULL or "": none */
    const char *about; /* a paragraph below the title; NULL or "": none */
    const char *label; /* distinguishes explanations shown side by side, such as "random"; NULL: none */
    const char *model; /* name of the model; NULL: none */
    enum qkv_attention_kind kind;
    int layer;           /* counted from 1; 0: not a layer of a model */
    int first_head;      /* number of the first head in the steps, counted from 1 */
    int64_t heads;       /* heads in the steps */
    int64_t layer_heads; /* heads of the layer */
    int64_t step_count;
    const struct qkv_step *steps;
};

/* Returns the step of that name; NULL if there is none. */
const struct qkv_step *qkv_explanation_step(const struct qkv_explanation *explanation, const char *name);

/* Removes all heads but one from the steps; copies them into the arena. `head` counts from 1;
 * QKV_ATTENTION_BEST (qkv/attention_map.h) means the head whose weights agree best with the mean of
 * all. explanation->first_head is then the number of the head. Fails with a message that names the
 * heads if there is no such head, for the best head of an explanation without weights, and if memory
 * runs out. */
enum qkv_status qkv_explanation_select_head(struct qkv_explanation *explanation, int head,
                                            struct qkv_arena *arena, struct qkv_error *error);

/* Renders one explanation, or `count` explanations with the same steps side by side, into memory
 * that the caller frees. The steps of the first one decide what is shown. Depending on the format:
 *
 * - text, html: one section per step. Large matrices are shortened unless options.full is set; text has all columns, but
 * of a layer of a model only the most important steps, unless options.full is set.
 * - json: {format, title, about, walks: [{label, model, kind, layer, first_head, heads, steps:
 * [{name, title, formula, note, shape, rows, columns, values}]}]}. rows and columns are the names,
 * or null; values are nested lists in which masked scores are null.
 * - npz: one float64 array per step, [rows, columns] or [heads, rows, columns]. Its name is the
 * step's, after the label and a dot if there are several explanations. tokens and source_tokens are
 * Unicode arrays.
 * - csv: label,step,head,row,row_name,column,column_name,value; rows and columns are counted from
 * 0, heads from 1; head is empty for a matrix that all heads share, a name is empty if there is
 * none.
 * - svg, png: the attention weights as heat maps.
 *
 * Fails for an unknown colormap, an image of more than 32767 pixels a side, svg or png of explanations without weights, for
 * a format that is NULL, for shapes that differ between explanations but must agree (in the heads of a step; in a picture, in
 * the complete shape), and if memory runs out. */
enum qkv_status qkv_explanation_render(const struct qkv_explanation *explanations, int count,
                                       const struct qkv_format *format,
                                       const struct qkv_format_options *options, char **bytes, size_t *size,
                                       struct qkv_error *error);
