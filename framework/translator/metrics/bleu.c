/* Corpus BLEU (Papineni et al. 2002), with the smoothings of Chen and Cherry 2014. */
#include "core/memory.h"
#include "core/numbers.h"
#include "metrics/metric.h"

/* The default values of the smoothing methods, from Chen and Cherry 2014; 0: the method has no value. */
static const struct {
    const char *name;
    double value;
} SMOOTHINGS[] = {[QKV_BLEU_EXP] = {"exp", 0},
                  [QKV_BLEU_FLOOR] = {"floor", 0.1},
                  [QKV_BLEU_ADD_K] = {"add-k", 1},
                  [QKV_BLEU_UNSMOOTHED] = {"none", 0}};

static bool is_smoothing(enum qkv_bleu_smoothing smoothing)
{
    return (int)smoothing >= 0 && (int)smoothing < QKV_BLEU_SMOOTHINGS;
}

const char *qkv_bleu_smoothing_name(enum qkv_bleu_smoothing smoothing)
{
    return is_smoothing(smoothing) ? SMOOTHINGS[smoothing].name : "unknown";
}

static double smoothing_value(const struct qkv_text_options *options)
{
    if (options->smoothing_value > 0) return options->smoothing_value;
    return is_smoothing(options->smoothing) ? SMOOTHINGS[options->smoothing].value : 0;
}

/* The length in words of the reference that is closest to the length of the hypothesis; of two equally close ones, the
 * shorter. */
static int64_t closest_length(const struct qkv_segment *segment)
{
    int64_t closest = segment->words[1].count, length = segment->words[0].count;
    for (int64_t i = 2; i < segment->count; i++) {
        int64_t candidate = segment->words[i].count;
        int64_t here = candidate > length ? candidate - length : length - candidate;
        int64_t best = closest > length ? closest - length : length - closest;
        if (here < best || (here == best && candidate < closest)) closest = candidate;
    }
    return closest;
}

/* The statistics of a segment: its lengths, then matches and totals of each order. */
enum {
    HYPOTHESIS_LENGTH,
    REFERENCE_LENGTH,
    MATCHES,
    TOTALS = MATCHES + QKV_BLEU_ORDER,
    STATISTICS = TOTALS + QKV_BLEU_ORDER
};

static enum qkv_status check(const struct qkv_text_options *options, struct qkv_error *error)
{
    if ((unsigned)options->tokenizer >= QKV_BLEU_TOKENIZERS)
        return qkv_error_set(error, "BLEU has no tokenizer %d", (int)options->tokenizer);
    if (!is_smoothing(options->smoothing))
        return qkv_error_set(error, "BLEU has no smoothing %d", (int)options->smoothing);
    if (options->smoothing_value >= 0 && options->smoothing_value <= QKV_BLEU_SMOOTHING_MAX) return QKV_OK;
    return qkv_error_set(error, "the smoothing value of BLEU is %g, but must lie in 0 to %d",
                         options->smoothing_value, QKV_BLEU_SMOOTHING_MAX);
}

static struct qkv_words *words_of(const struct qkv_segment *segment, int64_t i)
{
    const struct qkv_text_options *options = segment->options;
    return qkv_text_tokenize(segment->arena, options->tokenizer,
                             qkv_text_decode(segment->arena, segment->texts[i], options->lowercase));
}

static int compare(const struct qkv_segment *segment, double *statistics)
{
    struct qkv_arena *arena = segment->arena;
    struct qkv_ngrams **ngrams = qkv_arena_array(arena, segment->count, sizeof *ngrams);
    int64_t *cursors = qkv_arena_array(arena, segment->count, sizeof *cursors);
    if (!ngrams || !cursors) return 0;
    for (int64_t i = 0; i < segment->count; i++)
        if (!(ngrams[i] = qkv_ngrams_sort(arena, &segment->words[i]))) return 0;
    for (int order = 1; order <= QKV_BLEU_ORDER; order++) {
        statistics[TOTALS + order - 1] = (double)qkv_ngrams_total(ngrams[0], order);
        statistics[MATCHES + order - 1] =
            (double)qkv_ngrams_matches(ngrams[0], ngrams + 1, segment->count - 1, order, cursors);
    }
    statistics[HYPOTHESIS_LENGTH] = (double)segment->words[0].count;
    statistics[REFERENCE_LENGTH] = (double)closest_length(segment);
    return STATISTICS;
}

