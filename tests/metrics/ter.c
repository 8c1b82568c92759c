/* TER: cases that can be counted by hand. */
#include "support.h"

#include "metrics/metric.h"

static struct qkv_scorer scorer_of_ter(struct qkv_text_options options)
{
    struct qkv_scorer scorer = {.options = options};
    scorer.options.metrics = 1u << QKV_METRIC_TER;
    return scorer;
}

static double score_of(const struct qkv_scorer *ter)
{
    return qkv_scorer_scores(ter).value[QKV_METRIC_TER];
}

/* The number of edits, which the score divides by the mean length of the references. */
static void expect_edits(struct qkv_text_options options, const char *hypothesis, const char *first,
                         const char *second, double edits, double length)
{
    const char *const both[] = {first, second};
    struct qkv_scorer ter RELEASED(qkv_scorer_release) = scorer_of_ter(options);
    cr_assert_eq(qkv_scorer_add(&ter, hypothesis, both, 2, NULL), QKV_OK);
    const struct qkv_metric_description shown = qkv_scorer_describe(&ter, QKV_METRIC_TER);
    const struct qkv_metric_detail *details = shown.details;
    cr_assert_eq(shown.detail_count, 2);
    cr_expect_eq(details[0].value[0], edits, "'%.40s': %g edits, expected %g", hypothesis,
                 details[0].value[0], edits);
    cr_expect_float_eq(details[1].value[0], length, 1e-12, "'%.40s': %g words", hypothesis,
                       details[1].value[0]);
}

Test(ter, counts_edits_and_shifts)
{
    const struct qkv_text_options plain = {0};
    expect_edits(plain, "a b c d", "a b c d", NULL, 0, 4);
    expect_edits(plain, "a b c", "a b c d", NULL, 1, 4);
    expect_edits(plain, "a b c d e", "a b c d", NULL, 1, 4);
    expect_edits(plain, "a x c d", "a b c d", NULL, 1, 4);
    expect_edits(plain, "d e f a b c", "a b c d e f", NULL, 1, 6); /* a shift of any length is one edit */
    expect_edits(plain, "d e f x a b c", "a b c d e f", NULL, 2, 6);
    expect_edits(plain, "c b a", "a b c", NULL, 2, 3);
    /* The example of Snover et al. 2006: a shift, two insertions, a substitution. */
    expect_edits(plain, "THIS WEEK THE SAUDIS denied information published in the new york times",
                 "SAUDI ARABIA denied THIS WEEK information published in the AMERICAN new york times", NULL,
                 4, 13);
}

Test(ter, handles_the_edges)
{
    const struct qkv_text_options plain = {0};
    expect_edits(plain, "", "a b", NULL, 2, 2);
    expect_edits(plain, "a b c", "", NULL, 3, 0);
    expect_edits(plain, "", "", NULL, 0, 0);
    expect_edits(plain, " \t", "  ", NULL, 0, 0);
    struct qkv_scorer no_words RELEASED(qkv_scorer_release) = scorer_of_ter(plain),
                               ter RELEASED(qkv_scorer_release) = scorer_of_ter(plain);
    cr_expect_eq(score_of(&no_words), 0.0);
    qkv_scorer_add(&no_words, "a", (const char *const[]){""}, 1, NULL);
    cr_expect_eq(score_of(&no_words), 100.0, "edits without words of references");
    qkv_scorer_add(&ter, "a b", (const char *const[]){"x"}, 1, NULL);
    cr_expect_eq(score_of(&ter), 200.0, "more edits than words");
    cr_expect_eq(qkv_scorer_add(&ter, "a", NULL, 0, NULL), QKV_INVALID);
    cr_expect_eq(score_of(&ter), 200.0, "a refused segment");
}

Test(ter, takes_the_fewest_edits_and_the_mean_length_of_the_references)
{
    const struct qkv_text_options plain = {0};
    expect_edits(plain, "a b c", "x y z u v w", "a b d", 1, 4.5);
}

Test(ter, ignores_what_its_options_say)
{
    const struct qkv_text_options plain = {0}, case_sensitive = {.ter_case_sensitive = true},
                                  normalized = {.ter_normalized = true},
                                  no_punctuation = {.ter_no_punctuation = true};
    expect_edits(plain, "The cat", "the CAT", NULL, 0, 2);
    expect_edits(case_sensitive, "The cat", "the CAT", NULL, 2, 2);
    expect_edits(plain, "Hi, John's 3-4 (1,000.5) &lt;b&gt;.", "hi , john 's 3 - 4 ( 1,000.5 ) < b > .", NULL,
                 14, 14);
    expect_edits(normalized, "Hi, John's 3-4 (1,000.5) &lt;b&gt;.", "hi , john 's 3 - 4 ( 1,000.5 ) < b > .",
                 NULL, 0, 14);
    expect_edits(no_punctuation, "\"Hi, (John)!\"", "Hi: John?", NULL, 0, 2);
    /* References are normalized twice, as in sacreBLEU, where these are two edits, too. */
    expect_edits(normalized, "end..5", "end..5", NULL, 2, 4);
}

