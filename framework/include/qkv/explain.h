/* Attention step by step: every matrix between the words and the output of one attention layer, with its
 * formula and shape. The numbers are computed by the ops that models are made of, in float64, so what is
 * explained is what runs.
 *
 *     struct qkv_explanation explanation;
 *     if (qkv_explain_scene(&scene, &arena, &explanation, &error)) ...
 *     qkv_explain_write(&explanation, 1, qkv_explain_format_find("html"), NULL, "scene.html", &error);
 *
 * Steps in order, each only where there is such a thing: tokens, embeddings, positions, inputs (and
 * source_tokens, ... of what is looked at), layer_inputs, memory, query_weights, key_weights, value_weights
 * (and query_bias, ...), queries, turned_queries, keys, turned_keys, values, score_weights (or score_query,
 * score_key, score_vector), scores, scaled_scores, distance_bias, placed_scores, mask, masked_scores,
 * weights, context, joined, output_weights, output_bias, output, sum.
 *
 * Of a recurrent decoder the words that are looked at come first, up to memory, the states of the encoder;
 * then tokens, embeddings, fed (what each step takes in of the one before it), states, which ask, and from
 * queries on the same; local-p has place_weights, place_vector, places and nearness before the weights. Its
 * joined are state and context, its output the vector that is made of them (Luong et al. 2015, equation 5).
 */
#ifndef QKV_EXPLAIN_H
#define QKV_EXPLAIN_H

#include "qkv/attention_collect.h"
#include "qkv/attention_map.h"
#include "qkv/scene.h"

/* One matrix, or one a head. */
struct qkv_step {
    const char *name;    /* of the list above */
    const char *title;   /* "scaled scores" */
    const char *formula; /* "S / √3"; "" where there is none */
    const char *note;    /* a sentence to the reader; NULL: none */
    const char *same;    /* an earlier step that holds the same numbers; NULL: none */
    int64_t heads;       /* 0: the same for all heads, a single matrix */
    int64_t rows, columns;
    const double *values; /* [rows, columns], or [heads, rows, columns]; hidden scores are -INFINITY */
    const char *const *row_names, *const *column_names; /* words; NULL: they are numbered */
};

/* The walk through one attention layer. Lives in the arena that it was made in. */
struct qkv_explanation {
    const char *title, *about; /* about: "" for nothing */
    const char *label;         /* what sets it off against another: "random", "learned" */
    const char *model;         /* NULL: no model, a scene */
    enum qkv_attention_kind kind;
    int layer;      /* from 1; of scenes 0 */
    int first_head; /* number, from 1, of the first head that the steps hold */
    int64_t heads;  /* how many they hold, */
    int64_t of;     /* and how many the layer has */
    int64_t step_count;
    const struct qkv_step *steps;
};

/* The step of that name, or NULL. */
QKV_API const struct qkv_step *qkv_explain_step(const struct qkv_explanation *explanation, const char *name);

/* Leaves only one head (from 1) in the steps that have some. Fails, naming what there is. */
QKV_API enum qkv_status qkv_explain_select_head(struct qkv_explanation *explanation, int head,
                                                struct qkv_arena *arena, struct qkv_error *error);

/* Walks through a scene. Fails where a run that it names cannot be opened or does not fit, and out of memory.
 */
QKV_API enum qkv_status qkv_explain_scene(const struct qkv_scene *scene, struct qkv_arena *arena,
                                          struct qkv_explanation *explanation, struct qkv_error *error);

/* Walks through one attention layer of a model while it reads a sentence pair (forced, without dropout): the
 * numbers that qkv_attention_collect sees, and all those on the way. Rows of cross attention are named by the
 * word that the step outputs. The model must be float64. `layer`: from 1; 0: the last of that kind. `follow`
 * (may be NULL): only these rows ask. Fails for a layer or a kind of attention that there is not, and as
 * qkv_attention_collect does. */
QKV_API enum qkv_status qkv_explain_model(const struct qkv_model *model,
                                          const struct qkv_attention_pair *pair, enum qkv_attention_kind kind,
                                          int layer, const struct qkv_texts *follow, struct qkv_arena *arena,
                                          struct qkv_explanation *explanation, struct qkv_error *error);

/* ---- writing ---- */

/* How to write. All zero is a good choice. */
struct qkv_explain_options {
    bool full;     /* every row and column of large matrices, in text and html */
    int digits;    /* behind the point, in text and html; 0: 4 */
    int64_t width; /* text: columns of the terminal; 0: 80 */
    struct qkv_attention_options
        drawing; /* svg, png: as for attention maps; html: its colormap, of weights */
};

/* One row of the table of formats (framework/explain/formats.def):
 *
 * - text: a chapter a step, for the terminal; walks side by side where they fit, else one below the other.
 * - json: one object with title, about and walks; a walk has label and steps, a step name, title, formula,
 * shape, note, rows, columns (the words, or null) and values (nested lists; hidden scores are null).
 * - npz: a float64 array a step, named after it, with the label and a dot before it where there are several
 * walks; and tokens and source_tokens as Unicode arrays.
 * - html: one page that needs no other file and no script; cells are coloured by their numbers.
 * - svg, png: the weights, drawn as attention maps are. */
struct qkv_explain_format {
    const char *name, *extension, *help;
    bool binary;
};

/* The formats, in the order of the table; NULL behind the last. */
QKV_API const struct qkv_explain_format *qkv_explain_format(int64_t index);

/* Finds a format by name or extension, or by what follows the last dot of a path; NULL when there is none. */
QKV_API const struct qkv_explain_format *qkv_explain_format_find(const char *name);
QKV_API const struct qkv_explain_format *qkv_explain_format_of_path(const char *path);

/* Renders one walk, or several through the same steps side by side, into memory that the caller frees. Fails
 * as qkv_attention_render does. */
QKV_API enum qkv_status qkv_explain_render(const struct qkv_explanation *explanations, int count,
                                           const struct qkv_explain_format *format,
                                           const struct qkv_explain_options *options, char **bytes,
                                           size_t *size, struct qkv_error *error);

#endif
