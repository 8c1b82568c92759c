/* BLEU, chrF, TER and the bootstrap of generated text, with the figures of sacreBLEU 2.6.0 (NumPy 2.4). compare_sacrebleu.py
 * compares real text. */
#include "support.h"

#include "metrics/metric.h"

enum { SEGMENTS = 200, MAX_WORDS = 64, WORDS = 24, TEXT_SIZE = 2048 };

static const char *const vocabulary[WORDS] = {"the",   "cat",  "Dog",     "sat",       "on",       "the,",
                                              "mat",   "end",  "l'homme", "été",       "1,000.50", "3-4",
                                              "(big)", "mat,", "don't",   "¿Qué",      "naïve",    "ΟΔΟΣ",
                                              "dog",   "…",    "end.",    "\"quote\"", "R&amp;D",  "John's"};

/* One segment: two references, and the translations of three systems. */
static struct segment {
    char reference[2][TEXT_SIZE], system[3][TEXT_SIZE];
} segments[SEGMENTS];

/* ---- the text ---- */

struct sentence {
    int count;
    unsigned words[MAX_WORDS]; /* of the vocabulary */
};

static uint32_t random_state = 7;

static unsigned below(unsigned bound)
{
    random_state = random_state * 1664525u + 1013904223u;
    return (random_state >> 16) % bound;
}

/* Moves `length` words from `from` to `to`, which counts the words without them. */
static void move_block(struct sentence *s, unsigned from, unsigned length, unsigned to)
{
    struct sentence old = *s;
    unsigned at = 0, count = (unsigned)s->count;
    unsigned rest[MAX_WORDS], left = 0;
    for (unsigned i = 0; i < count; i++)
        if (i < from || i >= from + length) rest[left++] = old.words[i];
    for (unsigned i = 0; i <= left; i++) {
        for (unsigned k = 0; i == to && k < length; k++) s->words[at++] = old.words[from + k];
        if (i < left) s->words[at++] = rest[i];
    }
}

/* A sentence with words left out, replaced and doubled, and in half of all cases a block of words moved. */
static struct sentence altered(const struct sentence *original)
{
    struct sentence s = {0};
    for (int i = 0; i < original->count; i++) {
        unsigned change = below(16);
        if (change < 2) continue;
        s.words[s.count++] = change < 4 ? below(WORDS) : original->words[i];
        if (change == 4) s.words[s.count++] = original->words[i];
    }
    if (s.count && below(2)) {
        unsigned count = (unsigned)s.count, from = below(count), length = 1 + below(4);
        if (length > count - from) length = count - from;
        move_block(&s, from, length, below(count - length + 1));
    }
    return s;
}

static void write_words(char text[TEXT_SIZE], const struct sentence *s)
{
    *text = '\0';
    for (int i = 0; i < s->count; i++) {
        if (i) strcat(text, " ");
        strcat(text, vocabulary[s->words[i]]);
    }
}

static void setup(void)
{
    for (int i = 0; i < SEGMENTS; i++) {
        struct sentence reference = {.count = (int)(1 + below(20))}, other;
        for (int k = 0; k < reference.count; k++) reference.words[k] = below(WORDS);
        write_words(segments[i].reference[0], &reference);
        other = altered(&reference);
        write_words(segments[i].reference[1], &other);
        for (int s = 0; s < 3; s++) {
            other = altered(&reference);
            if (s == 1) other = altered(&other);
            write_words(segments[i].system[s], &other);
        }
    }
    cr_assert_str_eq(segments[1].system[0], "don't R&amp;D");
    cr_assert_str_eq(segments[1].reference[0], "on don't on");
}

TestSuite(generated, .init = setup);

/* ---- scores ---- */

