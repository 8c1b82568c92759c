#include "metrics/metric.h"
#include "metrics/text.h"

#include <stdio.h>
#include <string.h>

/* Entries of an array [ORDERS]: one for each character order from 1, then one for each word order from 1. */
#define ORDERS QKV_CHRF_ORDERS

/* The options, with defaults in place of 0 and of invalid orders. With invalid orders, `add` refuses all segments. */
static int character_order(const struct qkv_chrf *chrf)
{
    bool is_given = chrf->character_order > 0 && chrf->character_order <= QKV_CHRF_LONGEST;
    return is_given ? chrf->character_order : QKV_CHRF_CHARACTERS;
}

static int word_order(const struct qkv_chrf *chrf)
{
    return chrf->word_order > 0 && chrf->word_order <= QKV_CHRF_WORDS ? chrf->word_order : 0;
}

static double beta_of(const struct qkv_chrf *chrf)
{
    return chrf->beta > 0 ? chrf->beta : QKV_CHRF_BETA;
}

static int orders_of(const struct qkv_chrf *chrf)
{
    return character_order(chrf) + word_order(chrf);
}

/* The n-grams of one text, a hypothesis or a reference. */
struct text_ngrams {
    struct qkv_ngrams *characters, *words;
};

/* The F score, 0 to 100, of precision and recall, which are averaged over the orders for which both texts have n-grams. */
static double f_score(const struct qkv_chrf *chrf, const struct qkv_chrf_counts *counts)
{
    const double beta_squared = beta_of(chrf) * beta_of(chrf);
    double precision = 0, recall = 0;
    int orders = 0;
    for (int i = 0; i < orders_of(chrf); i++) {
        if (counts->hypothesis[i] == 0 || counts->reference[i] == 0) continue;
        precision += (double)counts->matches[i] / (double)counts->hypothesis[i];
        recall += (double)counts->matches[i] / (double)counts->reference[i];
        orders++;
    }
    if (!(precision > 0)) return 0;
    precision /= orders;
    recall /= orders;
    return 100 * (1 + beta_squared) * precision * recall / (beta_squared * precision + recall);
}

static void count_order(struct qkv_chrf_counts *counts, int index, struct qkv_ngrams *hypothesis,
                        struct qkv_ngrams *reference, int order)
{
    int64_t cursor;
    counts->reference[index] = qkv_ngrams_total(reference, order);
    /* If the reference is too short for an order, the n-grams of the hypothesis do not lower its precision. */
    counts->hypothesis[index] = counts->reference[index] > 0 ? qkv_ngrams_total(hypothesis, order) : 0;
    counts->matches[index] = qkv_ngrams_matches(hypothesis, &reference, 1, order, &cursor);
}

static struct qkv_chrf_counts compare(const struct qkv_chrf *chrf, const struct text_ngrams *hypothesis,
                                      const struct text_ngrams *reference)
{
    struct qkv_chrf_counts counts = {{0}, {0}, {0}};
    int characters = character_order(chrf);
    for (int n = 1; n <= characters; n++)
        count_order(&counts, n - 1, hypothesis->characters, reference->characters, n);
    for (int n = 1; n <= chrf->word_order; n++)
        count_order(&counts, characters + n - 1, hypothesis->words, reference->words, n);
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

    double best_score = -1;
    for (int64_t i = 1; i <= present_count; i++) {
        struct qkv_chrf_counts counts = compare(chrf, &texts[0], &texts[i]);
        double score = f_score(chrf, &counts);
        if (score > best_score) {
            best_score = score;
            chrf->last = counts;
        }
    }
    for (int i = 0; i < ORDERS; i++) {
        chrf->counts.hypothesis[i] += chrf->last.hypothesis[i];
        chrf->counts.reference[i] += chrf->last.reference[i];
        chrf->counts.matches[i] += chrf->last.matches[i];
    }
    chrf->segments++;
    qkv_reference_count_add(&chrf->references, present_count);
    return QKV_OK;
}

