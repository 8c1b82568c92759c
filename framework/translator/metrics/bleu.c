#include "metrics/metric.h"
#include "metrics/text.h"
#include "qkv/scalar_math.h"

#include <stdio.h>
#include <string.h>

static bool is_tokenizer(enum qkv_bleu_tokenizer tokenizer)
{
    return (int)tokenizer >= 0 && (int)tokenizer < QKV_BLEU_TOKENIZERS;
}

const char *qkv_bleu_tokenizer_name(enum qkv_bleu_tokenizer tokenizer)
{
    static const char *const names[] = {
        [QKV_BLEU_13A] = "13a", [QKV_BLEU_INTL] = "intl", [QKV_BLEU_NONE] = "none", [QKV_BLEU_CHAR] = "char"};
    return is_tokenizer(tokenizer) ? names[tokenizer] : "unknown";
}

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

static double smoothing_value(const struct qkv_bleu *bleu)
{
    if (bleu->smoothing_value > 0) return bleu->smoothing_value;
    return is_smoothing(bleu->smoothing) ? SMOOTHINGS[bleu->smoothing].value : 0;
}

/* The length in words of the reference that is closest to `length`, that of the hypothesis; of two equally close ones, the
 * shorter. */
static int64_t closest_length(int64_t length, struct qkv_words *const *references, int64_t count)
{
    int64_t closest = references[0]->count;
    for (int64_t i = 1; i < count; i++) {
        int64_t candidate = references[i]->count;
        int64_t here = candidate > length ? candidate - length : length - candidate;
        int64_t best = closest > length ? closest - length : length - closest;
        if (here < best || (here == best && candidate < closest)) closest = candidate;
    }
    return closest;
}

/* The statistics of a segment: its lengths, then matches and totals of each order. */
enum { HYPOTHESIS_LENGTH, REFERENCE_LENGTH, MATCHES, TOTALS = MATCHES + QKV_BLEU_ORDER };

_Static_assert(TOTALS + QKV_BLEU_ORDER == QKV_BLEU_STATISTICS, "");

/* Adds statistics to the sums. */
static void add_statistics(struct qkv_bleu *bleu, const int64_t *statistics)
{
    bleu->hypothesis_length += statistics[HYPOTHESIS_LENGTH];
    bleu->reference_length += statistics[REFERENCE_LENGTH];
    for (int n = 0; n < QKV_BLEU_ORDER; n++) {
        bleu->matches[n] += statistics[MATCHES + n];
        bleu->totals[n] += statistics[TOTALS + n];
    }
}

/* In `words` and `ngrams`, item 0 is the hypothesis; the references follow. */
static enum qkv_status add(struct qkv_bleu *bleu, const char *hypothesis, const char *const *references,
                           int64_t count, struct qkv_error *error)
{
    struct qkv_arena *arena = &bleu->scratch;
    const char **present;
    int64_t present_count;
    enum qkv_status status =
        qkv_metrics_references(arena, references, count, &present, &present_count, error);
    if (status != QKV_OK) return status;

    int64_t texts = present_count + 1;
    struct qkv_words **words = qkv_arena_allocate(arena, (size_t)texts * sizeof *words);
    struct qkv_ngrams **ngrams = qkv_arena_allocate(arena, (size_t)texts * sizeof *ngrams);
    int64_t *cursors = qkv_arena_allocate(arena, (size_t)texts * sizeof *cursors);
    bool complete = words && ngrams && cursors;
    for (int64_t i = 0; complete && i < texts; i++) {
        const char *text = i == 0 ? hypothesis : present[i - 1];
        words[i] = qkv_text_tokenize(arena, bleu->tokenizer, qkv_text_decode(arena, text, bleu->lowercase));
        complete = words[i];
    }
    struct qkv_symbols *numbers = complete ? qkv_text_number_words(arena, words, texts) : NULL;
    complete = numbers;
    for (int64_t i = 0; complete && i < texts; i++) {
        ngrams[i] = qkv_ngrams_sort(arena, &numbers[i]);
        complete = ngrams[i];
    }
    if (!complete) return qkv_error_set(error, "out of memory for BLEU");

    for (int order = 1; order <= QKV_BLEU_ORDER; order++) {
        bleu->last[TOTALS + order - 1] = qkv_ngrams_total(ngrams[0], order);
        bleu->last[MATCHES + order - 1] =
            qkv_ngrams_matches(ngrams[0], ngrams + 1, present_count, order, cursors);
    }
    bleu->last[HYPOTHESIS_LENGTH] = words[0]->count;
    bleu->last[REFERENCE_LENGTH] = closest_length(words[0]->count, words + 1, present_count);
    add_statistics(bleu, bleu->last);
    bleu->segments++;
    qkv_reference_count_add(&bleu->references, present_count);
    return QKV_OK;
}