/* Adds the translations of the first system with 1 or 2 references; returns the mean score of its sentences. */
static double add_all(struct qkv_scorer *scorer, enum qkv_metric metric, int references)
{
    double sum = 0;
    for (int i = 0; i < SEGMENTS; i++) {
        const char *const list[] = {segments[i].reference[0], segments[i].reference[1]};
        cr_assert_eq(qkv_scorer_add(scorer, segments[i].system[0], list, references, NULL), QKV_OK);
        sum += qkv_scorer_last(scorer).value[metric];
    }
    return sum / SEGMENTS;
}

/* The score of all sentences, and the mean of the scores of sentences. */
static void expect_scores(struct qkv_text_options options, enum qkv_metric metric, int references, double all,
                          double mean, const char *what)
{
    struct qkv_scorer scorer RELEASED(qkv_scorer_release) = {.options = options};
    scorer.options.metrics = 1u << metric;
    double found = add_all(&scorer, metric, references);
    double score = qkv_scorer_scores(&scorer).value[metric];
    cr_expect_float_eq(score, all, 1e-8, "%s, %d references: %.9f, expected %.9f", what, references, score,
                       all);
    if (mean >= 0)
        cr_expect_float_eq(found, mean, 1e-8, "%s, sentences: %.9f, expected %.9f", what, found, mean);
}

#define OPTIONS LIST

Test(generated, scores_are_those_of_sacrebleu)
{
    static const struct {
        const char *name;
        enum qkv_metric metric;
        struct qkv_text_options options;
        double one, two, mean; /* with one reference, with two, and the mean of the sentences with two */
    } cases[] = {
        {"13a", QKV_METRIC_BLEU, OPTIONS(.tokenizer = QKV_BLEU_13A), 55.706998346, 59.212346173,
         53.644153951},
        {"intl", QKV_METRIC_BLEU, OPTIONS(.tokenizer = QKV_BLEU_INTL), 59.386145985, 62.903387135,
         56.956933443},
        {"none", QKV_METRIC_BLEU, OPTIONS(.tokenizer = QKV_BLEU_NONE), 42.694045428, 45.371002613,
         45.554746752},
        {"char", QKV_METRIC_BLEU, OPTIONS(.tokenizer = QKV_BLEU_CHAR), 70.887179824, 75.371230301,
         69.039321890},
        {"intl, lower case", QKV_METRIC_BLEU, OPTIONS(.tokenizer = QKV_BLEU_INTL, .lowercase = true),
         59.524775545, 63.096083237, 57.115776102},
        {"chrF", QKV_METRIC_CHRF, OPTIONS(0), 66.150811701, 66.410844369, 65.688679997},
        {"chrF++", QKV_METRIC_CHRF, OPTIONS(.word_order = 2), 66.989731491, 67.222927082, 66.501005616},
        {"other orders", QKV_METRIC_CHRF, OPTIONS(.character_order = 9, .word_order = 4, .beta = 3),
         56.360933745, 56.640235850, 57.228087826},
        {"TER", QKV_METRIC_TER, OPTIONS(0), 31.930693069, 32.763460066, 35.695565021},
        {"normalized", QKV_METRIC_TER, OPTIONS(.ter_normalized = true), 32.340563289, 32.960053485,
         37.248035423},
        {"no punctuation", QKV_METRIC_TER, OPTIONS(.ter_no_punctuation = true), 31.831683168, 32.610359786,
         35.608502152},
        {"case", QKV_METRIC_TER, OPTIONS(.ter_case_sensitive = true), 32.079207921, 32.916560347,
         35.869995663},
        {"all of these", QKV_METRIC_TER,
         OPTIONS(.ter_normalized = true, .ter_no_punctuation = true, .ter_case_sensitive = true),
         32.903745469, 33.583021223, 37.491541783},
    };
    for (size_t c = 0; c < sizeof cases / sizeof *cases; c++) {
        struct qkv_text_options options = cases[c].options;
        options.effective_order =
            true; /* sacreBLEU's --sentence-level; the score of all sentences is the same */
        expect_scores(options, cases[c].metric, 1, cases[c].one, -1, cases[c].name);
        expect_scores(options, cases[c].metric, 2, cases[c].two, cases[c].mean, cases[c].name);
    }
}

