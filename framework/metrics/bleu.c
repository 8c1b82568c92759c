#include "metrics/metric.h"
#include "metrics/text.h"
#include "qkv/scalar_math.h"

#include <stdio.h>
#include <string.h>

const char *qkv_bleu_tokenizer_name(enum qkv_bleu_tokenizer tokenizer)
{
    static const char *const names[] = {
        [QKV_BLEU_13A] = "13a", [QKV_BLEU_NONE] = "none", [QKV_BLEU_CHAR] = "char"};
    return tokenizer >= QKV_BLEU_13A && tokenizer <= QKV_BLEU_CHAR ? names[tokenizer] : "unknown";
}

/* The length, in words, of the reference that is closest in length to the hypothesis, which has `length` words; of
 * two equally close ones, that of the shorter. */
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
        bleu->totals[order - 1] += qkv_ngrams_total(ngrams[0], order);
        bleu->matches[order - 1] += qkv_ngrams_matches(ngrams[0], ngrams + 1, present_count, order, cursors);
    }
    bleu->hypothesis_length += words[0]->count;
    bleu->reference_length += closest_length(words[0]->count, words + 1, present_count);
    bleu->segments++;
    qkv_reference_count_add(&bleu->references, present_count);
    return QKV_OK;
}

enum qkv_status qkv_bleu_add(struct qkv_bleu *bleu, const char *hypothesis, const char *const *references,
                             int64_t count, struct qkv_error *error)
{
    enum qkv_status status = add(bleu, hypothesis, references, count, error);
    qkv_arena_reset(&bleu->scratch);
    return status;
}

/* The brevity penalty: exp(1 - r/c) where the hypotheses (c words) are shorter than their references
 * (r words), else 1. */
static double compute_penalty(const struct qkv_bleu *bleu)
{
    if (bleu->hypothesis_length >= bleu->reference_length) return 1;
    if (bleu->hypothesis_length == 0) return 0;
    return qkv_scalar_exp(1 - (double)bleu->reference_length / (double)bleu->hypothesis_length);
}

double qkv_bleu_details(const struct qkv_bleu *bleu, double precisions[QKV_BLEU_ORDER],
                        double *brevity_penalty)
{
    double penalty = compute_penalty(bleu), percent[QKV_BLEU_ORDER] = {0}, log_sum = 0, divisor = 1;
    int orders = 0; /* the hypotheses have n-grams of the orders 1 .. orders */
    bool any = false;
    for (int n = 0; n < QKV_BLEU_ORDER; n++) any = any || bleu->matches[n] > 0;
    for (; any && orders < QKV_BLEU_ORDER && bleu->totals[orders] > 0; orders++) {
        double matches = (double)bleu->matches[orders];
        if (bleu->matches[orders] == 0) matches = 1 / (divisor *= 2);
        percent[orders] = 100 * matches / (double)bleu->totals[orders];
        log_sum += qkv_scalar_log(percent[orders]);
    }
    if (precisions) memcpy(precisions, percent, sizeof percent);
    if (brevity_penalty) *brevity_penalty = penalty;
    /* An order for which every hypothesis is too short has precision 0, and so the geometric mean is 0. */
    if (orders == 0 || (orders < QKV_BLEU_ORDER && !bleu->effective_order)) return 0;
    return penalty * qkv_scalar_exp(log_sum / orders);
}

double qkv_bleu_score(const struct qkv_bleu *bleu)
{
    return qkv_bleu_details(bleu, NULL, NULL);
}

void qkv_bleu_signature(const struct qkv_bleu *bleu, char *text, size_t size)
{
    char middle[64];
    snprintf(middle, sizeof middle, "eff:%s|tok:%s|smooth:exp", bleu->effective_order ? "yes" : "no",
             qkv_bleu_tokenizer_name(bleu->tokenizer));
    qkv_metrics_signature(&bleu->references, bleu->lowercase, middle, text, size);
}

void qkv_bleu_reset(struct qkv_bleu *bleu)
{
    *bleu = (struct qkv_bleu){.tokenizer = bleu->tokenizer,
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
    *(struct qkv_bleu *)state =
        (struct qkv_bleu){.tokenizer = options->tokenizer, .lowercase = options->lowercase};
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

static void sign_state(const void *state, char *text, size_t size)
{
    qkv_bleu_signature(state, text, size);
}

static void release_state(void *state)
{
    qkv_bleu_release(state);
}

const struct qkv_text_metric qkv_text_metric_bleu = {
    sizeof(struct qkv_bleu), init_state, add_state, score_state, sign_state, release_state};
