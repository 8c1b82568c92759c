/* Attention maps: the weights of each head as a matrix, and functions that select and write them.
 *
 * Row t of a map holds the weights of query token t for all key tokens; it sums to 1, or to less with a sink or the
 * attention score local_p. A report holds the maps of one sentence pair and the tokens that name their rows
 * and columns.
 * qkv_attention_collect makes reports from a model, qkv_text_translator_attention (run.h) from a text.
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

#include "qkv/base.h"
#include "qkv/config.h"
#include "qkv/corpus.h"
#include "qkv/graph.h"
#include "qkv/model.h"
#include "qkv/run.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* ======== output formats ========
 * Output formats of attention maps and explanations (`qkv explain`): one
 * table for both.
 *
 * Example:
 *     const struct qkv_format *format = qkv_format_of_path("cross.svg");
 *     if (!format) format = qkv_format_find("text");
 *     printf("%s: %s\n", format->name, format->help);
 *
 * The table has one row per format, in framework/translator/report/formats.def:
 *
 *     text  tables in the terminal: numbers on coloured cells, split or cut where they are too wide
 *     json  one object with the tokens and all numbers, which read back as the same doubles
 *     csv   RFC 4180; one line per number; numbers read back as the same doubles. A token that begins
 *           with = + - or @ and is no number has an apostrophe before it: spreadsheets would compute it
 *     npz   for numpy.load: float64 arrays, and Unicode arrays of the tokens
 *     html  one page without scripts or other files; cells are coloured by their numbers
 *     svg   heat maps; tokens are text, and each cell shows its weight under the pointer
 *     png   the same heat maps as pixels; loads the libraries Pango and Cairo, and fails without them
 *     pdf   the same heat maps on one page; needs the same libraries
 *
 * Each format writes both attention maps and explanations. svg, png and pdf draw only the attention weights of an explanation.
 * qkv_attention_render describes the contents. Tokens and names may be any text: each format
 * escapes its special characters, pictures and tables show U+FFFD for control characters, and bytes that are not UTF-8
 * become U+FFFD. */

/* What a format is used for. Programs choose defaults by it: `qkv attention` writes every map as data, but only
 * cross-attention as pictures and tables. */
enum qkv_format_use {
    QKV_FORMAT_DATA,     /* other programs read it */
    QKV_FORMAT_PICTURE,  /* people look at it */
    QKV_FORMAT_TERMINAL, /* people read it in a terminal: options.width and options.colors apply */
};

/* Whether and how several outputs, such as those of several sentences, can be written to one stream. */
enum qkv_format_sequence {
    QKV_FORMAT_SINGLE, /* not at all */
    QKV_FORMAT_LINES,  /* one per line: JSON, which programs must print without its line breaks */
    QKV_FORMAT_BLOCKS, /* with an empty line between outputs */
};

/* One row of the table. Formats are compared by name, so a copy of a row is the same format. */
struct qkv_format {
    const char *name;      /* "json" */
    const char *extension; /* of its files, without the dot: "json"; "txt" for text */
    const char *help;      /* one line for lists of formats */
    enum qkv_format_use use;
    bool binary; /* must not be printed on a terminal */
    enum qkv_format_sequence sequence;
};

/* Returns the row at `index`, counted from 0; NULL after the last. */
QKV_API const struct qkv_format *qkv_format(int64_t index);

/* Finds a format by its name or extension; NULL if there is none. */
QKV_API const struct qkv_format *qkv_format_find(const char *name);

/* Finds the format of a file by the extension of its name; NULL if the name has none or no format
 * uses it. */
QKV_API const struct qkv_format *qkv_format_of_path(const char *path);

/* Which colours a terminal shows. */
enum qkv_terminal_colors {
    QKV_COLORS_NONE, /* no escape sequences */
    QKV_COLORS_256,  /* the palette of xterm-256color */
    QKV_COLORS_TRUE, /* 24 bits */
};

/* Characters for which no font is installed: a png shows boxes with their codes. */
struct qkv_missing_characters {
    int64_t count;          /* different ones; at most 64 are counted */
    uint32_t character[64]; /* [count] */
};

/* Options for writing. All zero, or NULL in place of the options, are good defaults. A format ignores options that do not
 * apply to it. */
