/* Corpus chrF and chrF++ (Popovic 2015 and 2017). */
#include "metrics/metric.h"

#include <string.h>

/* The statistics of a segment: three counts of n-grams for each character order from 1, then for each word order from 1. */
enum { HYPOTHESIS, REFERENCE, MATCHES };

/* The options, with defaults in place of 0 and of invalid orders, which `check` refuses. */
static int character_order(const struct qkv_text_options *options)
{
    bool is_given = options->character_order > 0 && options->character_order <= QKV_CHRF_LONGEST;
    return is_given ? options->character_order : QKV_CHRF_CHARACTERS;
}

static int word_order(const struct qkv_text_options *options)
{
    return options->word_order > 0 && options->word_order <= QKV_CHRF_WORDS ? options->word_order : 0;
}

static double beta_of(const struct qkv_text_options *options)
{
    return options->beta > 0 ? options->beta : QKV_CHRF_BETA;
}

static int orders_of(const struct qkv_text_options *options)
{
    return character_order(options) + word_order(options);
}

/* The F score, 0 to 100, of precision and recall, which are averaged over the orders for which both texts have n-grams. */
static double score(const struct qkv_text_options *options, const double *sums)
{
    const double beta_squared = beta_of(options) * beta_of(options);
    double precision = 0, recall = 0;
    int orders = 0;
    for (int i = 0; i < orders_of(options); i++) {
        const double *counts = sums + 3 * i;
        if (!(counts[HYPOTHESIS] > 0) || !(counts[REFERENCE] > 0)) continue;
        precision += counts[MATCHES] / counts[HYPOTHESIS];
        recall += counts[MATCHES] / counts[REFERENCE];
        orders++;
    }
    if (!(precision > 0)) return 0;
    precision /= orders;
    recall /= orders;
    return 100 * (1 + beta_squared) * precision * recall / (beta_squared * precision + recall);
}

static void count_order(double *counts, struct qkv_ngrams *hypothesis, struct qkv_ngrams *reference,
                        int order)
{
    int64_t cursor, total = qkv_ngrams_total(reference, order);
    counts[REFERENCE] = (double)total;
    /* If the reference is too short for an order, the n-grams of the hypothesis do not lower its precision. */
    counts[HYPOTHESIS] = total > 0 ? (double)qkv_ngrams_total(hypothesis, order) : 0;
    counts[MATCHES] = (double)qkv_ngrams_matches(hypothesis, &reference, 1, order, &cursor);
}

static struct qkv_words *words_of(const struct qkv_segment *segment, int64_t i)
{
    return qkv_text_words_and_marks(
        segment->arena, qkv_text_decode(segment->arena, segment->texts[i], segment->options->lowercase));
}

/* The n-grams of the characters of a text, then of its words; false when memory runs out. */
static bool sort_text(const struct qkv_segment *segment, int64_t i, struct qkv_ngrams *ngrams[2])
{
    struct qkv_arena *arena = segment->arena;
    struct qkv_symbols *text = qkv_text_decode(arena, segment->texts[i], segment->options->lowercase);
    ngrams[0] = qkv_ngrams_sort(arena, qkv_text_without_space(arena, text));
    ngrams[1] = qkv_ngrams_sort(arena, &segment->words[i]);
    return ngrams[0] && ngrams[1];
}

static enum qkv_status check(const struct qkv_text_options *options, struct qkv_error *error)
{
    if (options->word_order < 0 || options->word_order > QKV_CHRF_WORDS)
        return qkv_error_set(error, "the word order of chrF is %d, but must lie in 0 to %d",
                             options->word_order, QKV_CHRF_WORDS);
    if (options->character_order < 0 || options->character_order > QKV_CHRF_LONGEST)
        return qkv_error_set(error, "the character order of chrF is %d, but must lie in 1 to %d",
                             options->character_order, QKV_CHRF_LONGEST);
    if (!(options->beta >= 0 && options->beta <= QKV_CHRF_BETA_MAX))
        return qkv_error_set(error, "beta of chrF is %g, but must lie in 0 to %d", options->beta,
                             QKV_CHRF_BETA_MAX);
    return QKV_OK;
}

/* Keeps the statistics of the reference that gives the best score. */
static int compare(const struct qkv_segment *segment, double *statistics)
{
    const struct qkv_text_options *options = segment->options;
    struct qkv_ngrams *hypothesis[2], *reference[2];
    double best = -1, counts[QKV_STATISTICS_MAX];
    int characters = character_order(options), width = 3 * orders_of(options);
    if (!sort_text(segment, 0, hypothesis)) return 0;
    for (int64_t i = 1; i < segment->count; i++) {
        if (!sort_text(segment, i, reference)) return 0;
        for (int k = 0; k < orders_of(options); k++) {
            bool of_words = k >= characters;
            count_order(counts + 3 * k, hypothesis[of_words], reference[of_words],
                        of_words ? k - characters + 1 : k + 1);
        }
        if (!(score(options, counts) > best)) continue;
        best = score(options, counts);
        memcpy(statistics, counts, (size_t)width * sizeof *counts);
    }
    return width;
}

/* The title is chrF, chrF+ or chrF++. */
static bool describe(const struct qkv_text_options *options, const double *sums,
                     struct qkv_metric_description *description)
{
    (void)sums;
    char beta[32] = "";
    double value = beta_of(options);
    if (value < QKV_CHRF_BETA || value > QKV_CHRF_BETA) snprintf(beta, sizeof beta, "|beta:%g", value);
    snprintf(description->title, sizeof description->title, "chrF%.*s", word_order(options), "++++");
    snprintf(description->signature, sizeof description->signature, "eff:yes|nc:%d|nw:%d|space:no%s",
             character_order(options), options->word_order, beta);
    return !options->lowercase;
}

const struct qkv_text_metric qkv_text_metric_chrf = {check, words_of, compare, score, describe};
