/* Metrics: the table of all metrics (qkv/metrics.def), and an accumulator that computes them. Scores and signatures are those of sacreBLEU 2 (Post 2018, "A Call for Clarity in Reporting BLEU Scores").
 *
 * Example:
 *     const char *reference = "the cat is on the mat";
 *     struct qkv_scorer scorer = {.options = {.lowercase = true}};
 *     struct qkv_error error = {""};
 *     if (!qkv_scorer_add(&scorer, "The cat sat on the mat", &reference, 1, &error)) {
 *         struct qkv_scores scores = qkv_scorer_scores(&scorer);
 *         printf("%.2f %.2f\n", scores.value[QKV_METRIC_BLEU], scores.value[QKV_METRIC_CHRF]);
 *     }
 *     qkv_scorer_release(&scorer);
 *
 * The accumulator is caller's storage: fill in the options (all zero: sacreBLEU's defaults), add each segment once, read the
 * scores as often as you like, release. A segment is a hypothesis, which is the translation to score, with its references.
 *
 * Texts are UTF-8, not tokenized. A byte that is not valid UTF-8 counts as one U+FFFD. BLEU and chrF are 0 to
 * 100, more is better; TER is 0 or more, less is better.
 *
 * A reference that is NULL is missing: segments may have different numbers of references, and the signature
 * then says `nrefs:var`. An empty hypothesis or reference is a text of no words, not a missing one.
 *
 * Adding fails, and adds nothing, when a segment has no reference, an option is out of range or memory runs out. */
#ifndef QKV_METRICS_H
#define QKV_METRICS_H

#include "qkv/base.h"
#include "qkv/config.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define QKV_BLEU_ORDER         4    /* n-grams of 1 to 4 words */
#define QKV_BLEU_SMOOTHING_MAX 1000 /* greatest smoothing value */
#define QKV_CHRF_CHARACTERS    6    /* default: n-grams of 1 to 6 characters */
#define QKV_CHRF_BETA          2    /* default: recall counts twice as much as precision */
#define QKV_CHRF_BETA_MAX      1000 /* greatest beta */
#define QKV_CHRF_LONGEST       10   /* the longest n-grams of characters */
#define QKV_CHRF_WORDS         4    /* the longest n-grams of words */
#define QKV_CHRF_ORDERS        (QKV_CHRF_LONGEST + QKV_CHRF_WORDS)

/* How BLEU splits a text into words. */
enum qkv_bleu_tokenizer {
    QKV_BLEU_13A, /* as mteval-v13a: punctuation marks are words, but not inside numbers such as 1,000.5 */
    QKV_BLEU_INTL, /* as mteval-v14: every punctuation mark (Unicode category P) that is not between digits, and every
                      symbol (S) is a word */
    QKV_BLEU_NONE, /* split at white space: for text that is tokenized */
    QKV_BLEU_CHAR, /* every character that is not white space is a word: for languages without spaces */
};
enum { QKV_BLEU_TOKENIZERS = QKV_BLEU_CHAR + 1 };

/* Smoothing of BLEU: what counts for an n-gram order without matches (Chen and Cherry 2014). */
enum qkv_bleu_smoothing {
    QKV_BLEU_EXP,   /* half a match for the first such order, a quarter for the next one, and so on (NIST) */
    QKV_BLEU_FLOOR, /* a fixed number of matches, 0.1 */
    QKV_BLEU_ADD_K, /* adds 1 to matches and n-grams of every order but the first, with or without matches */
    QKV_BLEU_UNSMOOTHED, /* nothing: the score is 0 */
};
enum { QKV_BLEU_SMOOTHINGS = QKV_BLEU_UNSMOOTHED + 1 };

/* The metrics of texts:
 * - corpus BLEU (Papineni et al. 2002): the geometric mean of the clipped n-gram precisions of orders 1 to 4, times the
 *   brevity penalty. With several references an n-gram is clipped at its highest count in any of them, and the reference
 *   length is that of the closest reference (the shorter of two equally close);
 * - corpus chrF (Popovic 2015): the F score of n-gram precision and recall, each averaged over those character orders 1 to 6
 *   (white space removed) for which both hypothesis and reference have n-grams; recall counts beta times as much as
 *   precision. With `word_order` 2 it is chrF++ (Popovic 2017), which averages over word orders 1 and 2 as well; a
 *   punctuation mark at the end of a word, or else at its start, is then a word of its own. Of several references, the one
 *   that gives the segment its best score counts;
 * - corpus TER (Snover et al. 2006): the number of edits that turn the hypothesis into a reference, in percent of the
 *   reference words. An edit inserts, deletes or replaces a word, or moves a block of words. The shifts are found as tercom
 *   finds them, greedily and with limits: blocks of at most 10 words, at most 50 words away, and at most 1000 candidates for
 *   a pair of texts. Of several references the one with the fewest edits counts, with the mean length of all of them.
 *   References without words: 100 where there are edits, else 0. */

/* ---- all metrics (qkv/metrics.def) ---- */

/* The tables of the command line that show only some metrics, as bits: those of `qkv evaluate --by-length` and of
 * `qkv compare`. */