/* The brevity penalty: exp(1 - r/c) if the hypotheses (c words) are shorter than their references
 * (r words), otherwise 1. */
static double compute_penalty(const double *sums)
{
    if (sums[HYPOTHESIS_LENGTH] >= sums[REFERENCE_LENGTH]) return 1;
    if (!(sums[HYPOTHESIS_LENGTH] > 0)) return 0;
    return qkv_scalar_exp(1 - sums[REFERENCE_LENGTH] / sums[HYPOTHESIS_LENGTH]);
}

/* The precision of one order in percent, smoothed. `divisor` doubles with each order without a match. */
static double precision_of(const struct qkv_text_options *options, const double *sums, int order,
                           double *divisor)
{
    double matches = sums[MATCHES + order - 1], total = sums[TOTALS + order - 1];
    if (options->smoothing == QKV_BLEU_ADD_K && order > 1) {
        matches += smoothing_value(options);
        total += smoothing_value(options);
    }
    if (!(total > 0)) return -1;
    if (matches > 0) return 100 * matches / total;
    if (options->smoothing == QKV_BLEU_FLOOR) return 100 * smoothing_value(options) / total;
    return options->smoothing == QKV_BLEU_EXP ? 100 / (total * (*divisor *= 2)) : 0;
}

/* The score; sets the smoothed precision of each order, in percent. */
static double score_with_precisions(const struct qkv_text_options *options, const double *sums,
                                    double precisions[QKV_BLEU_ORDER])
{
    double log_sum = 0, divisor = 1;
    int orders = 0; /* the hypotheses have n-grams of the orders 1 .. orders */
    bool any = false, none = false;
    for (int n = 0; n < QKV_BLEU_ORDER; n++) any = any || sums[MATCHES + n] > 0;
    for (; any && orders < QKV_BLEU_ORDER; orders++) {
        double precision = precision_of(options, sums, orders + 1, &divisor);
        if (precision < 0) break;
        precisions[orders] = precision;
        none = none || !(precision > 0);
        if (!none) log_sum += qkv_scalar_log(precision);
    }
    /* An order without matches, or for which every hypothesis is too short, has precision 0, and so the geometric mean
     * is 0. */
    if (none || orders == 0 || (orders < QKV_BLEU_ORDER && !options->effective_order)) return 0;
    return compute_penalty(sums) * qkv_scalar_exp(log_sum / orders);
}

static double score(const struct qkv_text_options *options, const double *sums)
{
    double precisions[QKV_BLEU_ORDER];
    return score_with_precisions(options, sums, precisions);
}

static bool describe(const struct qkv_text_options *options, const double *sums,
                     struct qkv_metric_description *description)
{
    struct qkv_metric_detail *details = description->details;
    char value[32] = "";
    if (smoothing_value(options) > 0) snprintf(value, sizeof value, "[%.2f]", smoothing_value(options));
    snprintf(description->signature, sizeof description->signature, "eff:%s|tok:%s|smooth:%s%s",
             options->effective_order ? "yes" : "no", qkv_bleu_tokenizer_name(options->tokenizer),
             qkv_bleu_smoothing_name(options->smoothing), value);
    description->detail_count = 4;
    details[0] = (struct qkv_metric_detail){"precisions", QKV_BLEU_ORDER, {0}};
    details[1] = (struct qkv_metric_detail){"brevity_penalty", 1, {compute_penalty(sums)}};
    details[2] = (struct qkv_metric_detail){"hypothesis_length", 1, {sums[HYPOTHESIS_LENGTH]}};
    details[3] = (struct qkv_metric_detail){"reference_length", 1, {sums[REFERENCE_LENGTH]}};
    score_with_precisions(options, sums, details[0].value);
    return !options->lowercase;
}

const struct qkv_text_metric qkv_text_metric_bleu = {check, words_of, compare, score, describe};
