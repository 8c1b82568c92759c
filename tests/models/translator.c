/* Many sentences on many threads: the translations are those of separate searches, in the order of
 * the sources. */
#include "tiny.h"

enum { SENTENCES = 23, LONGEST = 9 };

static const int TEAMS[] = {0, 1, 2, 4}; /* 0: none */
static const struct qkv_search_options GREEDY = {1, 0, 1, 12}, BEAM = {3, 0.6, 2, 12};

#define COUNT(array) (sizeof array / sizeof array[0])

/* A model, with sources in `ids`. */
static struct tiny tiny_of(const struct qkv_model_config *config, int32_t target_size, int64_t count,
                           struct qkv_ids ids[SENTENCES])
{
    int64_t lengths[SENTENCES];
    for (int64_t i = 0; i < count; i++) lengths[i] = 1 + 5 * i % LONGEST;
    struct tiny tiny =
        tiny_with(tiny_model(config, 11, target_size, QKV_FLOAT32, 5), count, lengths, NULL, 7);
    tiny_sources(&tiny.batch, ids);
    return tiny;
}

static struct qkv_workers *team(int threads)
{
    struct qkv_workers *workers = threads ? qkv_workers_new(threads, &error) : NULL;
    cr_assert(!threads || workers, "%s", error.message);
    return workers;
}

static void expect_same(const struct qkv_hypothesis *found, const struct qkv_hypothesis *expected, int64_t i)
{
    cr_assert_eq(!found->ids, !expected->ids, "translation %d", (int)i);
    cr_expect(!found->ids || tiny_is_same(found, expected), "translation %d", (int)i);
    cr_expect_eq(found->score, expected->score, "translation %d: %.17g, but must be %.17g", (int)i,
                 found->score, expected->score);
    cr_expect_eq(found->log_probability, expected->log_probability, "translation %d", (int)i);
}

/* The translation of sentence i alone, by qkv_search. */
static void expect_search(const struct qkv_model *model, const struct qkv_ids *source,
                          const struct qkv_search_options *options, const struct qkv_hypothesis *found,
                          int64_t i)
{
    struct qkv_batch batch RELEASED(qkv_batch_release) = {0};
    struct qkv_translations translations RELEASED(qkv_translations_release) = {0};
    struct qkv_decoding *decoding RELEASED(free_decoding) = qkv_decoding_new(model);
    cr_assert_eq(qkv_batch_make(&batch, 1, source, NULL, &error), QKV_OK);
    struct qkv_batch_view view = tiny_view(&batch);
    expect_done(qkv_search(decoding, &view, options, &translations, &error));
    for (int64_t k = 0; k < options->n_best; k++)
        expect_same(&found[k], &translations.best[k], i * options->n_best + k);
}

Test(translator, batches_of_one_equal_qkv_search)
{
    const struct qkv_model_config config = tiny_config();
    struct qkv_ids ids[SENTENCES];
    struct tiny tiny RELEASED(tiny_release) = tiny_of(&config, 13, SENTENCES, ids);
    struct qkv_model *model = tiny.model;
    for (size_t t = 0; t < COUNT(TEAMS); t++) {
        struct qkv_workers *workers RELEASED(free_workers) = team(TEAMS[t]);
        struct qkv_translator *translator RELEASED(free_translator) =
            qkv_translator_new(model, workers, &error);
        const struct qkv_hypothesis *found = tiny_translate(translator, SENTENCES, ids, 1, &BEAM);
        for (int64_t i = 0; i < SENTENCES; i++)
            expect_search(model, &ids[i], &BEAM, found + BEAM.n_best * i, i);
        tiny_translate(translator, 0, NULL, 1, &BEAM);
    }
}