enum qkv_status qkv_bleu_add(struct qkv_bleu *bleu, const char *hypothesis, const char *const *references,
                             int64_t count, struct qkv_error *error)
{
    if (!is_tokenizer(bleu->tokenizer))
        return qkv_error_set(error, "BLEU has no tokenizer %d", (int)bleu->tokenizer);
    if (!is_smoothing(bleu->smoothing))
        return qkv_error_set(error, "BLEU has no smoothing %d", (int)bleu->smoothing);
    if (!(bleu->smoothing_value >= 0 && bleu->smoothing_value <= QKV_BLEU_SMOOTHING_MAX))
        return qkv_error_set(error, "the smoothing value of BLEU is %g, but must lie in 0 to %d",
                             bleu->smoothing_value, QKV_BLEU_SMOOTHING_MAX);
    enum qkv_status status = add(bleu, hypothesis, references, count, error);
    qkv_arena_reset(&bleu->scratch);
    return status;
}

/* The brevity penalty: exp(1 - r/c) if the hypotheses (c words) are shorter than their references
 * (r words), otherwise 1. */
static double compute_penalty(const struct qkv_bleu *bleu)
{
    if (bleu->hypothesis_length >= bleu->reference_length) return 1;
    if (bleu->hypothesis_length == 0) return 0;
    return qkv_scalar_exp(1 - (double)bleu->reference_length / (double)bleu->hypothesis_length);
}

/* The precision of one order in percent, smoothed. `divisor` doubles with each order without a match. */
static double precision_of(const struct qkv_bleu *bleu, int order, double *divisor)
{
    double matches = (double)bleu->matches[order - 1], total = (double)bleu->totals[order - 1];
    if (bleu->smoothing == QKV_BLEU_ADD_K && order > 1) {
        matches += smoothing_value(bleu);
        total += smoothing_value(bleu);
    }
    if (!(total > 0)) return -1;
    if (matches > 0) return 100 * matches / total;
    if (bleu->smoothing == QKV_BLEU_FLOOR) return 100 * smoothing_value(bleu) / total;
    return bleu->smoothing == QKV_BLEU_EXP ? 100 / (total * (*divisor *= 2)) : 0;
}

double qkv_bleu_details(const struct qkv_bleu *bleu, double precisions[QKV_BLEU_ORDER],
                        double *brevity_penalty)
{
    double penalty = compute_penalty(bleu), percent[QKV_BLEU_ORDER] = {0}, log_sum = 0, divisor = 1;
    int orders = 0; /* the hypotheses have n-grams of the orders 1 .. orders */
    bool any = false, none = false;
    for (int n = 0; n < QKV_BLEU_ORDER; n++) any = any || bleu->matches[n] > 0;
    for (; any && orders < QKV_BLEU_ORDER; orders++) {
        double precision = precision_of(bleu, orders + 1, &divisor);
        if (precision < 0) break;
        percent[orders] = precision;
        none = none || !(precision > 0);
        if (!none) log_sum += qkv_scalar_log(precision);
    }
    if (precisions) memcpy(precisions, percent, sizeof percent);
    if (brevity_penalty) *brevity_penalty = penalty;
    /* An order without matches, or for which every hypothesis is too short, has precision 0, and so the geometric mean
     * is 0. */
    if (none || orders == 0 || (orders < QKV_BLEU_ORDER && !bleu->effective_order)) return 0;
    return penalty * qkv_scalar_exp(log_sum / orders);
}

