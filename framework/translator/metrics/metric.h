/* Private: names and details of scores, and the bootstrap, for the tools; and, for the metrics, the functions of a metric
 * that compares texts; texts as code points, their words, and the n-grams that two texts share.
 *
 * For each TEXT_METRIC row of qkv/metrics.def, metrics/<name>.c defines one struct, qkv_text_metric_<name>. A metric counts
 * numbers for each segment, its statistics, whose sums over all segments determine the score; the scorer (scores.c) adds
 * them up. */
#pragma once

#include "qkv/trainer.h"

/* ---- names and details of scores ---- */

/* The name in signatures: exp, floor, add-k, none; "unknown" for another number. */
const char *qkv_bleu_smoothing_name(enum qkv_bleu_smoothing smoothing);

/* Whether the score a of a metric, which must exist, is better than b. NaN, a missing score, is worse than any other. */
bool qkv_metric_is_better(enum qkv_metric metric, double a, double b);

/* Whether the metric needs only references: a language model has no other. */
static inline bool qkv_metric_is_of_references(enum qkv_metric metric)
{
    return metric <= QKV_METRIC_TOKEN_ACCURACY;
}

/* The key in JSON of the bits per character, which language models have. */
#define QKV_BITS_PER_CHARACTER "bits_per_character"

/* The bits of the references for each of `items`: characters, or words. NaN where there are none. */
double qkv_bits_per(const struct qkv_score_counts *counts, int64_t items);

/* True for a text metric that the options ask for. */
bool qkv_scorer_computes(const struct qkv_scorer *scorer, enum qkv_metric metric);

/* What is shown of a metric beside its score. */
struct qkv_metric_description {
    char title[32]; /* that of its info, or another one that depends on the options, such as chrF++ */
    /* How the score of a text metric was computed, such as `nrefs:1|case:mixed|eff:no|tok:13a|smooth:exp|version:qkv-0.2.0`;
     * "" for other metrics, and before a text was added */
    char signature[160];
    /* One or several numbers from which the score was computed: BLEU has precisions (1 to 4, percent), brevity_penalty,
     * hypothesis_length and reference_length (words); TER has edits and reference_length (words). */
    int detail_count;
    struct qkv_metric_detail {
        const char *key; /* in JSON */
        int count;
        double value[QKV_BLEU_ORDER]; /* [count] */
    } details[4];
};

struct qkv_metric_description qkv_scorer_describe(const struct qkv_scorer *scorer, enum qkv_metric metric);

/* The text metrics of the segment that was added last, as if it were the only one; the others are NaN. */
struct qkv_scores qkv_scorer_last(const struct qkv_scorer *scorer);

/* ---- the bootstrap ---- */

/* Paired bootstrap resampling (Koehn 2004): tests whether one system is better than another or the difference of their
 * scores is chance. The same translated segments are drawn again and again, with replacement, and every draw is scored for
 * each system.
 *
 * The first system is the one that all others are compared with. Samples, p values and intervals are those of sacreBLEU 2
 * with NumPy for the same seed, except that sacreBLEU rounds scores to float32. */
struct qkv_bootstrap {
    int systems, count;         /* count: of columns */
    struct qkv_scorer *scorers; /* [systems] */
    /* [systems, QKV_METRIC_COUNT]: one metric of one system */
    struct qkv_bootstrap_column {
        /* All zero before the first run, and for a metric that is not computed */
        struct qkv_bootstrap_result {
            double score;          /* of all segments */
            double mean, interval; /* of the samples: mean and half of the 95 % interval: mean +- interval */
            /* Probability of a difference from the first system at least this large under the null hypothesis that the
             * systems are equal; 1 for the first system. With equal scores it is 1/(samples + 1), its lowest value, and has
             * no meaning. */
            double p_value;
        } result;
        /* Private: */
        int width; /* numbers per segment; 0: the metric is not computed */
        /* [segments, width], in float32, so that sums over a sample have the same bits as in sacreBLEU */
        float *numbers;
        int64_t capacity;
        double *samples; /* [samples]: the score of each sample */
    } * columns;
    int64_t segments;
};

/* NULL, with a message, when memory runs out. systems: at least 1. */
struct qkv_bootstrap *qkv_bootstrap_new(const struct qkv_text_options *options, int systems,
                                        struct qkv_error *error);

/* Adds one segment: the translation of each system, and its `count` references. After a failure the object can only be
 * freed. Keeps some 150 bytes for each system. */
enum qkv_status qkv_bootstrap_add(struct qkv_bootstrap *bootstrap, const char *const *translations,
                                  const char *const *references, int64_t count, struct qkv_error *error);

/* Draws `samples` samples, each with as many segments as were added. Fails without segments or samples, or when memory is
 * out. */
enum qkv_status qkv_bootstrap_run(struct qkv_bootstrap *bootstrap, int64_t samples, uint32_t seed,
                                  struct qkv_error *error);

static inline struct qkv_bootstrap_result qkv_bootstrap_result(const struct qkv_bootstrap *bootstrap,
                                                               int system, enum qkv_metric metric)
{
    return bootstrap->columns[system * QKV_METRIC_COUNT + (int)metric].result;
}

void qkv_bootstrap_free(struct qkv_bootstrap *bootstrap);