struct qkv_format_options {
    const char *colormap; /* of weights: YlOrRd, viridis, plasma, magma or gray; NULL: YlOrRd */
    bool annotate;        /* svg, png, pdf: print the weight in each cell */
    double maximum; /* svg, png, pdf, text: weight of the last colour; 0: the largest weight, rounded up */
    double scale;   /* png: pixels per unit of svg, at most 32; 0: 2 */
    struct qkv_missing_characters *missing; /* png, pdf: those of the picture are added; NULL: not wanted */
    int64_t width;                          /* text: columns of the terminal; 0: 80 */
    enum qkv_terminal_colors colors;        /* text */
    bool full;  /* text and html of explanations: all steps, and all rows and columns of large matrices */
    int digits; /* text and html of explanations: digits after the decimal point, at most 17; 0: 4 */
};

/* Returns the name of a kind in files and on the command line: encoder, decoder or cross; "unknown" for any other value. */
QKV_API const char *qkv_attention_kind_name(enum qkv_attention_kind kind);

/* One head of one layer. */
struct qkv_attention_map {
    enum qkv_attention_kind kind;
    int layer, head;          /* counted from 1; 0: the mean over layers, or over heads */
    int64_t rows, columns;    /* query tokens, key tokens */
    const double *weights;    /* [rows, columns]; each row sums to 1, or to less (see the top) */
    const char *label;        /* title in pictures and text; NULL: "layer 2, head 3" */
    const char *label_prefix; /* before the title, with a colon: "learned"; NULL: none */
    /* Which keys the rows see (row i is at position columns - rows + i): pictures hatch the cells of
     * hidden keys, whose weights are 0. NULL: each row sees all keys, or the rule is not known. */
    const struct qkv_attention_rule *rule;
    const char
        *name; /* in files, of a map that is not of heads: "erasure.source"; NULL: kind, layer and head */
    const double *nats; /* [rows]: what the shares of a row are of, for text; NULL: not given */
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
    /* [target_length]: the probability of target_output[t] after what the decoder has read, and the labels of the rows of
     * decoder maps, such as "t→h:0.43"; NULL: not computed */
    const double *next_probability;
    const char *const *step_labels;
    /* Of integrated gradients: the log-probability of target_output[t] in a text of <unk>, [target_length] (NULL: another
     * method), and by how much the worst row misses the rise of log p from there: relative to it, if that is above 1 */
    const double *baseline;
    double missed;
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
 * qkv_token_words (corpus.h); -1: no word. NULL: each token is a word. */
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
 * bytes, except for png and pdf, which depend on the installed fonts. Every format names what the cells hold if it is not
 * attention weights (report->value_name). The formats:
 *
 * - text: one table per map. Without colours, weights below 0.005 are shown as dots.
 * - json: {format, about, title, model, value, source, target_input, target_output, next_probability (where it was computed),
 * maps: [{name, kind, layer, head, rows, columns, weights}]}. layer or head is "mean" for means; weights are
 * weights[row][column]; rows of cross maps are {input, output}, the tokens that the decoder steps read and predict.
 * - csv: kind,layer,head,row,row_token,column,column_token,weight; rows and columns are counted
 * from 0.
 * - npz: one float64 array [rows, columns] per map, named by qkv_attention_map_name, and the
 * Unicode arrays value, source, target_input and target_output.
 * - html: one table per map.
 * - svg, png, pdf: one figure of heat maps with one colour bar.
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

/* ======== maps of a model ========
 * Attention maps from a model: the weights of every head of every layer, in a forced pass over
 * sentence pairs. For a translation of the model itself, force that translation: the maps are those
 * of the search, up to rounding, for greedy and for beam search.
 *
 * Example:
 *     struct qkv_arena arena = {0};
 *     struct qkv_config config;
 *     struct qkv_error error;
 *     struct qkv_attention_report report;
 *     const int32_t ids[] = {7, 8};
 *     const char *const tokens[] = {"the", "cat"};
 *     const struct qkv_attention_pair pair = {
 *         .source = {2, ids}, .target = {2, ids}, .source_tokens = tokens, .target_tokens = tokens};
 *     struct qkv_model *model = NULL;
 *     if (!qkv_config_default(&config, &arena, "example"))
 *         model = qkv_model_new(&config.model, 100, 120, QKV_FLOAT32, &error);
 *     struct qkv_attention_collector *collector = model ? qkv_attention_collector_new(model, &error) : NULL;
 *     if (collector &&
 *         !qkv_attention_collect(collector, 1, &pair, 1u << QKV_ATTENTION_CROSS, &report, &error))
 *         printf("%d maps\n", (int)report.map_count);
 *     qkv_attention_collector_free(collector);
 *     qkv_model_free(model);
 *     qkv_arena_release(&arena);
 */

/* A sentence pair. The arrays are the caller's and must outlive the reports. */
struct qkv_attention_pair {
    struct qkv_ids source, target;                           /* without <s> and </s> */
    const char *const *source_tokens, *const *target_tokens; /* their texts, which name rows and columns */
    /* The translation was cut before </s> (qkv_hypothesis.finished is false): the decoder outputs its last token, but does
     * not read it */
    bool unfinished;
    /* Tokens that attention must ignore; NULL: none. [source.length + 1], with </s>; of self-attention of the decoder,
     * [target.length + 1] that it reads */
    const bool *source_masked, *target_masked;
    /* Of running text, whose pairs have no source_tokens: the token before the target, </s> at the beginning, which the decoder
     * reads first; NULL: <s>. All pairs of a call have one, or none */
    const int32_t *before;
    const char *before_token; /* its text; NULL: </s> */
    /* Of the target: the report also has the probabilities of the next tokens; after running text, which goes on, the last one
     * is the most probable. NULL: it does not */
    const struct qkv_vocabulary *vocabulary;
};

struct qkv_attention_collector;

/* Makes a collector, which reuses its memory from pass to pass. The model must outlive it; each
 * pass reads the current parameters. NULL with a message when memory runs out. */
QKV_API struct qkv_attention_collector *qkv_attention_collector_new(const struct qkv_model *model,
                                                                    struct qkv_error *error);
QKV_API void qkv_attention_collector_free(struct qkv_attention_collector *collector);

/* Runs `count` pairs through the model in one pass, without dropout and gradients, and fills reports[count] with the maps
 * of the attention kinds in `kinds` (bits 1u << kind; 0: all), ordered by kind, layer, head. The source of a report ends
 * with </s>; its target begins with <s> (target_input) or ends with </s> (target_output); title and model are NULL. Reports
 * are valid until the next pass or the end of the collector. Fails when `count` is below 1, `kinds` has bits but none of a
 * kind, a sentence has more tokens than the model has positions, a program's own network records weights whose shapes do
 * not fit the sentences (model.h), or memory runs out. QKV_FAILED: a map holds infinity or NaN, because parameters of the
 * model are too large. */
QKV_API enum qkv_status qkv_attention_collect(struct qkv_attention_collector *collector, int64_t count,
                                              const struct qkv_attention_pair *pairs, unsigned kinds,
                                              struct qkv_attention_report *reports, struct qkv_error *error);

/* ======== attribution ========
 * How much each token that a model reads contributes to each token that it predicts, by methods that differ: attention weights
 * show where heads look, gradients and erasure what changes the prediction. docs/attribution.md has the definitions.
 *
 * Example, with the collector and the pair of the example above:
 *     const struct qkv_attribution_options options = {.method = QKV_ATTRIBUTION_ERASURE};
 *     if (!qkv_attribute(collector, &pair, &options, &report, &error))
 *         printf("%g nats\n", report.maps[0].weights[0]); // log p of the first token falls by that without the first word
 */

/* QKV_ATTRIBUTION_ATTENTION and so on. */
enum qkv_attribution_method {
#define ATTRIBUTION_METHOD(id, name, shape, function, value, help) QKV_ATTRIBUTION_##id,
#include "qkv/attribution_methods.def"
#undef ATTRIBUTION_METHOD
    QKV_ATTRIBUTION_METHODS, /* their number */
};

/* What the numbers of a method are. */
enum qkv_attribution_shape {
    QKV_ATTRIBUTION_WEIGHTS,       /* maps of heads, whose rows sum to 1 */
    QKV_ATTRIBUTION_MIXED_WEIGHTS, /* of where heads look, through all layers */
    QKV_ATTRIBUTION_TURNS,         /* shares of how far outputs of layers turn, through all layers */
    QKV_ATTRIBUTION_NATS,          /* parts of the log-probability of the predicted token */
    QKV_ATTRIBUTION_GRADIENTS,     /* the same, from gradients of embeddings */
};

/* A row of attribution_methods.def. */
struct qkv_attribution_method_info {
    const char *name, *value, *help;
    enum qkv_attribution_shape shape;
};

/* NULL for an unknown method. */
QKV_API const struct qkv_attribution_method_info *
qkv_attribution_method_info(enum qkv_attribution_method method);

struct qkv_attribution_options {
    enum qkv_attribution_method method;
    int layer, head; /* of the methods attention and norms; as in qkv_attention_select, 0: the mean */
    int64_t steps;   /* of integrated gradients; 0: 50 */
};

/* Fills a report, as qkv_attention_collect does, with maps of contributions: a cross map of the source tokens, if there are any,
 * and a decoder map of the tokens that the decoder reads, of which a row sees those up to its own. A row belongs to the token
 * that is predicted. For the time of the call, writes to the rates of the model's parameters (qkv_parameters_set_rates): no other
 * thread may use them. Fails as qkv_attention_collect does; for a layer or head that the model does not have; for a recurrent
 * network with the methods rollout, flow and zeroing; for int8 products with gradients. */
QKV_API enum qkv_status qkv_attribute(struct qkv_attention_collector *collector,
                                      const struct qkv_attention_pair *pair,
                                      const struct qkv_attribution_options *options,
                                      struct qkv_attention_report *report, struct qkv_error *error);

/* Divides each row of the maps of contributions, over all maps, by the sum of its absolute values, and says so in value_name. The
 * new maps are in the arena. */
QKV_API enum qkv_status qkv_attribution_shares(struct qkv_attention_report *report,
                                               enum qkv_attribution_method method, struct qkv_arena *arena,
                                               struct qkv_error *error);

/* ======== heads ========
 * The heads of a trained model: their names, and measures of what they attend to and how much they contribute.
 *
 * Example:
 *     struct qkv_error error = {""};
 *     struct qkv_run run;
 *     struct qkv_head head;
 *     if (!qkv_run_open(&run, "runs/toy_en_es", NULL, QKV_FLOAT32, &error)) {
 *         if (qkv_head_find(run.model, "cross.2.1", &head, &error))
 *             fprintf(stderr, "%s\n", error.message);
 *         else
 *             qkv_model_ablate(run.model, head, true); // translates without this head from now on
 *         qkv_run_release(&run);
 *     }
 */

/* Writes the name of a head into `text`, cut to `size` bytes: kind of attention, layer and head, as in cross.2.1. 64 bytes
 * are enough. */
QKV_API void qkv_head_name(struct qkv_head head, char *text, size_t size);

/* Finds the head of a model that has this name. If there is none, fails with a message that lists the heads. */
QKV_API enum qkv_status qkv_head_find(const struct qkv_model *model, const char *name, struct qkv_head *head,
                                      struct qkv_error *error);

/* ---- measures ---- */

/* The measures of a head: QKV_HEAD_ENTROPY and so on. */
enum qkv_head_measure {
#define HEAD_MEASURE(id, name, title, digits, factor, help) QKV_HEAD_##id,
#include "qkv/head_measures.def"
#undef HEAD_MEASURE
    QKV_HEAD_MEASURES, /* their number */
};

/* A row of head_measures.def. */
struct qkv_head_measure_info {
    const char *name, *title, *help;
    int digits;
    double factor; /* in tables: 100 for percent */
};

/* NULL for an unknown measure. */
QKV_API const struct qkv_head_measure_info *qkv_head_measure_info(enum qkv_head_measure measure);

/* ---- induction: how a language model reads random sequences of tokens that come twice (Olsson et al. 2022) ---- */

/* Which sequences: tokens of a sequence, from 2, and the number of sequences. 0: 25 tokens, or as many as fit twice in the
 * texts that the model was trained for; 20 sequences. All types of the vocabulary are equally likely; the same numbers
 * choose the same sequences. */
struct qkv_repeats {
    int64_t length, count;
};

struct qkv_induction_scores {
    /* Mean, over the tokens of the second repetition, of the weight on all tokens that follow an earlier occurrence of the token
     * that is read */
    double prefix_matching;
    double previous_token; /* mean weight on the token before, over all tokens but the first */
};

/* The scores of a head from its map, where the text is a sequence twice, with one token before both: read [map->rows]. */
QKV_API struct qkv_induction_scores qkv_induction_scores(const struct qkv_attention_map *map,
                                                         const int32_t *read);

struct qkv_induction {
    struct qkv_repeats repeats; /* without 0 */
    /* Mean losses of the tokens of both repetitions, nats; of the second one without its first token, which nothing announces */
    double first_loss, second_loss;
    struct qkv_induction_scores
        *heads; /* [count], in the order of qkv_model_head; means over the sequences */
    int64_t count;
};

/* Measures a language model with its present parameters, and without its ablated heads; induction->heads lives in the arena.
 * Fails for a run that has a source or no attention, where the model has too few positions, and when memory runs out. */
QKV_API enum qkv_status qkv_induction_measure(const struct qkv_run *run, struct qkv_repeats repeats,
                                              struct qkv_arena *arena, struct qkv_induction *induction,
                                              struct qkv_error *error);

/* ---- measuring all heads ---- */

struct qkv_measured_head {
    struct qkv_head head;
    double value[QKV_HEAD_MEASURES]; /* NaN: not measured, or there is nothing to measure */
};

/* Caller's storage, all zero at first. */
struct qkv_measured_heads {
    struct qkv_measured_head *heads; /* [count], in the order of qkv_model_head */
    int64_t count;
    int64_t sentences, tokens; /* target tokens with </s> */
    int64_t missing;           /* sentences without gold links in the file */
    double loss, bleu;         /* with all heads; bleu is NaN without translations */
    struct qkv_induction
        induction; /* with all heads, of a language model; `heads` is NULL: the measures have the scores */
};

struct qkv_heads_options {
    const char
        *links; /* file of gold links, in a format of `qkv align --gold`; NULL: no alignment is measured */
    enum qkv_links_from links_from; /* the number of the first word */
    bool norms; /* use weights times norms of values, each row divided by its sum, instead of weights */
    bool no_translation;               /* do not measure BLEU, which takes most of the time */
    struct qkv_repeats repeats;        /* of a language model */
    struct qkv_testing_config testing; /* batch size and search of translations */
    struct qkv_workers *workers;       /* NULL: the calling thread alone */
    /* Called after each of `total` parts of the work, on the calling thread; NULL: not called. */
    void (*progress)(void *context, int64_t done, int64_t total);
    void *context;
};

/* Measures all heads of a run on an encoded corpus that has kept its raw lines. Measures maps between words, from forced
 * passes with the references: the columns of a word's tokens are summed, their rows averaged. Silences each head in turn,
 * so no other thread may use the model meanwhile. Heads that were silent before stay silent. The results are the same for
 * any number of threads. Fails for a model without attention, for a program's own network that does not record the
 * necessary parts (qkv_trace_record in model.h), when memory runs out, and where reading links or evaluating fails; nothing
 * needs to be released then. */
QKV_API enum qkv_status qkv_heads_measure(struct qkv_run *run, const struct qkv_corpus *corpus,
                                          const struct qkv_heads_options *options,
                                          struct qkv_measured_heads *measured, struct qkv_error *error);
QKV_API void qkv_measured_heads_release(struct qkv_measured_heads *measured);

/* ======== word alignment ========
 * Links between the words of sentence pairs, as `qkv align` draws them from cross attention.
 *
 * Example:
 *     struct qkv_error error = {""};
 *     struct qkv_run run;
 *     struct qkv_arena arena = {0};
 *     struct qkv_linked_texts pair = {.source = "the cat", .target = "el gato"};
 *     const struct qkv_links_options options = {0}; // the mean of all heads
 *     if (!qkv_run_open(&run, "runs/toy_en_es", NULL, QKV_FLOAT32, &error)) {
 *         if (!qkv_links_draw(&run, 1, &pair, &options, &arena, &error)) puts(pair.links); // 0-0 1-1
 *         qkv_run_release(&run);
 *     }
 *     qkv_arena_release(&arena);
 */

struct qkv_links_options {
    int layer, head;  /* from 1; 0: the mean over layers, or over heads */
    double threshold; /* above 0: link all words with a greater weight; 0: the strongest words */
    const struct qkv_run
        *reverse; /* a run in the other direction: both are combined by grow-diag; NULL: none */
    struct qkv_workers *workers; /* NULL: the calling thread alone */
};

/* A sentence pair, and the result: its links, "0-0 1-2", source word first, from 0; words are what white space separates. */
struct qkv_linked_texts {
    const char *source, *target;
    const char
        *links; /* in the arena; "": the pair has no words, or is too long for the positions of a run */
};

/* Draws the links of `count` pairs. Fails for a run without such a layer or head of cross attention, for text that is not
 * UTF-8, and when memory runs out. */
QKV_API enum qkv_status qkv_links_draw(const struct qkv_run *run, int64_t count,
                                       struct qkv_linked_texts *pairs,
                                       const struct qkv_links_options *options, struct qkv_arena *arena,
                                       struct qkv_error *error);

#endif