Test(ter, signs_its_score)
{
    static const struct {
        struct qkv_text_options options;
        const char *signature;
    } cases[] = {{{0}, "nrefs:1|case:lc|tok:tercom|norm:no|punct:yes|asian:no|version:qkv-" QKV_VERSION},
                 {{.ter_normalized = true, .ter_no_punctuation = true, .ter_case_sensitive = true},
                  "nrefs:1|case:mixed|tok:tercom|norm:yes|punct:no|asian:no|version:qkv-" QKV_VERSION}};
    for (int i = 0; i < 2; i++) {
        struct qkv_scorer ter RELEASED(qkv_scorer_release) = scorer_of_ter(cases[i].options);
        qkv_scorer_add(&ter, "a", (const char *const[]){"a"}, 1, NULL);
        cr_expect_str_eq(qkv_scorer_describe(&ter, QKV_METRIC_TER).signature, cases[i].signature);
    }
}

/* A text of `count` words, of which `different` are different, in an order that depends on `factor`. */
static char *long_text(int count, int different, int factor)
{
    char *text = malloc((size_t)count * 8), *end = text;
    for (int i = 0; i < count; i++) end += sprintf(end, "w%d ", (i * factor + i * i / 7) % different);
    return text;
}

/* Words <letter><first> .. <letter><first + count - 1>, each with a space after it, behind what is in `text`. */
static void append_words(char *text, char letter, int first, int count)
{
    char *end = text + strlen(text);
    for (int i = 0; i < count; i++) end += sprintf(end, "%c%d ", letter, first + i);
}

/* The figures are those of sacreBLEU. */
Test(ter, keeps_the_limits_of_tercom)
{
    char hypothesis[2048], reference[2048];
    for (int length = 10; length <= 11; length++) { /* a longer block is moved in two */
        *hypothesis = *reference = '\0';
        append_words(hypothesis, 'b', 0, length);
        append_words(hypothesis, 'a', 0, 15);
        append_words(reference, 'a', 0, 15);
        append_words(reference, 'b', 0, length);
        expect_edits((struct qkv_text_options){0}, hypothesis, reference, NULL, length > 10 ? 2 : 1,
                     15 + length);
    }
    for (int distance = 50; distance <= 51;
         distance++) { /* a word that is farther away is left out and inserted */
        *hypothesis = *reference = '\0';
        append_words(hypothesis, 'x', 0, 1);
        append_words(hypothesis, 'w', 0, 70);
        append_words(reference, 'w', 0, distance);
        append_words(reference, 'x', 0, 1);
        append_words(reference, 'w', distance, 70 - distance);
        expect_edits((struct qkv_text_options){0}, hypothesis, reference, NULL, distance > 50 ? 2 : 1, 71);
    }
    /* 25 cells on each side of the diagonal: words that are farther apart are not paired. */
    *hypothesis = *reference = '\0';
    append_words(hypothesis, 'x', 0, 25);
    append_words(hypothesis, 'w', 0, 120);
    append_words(reference, 'w', 0, 120);
    append_words(reference, 'y', 0, 25);
    expect_edits((struct qkv_text_options){0}, hypothesis, reference, NULL, 50, 145);
}

/* The limits bound the work: texts of thousands of words, in which everything matches everywhere, take no minutes. The
 * figures are those of sacreBLEU. */
Test(ter, keeps_its_limits_in_long_texts, .timeout = 60)
{
    static const struct {
        int hypothesis, reference, different;
        double edits;
    } cases[] = {{300, 280, 3, 120}, {80, 2000, 40, 1954}, {2000, 80, 40, 1933}, {600, 650, 250, 619}};
    for (size_t c = 0; c < sizeof cases / sizeof *cases; c++) {
        char *hypothesis RELEASED(free_memory) = long_text(cases[c].hypothesis, cases[c].different, 5),
                         *reference RELEASED(free_memory) =
                             long_text(cases[c].reference, cases[c].different, 3);
        expect_edits((struct qkv_text_options){0}, hypothesis, reference, NULL, cases[c].edits,
                     cases[c].reference);
    }
}
