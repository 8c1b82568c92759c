/* Sampling: samples have the distribution that the options ask for, and are the same whatever computes them. */
#include "next_tokens.h"
#include "tiny.h"

#include "models/network.h"

enum { SOURCE_SIZE = 9, FEW = 7, WORDS = FEW - QKV_SPECIALS, SAMPLES = 1000, SEEDS = 6 };

static const enum qkv_network TYPES[] = {QKV_NETWORK_TRANSFORMER, QKV_NETWORK_RECURRENT};
static const int32_t SOURCE_WORDS[] = {3, 4, 5, 6};
static const struct qkv_ids SOURCE = {4, SOURCE_WORDS};

/* ---- the distribution ---- */

/* The probabilities from which the next token is drawn, in the plainest way. */
static void distribution(const struct qkv_model *model, int64_t length, const int32_t *ids,
                         const struct qkv_sampling_options *options, double *p)
{
    double sum = 0;
    int order[FEW], count = 0;
    next_logits(model, SOURCE, length, ids, p);
    for (int i = 0; i < FEW; i++) {
        p[i] = i == QKV_BEGIN || i == QKV_UNKNOWN ? 0 : exp(p[i] / options->temperature);
        int at = count++;
        for (; at > 0 && p[i] > p[order[at - 1]]; at--) order[at] = order[at - 1];
        order[at] = i;
    }
    for (int i = 0; i < FEW; i++) {
        if (options->top_k && i >= options->top_k) p[order[i]] = 0;
        sum += p[order[i]];
    }
    double before = 0, kept = 0;
    for (int i = 0; i < FEW; i++) {
        double probability = p[order[i]] / sum;
        if (before >= options->top_p) p[order[i]] = 0;
        before += probability;
        kept += p[order[i]];
    }
    for (int i = 0; i < FEW; i++) p[i] /= kept;
}

/* What a sample of at most one word can be: 0: nothing; else the word, with </s> (2 w) or without (2 w + 1). */
enum { OUTCOMES = 2 * FEW };

static int outcome_of(const struct qkv_hypothesis *h)
{
    return h->length ? 2 * h->ids[0] + !h->finished : 0;
}

/* Compares the frequencies of SEEDS * SAMPLES samples with their probabilities by Pearson's test: the statistic exceeds
 * its mean, the degrees of freedom, by more than five standard deviations once in a million. */
static void expect_distribution(const struct qkv_model *model, struct qkv_sampling_options sampling)
{
    double expected[OUTCOMES] = {0}, first[FEW], second[FEW], statistic = 0;
    int64_t counts[OUTCOMES] = {0};
    int freedom = -1;
    const double total = SEEDS * SAMPLES;
    distribution(model, 0, NULL, &sampling, first);
    expected[0] = first[QKV_END];
    for (int32_t word = QKV_SPECIALS; word < FEW; word++) {
        distribution(model, 1, &word, &sampling, second);
        expected[2 * word] = first[word] * second[QKV_END];
        expected[2 * word + 1] = first[word] * (1 - second[QKV_END]);
    }
    struct qkv_translator *translator = qkv_translator_new(model, NULL, &error);
    sampling.enabled = true;
    for (uint64_t seed = 0; seed < SEEDS; seed++) {
        sampling.seed = seed;
        const struct qkv_search_options options = {1, 0, SAMPLES, 1, .sampling = sampling};
        const struct qkv_hypothesis *found = tiny_translate(translator, 1, &SOURCE, 1, &options);
        for (int i = 0; i < SAMPLES; i++) counts[outcome_of(&found[i])]++;
    }
    qkv_translator_free(translator);
    for (int i = 0; i < OUTCOMES; i++) {
        double mean = total * expected[i], difference = (double)counts[i] - mean;
        cr_expect(mean > 0 || !counts[i], "outcome %d has probability 0, but occurs", i);
        if (mean < 1e-9) continue;
        freedom++;
        statistic += difference * difference / mean;
    }
    cr_expect_leq(statistic, freedom + 5 * sqrt(2 * freedom) + 1e-6,
                  "temperature %g, top_k %d, top_p %g: %g for %d", sampling.temperature, (int)sampling.top_k,
                  sampling.top_p, statistic, freedom);
}

Test(sampling, samples_have_the_distribution_of_the_model)
{
    static const struct qkv_sampling_options OPTIONS[] = {
        {.temperature = 1, .top_p = 1},
        {.temperature = 0.6, .top_p = 1},
        {.temperature = 2, .top_p = 1},
        {.temperature = 1, .top_k = 1, .top_p = 1},
        {.temperature = 1, .top_k = 3, .top_p = 1},
        {.temperature = 1, .top_k = 1000, .top_p = 1},
        {.temperature = 1, .top_p = 0.5},
        {.temperature = 1.5, .top_p = 0.9},
        {.temperature = 1.5, .top_k = 3, .top_p = 0.7},
    };
    for (int t = 0; t < 2; t++) {
        struct qkv_model *model RELEASED(free_model) =
            tiny_model_of_type(TYPES[t], SOURCE_SIZE, FEW, QKV_FLOAT64, 3);
        for (size_t i = 0; i < sizeof OPTIONS / sizeof OPTIONS[0]; i++)
            expect_distribution(model, OPTIONS[i]);
    }
}

