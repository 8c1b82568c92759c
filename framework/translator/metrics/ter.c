#include "metrics/metric.h"
#include "metrics/ter_edits.h"
#include "metrics/text.h"

#include <stdio.h>

/* The words of a text. sacreBLEU normalizes references twice, so that .5 after a full stop becomes two words in a reference,
 * but one in a hypothesis. References are normalized twice here, too, to get the same scores. */
static struct qkv_words *words_of(struct qkv_ter *ter, const char *text, bool is_reference)
{
    struct qkv_arena *arena = &ter->scratch;
    struct qkv_symbols *symbols = qkv_text_decode(arena, text, !ter->case_sensitive);
    struct qkv_words *words = qkv_text_tercom(arena, ter->normalized, ter->no_punctuation, symbols);
    if (!is_reference || !ter->normalized) return words;
    return qkv_text_tercom(arena, true, ter->no_punctuation, qkv_text_join(arena, words));
}

/* In `words`, item 0 is the hypothesis; the references follow. */
static enum qkv_status add(struct qkv_ter *ter, const char *hypothesis, const char *const *references,
                           int64_t count, struct qkv_error *error)
{
    struct qkv_arena *arena = &ter->scratch;
    const char **present;
    int64_t present_count;
    enum qkv_status status =
        qkv_metrics_references(arena, references, count, &present, &present_count, error);
    if (status != QKV_OK) return status;

    struct qkv_words **words = qkv_arena_allocate(arena, (size_t)(present_count + 1) * sizeof *words);
    for (int64_t i = 0; words && i <= present_count; i++)
        words[i] = words_of(ter, i == 0 ? hypothesis : present[i - 1], i > 0);
    struct qkv_symbols *numbers = words ? qkv_text_number_words(arena, words, present_count + 1) : NULL;
    int64_t min = -1, length = 0;
    for (int64_t i = 1; numbers && i <= present_count; i++) {
        int64_t edits = qkv_ter_edits(arena, &numbers[0], &numbers[i]);
        if (edits < 0) return qkv_error_set(error, "out of memory for TER");
        if (min < 0 || edits < min) min = edits;
        length += numbers[i].count;
    }
    if (min < 0) return qkv_error_set(error, "out of memory for TER");
    ter->last[0] = (double)min;
    ter->last[1] = (double)length / (double)present_count;
    ter->edits += ter->last[0];
    ter->reference_length += ter->last[1];
    ter->segments++;
    qkv_reference_count_add(&ter->references, present_count);
    return QKV_OK;
}

enum qkv_status qkv_ter_add(struct qkv_ter *ter, const char *hypothesis, const char *const *references,
                            int64_t count, struct qkv_error *error)
{
    enum qkv_status status = add(ter, hypothesis, references, count, error);
    qkv_arena_reset(&ter->scratch);
    return status;
}

/* Edits in percent of the words of the references. If these have no words, 100 if there are edits, otherwise 0. */
static double rate(double edits, double reference_length)
{
    if (reference_length > 0) return 100 * (edits / reference_length);
    return edits > 0 ? 100 : 0;
}

double qkv_ter_score(const struct qkv_ter *ter)
{
    return rate(ter->edits, ter->reference_length);
}

void qkv_ter_signature(const struct qkv_ter *ter, char *text, size_t size)
{
    char middle[64];
    snprintf(middle, sizeof middle, "tok:tercom|norm:%s|punct:%s|asian:no", ter->normalized ? "yes" : "no",
             ter->no_punctuation ? "no" : "yes");
    qkv_metrics_signature(&ter->references, ter->case_sensitive ? "mixed" : "lc", middle, text, size);
}

void qkv_ter_reset(struct qkv_ter *ter)
{
    *ter = (struct qkv_ter){.normalized = ter->normalized,
                            .no_punctuation = ter->no_punctuation,
                            .case_sensitive = ter->case_sensitive,
                            .scratch = ter->scratch};
}

void qkv_ter_release(struct qkv_ter *ter)
{
    qkv_arena_release(&ter->scratch);
}

/* ---- the functions of the row TER of qkv/metrics.def ---- */

static void init_state(void *state, const struct qkv_text_options *options)
{
    *(struct qkv_ter *)state = (struct qkv_ter){.normalized = options->ter_normalized,
                                                .no_punctuation = options->ter_no_punctuation,
                                                .case_sensitive = options->ter_case_sensitive};
}

static enum qkv_status add_state(void *state, const char *hypothesis, const char *const *references,
                                 int64_t count, struct qkv_error *error)
{
    return qkv_ter_add(state, hypothesis, references, count, error);
}

static double score_state(const void *state)
{
    return qkv_ter_score(state);
}

/* The statistics of a segment: its edits, and the mean number of words of its references. */
static int count_statistics(const void *state)
{
    (void)state;
    return 2;
}

static void last_statistics(const void *state, double *statistics)
{
    const struct qkv_ter *ter = state;
    statistics[0] = ter->last[0];
    statistics[1] = ter->last[1];
}

static double score_of_statistics(const void *state, const double *statistics)
{
    (void)state;
    return rate(statistics[0], statistics[1]);
}

static int list_details(const void *state, struct qkv_metric_detail *details)
{
    const struct qkv_ter *ter = state;
    details[0] = (struct qkv_metric_detail){"edits", 1, {ter->edits}};
    details[1] = (struct qkv_metric_detail){"reference_length", 1, {ter->reference_length}};
    return 2;
}

static void sign_state(const void *state, char *text, size_t size)
{
    qkv_ter_signature(state, text, size);
}

static void release_state(void *state)
{
    qkv_ter_release(state);
}

const struct qkv_text_metric qkv_text_metric_ter = {
    .size = sizeof(struct qkv_ter),
    .scratch = offsetof(struct qkv_ter, scratch),
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
