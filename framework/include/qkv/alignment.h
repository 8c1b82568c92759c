/* Do attention maps align words as people do? Cross attention against gold links.
 *
 * Gold links are read from a file in Pharaoh's format: a line a sentence pair, on it links between words that
 * count from 0, source first: `0-0 1-2 2p1`. `-` marks a sure link, `p` or `?` a possible one. An empty line
 * has no links.
 *
 * There are two ways to draw links from a cross map:
 * - rows: each target word gets one link, to the source word with the greatest weight of its row, the first
 * of several equal ones (the common way; "under" can link to "debajo" or to "de");
 * - both: each source word also gets one, to the target word with the greatest weight of its column, so that
 * one word can link to several on either side (the union of both directions, Och and Ney 2003). The column of
 * </s> does not count, and the step that outputs </s> is no word. Where a word is several tokens (level char,
 * split_punctuation), the weights of the columns of a source word are added up, of the rows of a target word
 * their mean is taken (Clark et al. 2019), and ▁ is no word's. There are two ways to read a row, and
 * models differ in which one aligns better:
 * - output: the word that the step outputs (row j for target token j);
 * - input: the word that the step takes in (row j + 1 for target token j).
 *
 * With A the links of a map, S the sure ones and P the sure and possible ones (Och and Ney 2003):
 * precision |A∩P| / |A|, recall |A∩S| / |S|, alignment error rate 1 - (|A∩S| + |A∩P|) / (|A| + |S|),
 * over all sentences together. 0 is the best error rate. */
#ifndef QKV_ALIGNMENT_H
#define QKV_ALIGNMENT_H

#include "qkv/attention_map.h"

struct qkv_alignment_link {
    int64_t source, target; /* words, from 0 */
    bool sure;
    int64_t column; /* where it stands in its line, from 1 */
};

/* The gold links of one sentence pair. A link given twice counts once, and as sure if it is so once. */
struct qkv_alignment {
    const struct qkv_alignment_link *links;
    int64_t count;
    const char *file; /* where they come from, for messages */
    int64_t line;     /* from 1 */
};

/* The gold links of a file, in its order. All zero is empty. */
struct qkv_alignments {
    const struct qkv_alignment *sentences;
    int64_t count;
    struct qkv_arena arena; /* private */
};

/* Reads a file. Fails, with file:line:column, when it cannot be read or something on a line is not a link. */
QKV_API enum qkv_status qkv_alignments_read(struct qkv_alignments *alignments, const char *path,
                                            struct qkv_error *error);

QKV_API void qkv_alignments_release(struct qkv_alignments *alignments);

/* Which word a row of a cross map stands for. */
enum qkv_alignment_reading {
    QKV_READING_OUTPUT, /* the word that the step outputs */
    QKV_READING_INPUT,  /* the word that the step takes in */
    QKV_READINGS,
};

/* output, input */
QKV_API const char *qkv_alignment_reading_name(enum qkv_alignment_reading reading);

/* Which links are drawn from a map. */
enum qkv_alignment_drawing {
    QKV_LINK_ROWS, /* the strongest source word of each target word */
    QKV_LINK_BOTH, /* those, and the strongest target word of each source word */
    QKV_DRAWINGS,
};

/* rows, both */
QKV_API const char *qkv_alignment_drawing_name(enum qkv_alignment_drawing drawing);

/* How well one head (or a mean of heads) aligns. */
struct qkv_alignment_result {
    enum qkv_alignment_drawing drawing;
    enum qkv_alignment_reading reading;
    int layer, head;                                 /* from 1; 0: the mean over all layers, or heads */
    int64_t links, sure, found_sure, found_possible; /* |A|, |S|, |A∩S|, |A∩P| */
    double precision, recall, error_rate;            /* 0 to 1; an empty denominator gives 0, 0 and 1 */
};

/* Adds sentences up. Caller's storage; all zero is empty. */
struct qkv_alignment_score {
    struct qkv_alignment_result *results; /* `count`; the numbers of links so far */
    int64_t count;
    int64_t sentences;
};

/* Which word each token is from, as in struct qkv_tokens, without the end signs; NULL: each is a word. */
struct qkv_alignment_words {
    const int64_t *source, *target;
};

/* Adds the cross maps of one sentence pair: those of every layer and head, the mean over the heads of every
 * layer, and the mean over all, each in both drawings and readings. All reports must have the same layers and
 * heads. Fails when the report has no cross maps, when a gold link names a word that the sentence pair does
 * not have, or out of memory; nothing has been added then. */
QKV_API enum qkv_status qkv_alignment_score_add(struct qkv_alignment_score *score,
                                                const struct qkv_attention_report *report,
                                                struct qkv_alignment_words words,
                                                const struct qkv_alignment *gold, struct qkv_error *error);

/* Result `index` of 0 .. count - 1, with its rates: by drawing, reading, layer, head; the means come after
 * what they are the means of. */
QKV_API struct qkv_alignment_result qkv_alignment_score_get(const struct qkv_alignment_score *score,
                                                            int64_t index);

/* The result with the lowest error rate of a drawing, the first of several equal ones. There must have been a
 * sentence. */
QKV_API struct qkv_alignment_result qkv_alignment_score_best(const struct qkv_alignment_score *score,
                                                             enum qkv_alignment_drawing drawing);

struct qkv_run;
struct qkv_corpus;

/* Scores a run on a whole corpus: the maps of its forced references against the gold links of a file, which
 * has a line for each pair of the corpus' file (pairs that were dropped for their length are skipped in
 * both). Words are what stands between white space, whatever the tokens are. The corpus must be encoded, and
 * have kept its raw lines. Fails as reading links and adding do, and when the file has more or fewer lines
 * than the corpus' has pairs. */
QKV_API enum qkv_status qkv_alignment_evaluate(const struct qkv_run *run, const struct qkv_corpus *corpus,
                                               const char *links, struct qkv_alignment_score *score,
                                               struct qkv_error *error);

QKV_API void qkv_alignment_score_release(struct qkv_alignment_score *score);

#endif