/* The log-probability of a sample is that of the model, whatever it was drawn from. */
Test(sampling, log_probabilities_are_those_of_the_model)
{
    struct qkv_model *model RELEASED(free_model) =
        tiny_model_of_type(QKV_NETWORK_TRANSFORMER, SOURCE_SIZE, FEW, QKV_FLOAT64, 3);
    struct qkv_translator *translator RELEASED(free_translator) = qkv_translator_new(model, NULL, &error);
    const struct qkv_search_options options = {
        1, 1, 20, 6, .length_penalty = QKV_LENGTH_PENALTY_AVERAGE, .sampling = {true, 3, 4, 0.9, 5}};
    const struct qkv_hypothesis *found = tiny_translate(translator, 1, &SOURCE, 1, &options);
    for (int i = 0; i < 20; i++) {
        double expected = 0;
        int64_t tokens = found[i].length + found[i].finished;
        for (int64_t t = 0; t < tokens; t++) {
            double values[FEW];
            next_logits(model, SOURCE, t, found[i].ids, values);
            log_softmax(FEW, values);
            expected += values[t < found[i].length ? found[i].ids[t] : QKV_END];
        }
        cr_expect_float_eq(found[i].log_probability, expected, 1e-9);
        cr_expect_float_eq(found[i].score, expected / (double)tokens, 1e-9);
    }
}

/* ---- what samples depend on ---- */

enum { SENTENCES = 40, TYPES_OF_WORDS = 60, LONGEST = 15 };

/* A model, with sources in `ids`. */
static struct tiny tiny_of(enum qkv_network type, struct qkv_ids ids[SENTENCES])
{
    int64_t lengths[SENTENCES];
    for (int64_t i = 0; i < SENTENCES; i++) lengths[i] = 1 + 5 * i % 9;
    struct tiny tiny = tiny_with(tiny_model_of_type(type, SOURCE_SIZE, TYPES_OF_WORDS, QKV_FLOAT32, 3),
                                 SENTENCES, lengths, NULL, 7);
    tiny_sources(&tiny.batch, ids);
    return tiny;
}

Test(sampling, the_best_token_alone_is_greedy_search)
{
    static const struct qkv_sampling_options OPTIONS[] = {
        {true, 1, 1, 1, 0}, {true, 3, 1, 0.5, 1}, {true, 1, 0, 1e-9, 2}, {true, 1e-9, 0, 1, 3}};
    for (int t = 0; t < 2; t++) {
        struct qkv_ids sources[SENTENCES];
        struct tiny tiny RELEASED(tiny_release) = tiny_of(TYPES[t], sources);
        struct qkv_translator *translator RELEASED(free_translator) =
            qkv_translator_new(tiny.model, NULL, &error);
        struct qkv_translator *other RELEASED(free_translator) = qkv_translator_new(tiny.model, NULL, &error);
        const struct qkv_search_options greedy = {1, 0.6, 1, LONGEST};
        const struct qkv_hypothesis *expected = tiny_translate(translator, SENTENCES, sources, 8, &greedy);
        for (size_t i = 0; i < sizeof OPTIONS / sizeof OPTIONS[0]; i++) {
            const struct qkv_search_options options = {1, 0.6, 1, LONGEST, .sampling = OPTIONS[i]};
            const struct qkv_hypothesis *found = tiny_translate(other, SENTENCES, sources, 8, &options);
            for (int k = 0; k < SENTENCES; k++) {
                cr_expect(tiny_is_same(&found[k], &expected[k]));
                cr_expect_float_eq(found[k].score, expected[k].score, 1e-9);
            }
        }
    }
}

/* Threads, batch sizes and the order of the sentences change nothing; seed and number of the sentence do. The first of
 * several samples is that of one. */
