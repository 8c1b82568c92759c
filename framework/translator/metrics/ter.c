#include "metrics/metric.h"
#include "metrics/ter_edits.h"
#include "metrics/text.h"

#include <stdio.h>

/* The words of a text. sacreBLEU normalizes references twice, so that .5 after a full stop becomes two words in a reference,
 * but one in a hypothesis. References are normalized twice here, too, to get the same scores. */
static struct qkv_words *words_of(const struct qkv_text_options *options, struct qkv_arena *arena,
                                  const char *text, bool is_reference)
{
    struct qkv_symbols *symbols = qkv_text_decode(arena, text, !options->ter_case_sensitive);
    struct qkv_words *words =
        qkv_text_tercom(arena, options->ter_normalized, options->ter_no_punctuation, symbols);
    if (!is_reference || !options->ter_normalized) return words;
    return qkv_text_tercom(arena, true, options->ter_no_punctuation, qkv_text_join(arena, words));
}

/* The statistics of a segment: its edits, and the mean number of words of its references. */
enum { EDITS, REFERENCE_LENGTH, STATISTICS };

static int width(const struct qkv_text_options *options)
{
    (void)options;
    return STATISTICS;
}

/* In `words`, item 0 is the hypothesis; the references follow. */
static bool compare(const struct qkv_text_options *options, struct qkv_arena *arena, const char *hypothesis,
                    const char *const *references, int64_t count, double *statistics)
{
    struct qkv_words **words = qkv_arena_allocate(arena, (size_t)(count + 1) * sizeof *words);
    for (int64_t i = 0; words && i <= count; i++)
        words[i] = words_of(options, arena, i == 0 ? hypothesis : references[i - 1], i > 0);
    struct qkv_symbols *numbers = words ? qkv_text_number_words(arena, words, count + 1) : NULL;
    int64_t min = -1, length = 0;
    for (int64_t i = 1; numbers && i <= count; i++) {
        int64_t edits = qkv_ter_edits(arena, &numbers[0], &numbers[i]);
        if (edits < 0) return false;
        if (min < 0 || edits < min) min = edits;
        length += numbers[i].count;
    }
    statistics[EDITS] = (double)min;
    statistics[REFERENCE_LENGTH] = (double)length / (double)count;
    return min >= 0;
}

/* Edits in percent of the words of the references. If these have no words, 100 if there are edits, otherwise 0. */
static double score(const struct qkv_text_options *options, const double *sums)
{
    (void)options;
    if (sums[REFERENCE_LENGTH] > 0) return 100 * (sums[EDITS] / sums[REFERENCE_LENGTH]);
    return sums[EDITS] > 0 ? 100 : 0;
}

static int list_details(const struct qkv_text_options *options, const double *sums,
                        struct qkv_metric_detail *details)
{
    (void)options;
    details[0] = (struct qkv_metric_detail){"edits", 1, {sums[EDITS]}};
    details[1] = (struct qkv_metric_detail){"reference_length", 1, {sums[REFERENCE_LENGTH]}};
    return 2;
}

static bool sign(const struct qkv_text_options *options, char *text, size_t size)
{
    snprintf(text, size, "tok:tercom|norm:%s|punct:%s|asian:no", options->ter_normalized ? "yes" : "no",
             options->ter_no_punctuation ? "no" : "yes");
    return options->ter_case_sensitive;
}

const struct qkv_text_metric qkv_text_metric_ter = {
    .width = width, .compare = compare, .score = score, .details = list_details, .sign = sign};