/* Compares teams of every size with a single thread, for the same batches. */
static void expect_the_same_on_every_team(const struct qkv_model_config *config, int32_t target_size,
                                          int64_t count, int64_t batch_size,
                                          const struct qkv_search_options *options)
{
    struct qkv_ids ids[SENTENCES];
    struct tiny tiny RELEASED(tiny_release) = tiny_of(config, target_size, count, ids);
    const struct qkv_model *model = tiny.model;
    struct qkv_translator *alone RELEASED(free_translator) = qkv_translator_new(model, NULL, &error);
    const struct qkv_hypothesis *expected = tiny_translate(alone, count, ids, batch_size, options);
    for (size_t t = 1; t < COUNT(TEAMS); t++) {
        struct qkv_workers *workers RELEASED(free_workers) = team(TEAMS[t]);
        struct qkv_translator *translator RELEASED(free_translator) =
            qkv_translator_new(model, workers, &error);
        for (int again = 0; again < 2; again++) { /* the second time in memory that has been used */
            const struct qkv_hypothesis *found = tiny_translate(translator, count, ids, batch_size, options);
            for (int64_t i = 0; i < count * options->n_best; i++) expect_same(&found[i], &expected[i], i);
        }
    }
}

Test(translator, any_number_of_threads_gives_the_same_bits)
{
    const struct qkv_model_config config = tiny_config();
    static const int64_t BATCHES[] = {1, 4, SENTENCES - 1, SENTENCES, 100};
    for (size_t b = 0; b < COUNT(BATCHES); b++) {
        expect_the_same_on_every_team(&config, 13, SENTENCES, BATCHES[b], &BEAM);
        expect_the_same_on_every_team(&config, 13, SENTENCES, BATCHES[b], &GREEDY);
    }
}

/* A single batch uses all threads for its products. The output projection is large enough to be
 * split; when it is tied, the product reads the matrix transposed. */
Test(translator, a_single_batch_uses_all_threads)
{
    for (int tied = 0; tied < 2; tied++) {
        struct qkv_model_config config = tiny_config();
        config.tied_softmax = tied;
        expect_the_same_on_every_team(&config, 9001, 1, 32, &GREEDY);
        expect_the_same_on_every_team(&config, 9001, 1, 32, &BEAM);
        expect_the_same_on_every_team(&config, 9001, 7, 32, &GREEDY);
    }
}

/* As when a trainer changes the parameters between two runs. */
Test(translator, each_run_reads_the_current_parameters)
{
    const struct qkv_model_config config = tiny_config();
    struct qkv_ids ids[SENTENCES];
    struct tiny tiny RELEASED(tiny_release) = tiny_of(&config, 13, SENTENCES, ids);
    struct qkv_model *model = tiny.model;
    struct qkv_translator *kept RELEASED(free_translator) = qkv_translator_new(model, NULL, &error);
    double first = 0;
    for (int run = 0; run < 2; run++) {
        struct qkv_translator *fresh = qkv_translator_new(model, NULL, &error);
        const struct qkv_hypothesis *found = tiny_translate(kept, SENTENCES, ids, 32, &BEAM);
        const struct qkv_hypothesis *expected = tiny_translate(fresh, SENTENCES, ids, 32, &BEAM);
        for (int64_t i = 0; i < SENTENCES * BEAM.n_best; i++) expect_same(&found[i], &expected[i], i);
        if (run) cr_expect_neq(found[0].log_probability, first);
        first = found[0].log_probability;
        qkv_translator_free(fresh);
        qkv_parameters_initialize(&model->parameters, 6);
    }
}

/* With so many classes, in int8, a batch of more than two sentences is divided. Its sums are exact, so that all sizes give
 * the same bits. */
Test(translator, int8_translates_any_batch_like_batches_of_one)
{
    const struct qkv_model_config config = tiny_config();
    struct qkv_ids ids[SENTENCES];
    struct tiny tiny RELEASED(tiny_release) = tiny_of(&config, 40000, SENTENCES, ids);
    struct qkv_model *model = tiny.model;
    expect_done(qkv_parameters_set_precision(&model->parameters, QKV_PRECISION_INT8, &error));
    struct qkv_translator *one RELEASED(free_translator) = qkv_translator_new(model, NULL, &error),
                               *all RELEASED(free_translator) = qkv_translator_new(model, NULL, &error);
    const struct qkv_hypothesis *expected = tiny_translate(one, SENTENCES, ids, 1, &BEAM),
                                *found = tiny_translate(all, SENTENCES, ids, SENTENCES, &BEAM);
    for (int64_t i = 0; i < SENTENCES * BEAM.n_best; i++) expect_same(&found[i], &expected[i], i);
}
