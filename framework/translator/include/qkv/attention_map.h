/* Attention maps: the weights of each head as a matrix, and functions that select and write them.
 *
 * Row t of a map holds the weights of query token t for all key tokens; it sums to 1, or to less with the
 * attention score local_p. A report holds the maps of one sentence pair and the tokens that name their rows
 * and columns.
 * qkv/attention_collect.h makes reports from a model.
 *
 * Example:
 *     const char *const source[] = {"the", "cat", "</s>"}, *const input[] = {"<s>", "el", "gato"},
 *                *const output[] = {"el", "gato", "</s>"};
 *     const double weights[] = {0.9, 0.1, 0, 0.1, 0.8, 0.1, 0, 0, 1};
 *     const struct qkv_attention_map map = {.kind = QKV_ATTENTION_CROSS, .layer = 1, .head = 1,
 *                                           .rows = 3, .columns = 3, .weights = weights};
 *     const struct qkv_attention_report report = {.source = source, .source_length = 3,
 *                                                 .target_input = input, .target_output = output,
 *                                                 .target_length = 3, .maps = &map, .map_count = 1};
 *     struct qkv_error error;
 *     if (qkv_attention_write(&report, qkv_format_of_path("map.svg"), NULL, "map.svg", &error))
 *         fprintf(stderr, "%s\n", error.message);
 *
 * A report owns nothing: tokens and weights must outlive it. */
#ifndef QKV_ATTENTION_MAP_H
#define QKV_ATTENTION_MAP_H

#include "qkv/config.h"
#include "qkv/format.h"
#include "qkv/ops.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Returns the name of a kind in files and on the command line: encoder, decoder or cross; "unknown" for any other value. */
QKV_API const char *qkv_attention_kind_name(enum qkv_attention_kind kind);

/* One head of one layer. */
struct qkv_attention_map {
    enum qkv_attention_kind kind;
    int layer, head;          /* counted from 1; 0: the mean over layers, or over heads */
    int64_t rows, columns;    /* query tokens, key tokens */
    const double *weights;    /* [rows, columns]; each row sums to 1 */
    const char *label;        /* title in pictures and text; NULL: "layer 2, head 3" */
    const char *label_prefix; /* before the title, with a colon: "learned"; NULL: none */
    /* Which keys the rows see (qkv_attention_visible, row i at position columns - rows + i): pictures hatch the cells of
     * hidden keys, whose weights are 0. NULL: each row sees all keys, or the rule is not known. */
    const struct qkv_attention_rule *rule;
};

/* The maps of one sentence pair. */
struct qkv_attention_report {
    const char *title;     /* a line above pictures, usually the sentence pair; NULL: none */
    const char *model;     /* name of the model; NULL: none */
    const char *precision; /* of its products (qkv/base.h); NULL: float32 */
    const char *const *source;
    int64_t source_length; /* tokens, with </s> at the end */
    /* Decoder step t reads target_input[t], starting with <s>, and predicts target_output[t], ending with
     * </s>. Rows of cross maps are labelled with the predicted token; json has both. */
    const char *const *target_input, *const *target_output;
    int64_t target_length; /* decoder steps */
    const struct qkv_attention_map *maps;
    int64_t map_count;
    /* Names of the attention and of its axes in pictures; NULL: chosen by kind. */
    const char *name, *row_axis, *column_axis;
    const char *value_name; /* what the number in a cell is; NULL: attention weight */
    /* [silent_count]: the heads that were silent (qkv_model_ablate), such as "cross.2.1". */
    const char *const *silent_heads;
    int64_t silent_count;
};

/* Writes the name of a map into `text`, such as cross.2.3, or cross.2.mean for the mean over heads.
 * The name is cut to `size` bytes; 64 are enough. */
QKV_API void qkv_attention_map_name(const struct qkv_attention_map *map, char *text, size_t size);

