#include "report/alignment_score.h"

#include "gold_links.h"
#include "maps.h"

/* Three source words, two target words. Head 1 outputs each word where it looks; head 2 is one step behind.
 */
static const char *const source[] = {"el", "gato", "negro", "</s>"};
static const char *const input[] = {"<s>", "black", "cat"};
static const char *const output[] = {"black", "cat", "</s>"};
static const double now[] = {0.1, 0.1, 0.7, 0.1, 0.1, 0.6, 0.2, 0.1, 0, 0, 0.1, 0.9};
static const double late[] = {0.2, 0.1, 0.1, 0.6, 0.1, 0.1, 0.7, 0.1, 0.1, 0.3, 0.1, 0.5};
static const struct qkv_attention_map maps[] = {
    {QKV_ATTENTION_CROSS, 1, 1, 3, 4, now},
    {QKV_ATTENTION_CROSS, 1, 2, 3, 4, late},
};
static const struct qkv_attention_report report = REPORT_OF(source, input, output, maps, );

/* Each token is a word. */
static const struct qkv_attention_words EACH;

/* The score of the same report against every line of the links. */
static struct qkv_alignment_score score_of(const struct qkv_attention_report *each, const char *name,
                                           const char *links)
{
    struct qkv_alignments gold RELEASED(qkv_alignments_release) = read_links(name, links);
    struct qkv_alignment_score score = {0};
    for (int64_t i = 0; i < gold.count; i++)
        expect_done(qkv_alignment_score_add(&score, each, EACH, &gold.sentences[i], &error));
    return score;
}

/* Reading, layer and head, precision, recall and error rate. */
static void expect(struct qkv_alignment_result result, const char *expected)
{
    const char *shown = format("%s %d.%d: %.12g %.12g %.12g", qkv_alignment_reading_name(result.reading),
                               result.layer, result.head, result.precision, result.recall, result.error_rate);
    cr_expect_str_eq(shown, expected, "%s, but expected %s", shown, expected);
}

/* Links of head 1, output: negro-black, gato-cat, both sure. Of head 2, input: the same. Head 1, input:
 * gato-black (none), negro-cat (possible; </s> does not count). Head 2, output: el-black (none), negro-cat
 * (possible). */
Test(alignment_score, scores_heads_in_both_readings)
{
    struct qkv_alignment_score score RELEASED(qkv_alignment_score_release) =
        score_of(&report, "scores", "2-0 1-1 2p1\n");
    cr_assert_eq(score.count, 16);
    expect(score.results[0], "predicted 1.1: 1 1 0");
    expect(score.results[1], "predicted 1.2: 0.5 0 0.75");
    expect(score.results[4], "read 1.1: 0.5 0 0.75");
    expect(score.results[5], "read 1.2: 1 1 0");
    /* The mean: rows .15 .1 .4 | .1 .35 .45 | .05 .15 .1 */
    expect(score.results[2], "predicted 1.0: 1 0.5 0.25");
    expect(score.results[3], "predicted 0.0: 1 0.5 0.25");
    expect(score.results[6], "read 1.0: 1 1 0");
    expect(qkv_alignment_score_best(&score, QKV_DRAWING_TARGET), "predicted 1.1: 1 1 0");
    cr_assert_null(qkv_alignment_reading_name(QKV_READINGS));
}

/* As above, and besides: head 1, output, el-black (of two equal weights the first); head 2, output, el-black
 * (which the row has drawn already) and gato-black; head 2, input, el-black. */
Test(alignment_score, draws_links_in_both_directions)
{
    struct qkv_alignment_score score RELEASED(qkv_alignment_score_release) =
        score_of(&report, "both", "2-0 1-1 2p1\n");
    struct qkv_alignment_result result = score.results[8];
    cr_assert_eq(result.drawing, QKV_DRAWING_UNION);
    cr_assert_eq(result.links, 3, "a link that both directions draw counts once");
    expect(result, "predicted 1.1: 0.666666666667 1 0.2");
    expect(score.results[9], "predicted 1.2: 0.333333333333 0 0.8");
    expect(score.results[13], "read 1.2: 0.666666666667 1 0.2");
    /* The mean: rows .15 .1 .4 | .1 .35 .45 */
    expect(qkv_alignment_score_best(&score, QKV_DRAWING_UNION), "predicted 1.0: 0.75 1 0.166666666667");
}

/* A translation that was cut before its </s>: all of its outputs are words, and the last one is no step's
 * input. */
Test(alignment_score, copes_with_a_sentence_that_was_cut)
{
    static const char *const cut_output[] = {"black", "cat", "sleeps"};
    struct qkv_attention_report cut = report;
    cut.target_output = cut_output;
    struct qkv_alignment_score score RELEASED(qkv_alignment_score_release) = score_of(&cut, "cut", "0-2\n");
    cr_assert_eq(score.results[0].links, 3);
    cr_assert_eq(score.results[4].links, 2);
}