static enum qkv_status check_options(const struct qkv_chrf *chrf, struct qkv_error *error)
{
    if (chrf->word_order < 0 || chrf->word_order > QKV_CHRF_WORDS)
        return qkv_error_set(error, "the word order of chrF is %d, but must lie in 0 to %d", chrf->word_order,
                             QKV_CHRF_WORDS);
    if (chrf->character_order < 0 || chrf->character_order > QKV_CHRF_LONGEST)
        return qkv_error_set(error, "the character order of chrF is %d, but must lie in 1 to %d",
                             chrf->character_order, QKV_CHRF_LONGEST);
    if (!(chrf->beta >= 0 && chrf->beta <= QKV_CHRF_BETA_MAX))
        return qkv_error_set(error, "beta of chrF is %g, but must lie in 0 to %d", chrf->beta,
                             QKV_CHRF_BETA_MAX);
    return QKV_OK;
}

enum qkv_status qkv_chrf_add(struct qkv_chrf *chrf, const char *hypothesis, const char *const *references,
                             int64_t count, struct qkv_error *error)
{
    if (check_options(chrf, error)) return QKV_INVALID;
    enum qkv_status status = add(chrf, hypothesis, references, count, error);
    qkv_arena_reset(&chrf->scratch);
    return status;
}

double qkv_chrf_score(const struct qkv_chrf *chrf)
{
    return f_score(chrf, &chrf->counts);
}

void qkv_chrf_signature(const struct qkv_chrf *chrf, char *text, size_t size)
{
    char middle[96], beta[32] = "";
    double value = beta_of(chrf);
    if (value < QKV_CHRF_BETA || value > QKV_CHRF_BETA) snprintf(beta, sizeof beta, "|beta:%g", value);
    snprintf(middle, sizeof middle, "eff:yes|nc:%d|nw:%d|space:no%s", character_order(chrf), chrf->word_order,
             beta);
    qkv_metrics_signature(&chrf->references, chrf->lowercase ? "lc" : "mixed", middle, text, size);
}

void qkv_chrf_reset(struct qkv_chrf *chrf)
{
    *chrf = (struct qkv_chrf){.character_order = chrf->character_order,
                              .word_order = chrf->word_order,
                              .beta = chrf->beta,
                              .lowercase = chrf->lowercase,
                              .scratch = chrf->scratch};
}

void qkv_chrf_release(struct qkv_chrf *chrf)
{
    qkv_arena_release(&chrf->scratch);
}

/* ---- the functions of the row CHRF of qkv/metrics.def ---- */

static void init_state(void *state, const struct qkv_text_options *options)
{
    *(struct qkv_chrf *)state = (struct qkv_chrf){.character_order = options->character_order,
                                                  .word_order = options->word_order,
                                                  .beta = options->beta,
                                                  .lowercase = options->lowercase};
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

/* The statistics of a segment: the three counts of each order. */
static int count_statistics(const void *state)
{
    return 3 * orders_of(state);
}

static void last_statistics(const void *state, double *statistics)
{
    const struct qkv_chrf *chrf = state;
    for (int i = 0; i < orders_of(chrf); i++) {
        statistics[3 * i] = (double)chrf->last.hypothesis[i];
        statistics[3 * i + 1] = (double)chrf->last.reference[i];
        statistics[3 * i + 2] = (double)chrf->last.matches[i];
    }
}

static double score_of_statistics(const void *state, const double *statistics)
{
    const struct qkv_chrf *chrf = state;
    struct qkv_chrf_counts counts = {{0}, {0}, {0}};
    for (int i = 0; i < orders_of(chrf); i++) {
        counts.hypothesis[i] = (int64_t)statistics[3 * i];
        counts.reference[i] = (int64_t)statistics[3 * i + 1];
        counts.matches[i] = (int64_t)statistics[3 * i + 2];
    }
    return f_score(chrf, &counts);
}

/* chrF, chrF+, chrF++. */
static void write_title(const void *state, char *text, size_t size)
{
    const struct qkv_chrf *chrf = state;
    snprintf(text, size, "chrF%.*s", word_order(chrf), "++++");
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
    .size = sizeof(struct qkv_chrf),
    .scratch = offsetof(struct qkv_chrf, scratch),
    .init = init_state,
    .add = add_state,
    .score = score_state,
    .statistics = count_statistics,
    .last = last_statistics,
    .score_of = score_of_statistics,
    .title = write_title,
    .signature = sign_state,
    .release = release_state,
};