double qkv_bleu_score(const struct qkv_bleu *bleu)
{
    return qkv_bleu_details(bleu, NULL, NULL);
}

void qkv_bleu_signature(const struct qkv_bleu *bleu, char *text, size_t size)
{
    char middle[96], value[32] = "";
    if (smoothing_value(bleu) > 0) snprintf(value, sizeof value, "[%.2f]", smoothing_value(bleu));
    snprintf(middle, sizeof middle, "eff:%s|tok:%s|smooth:%s%s", bleu->effective_order ? "yes" : "no",
             qkv_bleu_tokenizer_name(bleu->tokenizer), qkv_bleu_smoothing_name(bleu->smoothing), value);
    qkv_metrics_signature(&bleu->references, bleu->lowercase ? "lc" : "mixed", middle, text, size);
}

void qkv_bleu_reset(struct qkv_bleu *bleu)
{
    *bleu = (struct qkv_bleu){.tokenizer = bleu->tokenizer,
                              .smoothing = bleu->smoothing,
                              .smoothing_value = bleu->smoothing_value,
                              .lowercase = bleu->lowercase,
                              .effective_order = bleu->effective_order,
                              .scratch = bleu->scratch};
}

void qkv_bleu_release(struct qkv_bleu *bleu)
{
    qkv_arena_release(&bleu->scratch);
}

/* ---- the functions of the row BLEU of qkv/metrics.def ---- */

static void init_state(void *state, const struct qkv_text_options *options)
{
    *(struct qkv_bleu *)state = (struct qkv_bleu){.tokenizer = options->tokenizer,
                                                  .smoothing = options->smoothing,
                                                  .smoothing_value = options->smoothing_value,
                                                  .lowercase = options->lowercase,
                                                  .effective_order = options->effective_order};
}

static enum qkv_status add_state(void *state, const char *hypothesis, const char *const *references,
                                 int64_t count, struct qkv_error *error)
{
    return qkv_bleu_add(state, hypothesis, references, count, error);
}

static double score_state(const void *state)
{
    return qkv_bleu_score(state);
}

static int count_statistics(const void *state)
{
    (void)state;
    return QKV_BLEU_STATISTICS;
}

static void last_statistics(const void *state, double *statistics)
{
    const struct qkv_bleu *bleu = state;
    for (int i = 0; i < QKV_BLEU_STATISTICS; i++) statistics[i] = (double)bleu->last[i];
}

static double score_of_statistics(const void *state, const double *statistics)
{
    struct qkv_bleu sums = *(const struct qkv_bleu *)state;
    int64_t numbers[QKV_BLEU_STATISTICS];
    qkv_bleu_reset(&sums); /* keeps the options; the copy adds no segments, so it does not use the arena */
    for (int i = 0; i < QKV_BLEU_STATISTICS; i++) numbers[i] = (int64_t)statistics[i];
    add_statistics(&sums, numbers);
    return qkv_bleu_score(&sums);
}

static int list_details(const void *state, struct qkv_metric_detail *details)
{
    const struct qkv_bleu *bleu = state;
    details[0] = (struct qkv_metric_detail){"precisions", QKV_BLEU_ORDER, {0}};
    details[1] = (struct qkv_metric_detail){"brevity_penalty", 1, {0}};
    details[2] = (struct qkv_metric_detail){"hypothesis_length", 1, {(double)bleu->hypothesis_length}};
    details[3] = (struct qkv_metric_detail){"reference_length", 1, {(double)bleu->reference_length}};
    qkv_bleu_details(bleu, details[0].value, details[1].value);
    return 4;
}

static void sign_state(const void *state, char *text, size_t size)
{
    qkv_bleu_signature(state, text, size);
}

static void release_state(void *state)
{
    qkv_bleu_release(state);
}

const struct qkv_text_metric qkv_text_metric_bleu = {
    .size = sizeof(struct qkv_bleu),
    .scratch = offsetof(struct qkv_bleu, scratch),
    .init = init_state,
    .add = add_state,
    .score = score_state,
    .statistics = count_statistics,
    .last = last_statistics,
    .score_of = score_of_statistics,
    .details = list_details,
    .signature = sign_state,
    .release = release_state,
};
