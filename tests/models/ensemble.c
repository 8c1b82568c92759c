/* Ensembles: the mean of the probabilities of models of any architecture. */
#include "next_tokens.h"
#include "tiny.h"

#include "models/network.h"

enum { SOURCE_SIZE = 9, TARGET_SIZE = 40, SENTENCES = 9, LONGEST = 10 };

static const struct qkv_search_options SEARCHES[] = {
    {1, 0, 1, LONGEST},
    {1, 0, 1, LONGEST, .skip_scores = true},
    {4, 0.6, 3, LONGEST},
    {3, 0.6, 1, LONGEST, .no_repeat_ngram = 2, .min_output_length = 4, .repetition_penalty = 1.2},
    {1, 0, 3, LONGEST, .sampling = {true, 1, 0, 0.9, 3}},
};
enum { SEARCH_COUNT = sizeof SEARCHES / sizeof SEARCHES[0] };

static struct qkv_model *model_of(enum qkv_network type, enum qkv_dtype dtype, uint64_t seed)
{
    return tiny_model_of_type(type, SOURCE_SIZE, TARGET_SIZE, dtype, seed);
}

static void make_sources(struct qkv_batch *batch, const struct qkv_model *model, struct qkv_ids *ids)
{
    int64_t lengths[SENTENCES];
    for (int64_t i = 0; i < SENTENCES; i++) lengths[i] = 1 + 5 * i % 7;
    tiny_batch(batch, model, SENTENCES, lengths, NULL, 7);
    tiny_sources(batch, ids);
}

/* log((p + p) / 2) is log p, but search adds other roundings. */
Test(ensemble, of_a_model_with_itself_translates_as_the_model)
{
    for (int type = 0; type < 2; type++) {
        struct qkv_model *model RELEASED(free_model) =
            model_of(type ? QKV_NETWORK_RECURRENT : QKV_NETWORK_TRANSFORMER, QKV_FLOAT32, 3);
        const struct qkv_model *models[] = {model, model, model};
        struct qkv_batch batch RELEASED(qkv_batch_release) = {0};
        struct qkv_ids sources[SENTENCES];
        make_sources(&batch, model, sources);
        struct qkv_translator *alone RELEASED(free_translator) = qkv_translator_new(model, NULL, &error);
        for (int threads = 1; threads <= 3; threads += 2) {
            struct qkv_workers *workers RELEASED(free_workers) = qkv_workers_new(threads, &error);
            struct qkv_translator *together RELEASED(free_translator) =
                made(qkv_translator_new_ensemble((struct qkv_ensemble){3, models}, workers, &error));
            for (int k = 0; k < SEARCH_COUNT; k++) {
                const struct qkv_hypothesis *a = tiny_translate(alone, SENTENCES, sources, 4, &SEARCHES[k]);
                const struct qkv_hypothesis *b =
                    tiny_translate(together, SENTENCES, sources, 4, &SEARCHES[k]);
                for (int i = 0; i < SENTENCES * SEARCHES[k].n_best; i++) {
                    cr_expect(tiny_is_same(&a[i], &b[i]), "search %d, translation %d", k, i);
                    cr_expect_float_eq(a[i].score, b[i].score, 1e-12, "%.17g %.17g", a[i].score, b[i].score);
                }
            }
        }
    }
}

/* Every step of a decoding with rows that are reordered has the mean of the members' probabilities. */
Test(ensemble, averages_probabilities)
{
    struct qkv_model *models[] = {model_of(QKV_NETWORK_TRANSFORMER, QKV_FLOAT64, 3),
                                  model_of(QKV_NETWORK_RECURRENT, QKV_FLOAT32, 4),
                                  model_of(QKV_NETWORK_TRANSFORMER, QKV_FLOAT64, 5)};
    const struct qkv_model *const list[] = {models[0], models[1], models[2]};
    struct qkv_batch batch = {0};
    struct qkv_ids sources[SENTENCES];
    make_sources(&batch, models[0], sources);
    struct qkv_translator *translator =
        qkv_translator_new_ensemble((struct qkv_ensemble){3, list}, NULL, &error);
    const struct qkv_hypothesis *found = tiny_translate(translator, SENTENCES, sources, 4, &SEARCHES[2]);
    for (int i = 0; i < SENTENCES * 3; i++) {
        double expected = 0;
        const struct qkv_hypothesis *h = &found[i];
        for (int64_t t = 0; t < h->length + h->finished; t++) {
            double probability = 0, values[TARGET_SIZE];
            for (int m = 0; m < 3; m++) {
                next_logits(list[m], sources[i / 3], t, h->ids, values);
                log_softmax(TARGET_SIZE, values);
                probability += exp(values[t < h->length ? h->ids[t] : QKV_END]) / 3;
            }
            expected += log(probability);
        }
        cr_expect_float_eq(h->log_probability, expected, 1e-6, "%.12g, not %.12g", h->log_probability,
                           expected);
    }
    qkv_translator_free(translator);
    qkv_batch_release(&batch);
    for (int m = 0; m < 3; m++) qkv_model_free(models[m]);
}

