/* BLEU and chrF in edge cases. The figures come from a second implementation, written from the definitions with sets and
 * regular expressions; tests/metrics/generated.c has those of sacreBLEU. */
#include "support.h"

#include "metrics/metric.h"

#define PRECISION 1e-6

static const char *const both[] = {"The dog bit the man.", "The dog had bit the man."};

static void expect(double actual, double expected, const char *what)
{
    cr_assert(fabs(actual - expected) < PRECISION, "%s: %.9f, expected %.9f", what, actual, expected);
}

/* The score of one segment with one or two references. */
static double score_of(enum qkv_metric metric, struct qkv_text_options options, const char *hypothesis,
                       const char *first, const char *second)
{
    const char *const references[] = {first, second};
    struct qkv_scorer scorer RELEASED(qkv_scorer_release) = {.options = options};
    scorer.options.metrics = 1u << metric;
    cr_assert_eq(qkv_scorer_add(&scorer, hypothesis, references, 2, &error), QKV_OK);
    double score = qkv_scorer_scores(&scorer).value[metric];
    return score;
}
#define bleu_of(...) score_of(QKV_METRIC_BLEU, __VA_ARGS__)
#define chrf_of(...) score_of(QKV_METRIC_CHRF, __VA_ARGS__)

Test(bleu, handles_the_edges)
{
    const struct qkv_text_options plain = {0}, effective = {.effective_order = true},
                                  characters = {.tokenizer = QKV_BLEU_CHAR}, lowercase = {.lowercase = true};
    static const char fest[] = "this is a fest", test[] = "this is a test";
    expect(bleu_of(plain, "", test, NULL), 0, "empty hypothesis");
    expect(bleu_of(plain, test, "", NULL), 0, "empty reference");
    expect(bleu_of(plain, "", "", NULL), 0, "both empty");
    expect(bleu_of(plain, test, test, NULL), 100, "identical");
    expect(bleu_of(plain, "the cat", "the cat", NULL), 0, "fewer than four words");
    expect(bleu_of(effective, "the cat", "the cat", NULL), 100, "fewer than four words, effective order");
    expect(bleu_of(plain, "x y z w", "a b c d", NULL), 0, "no match at all");
    expect(bleu_of(plain, fest, test, NULL), 59.4603558, "no match of order 4");
    expect(bleu_of(plain, "a x b y c z d", "a b c d e f g", NULL), 9.2875290, "no match of orders 2 to 4");
    expect(bleu_of(plain, "the cat sat on", "the cat sat on the mat", NULL), 60.6530660, "brevity");
    expect(
        bleu_of(plain, "the the the the the the the", "the cat is on the mat", "there is a cat on the mat"),
        7.8098498, "clipped at the highest count of one reference");
    expect(bleu_of(plain, "a b c d e", "a b c d", "a b c d e f"), 100, "closest reference: the shorter one");
    expect(bleu_of(lowercase, "The CAT sat on ΤΗΝ ΟΔΟΣ.", "the cat sat on την οδος.", NULL), 100,
           "lower case");
    expect(bleu_of(plain, "我喜欢喝茶。", "我喜欢喝咖啡。", NULL), 0, "Chinese in words");
    expect(bleu_of(characters, "我喜欢喝茶。", "我喜欢喝咖啡。", NULL), 45.4801905, "Chinese in characters");
    expect(bleu_of(plain, "\xFF\xFE a b \xC3", "\xFE\xFF a b \xC3", NULL), 100, "bytes that are not UTF-8");
}

/* The figures are those of sacreBLEU 2.6.0: tokenize="zh". */
Test(bleu, splits_chinese_as_sacrebleu)
{
    const struct qkv_text_options chinese = {.tokenizer = QKV_BLEU_ZH};
    expect(bleu_of(chinese, "我是 student，你好！", "我是一个 student，你好吗！", NULL), 33.1017519, "words");
    expect(bleu_of(chinese, "“很好”…—1,000.5元（.5）A.B", "“很好”——1,000.5元（.5）A.C", NULL), 72.4157734,
           "marks and numbers");
    expect(bleu_of(chinese, "他说&amp;x-ray ㄅ カ Ａ１𠀀丽", "她说&amp;x-ray ㄅカ Ａ２𠀀丽", NULL),
           67.0422684, "entities, kana, rare characters");
    expect(bleu_of(chinese, " .5 元多少钱", ".5 元多少钱", NULL), 100, "white space at the start");
}