Test(generated, smoothing_is_that_of_sacrebleu)
{
    static const struct {
        enum qkv_bleu_smoothing smoothing;
        double value, all, effective, plain; /* means of sentences with and without effective order */
        const char *signature;
    } cases[] = {
        {QKV_BLEU_EXP, 0, 55.706998346, 51.041805767, 43.592119818, "|smooth:exp|"},
        {QKV_BLEU_FLOOR, 0, 55.706998346, 48.873481214, 42.365757005, "|smooth:floor[0.10]|"},
        {QKV_BLEU_FLOOR, 0.5, 55.706998346, 51.415463097, 43.893062123, "|smooth:floor[0.50]|"},
        {QKV_BLEU_ADD_K, 0, 55.723751678, 55.042950182, 55.042950182, "|smooth:add-k[1.00]|"},
        {QKV_BLEU_ADD_K, 0.3, 55.712026121, 51.534837395, 51.534837395, "|smooth:add-k[0.30]|"},
        {QKV_BLEU_UNSMOOTHED, 0, 55.706998346, 45.782153208, 40.262535405, "|smooth:none|"},
    };
    for (size_t c = 0; c < sizeof cases / sizeof *cases; c++) {
        struct qkv_text_options options = {.smoothing = cases[c].smoothing,
                                           .smoothing_value = cases[c].value};
        expect_scores(options, QKV_METRIC_BLEU, 1, cases[c].all, cases[c].plain, cases[c].signature);
        options.effective_order = true;
        expect_scores(options, QKV_METRIC_BLEU, 1, cases[c].all, cases[c].effective, cases[c].signature);
        struct qkv_scorer scorer RELEASED(qkv_scorer_release) = {.options = options};
        add_all(&scorer, QKV_METRIC_BLEU, 1);
        const struct qkv_metric_description shown = qkv_scorer_describe(&scorer, QKV_METRIC_BLEU);
        cr_expect(shows(shown.signature, cases[c].signature));
    }
}

Test(generated, details_are_those_of_sacrebleu)
{
    static const double bleu[] = {83.95147313691508,
                                  67.56052141527002,
                                  53.34937825912555,
                                  41.76776429809359,
                                  0.9930915647046983,
                                  2885,
                                  2905},
                        ter[] = {642, 1959.5};
    struct qkv_scorer scorer RELEASED(qkv_scorer_release) = {.options.metrics = 1u << QKV_METRIC_BLEU |
                                                                                1u << QKV_METRIC_TER};
    add_all(&scorer, QKV_METRIC_BLEU, 2);
    struct qkv_metric_description shown = qkv_scorer_describe(&scorer, QKV_METRIC_BLEU);
    const struct qkv_metric_detail *details = shown.details;
    cr_assert_eq(shown.detail_count, 4);
    cr_assert_eq(details[0].count, 4);
    cr_expect_str_eq(details[1].key, "brevity_penalty");
    for (int i = 0; i < 4; i++) cr_expect_float_eq(details[0].value[i], bleu[i], 1e-9);
    for (int i = 1; i < 4; i++) cr_expect_float_eq(details[i].value[0], bleu[3 + i], 1e-9);
    shown = qkv_scorer_describe(&scorer, QKV_METRIC_TER);
    cr_assert_eq(shown.detail_count, 2);
    for (int i = 0; i < 2; i++) cr_expect_float_eq(details[i].value[0], ter[i], 1e-9);
    cr_expect_eq(qkv_scorer_describe(&scorer, QKV_METRIC_CHRF).detail_count, 0);
}

/* ---- the bootstrap ---- */