Test(sampling, samples_depend_on_seed_and_number_alone)
{
    struct qkv_ids sources[SENTENCES];
    struct tiny tiny RELEASED(tiny_release) = tiny_of(QKV_NETWORK_TRANSFORMER, sources);
    struct qkv_model *model = tiny.model;
    const struct qkv_search_options options = {1, 0, 2, LONGEST, .sampling = {true, 1, 0, 0.95, 5}};
    struct qkv_translator *alone RELEASED(free_translator) = qkv_translator_new(model, NULL, &error);
    const struct qkv_hypothesis *expected = tiny_translate(alone, SENTENCES, sources, 32, &options);
    for (int threads = 1; threads <= 3; threads++)
        for (int64_t batch_size = 1; batch_size <= SENTENCES; batch_size += 13) {
            struct qkv_workers *workers RELEASED(free_workers) = qkv_workers_new(threads, &error);
            struct qkv_translator *translator RELEASED(free_translator) =
                qkv_translator_new(model, workers, &error);
            const struct qkv_hypothesis *found =
                tiny_translate(translator, SENTENCES, sources, batch_size, &options);
            for (int i = 0; i < 2 * SENTENCES; i++) cr_expect(tiny_is_same(&found[i], &expected[i]));
        }
    struct qkv_translator *other RELEASED(free_translator) = qkv_translator_new(model, NULL, &error);
    struct qkv_ids reversed[SENTENCES];
    int64_t numbers[SENTENCES];
    for (int i = 0; i < SENTENCES; i++) {
        numbers[i] = SENTENCES - 1 - i;
        reversed[i] = sources[numbers[i]];
    }
    struct qkv_search_options changed = options;
    changed.numbers = numbers;
    changed.n_best = 1;
    const struct qkv_hypothesis *found = tiny_translate(other, SENTENCES, reversed, 8, &changed);
    for (int i = 0; i < SENTENCES; i++) cr_expect(tiny_is_same(&found[i], &expected[2 * numbers[i]]));
    /* Without numbers, samples belong to other sentences. */
    for (int what = 0; what < 2; what++) {
        int same = 0;
        changed.numbers = what ? numbers : NULL;
        changed.sampling.seed += (uint64_t)what;
        found = tiny_translate(other, SENTENCES, reversed, 8, &changed);
        for (int i = 0; i < SENTENCES; i++) same += tiny_is_same(&found[i], &expected[2 * numbers[i]]);
        cr_expect_lt(same, SENTENCES / 4, "%s", what ? "another seed" : "no numbers");
    }
    int same = 0;
    for (int i = 0; i < SENTENCES; i++) same += tiny_is_same(&expected[2 * i], &expected[2 * i + 1]);
    cr_expect_lt(same, SENTENCES / 4);
}

Test(sampling, nonsense_is_refused)
{
    static const struct {
        struct qkv_search_options options;
        const char *message;
    } CASES[] = {
        {{2, 0, 1, 0, .sampling = {true, 1, 0, 1, 0}}, "samples have no beam: beam_size is 2, but must be 1"},
        {{1, 0, 0, 0, .sampling = {true, 1, 0, 1, 0}}, "n_best is 0, but must be between 1 and 1000"},
        {{1, 0, 1001, 0, .sampling = {true, 1, 0, 1, 0}}, "n_best is 1001, but must be between 1 and 1000"},
        {{1, 0, 1, 0, .sampling = {true, 0, 0, 1, 0}}, "temperature is 0, but must be above 0, and finite"},
        {LIST(1, 0, 1, 0, .sampling = {true, NAN, 0, 1, 0}),
         "temperature is nan, but must be above 0, and finite"},
        {{1, 0, 1, 0, .sampling = {true, 1, -1, 1, 0}}, "top_k is -1, but must be 0 or more"},
        {{1, 0, 1, 0, .sampling = {true, 1, 0, 0, 0}}, "top_p is 0, but must be above 0, and at most 1"},
        {{1, 0, 1, 0, .sampling = {true, 1, 0, 2, 0}}, "top_p is 2, but must be above 0, and at most 1"},
    };
    for (size_t i = 0; i < sizeof CASES / sizeof CASES[0]; i++)
        expect_refusal(qkv_search_options_check(&CASES[i].options, &error), CASES[i].message);
    /* Scores that are not finite are reported, not drawn from. */
    struct qkv_model *model RELEASED(free_model) =
        tiny_model_of_type(QKV_NETWORK_TRANSFORMER, SOURCE_SIZE, FEW, QKV_FLOAT32, 3);
    const struct qkv_hypothesis *found;
    qkv_parameter_set(&model->parameters, model->output_bias, 4, (double)NAN);
    struct qkv_translator *translator RELEASED(free_translator) = qkv_translator_new(model, NULL, &error);
    for (int skip_scores = 0; skip_scores < 2; skip_scores++) {
        const struct qkv_search_options options = {1, 0, 2, 0, skip_scores, .sampling = {true, 1, 0, 1, 0}};
        cr_expect_eq(qkv_translator_run(translator, 1, &SOURCE, 1, &options, &found, &error), QKV_FAILED);
        cr_expect(shows(error.message, "scores of the next token are not finite"));
    }
    static const int64_t NUMBERS[] = {-1, (int64_t)1 << 44, INT64_MIN};
    for (int i = 0; i < 6; i++) {
        struct qkv_search_options options = {
            1, 0, 1, 0, .sampling = {true, 1, 0, 1, 0}, .numbers = &NUMBERS[i / 2]};
        options.sampling.enabled = i % 2;
        expect_refusal_with(qkv_translator_run(translator, 1, &SOURCE, 1, &options, &found, &error),
                            "but must be between 0 and 17592186044415");
    }
}