Test(bleu, tokenizes_as_mteval_v13a)
{
    const struct qkv_text_options marks = {0};
    static const char *const same[][2] = {
        {"It costs 1,000.50 euros (3-4 days), &quot;ok&quot;.",
         "It costs 1,000.50 euros ( 3 - 4 days ) , \" ok \" ."},
        {"R&amp;D &lt;b&gt; it's well-known a/b.", "R & D < b > it's well-known a / b ."},
        {"wait... what?! 5.x 1999-2001-3", "wait . . . what ? ! 5 . x 1999 - 2001 - 3"},
        {"soft-\nware and\nmore lines of it", "software and more lines of it"},
        {"<skipped>a b c d\xC2\xA0"
         "e",
         "a b c d e"},
    };
    for (size_t i = 0; i < sizeof same / sizeof *same; i++)
        expect(bleu_of(marks, same[i][0], same[i][1], NULL), 100, same[i][0]);
}

Test(metrics, sign_their_scores)
{
    struct qkv_scorer plain RELEASED(qkv_scorer_release) = {0},
                            other RELEASED(qkv_scorer_release) = {.options = {.lowercase = true,
                                                                              .effective_order = true,
                                                                              .tokenizer = QKV_BLEU_CHAR,
                                                                              .word_order = 2}};
    qkv_scorer_add(&plain, "a", both, 1, NULL);
    cr_expect_str_eq(qkv_scorer_describe(&plain, QKV_METRIC_BLEU).signature,
                     "nrefs:1|case:mixed|eff:no|tok:13a|smooth:exp|version:qkv-" QKV_VERSION);
    qkv_scorer_add(&other, "a", both, 2, NULL);
    cr_expect_str_eq(qkv_scorer_describe(&other, QKV_METRIC_CHRF).signature,
                     "nrefs:2|case:lc|eff:yes|nc:6|nw:2|space:no|version:qkv-" QKV_VERSION);
    qkv_scorer_add(&other, "a", both, 1, NULL);
    cr_expect_str_eq(qkv_scorer_describe(&other, QKV_METRIC_BLEU).signature,
                     "nrefs:var|case:lc|eff:yes|tok:char|smooth:exp|version:qkv-" QKV_VERSION);
}

Test(chrf, handles_the_edges)
{
    const struct qkv_text_options plain = {0}, plus = {.word_order = 2}, lowercase = {.lowercase = true};
    expect(chrf_of(plain, "", "reference", NULL), 0, "empty hypothesis");
    expect(chrf_of(plain, "reference", "", NULL), 0, "empty reference");
    expect(chrf_of(plain, "", "", NULL), 0, "both empty");
    expect(chrf_of(plain, "a", "a", NULL), 100, "one character: only order 1 counts");
    expect(chrf_of(plain, "a b c", "abc", NULL), 100, "white space does not count");
    expect(chrf_of(plain, "aa", "ab", NULL), 25, "half of order 1, none of order 2");
    expect(chrf_of(plain, "abcdefg", "hijklmnop", NULL), 0, "nothing in common");
    expect(chrf_of(plain, "El perro muerde al hombre.", "El perro mordió al hombre.", NULL), 62.7708867,
           "Spanish");
    expect(chrf_of(plus, "El perro muerde al hombre.", "El perro mordió al hombre.", NULL), 64.9948317,
           "Spanish, ++");
    expect(chrf_of(plain, "ο σκύλος δάγκωσε", "Ο σκύλος δαγκώνει", NULL), 39.9072830, "Greek");
    expect(chrf_of(lowercase, "ο σκύλος δάγκωσε", "Ο σκύλος δαγκώνει", NULL), 48.1997818,
           "Greek, lower case");
    expect(chrf_of(plain, "我喜欢喝茶。", "我喜欢喝咖啡。", NULL), 32.2152037, "Chinese");
    expect(chrf_of(plus, "(hi) there!", "(hi) there", NULL), 95.8319830, "marks are words");
}

static void expect_options_refused(struct qkv_text_options options, const char *sentence)
{
    struct qkv_scorer scorer RELEASED(qkv_scorer_release) = {.options = options};
    expect_refusal_with(qkv_scorer_add(&scorer, "a", both, 1, &error), sentence);
}