/* Values of `layer` and `head` in qkv_attention_select, besides numbers from 1. */
enum {
    QKV_ATTENTION_EACH = -1, /* every layer, or every head */
    QKV_ATTENTION_MEAN = 0,  /* the mean over layers, or over heads */
    QKV_ATTENTION_BEST = -2, /* head only: for each kind, the head that agrees best with all heads */
};

/* Selects maps of a report, ordered by kind, layer and head. `kinds` is a set of bits 1u << kind; 0 means all kinds in the
 * report. A mean is the arithmetic mean of the maps of single heads of single layers; that of one map is the map itself, with
 * the numbers of its layer and head. The best head is the one with the largest sum of its weights times the mean weights of all
 * heads of the selected layers. `selected` lives in the arena and uses the tokens and weights of `report`. Fails with a message
 * that names the existing layers or heads if no map matches, if `kinds` has bits but none of a kind, if the report has no maps,
 * if a map is invalid or maps of one kind differ in shape, and if memory runs out. */
QKV_API enum qkv_status qkv_attention_select(const struct qkv_attention_report *report, unsigned kinds,
                                             int layer, int head, struct qkv_arena *arena,
                                             struct qkv_attention_report *selected, struct qkv_error *error);

/* The index of the word that each token of a sentence pair is part of, without <s> and </s>, as in qkv_tokens.word and
 * qkv_token_words (tokenizer.h); -1: no word. NULL: each token is a word. */
struct qkv_attention_words {
    const int64_t *source, *target;
};

/* Merges the tokens of each word, which follow one another, into one: the columns of the tokens are summed and their rows
 * averaged (Clark et al. 2019, "What does BERT look at?"), so that the sum of a row does not change. <s>, </s> and tokens
 * of no word stay as they are. `merged`, which may be `report`, lives in the arena and shares all other data with `report`.
 * Fails for maps that do not fit their tokens, and when memory runs out. */
QKV_API enum qkv_status qkv_attention_merge_words(const struct qkv_attention_report *report,
                                                  struct qkv_attention_words words, struct qkv_arena *arena,
                                                  struct qkv_attention_report *merged,
                                                  struct qkv_error *error);

/* Renders a report into *bytes, *size bytes of memory that the caller releases with free(). Equal arguments give equal
 * bytes, except for png, which depends on the installed fonts. Every format names what the cells hold if it is not attention
 * weights (report->value_name). The formats:
 *
 * - text: one table per map. Without colours, weights below 0.005 are shown as dots.
 * - json: {format, about, title, model, value, source, target_input, target_output, maps: [{name, kind,
 * layer, head, rows, columns, weights}]}. layer or head is "mean" for means; weights are
 * weights[row][column]; rows of cross maps are {input, output}, the tokens that the decoder steps
 * read and predict.
 * - csv: kind,layer,head,row,row_token,column,column_token,weight; rows and columns are counted
 * from 0.
 * - npz: one float64 array [rows, columns] per map, named by qkv_attention_map_name, and the
 * Unicode arrays value, source, target_input and target_output.
 * - html: one table per map.
 * - svg, png: one figure of heat maps with one colour bar.
 *
 * Fails for an unknown colormap, a report without maps, an image of more than 32767 pixels a side or with a scale
 * above 32, if memory runs out, for a format that is NULL, and for maps whose kind, layer or head (at most 4096) is invalid or
 * whose shape does not fit the tokens. */
QKV_API enum qkv_status qkv_attention_render(const struct qkv_attention_report *report,
                                             const struct qkv_format *format,
                                             const struct qkv_format_options *options, char **bytes,
                                             size_t *size, struct qkv_error *error);

/* Renders into a file. Fails as qkv_attention_render does, and if the file cannot be written; the
 * file is then left as it was. */
QKV_API enum qkv_status qkv_attention_write(const struct qkv_attention_report *report,
                                            const struct qkv_format *format,
                                            const struct qkv_format_options *options, const char *path,
                                            struct qkv_error *error);

#endif
