/* Word alignment: reads gold links, draws links from a matrix of weights between words, and computes their error
 * rate. alignment_score.h does this for attention maps.
 *
 * Gold links are read from a file in Pharaoh's format: one line per sentence pair, with links between words
 * that count from 0, source first: `0-0 1-2 2p1`. `-` marks a sure link, `p` or `?` a possible one. An empty
 * line has no links.
 *
 * Links are drawn from a map in two ways (enum qkv_alignment_drawing):
 * - rows: one link per target word, to the source word with the greatest weight of its row, the first of
 *   several equal ones; the common way;
 * - both: also one link per source word, to the target word with the greatest weight of its column, so that
 *   one word can have several links on either side (the union of both directions, Och and Ney 2003).
 *
 * With A the links of a map, S the sure and P the sure and possible gold links (Och and Ney 2003):
 * precision |A∩P| / |A|, recall |A∩S| / |S|, alignment error rate 1 - (|A∩S| + |A∩P|) / (|A| + |S|),
 * over all sentences together. The best error rate is 0.
 *
 * Example:
 *     double weights[2 * 2] = {0.9, 0.1, 0.2, 0.8};
 *     struct qkv_word_map map = {.weights = weights, .targets = 2, .sources = 2};
 *     struct qkv_alignment_link links[2] = {{0, 0, true, 1}, {1, 1, true, 5}};
 *     struct qkv_alignment gold = {.links = links, .count = 2};
 *     struct qkv_alignment_result result = {.drawing = QKV_LINK_ROWS};
 *     qkv_alignment_count(&result, &map, &gold);
 *     printf("%lld of %lld sure links found\n", (long long)result.found_sure, (long long)result.sure);
 */
#ifndef QKV_ALIGNMENT_H
#define QKV_ALIGNMENT_H

#include "qkv/arena.h"
#include "qkv/error.h"

#include <stdbool.h>
#include <stdint.h>

/* ---- gold links ---- */

struct qkv_alignment_link {
    int64_t source, target; /* words, from 0 */
    bool sure;
    int64_t column; /* byte in its line where the link starts, from 1; only for messages */
};

/* The gold links of one sentence pair, each once. */
struct qkv_alignment {
    const struct qkv_alignment_link *links; /* [count], in the order of the line */
    int64_t count;
    const char *file; /* for messages; may be NULL */
    int64_t line;     /* from 1 */
};

/* The gold links of a file. All zero is empty. */
struct qkv_alignments {
    struct qkv_alignment *sentences; /* [count], in the order of the file */
    int64_t count;
    int64_t capacity;       /* private */
    struct qkv_arena arena; /* private */
};

/* Reads a file. A link that a line has several times counts once, as sure if it is sure once. Fails, with
 * file:line:column, when it cannot be read or a line holds something else. On
 * failure there is nothing to release. */
QKV_API enum qkv_status qkv_alignments_read(struct qkv_alignments *alignments, const char *path,
                                            struct qkv_error *error);

QKV_API void qkv_alignments_release(struct qkv_alignments *alignments);

/* ---- counting ---- */

/* A decoder step reads one target word and outputs the next. To which of the two does its row of weights belong?
 * Which reading gives the better alignment depends on the model. */
enum qkv_alignment_reading {
    QKV_READING_OUTPUT, /* the word that the step outputs */
    QKV_READING_INPUT,  /* the word that the step reads */
    QKV_READINGS,       /* their number */
};

/* output, input */
QKV_API const char *qkv_alignment_reading_name(enum qkv_alignment_reading reading);

/* How links are drawn from weights, see above. */
enum qkv_alignment_drawing {
    QKV_LINK_ROWS, /* the strongest source word of each target word */
    QKV_LINK_BOTH, /* those, and the strongest target word of each source word */
    QKV_DRAWINGS,  /* their number */
};

/* rows, both */
QKV_API const char *qkv_alignment_drawing_name(enum qkv_alignment_drawing drawing);

/* Weights between the words of a sentence pair. */
struct qkv_word_map {
    double *weights; /* [targets, sources], row-major; not owned */
    int64_t targets, sources;
};

/* How well one head, or a mean of heads, aligns. */
struct qkv_alignment_result {
    enum qkv_alignment_drawing drawing;
    enum qkv_alignment_reading reading;
    int layer,
        head; /* from 1. Head 0: the mean over the heads of the layer; both 0: over all heads of all layers */
    int64_t links, sure, found_sure, found_possible; /* |A|, |S|, |A∩S|, |A∩P| */
    double precision, recall, error_rate;            /* 0 to 1; an empty denominator gives 0, 0 and 1 */
};

/* Draws the links of a map, as result->drawing says, and adds them to the four counts of the result. The
 * rates stay as they are: qkv_alignment_score_get computes them. */
QKV_API void qkv_alignment_count(struct qkv_alignment_result *result, const struct qkv_word_map *map,
                                 const struct qkv_alignment *gold);

/* ---- results of several maps ---- */

/* Caller's storage; all zero is empty. alignment_score.h fills it. */
struct qkv_alignment_score {
    struct qkv_alignment_result *results; /* [count]: counts over all sentences so far */
    int64_t count;
    int64_t sentences;
};

/* Result `index` of 0 .. count - 1, with its rates. Order: by drawing, reading, layer, head; the mean over the heads of a
 * layer follows them, the mean over all comes last. All 0 if there is no such result. */
QKV_API struct qkv_alignment_result qkv_alignment_score_get(const struct qkv_alignment_score *score,
                                                            int64_t index);

/* Of the results with this drawing, the one with the lowest error rate, the first of several equal ones. Without
 * links in a score that is empty. */
QKV_API struct qkv_alignment_result qkv_alignment_score_best(const struct qkv_alignment_score *score,
                                                             enum qkv_alignment_drawing drawing);

QKV_API void qkv_alignment_score_release(struct qkv_alignment_score *score);

#endif