Test(metrics, refuse_counts_and_options_out_of_range)
{
    static const double WRONG[] = {-1, 1001, INFINITY, NAN};
    for (int i = 0; i < 4; i++) {
        expect_options_refused(
            (struct qkv_text_options){.smoothing = QKV_BLEU_FLOOR, .smoothing_value = WRONG[i]},
            "the smoothing value of BLEU is ");
        expect_options_refused((struct qkv_text_options){.beta = WRONG[i]}, "but must lie in 0 to 1000");
    }
    expect_options_refused((struct qkv_text_options){.tokenizer = (enum qkv_bleu_tokenizer)9},
                           "BLEU has no tokenizer 9");
    expect_options_refused((struct qkv_text_options){.smoothing = (enum qkv_bleu_smoothing)1000},
                           "BLEU has no smoothing 1000");
    struct qkv_scorer scorer RELEASED(qkv_scorer_release) = {0};
    const char *none = NULL;
    expect_refusal(qkv_scorer_add(&scorer, "a", both, -1, &error),
                   "a segment has -1 references, but must have at least 1");
    expect_refusal(qkv_scorer_add(&scorer, "a", &none, 1, &error),
                   "a segment has no reference translation to compare with");
    expect_refusal(qkv_scorer_add(&scorer, "a", NULL, 0, &error),
                   "a segment has no reference translation to compare with");
}

Test(metrics, better_is_lower_for_a_loss_and_never_a_missing_score)
{
    const double missing = (double)NAN;
    cr_expect(qkv_metric_is_better(QKV_METRIC_LOSS, 1, 2) && qkv_metric_is_better(QKV_METRIC_BLEU, 2, 1));
    cr_expect(!qkv_metric_is_better(QKV_METRIC_LOSS, 2, 1) && !qkv_metric_is_better(QKV_METRIC_BLEU, 1, 2));
    for (int metric = 0; metric < QKV_METRIC_COUNT; metric++) {
        cr_expect_not(qkv_metric_is_better((enum qkv_metric)metric, 1, 1));
        cr_expect_not(qkv_metric_is_better((enum qkv_metric)metric, missing, 1));
        cr_expect_not(qkv_metric_is_better((enum qkv_metric)metric, missing, missing));
        cr_expect(qkv_metric_is_better((enum qkv_metric)metric, 1, missing));
    }
}

/* The first metric has taken the segment when the second one refuses it. */
Test(scorer, a_segment_that_one_metric_refuses_is_added_to_none)
{
    const char *reference = "a b c d e";
    struct qkv_scorer scorer RELEASED(qkv_scorer_release) = {0}, wrong = {.options.word_order = 9};
    expect_refusal(qkv_scorer_add(&wrong, reference, &reference, 1, &error),
                   "the word order of chrF is 9, but must lie in 0 to 4");
    cr_expect_eq(qkv_scorer_scores(&wrong).value[QKV_METRIC_BLEU], 0);
    cr_expect_eq(qkv_scorer_scores(&wrong).value[QKV_METRIC_CHRF], 0);
    const struct qkv_metric_description shown = qkv_scorer_describe(&wrong, QKV_METRIC_BLEU);
    cr_expect_eq(shown.detail_count, 4);
    cr_expect_eq(shown.details[2].value[0], 0, "BLEU has counted %g words", shown.details[2].value[0]);
    expect(qkv_scorer_last(&wrong).value[QKV_METRIC_BLEU], 0, "BLEU of no segment");
    expect(qkv_scorer_last(&wrong).value[QKV_METRIC_CHRF], 0, "chrF of no segment");
    qkv_scorer_release(&wrong);

    cr_assert_eq(qkv_scorer_add(&scorer, "a b c d", &reference, 1, &error), QKV_OK);
    const struct qkv_scores before = qkv_scorer_scores(&scorer), last = qkv_scorer_last(&scorer);
    const char *none = NULL;
    cr_expect_eq(qkv_scorer_add(&scorer, "a b", &none, 1, &error), QKV_INVALID);
    const struct qkv_scores after = qkv_scorer_scores(&scorer), last_after = qkv_scorer_last(&scorer);
    for (int m = 0; m < QKV_METRIC_COUNT; m++) {
        if (!qkv_scorer_computes(&scorer, (enum qkv_metric)m)) continue;
        cr_expect_eq(after.value[m], before.value[m]);
        cr_expect_eq(last_after.value[m], last.value[m]);
    }
    expect_done(qkv_scorer_add(&scorer, "a b c d", &reference, 1, &error));
    expect(qkv_scorer_scores(&scorer).value[QKV_METRIC_BLEU], before.value[QKV_METRIC_BLEU],
           "the same twice");
}