Test(generated, bootstrap_draws_the_samples_of_sacrebleu)
{
    static const struct {
        enum qkv_metric metric;
        struct {
            double score, mean, interval, p_value;
        } system[3];
    } cases[] = {
        {QKV_METRIC_BLEU, LIST({59.21234617326153, 59.154168872999435, 2.9617110144720833, 1},
                               {38.135341755612075, 38.14662067291437, 2.7396289881742177, 1 / 1001.},
                               {55.7809588528125, 55.74534001380196, 2.925520537355723, 30 / 1001.})},
        {QKV_METRIC_CHRF,
         LIST({66.41084436921165, 66.4415, 2.1192665, 1}, {49.52328893920187, 49.55019, 2.0533009, 1 / 1001.},
              {65.09530805951978, 65.07198, 2.364172, 155 / 1001.})},
        {QKV_METRIC_TER, LIST({32.763460066343455, 32.73273, 1.972497, 1},
                              {53.380964531768306, 53.37561, 2.0604935, 1 / 1001.},
                              {35.57029854554734, 35.5835, 2.1712837, 24 / 1001.})},
    };
    const struct qkv_text_options options = {.metrics = 1u << QKV_METRIC_BLEU | 1u << QKV_METRIC_CHRF |
                                                        1u << QKV_METRIC_TER};
    struct qkv_bootstrap *bootstrap RELEASED(free_bootstrap) = qkv_bootstrap_new(&options, 3, NULL);
    for (int i = 0; i < SEGMENTS; i++) {
        const char *const list[] = {segments[i].reference[0], segments[i].reference[1]};
        const char *const systems[] = {segments[i].system[0], segments[i].system[1], segments[i].system[2]};
        cr_assert_eq(qkv_bootstrap_add(bootstrap, systems, list, 2, NULL), QKV_OK);
    }
    for (int run = 0; run < 2; run++) { /* a second run gives the same */
        cr_assert_eq(qkv_bootstrap_run(bootstrap, 1000, 12345, NULL), QKV_OK);
        for (size_t c = 0; c < sizeof cases / sizeof *cases; c++)
            for (int s = 0; s < 3; s++) {
                struct qkv_bootstrap_result result = qkv_bootstrap_result(bootstrap, s, cases[c].metric);
                cr_expect_float_eq(result.score, cases[c].system[s].score, 1e-9);
                /* sacreBLEU computes the scores of samples in float32. */
                cr_expect_float_eq(result.mean, cases[c].system[s].mean, 2e-5, "%.9f", result.mean);
                cr_expect_float_eq(result.interval, cases[c].system[s].interval, 2e-5, "%.9f",
                                   result.interval);
                cr_expect_float_eq(result.p_value, cases[c].system[s].p_value, 1e-12, "%.9f", result.p_value);
            }
    }
}

Test(bootstrap, refuses_what_cannot_be_sampled)
{
    const struct qkv_text_options options = {0};
    struct qkv_bootstrap *bootstrap RELEASED(free_bootstrap) = qkv_bootstrap_new(&options, 2, &error);
    expect_refusal(qkv_bootstrap_run(bootstrap, 10, 1, &error), "0 segments cannot be sampled");
    cr_expect_eq(qkv_bootstrap_result(bootstrap, 0, QKV_METRIC_BLEU).p_value, 0.0);
    const char *const texts[] = {"a b", "a c"}, *const none[] = {NULL};
    expect_refusal(qkv_bootstrap_add(bootstrap, texts, none, 1, &error),
                   "a segment has no reference translation to compare with");
    qkv_bootstrap_free(bootstrap);
    bootstrap = qkv_bootstrap_new(&options, 2, &error);
    cr_assert_eq(qkv_bootstrap_add(bootstrap, texts, texts, 1, &error), QKV_OK);
    expect_refusal(qkv_bootstrap_run(bootstrap, 0, 1, &error),
                   "the number of samples is 0, but must be at least 1");
    cr_expect_eq(qkv_bootstrap_run(bootstrap, 1, 1, &error), QKV_OK);
    cr_expect_eq(qkv_bootstrap_result(bootstrap, 1, QKV_METRIC_TER).score, 0.0, "it was not asked for");
}
