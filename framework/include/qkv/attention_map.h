/* Attention maps as numbers and pictures.
 *
 * A map is the matrix of one head: row t says where query token t looked, column s is a key token, and each
 * row sums to 1. A report holds the maps of one sentence pair with the tokens that name their rows and
 * columns; it is written in any of the formats of one table: json, csv, npz, svg, png, text.
 *
 *     struct qkv_attention_report shown;
 *     qkv_attention_select(&report, 1u << QKV_ATTENTION_CROSS, QKV_ATTENTION_EACH, QKV_ATTENTION_MEAN,
 * &arena, &shown, &error); qkv_attention_write(&shown, qkv_format_of_path("cross.svg"), NULL,
 * "cross.svg", &error);
 *
 * Nothing here owns the tokens and weights of a report: they must outlive it. */
#ifndef QKV_ATTENTION_MAP_H
#define QKV_ATTENTION_MAP_H

#include "qkv/arena.h"
#include "qkv/attention_kind.h"
#include "qkv/error.h"
#include "qkv/format.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The name in files and on the command line: encoder, decoder, cross. */
QKV_API const char *qkv_attention_kind_name(enum qkv_attention_kind kind);

/* Finds a kind by name; false when there is none. */
QKV_API bool qkv_attention_kind_find(const char *name, enum qkv_attention_kind *kind);

/* One head of one layer. */
struct qkv_attention_map {
    enum qkv_attention_kind kind;
    int layer, head;       /* count from 1; 0: the mean over the layers, or heads */
    int64_t rows, columns; /* query tokens, key tokens */
    const double *weights; /* [rows, columns], row after row; each row sums to 1 */
    const char *label;     /* its name in pictures and text; NULL: layer and head */
    const char *origin;    /* a word before that name, "learned"; NULL: none */
};

/* The maps of one sentence pair. */
struct qkv_attention_report {
    const char *title; /* a line above pictures, usually the sentence pair; NULL: none */
    const char *model; /* the name of the model; NULL: none */
    const char *const *source;
    int64_t source_length; /* tokens, with the </s> at the end */
    /* The decoder at step t takes target_input[t], from <s> on, and outputs target_output[t], up to </s>.
     * Rows of cross maps are named after the word that the step outputs; the json has both. */
    const char *const *target_input, *const *target_output;
    int64_t target_length; /* steps */
    const struct qkv_attention_map *maps;
    int64_t map_count;
    /* What pictures call the attention and its axes; NULL: as the kind says. */
    const char *name, *row_axis, *column_axis;
};

/* The tokens that name the rows (columns) of maps of a kind: as many as the map has rows (columns). */
QKV_API const char *const *qkv_attention_row_tokens(const struct qkv_attention_report *report,
                                                    enum qkv_attention_kind kind);
QKV_API const char *const *qkv_attention_column_tokens(const struct qkv_attention_report *report,
                                                       enum qkv_attention_kind kind);

/* Writes the name of a map, such as `cross.2.3`, or `cross.2.mean` for the mean over heads, cut to `size`. */
QKV_API void qkv_attention_map_name(const struct qkv_attention_map *map, char *text, size_t size);

/* What `layer` and `head` of qkv_attention_select may be, besides a number from 1. */
enum {
    QKV_ATTENTION_EACH = -1, /* every one */
    QKV_ATTENTION_MEAN = 0,  /* the mean of all */
    QKV_ATTENTION_BEST =
        -2, /* head only: of each kind the one single head that agrees best with all others */
};

/* Makes a report of some of the maps: those of the kinds in `kinds` (bits 1u << kind; 0: all that there are),
 * of the given layer and head, ordered by kind, layer, head. Means are the arithmetic mean of the maps of
 * single heads of single layers; their rows sum to 1 again. The best head is
 * the one with the largest sum of its weights times the mean weights of all heads of the chosen layers: it
 * looks where most of them look, and is surest of it. Lives in the arena, and borrows from `report`.
 * Fails, naming what there is, when nothing fits. */
QKV_API enum qkv_status qkv_attention_select(const struct qkv_attention_report *report, unsigned kinds,
                                             int layer, int head, struct qkv_arena *arena,
                                             struct qkv_attention_report *selected, struct qkv_error *error);

/* Renders a report into memory that the caller frees. The bytes depend on the arguments only, except for png,
 * which also depends on the installed fonts. Fails for an unknown colormap, a report without maps, a png
 * picture of more than 32767 pixels a side, and out of memory. */
QKV_API enum qkv_status qkv_attention_render(const struct qkv_attention_report *report,
                                             const struct qkv_format *format,
                                             const struct qkv_format_options *options, char **bytes,
                                             size_t *size, struct qkv_error *error);

/* Renders a report into a file, which is whole or not there. Fails as rendering does, and when the file
 * cannot be written. */
QKV_API enum qkv_status qkv_attention_write(const struct qkv_attention_report *report,
                                            const struct qkv_format *format,
                                            const struct qkv_format_options *options, const char *path,
                                            struct qkv_error *error);

#endif
