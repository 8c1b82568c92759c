#include "metrics/metric.h"
#include "metrics/text.h"

#include <stdio.h>
#include <string.h>

/* Entries of an array [ORDERS]: one for each character order, 1 to 6, then one for each word order, 1 and 2. */
#define ORDERS (QKV_CHRF_CHARACTERS + QKV_CHRF_WORDS)

/* Numbers of n-grams, by order: those of one hypothesis, of one reference, and those in both. */
struct counts {
    int64_t hypothesis[ORDERS], reference[ORDERS], matches[ORDERS];
};

/* The n-grams of one text, a hypothesis or a reference. */
struct text_ngrams {
    struct qkv_ngrams *characters, *words;
};

/* The F2 score, 0 to 100, of precision and recall, each averaged over the orders of which both texts have
 * n-grams. The arguments are arrays [ORDERS]. */
static double f_score(const int64_t *hypothesis, const int64_t *reference, const int64_t *matches)
{
    const double beta_squared = 4;
    double precision = 0, recall = 0;
    int orders = 0;
    for (int i = 0; i < ORDERS; i++) {
        if (hypothesis[i] == 0 || reference[i] == 0) continue;
        precision += (double)matches[i] / (double)hypothesis[i];
        recall += (double)matches[i] / (double)reference[i];
        orders++;
    }
    if (!(precision > 0)) return 0;
    precision /= orders;
    recall /= orders;
    return 100 * (1 + beta_squared) * precision * recall / (beta_squared * precision + recall);
}

static void count_order(struct counts *counts, int index, struct qkv_ngrams *hypothesis,
                        struct qkv_ngrams *reference, int order)
{
    int64_t cursor;
    counts->reference[index] = qkv_ngrams_total(reference, order);
    /* If the reference is too short for an order, the n-grams of the hypothesis do not lower its precision. */
    counts->hypothesis[index] = counts->reference[index] > 0 ? qkv_ngrams_total(hypothesis, order) : 0;
    counts->matches[index] = qkv_ngrams_matches(hypothesis, &reference, 1, order, &cursor);
}

static struct counts compare(const struct qkv_chrf *chrf, const struct text_ngrams *hypothesis,
                             const struct text_ngrams *reference)
{
    struct counts counts = {0};
    for (int n = 1; n <= QKV_CHRF_CHARACTERS; n++)
        count_order(&counts, n - 1, hypothesis->characters, reference->characters, n);
    for (int n = 1; n <= chrf->word_order; n++)
        count_order(&counts, QKV_CHRF_CHARACTERS + n - 1, hypothesis->words, reference->words, n);
    return counts;
}

/* The n-grams of all texts: item 0 is the hypothesis, the `count` references follow. NULL when memory is
 * out. */
static struct text_ngrams *read_texts(struct qkv_chrf *chrf, const char *hypothesis,
                                      const char *const *references, int64_t count)
{
    struct qkv_arena *arena = &chrf->scratch;
    struct text_ngrams *texts = qkv_arena_allocate(arena, (size_t)(count + 1) * sizeof *texts);
    struct qkv_words **words = qkv_arena_allocate(arena, (size_t)(count + 1) * sizeof *words);
    if (!texts || !words) return NULL;
    for (int64_t i = 0; i <= count; i++) {
        struct qkv_symbols *text =
            qkv_text_decode(arena, i == 0 ? hypothesis : references[i - 1], chrf->lowercase);
        texts[i].characters = qkv_ngrams_sort(arena, qkv_text_without_space(arena, text));
        words[i] = qkv_text_words_and_marks(arena, text);
        if (!texts[i].characters || !words[i]) return NULL;
    }
    struct qkv_symbols *numbers = qkv_text_number_words(arena, words, count + 1);
    if (!numbers) return NULL;
    for (int64_t i = 0; i <= count; i++) {
        texts[i].words = qkv_ngrams_sort(arena, &numbers[i]);
        if (!texts[i].words) return NULL;
    }
    return texts;
}

static enum qkv_status add(struct qkv_chrf *chrf, const char *hypothesis, const char *const *references,
                           int64_t count, struct qkv_error *error)
{
    const char **present;
    int64_t present_count;
    enum qkv_status status =
        qkv_metrics_references(&chrf->scratch, references, count, &present, &present_count, error);
    if (status != QKV_OK) return status;
    struct text_ngrams *texts = read_texts(chrf, hypothesis, present, present_count);
    if (!texts) return qkv_error_set(error, "out of memory for chrF");

    struct counts best = {0};
    double best_score = -1;
    for (int64_t i = 1; i <= present_count; i++) {
        struct counts counts = compare(chrf, &texts[0], &texts[i]);
        double score = f_score(counts.hypothesis, counts.reference, counts.matches);
        if (score > best_score) {
            best_score = score;
            best = counts;
        }
    }
    for (int i = 0; i < ORDERS; i++) {
        chrf->hypothesis[i] += best.hypothesis[i];
        chrf->reference[i] += best.reference[i];
        chrf->matches[i] += best.matches[i];
    }
    chrf->segments++;
    qkv_reference_count_add(&chrf->references, present_count);
    return QKV_OK;
}

enum qkv_status qkv_chrf_add(struct qkv_chrf *chrf, const char *hypothesis, const char *const *references,
                             int64_t count, struct qkv_error *error)
{
    if (chrf->word_order < 0 || chrf->word_order > QKV_CHRF_WORDS)
        return qkv_error_set(error, "the word order of chrF is %d, but must lie in 0 to %d", chrf->word_order,
                             QKV_CHRF_WORDS);
    enum qkv_status status = add(chrf, hypothesis, references, count, error);
    qkv_arena_reset(&chrf->scratch);
    return status;
}

double qkv_chrf_score(const struct qkv_chrf *chrf)
{
    return f_score(chrf->hypothesis, chrf->reference, chrf->matches);
}

void qkv_chrf_signature(const struct qkv_chrf *chrf, char *text, size_t size)
{
    char middle[64];
    snprintf(middle, sizeof middle, "eff:yes|nc:%d|nw:%d|space:no", QKV_CHRF_CHARACTERS, chrf->word_order);
    qkv_metrics_signature(&chrf->references, chrf->lowercase, middle, text, size);
}

void qkv_chrf_reset(struct qkv_chrf *chrf)
{
    *chrf = (struct qkv_chrf){
        .word_order = chrf->word_order, .lowercase = chrf->lowercase, .scratch = chrf->scratch};
}

void qkv_chrf_release(struct qkv_chrf *chrf)
{
    qkv_arena_release(&chrf->scratch);
}

/* ---- the functions of the row CHRF of qkv/metrics.def ---- */

static void init_state(void *state, const struct qkv_text_options *options)
{
    *(struct qkv_chrf *)state = (struct qkv_chrf){.lowercase = options->lowercase};
}

static enum qkv_status add_state(void *state, const char *hypothesis, const char *const *references,
                                 int64_t count, struct qkv_error *error)
{
    return qkv_chrf_add(state, hypothesis, references, count, error);
}

static double score_state(const void *state)
{
    return qkv_chrf_score(state);
}

static void sign_state(const void *state, char *text, size_t size)
{
    qkv_chrf_signature(state, text, size);
}

static void release_state(void *state)
{
    qkv_chrf_release(state);
}

const struct qkv_text_metric qkv_text_metric_chrf = {
    sizeof(struct qkv_chrf), init_state, add_state, score_state, sign_state, release_state};