/* "a,b c" cut into a , b c, and "x y" into x ▁ y: words 0 and 1 on both sides. No single token of word 0 has
 * as much weight as c in the row of x, but together they have more; y looks at c; ▁ counts for nothing. */
Test(alignment_score, joins_the_tokens_of_a_word)
{
    static const char *const in[] = {"a", ",", "b", "c", "</s>"};
    static const char *const taken[] = {"<s>", "x", "▁", "y"}, *const out[] = {"x", "▁", "y", "</s>"};
    static const double weights[] = {
        0.2, 0.1, 0.2, 0.4, 0.1, /* x */
        1,   0,   0,   0,   0,   /* ▁ */
        0.1, 0.1, 0.1, 0.6, 0.1, /* y */
        0,   0,   0,   0,   1,   /* </s> */
    };
    static const struct qkv_attention_map map[] = {{QKV_ATTENTION_CROSS, 1, 1, 4, 5, weights}};
    const struct qkv_attention_report cut = REPORT_OF(in, taken, out, map, );
    static const int64_t source_words[] = {0, 0, 0, 1}, target_words[] = {0, -1, 1};
    const struct qkv_attention_words words = {source_words, target_words};
    struct qkv_alignments gold RELEASED(qkv_alignments_release) = read_links("joins", "0-0 1-1\n2-0\n");
    struct qkv_alignment_score score RELEASED(qkv_alignment_score_release) = {0};
    expect_done(qkv_alignment_score_add(&score, &cut, words, &gold.sentences[0], &error));
    expect(score.results[0], "predicted 1.1: 1 1 0");
    /* The step that reads x is that of ▁, and looks at word 0; that of y looks at the end, and so y has no link. */
    struct qkv_alignment_result behind = score.results[3];
    cr_expect_eq(behind.links, 1);
    expect(behind, "read 1.1: 1 0.5 0.333333333333");
    expect_refusal(
        qkv_alignment_score_add(&score, &cut, words, &gold.sentences[1], &error),
        format("%s:2:1: link 2-0 has no source word 2: the sentence has 2, from 0", gold.sentences[0].file));
    /* As tokens they would give x the link to c. */
    struct qkv_alignment_score tokens RELEASED(qkv_alignment_score_release) = {0};
    cr_assert_eq(qkv_alignment_score_add(&tokens, &cut, EACH, &gold.sentences[0], &error), QKV_OK);
    cr_expect_eq(tokens.results[0].found_sure, 0);
}

/* A target word of two tokens takes the rows of both; of a cut one only those that are there. */
Test(alignment_score, adds_the_rows_of_a_word_up)
{
    static const int64_t one[] = {0, 0};
    struct qkv_alignments gold RELEASED(qkv_alignments_release) = read_links("rows", "1-0\n");
    struct qkv_alignment_score score RELEASED(qkv_alignment_score_release) = {0};
    /* Head 1: negro 0.9, gato 0.7; head 2: negro 0.8; taken in: head 1 gato 0.6, negro 0.3; head 2 negro. */
    cr_assert_eq(qkv_alignment_score_add(&score, &report, (struct qkv_attention_words){NULL, one},
                                         &gold.sentences[0], NULL),
                 QKV_OK);
    cr_expect_eq(score.results[0].links, 1);
    cr_expect_eq(score.results[0].found_sure, 0);
    cr_expect_eq(score.results[1].found_sure, 0);
    cr_expect_eq(score.results[4].found_sure, 1);
}

Test(alignment_score, refuses_links_to_words_that_are_not_there)
{
    struct qkv_alignments gold RELEASED(qkv_alignments_release) = read_links("range", "0-0\n2-1 3p0\n0-2\n");
    struct qkv_alignment_score score RELEASED(qkv_alignment_score_release) = {0};
    const char *path = gold.sentences[0].file;
    expect_refusal(qkv_alignment_score_add(&score, &report, EACH, &gold.sentences[1], &error),
                   format("%s:2:5: link 3p0 has no source word 3: the sentence has 3, from 0", path));
    expect_refusal(qkv_alignment_score_add(&score, &report, EACH, &gold.sentences[2], &error),
                   format("%s:3:1: link 0-2 has no target word 2: the sentence has 2, from 0", path));
    cr_assert_eq(score.sentences, 0);
}

Test(alignment_score, needs_cross_attention)
{
    struct qkv_attention_report none = report;
    struct qkv_alignment_score score = {0};
    none.map_count = 0;
    expect_refusal(qkv_alignment_score_add(&score, &none, EACH, &(struct qkv_alignment){0}, &error),
                   "the model has no cross attention");
}