/* ---- texts (text.c) ---- */

/* All results live in the caller's arena. A function returns NULL when memory runs out or its argument is NULL, so that a chain
 * of calls needs one check at its end. */

/* A sequence of symbols: code points, or the numbers of words (qkv_text_number_words). */
struct qkv_symbols {
    uint32_t *items; /* [count] */
    int64_t count;
};

/* The words of a text: slices of its code points, which the text owns. */
struct qkv_words {
    struct qkv_word {
        const uint32_t *items;
        int64_t count;
    } * items;
    int64_t count;
};

/* Decodes UTF-8, in lower case if asked for. */
struct qkv_symbols *qkv_text_decode(struct qkv_arena *arena, const char *text, bool lowercase);

/* The code points that are not white space. */
struct qkv_symbols *qkv_text_without_space(struct qkv_arena *arena, const struct qkv_symbols *text);

/* The words that the tokenizer of BLEU finds. */
struct qkv_words *qkv_text_tokenize(struct qkv_arena *arena, enum qkv_bleu_tokenizer tokenizer,
                                    const struct qkv_symbols *text);

/* Lines, and how many of them have no spaces between words, and of these how many are Chinese. All zero at first. */
struct qkv_writing {
    int64_t lines, unspaced, chinese;
};

/* Counts a line. */
void qkv_writing_add(struct qkv_writing *writing, const char *line);

/* The tokenizer of BLEU that fits the counted lines: zh or char where at least half have no spaces between words, else 13a. */
enum qkv_bleu_tokenizer qkv_writing_tokenizer(const struct qkv_writing *writing);

/* The tokenizer itself or, for QKV_BLEU_AUTO, the one that fits the target sentences of a corpus, which was read with
 * keep_raw. */
enum qkv_bleu_tokenizer qkv_bleu_tokenizer_for(enum qkv_bleu_tokenizer tokenizer,
                                               const struct qkv_corpus *corpus);

/* The words of TER: normalized `passes` times as tercom does it, and without punctuation, if asked for. */
struct qkv_words *qkv_text_tercom(struct qkv_arena *arena, int passes, bool no_punctuation,
                                  const struct qkv_symbols *text);

/* The words between white space, for the word n-grams of chrF++. An ASCII punctuation mark at the end of a
 * word, or else at its start, becomes a word of its own. */
struct qkv_words *qkv_text_words_and_marks(struct qkv_arena *arena, const struct qkv_symbols *text);

/* Replaces words by numbers: equal words get the same number in all `count` texts. Returns an array of
 * `count` sequences, one for each text. */
struct qkv_symbols *qkv_text_number_words(struct qkv_arena *arena, struct qkv_words *const *texts,
                                          int64_t count);

/* The n-grams of a sequence, of every order up to QKV_CHRF_LONGEST: its sorted suffixes. A suffix starts at one position, and
 * its first n symbols are the n-gram there. */
struct qkv_ngrams {
    struct qkv_suffix {
        const uint32_t *items;
        int64_t count; /* symbols up to the end of the text, at most QKV_CHRF_LONGEST */
    } * suffixes;      /* [count], one for each position */
    int64_t count;
};

struct qkv_ngrams *qkv_ngrams_sort(struct qkv_arena *arena, const struct qkv_symbols *text);

/* The number of n-grams of the given order. */
int64_t qkv_ngrams_total(const struct qkv_ngrams *ngrams, int order);

/* The number of n-grams of the given order that also occur in a reference: each n-gram counts at most as often as it
 * occurs in that one of the `count` references in which it is most frequent. cursors: workspace for `count` numbers. */
int64_t qkv_ngrams_matches(const struct qkv_ngrams *hypothesis, struct qkv_ngrams *const *references,
                           int64_t count, int order, int64_t *cursors);

/* ---- metrics ---- */

enum { QKV_STATISTICS_MAX = 3 * QKV_CHRF_ORDERS }; /* of any metric */

/* A segment that is compared: the hypothesis, which is text 0, and its references. */
struct qkv_segment {
    const struct qkv_text_options *options;
    struct qkv_arena *arena; /* for what comparing needs */
    const char *const *texts;
    const struct qkv_symbols *words; /* the words of each text, as numbers */
    int64_t count;                   /* of texts, 2 or more */
};

struct qkv_text_metric {
    /* Refuses options that are out of range. NULL: all are allowed. */
    enum qkv_status (*check)(const struct qkv_text_options *options, struct qkv_error *error);
    /* The words of text i; NULL when memory runs out. */
    struct qkv_words *(*words)(const struct qkv_segment *segment, int64_t i);
    /* Computes the statistics of a segment. Returns how many these options need; 0 when memory, which it takes from the arena,
     * runs out. */
    int (*compare)(const struct qkv_segment *segment, double *statistics);
    double (*score)(const struct qkv_text_options *options, const double *sums);
    /* Adds details, the title if it depends on the options, and as the signature the part that is the metric's own, such as
     * `eff:no|tok:13a`; returns whether case counts. */
    bool (*describe)(const struct qkv_text_options *options, const double *sums,
                     struct qkv_metric_description *description);
};

#define METRIC(...)
#define TEXT_METRIC(NAME, name, ...) extern const struct qkv_text_metric qkv_text_metric_##name;
#include "qkv/metrics.def"