enum { QKV_COLUMN_BY_LENGTH = 1, QKV_COLUMN_COMPARE = 2 };

/* How a metric is named and shown. */
struct qkv_metric_info {
    const char *key;   /* in JSON */
    const char *title; /* in the table of `qkv evaluate`, which has a row for each metric: "token accuracy" */
    /* Where there is less room, in the line of a validation and in heads of columns: "tokens" */
    const char *label;
    const char *unit; /* shown after the title; NULL: none, or percent */
    int digits;       /* after the decimal point, in tables */
    int line_digits;  /* after the decimal point, in the line that a validation prints */
    bool percent;     /* a share of 0 to 1, which is shown in percent */
    bool lower_is_better;
    bool of_texts;    /* computed from translations and references; false: from qkv_score_counts */
    bool on_request;  /* computed only where qkv_text_options.metrics names it, because it is slow */
    unsigned columns; /* bits QKV_COLUMN_...: the tables with a column for the metric */
};

/* NULL for a metric that does not exist. */
QKV_API const struct qkv_metric_info *qkv_metric_info(enum qkv_metric metric);

/* Sums over sentences, from which the metrics are computed whose `of_texts` is false. */
struct qkv_score_counts {
    int64_t sentences, tokens;      /* target tokens, </s> counted */
    double negative_log_likelihood; /* of the references, nats, without smoothing */
    double correct;                 /* reference tokens that the model finds most probable; a whole number */
    int64_t translated;             /* sentences whose translation is known */
    int64_t exact_matches;          /* translations that equal their reference, token for token */
};

/* The values of all metrics, and the counts. */
struct qkv_scores {
    struct qkv_score_counts counts;
    double value[QKV_METRIC_COUNT]; /* by enum qkv_metric */
};

/* How texts are compared. All zero: sacreBLEU's defaults. */
struct qkv_text_options {
    /* Which text metrics to compute: a bit 1 << QKV_METRIC_... for each; 0: all that are not `on_request`. */
    unsigned metrics;
    bool lowercase; /* BLEU and chrF: Unicode lower case before all else; the signature says case:lc */
    /* BLEU */
    enum qkv_bleu_tokenizer tokenizer;
    enum qkv_bleu_smoothing smoothing;
    double smoothing_value; /* of floor and add-k, at most QKV_BLEU_SMOOTHING_MAX; 0: 0.1 and 1 */
    bool
        effective_order; /* average only over the orders for which the hypotheses are long enough: for single sentences */
    /* chrF */
    int character_order; /* 1 to 10; 0: 6 */
    int word_order;      /* 0 to 4. 0: chrF; 1 or 2: chrF+, chrF++ */
    double beta;         /* at most QKV_CHRF_BETA_MAX; 0: 2 */
    /* TER */
    bool ter_normalized;     /* tokenizes punctuation and replaces entities as tercom's normalization does */
    bool ter_no_punctuation; /* removes . , ? : ; ! " ( ) */
    bool ter_case_sensitive; /* false: lower case; the signature says case:lc */
};

/* Accumulates all metrics. Caller's storage, all zero but for the options; the caller adds to the counts. */
struct qkv_scorer {
    struct qkv_text_options options; /* set before the first text */
    struct qkv_score_counts counts;
    /* Private: */
    struct qkv_statistics *statistics[QKV_METRIC_COUNT]; /* of the text metrics; NULL before the first text */
    int64_t fewest_references, most_references;          /* of a segment so far; 0 before the first */
    struct qkv_arena scratch;
};

/* Adds one translation and its `count` references. Fails, and adds to none of the metrics, when all references are NULL, an
 * option of a metric that is computed is out of range, or memory runs out. */
QKV_API enum qkv_status qkv_scorer_add(struct qkv_scorer *scorer, const char *translation,
                                       const char *const *references, int64_t count, struct qkv_error *error);

/* All metrics. Metrics of counts are NaN if there are no tokens or sentences; metrics of texts are 0 if no text was added
 * or the options do not select them. */
QKV_API struct qkv_scores qkv_scorer_scores(const struct qkv_scorer *scorer);

/* The text metrics of the segment that was added last, as if it were the only one; the others are NaN. */
QKV_API struct qkv_scores qkv_scorer_last(const struct qkv_scorer *scorer);

/* Writes the title of a metric, cut to `size` bytes with the NUL: the title of its info, or another one that depends on the
 * options, such as chrF++. */
QKV_API void qkv_scorer_title(const struct qkv_scorer *scorer, enum qkv_metric metric, char *text,
                              size_t size);

/* Writes the signature of a text metric, which says how it was computed, such as
 * `nrefs:1|case:mixed|eff:no|tok:13a|smooth:exp|version:qkv-0.1.0`, cut to `size` bytes with the NUL. Writes "" if the metric has none, or no text was added. */
QKV_API void qkv_scorer_signature(const struct qkv_scorer *scorer, enum qkv_metric metric, char *text,
                                  size_t size);

QKV_API void qkv_scorer_release(struct qkv_scorer *scorer);

#endif