/* The model with the fewest positions limits all. */
Test(ensemble, has_the_positions_of_the_shortest)
{
    struct qkv_model_config config = tiny_config();
    struct qkv_model *longer RELEASED(free_model) =
        tiny_model(&config, SOURCE_SIZE, TARGET_SIZE, QKV_FLOAT32, 3);
    config.decoder.positions.max_length = 6;
    struct qkv_model *shorter RELEASED(free_model) =
        tiny_model(&config, SOURCE_SIZE, TARGET_SIZE, QKV_FLOAT32, 4);
    const struct qkv_model *const list[] = {longer, shorter};
    struct qkv_batch batch RELEASED(qkv_batch_release) = {0};
    struct qkv_ids sources[SENTENCES];
    make_sources(&batch, longer, sources);
    struct qkv_translator *translator RELEASED(free_translator) =
        qkv_translator_new_ensemble((struct qkv_ensemble){2, list}, NULL, &error);
    const struct qkv_search_options options = {1, 0, 1, 20, .min_output_length = 20};
    const struct qkv_hypothesis *found = tiny_translate(translator, SENTENCES, sources, 4, &options);
    for (int i = 0; i < SENTENCES; i++) cr_expect_eq(found[i].length, 5, "%d", (int)found[i].length);
}

static void expect_refused(struct qkv_ensemble ensemble, const char *message)
{
    expect_refusal(STATUS_OF(qkv_translator_new_ensemble(ensemble, NULL, &error)), message);
    expect_refusal(STATUS_OF(qkv_decoding_new_ensemble(ensemble, &error)), message);
}

Test(ensemble, misuse_is_refused)
{
    struct qkv_model *model RELEASED(free_model) = model_of(QKV_NETWORK_TRANSFORMER, QKV_FLOAT32, 3);
    struct qkv_model *other RELEASED(free_model) =
        tiny_model_of_type(QKV_NETWORK_TRANSFORMER, SOURCE_SIZE, TARGET_SIZE + 1, QKV_FLOAT32, 3);
    const struct qkv_model *list[] = {model, other, NULL};
    expect_refused((struct qkv_ensemble){0, list}, "an ensemble needs a model, but has 0");
    expect_refused((struct qkv_ensemble){-1, list}, "an ensemble needs a model, but has -1");
    expect_refused((struct qkv_ensemble){2, NULL}, "an ensemble of 2 models has no array of them");
    expect_refused((struct qkv_ensemble){1, list + 2}, "model 1 of the ensemble is NULL");
    expect_refused((struct qkv_ensemble){3, list},
                   "model 2 of the ensemble has vocabularies of 9 and 41 entries, "
                   "but the first has 9 and 40");
    list[1] = model;
    struct qkv_decoding *decoding RELEASED(free_decoding) =
        made(qkv_decoding_new_ensemble((struct qkv_ensemble){2, list}, &error));
    cr_expect_not_null(qkv_decoding_member(decoding, 1));
    cr_expect_null(qkv_decoding_member(decoding, 2));
    cr_expect_null(qkv_decoding_member(decoding, -1));
    qkv_decoding_set_panels(decoding, NULL);
    qkv_decoding_set_workers(decoding, NULL);
    const int32_t begin = QKV_BEGIN, wrong = TARGET_SIZE;
    const int64_t sentence = 0, parents[] = {0, 5};
    cr_expect_null(qkv_decoding_step(decoding, 1, &begin, &sentence, &error));
    struct qkv_batch batch RELEASED(qkv_batch_release) = {0};
    struct qkv_ids sources[SENTENCES];
    make_sources(&batch, model, sources);
    const struct qkv_batch_view view = tiny_view(&batch);
    cr_assert_eq(qkv_decoding_start(decoding, &view, 3, 2, false, &error), QKV_OK);
    cr_expect_null(qkv_decoding_step(decoding, 1, &wrong, &sentence, &error));
    const struct qkv_next_scores *next = made(qkv_decoding_step(decoding, 1, &begin, &sentence, &error));
    cr_expect_null(next->log_sum_exp);
    qkv_decoding_reorder(decoding, 2, parents);
    cr_expect_null(qkv_decoding_step(decoding, 1, &begin, &sentence, &error));
}

Test(ensemble, scores_that_are_not_finite_are_reported)
{
    struct qkv_model *model RELEASED(free_model) = model_of(QKV_NETWORK_TRANSFORMER, QKV_FLOAT32, 3);
    struct qkv_model *other RELEASED(free_model) = model_of(QKV_NETWORK_RECURRENT, QKV_FLOAT32, 3);
    qkv_parameter_set(&other->parameters, other->output_bias, 4, (double)NAN);
    const struct qkv_model *list[] = {model, other};
    struct qkv_batch batch RELEASED(qkv_batch_release) = {0};
    struct qkv_ids sources[SENTENCES];
    const struct qkv_hypothesis *found;
    make_sources(&batch, model, sources);
    struct qkv_translator *translator RELEASED(free_translator) =
        qkv_translator_new_ensemble((struct qkv_ensemble){2, list}, NULL, &error);
    for (int k = 0; k < SEARCH_COUNT; k++) {
        cr_expect_eq(qkv_translator_run(translator, SENTENCES, sources, 4, &SEARCHES[k], &found, &error),
                     QKV_FAILED);
        cr_expect(shows(error.message, "scores of the next token are not finite"));
    }
}
