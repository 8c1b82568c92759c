/* Search against enumeration: with a vocabulary of two words, every possible translation can be
 * scored. */
#include "tiny.h"

#include "qkv/search.h"
#include "qkv/vocabulary.h"

#include <criterion/criterion.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { SOURCE_SIZE = 9, TARGET_SIZE = 5, WORDS = TARGET_SIZE - QKV_SPECIALS, LONGEST = 4 };
/* EVERYTHING: outputs of up to LONGEST words. WIDEST: no step has more candidates. */
enum { EVERYTHING = 31, WIDEST = 16 * TARGET_SIZE };

static struct qkv_model *model_of(uint64_t seed)
{
    struct qkv_model_config config = tiny_config();
    return tiny_model(&config, SOURCE_SIZE, TARGET_SIZE, QKV_FLOAT64, seed);
}

static struct qkv_batch_view sources_of(struct qkv_batch *batch, const struct qkv_model *model, int64_t count,
                                        const int64_t *lengths)
{
    tiny_batch(batch, model, count, lengths, NULL, 9);
    return tiny_view(batch);
}

static double penalty(int64_t length, double alpha)
{
    return pow((5 + (double)length) / 6, alpha);
}

static struct qkv_ids source_ids(const struct qkv_batch_view *batch, int64_t s)
{
    return (struct qkv_ids){batch->source_length[s] - 1, batch->source + batch->source_start[s]};
}

/* log p of a target, with </s> or without, by a forced pass. */
static double log_probability(const struct qkv_model *model, const struct qkv_batch_view *batch, int64_t s,
                              int64_t length, const int32_t *ids, bool ended)
{
    struct qkv_ids source = source_ids(batch, s), target = {length, ids};
    struct qkv_batch one = {0};
    cr_assert_eq(qkv_batch_make(&one, 1, &source, &target, NULL), QKV_OK);
    struct qkv_batch_view view = tiny_view(&one);
    double *forced = tiny_log_probabilities(model, &view), sum = 0;
    for (int64_t t = 0; t < length + ended; t++)
        sum += forced[t * model->target_size + view.target_output[t]];
    free(forced);
    qkv_batch_release(&one);
    return sum;
}

/* ---- enumeration ---- */

struct output {
    int64_t length;
    int32_t ids[LONGEST];
    double log_probability, score;
};

static int by_score(const void *left, const void *right)
{
    const struct output *a = left, *b = right;
    return (a->score < b->score) - (a->score > b->score);
}

/* Every output of up to LONGEST words, best first. */
static void enumerate(const struct qkv_model *model, const struct qkv_batch_view *batch, int64_t s,
                      double alpha, struct output all[EVERYTHING])
{
    int count = 0;
    for (int64_t length = 0, kinds = 1; length <= LONGEST; length++, kinds *= WORDS)
        for (int64_t kind = 0; kind < kinds; kind++) {
            struct output *o = &all[count++];
            *o = (struct output){.length = length};
            for (int64_t i = 0, rest = kind; i < length; i++, rest /= WORDS)
                o->ids[i] = QKV_SPECIALS + (int32_t)(rest % WORDS);
            o->log_probability = log_probability(model, batch, s, length, o->ids, true);
            o->score = o->log_probability / penalty(length + 1, alpha);
        }
    cr_assert_eq(count, EVERYTHING);
    qsort(all, EVERYTHING, sizeof all[0], by_score);
}

Test(search, an_unlimited_beam_finds_every_translation_in_order)
{
    static const double ALPHAS[] = {0, 0.6, 2};
    static const int64_t LENGTHS[] = {3, 0, 5};
    for (uint64_t seed = 1; seed <= 4; seed++) {
        struct qkv_model *model = model_of(seed);
        struct qkv_batch batch = {0};
        struct qkv_translations found = {0};
        struct qkv_batch_view view = sources_of(&batch, model, 3, LENGTHS);
        for (size_t a = 0; a < sizeof ALPHAS / sizeof ALPHAS[0]; a++) {
            struct qkv_search_options options = {WIDEST, ALPHAS[a], EVERYTHING, LONGEST};
            tiny_search(model, &view, options, &found);
            for (int64_t s = 0; s < view.count; s++) {
                struct output all[EVERYTHING];
                enumerate(model, &view, s, ALPHAS[a], all);
                for (int i = 0; i < EVERYTHING; i++) {
                    const struct qkv_hypothesis *h = &found.best[s * EVERYTHING + i];
                    cr_assert_not_null(h->ids);
                    cr_assert_eq(h->length, all[i].length);
                    cr_assert(h->finished);
                    cr_assert_arr_eq(h->ids, all[i].ids, (size_t)h->length * sizeof *h->ids);
                    cr_assert_float_eq(h->log_probability, all[i].log_probability, 1e-12);
                    cr_assert_float_eq(h->score, all[i].score, 1e-12);
                }
            }
        }
        qkv_translations_release(&found);
        qkv_batch_release(&batch);
        qkv_model_free(model);
    }
}

/* ---- small beams ---- */

static bool equal(const struct qkv_hypothesis *a, const struct qkv_hypothesis *b)
{
    return a->length == b->length && a->finished == b->finished &&
           !memcmp(a->ids, b->ids, (size_t)a->length * sizeof *a->ids);
}

Test(search, hypotheses_are_sorted_distinct_and_scored_right)
{
    static const int64_t LENGTHS[] = {3, 0, 5, 2};
    for (uint64_t seed = 1; seed <= 6; seed++)
        for (int64_t beam = 1; beam <= 5; beam++) {
            struct qkv_model *model = model_of(seed);
            struct qkv_batch batch = {0};
            struct qkv_translations found = {0};
            struct qkv_batch_view view = sources_of(&batch, model, 4, LENGTHS);
            const int64_t limit = 1 + (int64_t)seed;
            tiny_search(model, &view, (struct qkv_search_options){beam, 0.6, beam, limit}, &found);
            for (int64_t s = 0; s < 4; s++) {
                const struct qkv_hypothesis *list = found.best + s * beam;
                cr_assert_not_null(list[0].ids);
                for (int64_t i = 0; i < beam && list[i].ids; i++) {
                    const struct qkv_hypothesis *h = &list[i];
                    double expected = log_probability(model, &view, s, h->length, h->ids, h->finished);
                    cr_assert_float_eq(h->log_probability, expected, 1e-11);
                    cr_assert_float_eq(h->score, expected / penalty(h->length + h->finished, 0.6), 1e-11);
                    cr_assert_leq(h->length, limit);
                    if (!h->finished) cr_assert_eq(h->length, limit, "cut, but not at the greatest length");
                    for (int64_t t = 0; t < h->length; t++) cr_assert_geq(h->ids[t], QKV_SPECIALS);
                    for (int64_t j = 0; j < i; j++) {
                        cr_assert_geq(list[j].score, h->score);
                        cr_assert(!equal(&list[j], h));
                    }
                }
            }
            qkv_translations_release(&found);
            qkv_batch_release(&batch);
            qkv_model_free(model);
        }
}

Test(search, a_beam_finds_better_translations_than_greedy)
{
    int better = 0;
    for (uint64_t seed = 1; seed <= 30; seed++) {
        struct qkv_model *model = model_of(seed);
        tiny_favour(model, QKV_END, 1);
        struct qkv_batch batch = {0};
        struct qkv_translations greedy = {0}, beam = {0};
        struct qkv_batch_view view = sources_of(&batch, model, 1, (int64_t[]){4});
        struct output all[EVERYTHING];
        enumerate(model, &view, 0, 0, all);
        tiny_search(model, &view, (struct qkv_search_options){1, 0, 1, LONGEST}, &greedy);
        tiny_search(model, &view, (struct qkv_search_options){4, 0, 1, LONGEST}, &beam);
        if (beam.best[0].finished)
            cr_expect_leq(beam.best[0].score, all[0].score + 1e-12, "no beam beats the enumeration");
        better += greedy.best[0].finished && beam.best[0].finished &&
                  beam.best[0].score > greedy.best[0].score + 1e-6;
        qkv_translations_release(&greedy);
        qkv_translations_release(&beam);
        qkv_batch_release(&batch);
        qkv_model_free(model);
    }
    cr_expect_gt(better, 2);
}

/* Greedy search without log sums gives the same translations, also those that are cut. A beam needs
 * the sums and ignores the option. */
Test(search, unscored_translations_are_the_same)
{
    static const int64_t lengths[] = {4, 2, 5, 1, 3};
    int finished = 0, cut = 0;
    for (uint64_t seed = 1; seed <= 20; seed++) {
        struct qkv_model *model = model_of(seed);
        tiny_favour(model, QKV_END, 1);
        struct qkv_batch batch = {0};
        struct qkv_batch_view view = sources_of(&batch, model, 5, lengths);
        for (int64_t beam = 1; beam <= 3; beam += 2) {
            struct qkv_translations scored = {0}, skip_scores = {0};
            tiny_search(model, &view, (struct qkv_search_options){beam, 0.6, 1, 6, false}, &scored);
            tiny_search(model, &view, (struct qkv_search_options){beam, 0.6, 1, 6, true}, &skip_scores);
            for (int64_t i = 0; i < 5; i++) {
                const struct qkv_hypothesis *a = &scored.best[i], *b = &skip_scores.best[i];
                cr_assert_eq(a->length, b->length);
                cr_expect_arr_eq(a->ids, b->ids, (size_t)a->length * sizeof *a->ids);
                cr_expect_eq(a->finished, b->finished);
                cr_expect_eq(b->score, beam == 1 ? 0 : a->score);
                cr_expect_eq(b->log_probability, beam == 1 ? 0 : a->log_probability);
                cr_expect_lt(a->score, 0);
                finished += beam == 1 && a->finished;
                cut += beam == 1 && !a->finished;
            }
            qkv_translations_release(&scored);
            qkv_translations_release(&skip_scores);
        }
        qkv_batch_release(&batch);
        qkv_model_free(model);
    }
    cr_expect(finished > 5 && cut > 5, "%d and %d: both kinds occur", finished, cut);
}

/* ---- many sentences ---- */

Test(search, sentences_of_a_batch_do_not_affect_each_other)
{
    enum { COUNT = 12 };
    int64_t lengths[COUNT];
    for (int i = 0; i < COUNT; i++) lengths[i] = i * 7 % 11;
    for (int64_t beam = 1; beam <= 4; beam += 3) {
        struct qkv_model *model = model_of(3);
        struct qkv_batch batch = {0}, one = {0};
        struct qkv_translations together = {0}, alone = {0};
        struct qkv_batch_view view = sources_of(&batch, model, COUNT, lengths);
        tiny_search(model, &view, (struct qkv_search_options){beam, 0.6, beam, 0}, &together);
        for (int64_t s = 0; s < COUNT; s++) {
            struct qkv_ids source = source_ids(&view, s);
            cr_assert_eq(qkv_batch_make(&one, 1, &source, NULL, NULL), QKV_OK);
            struct qkv_batch_view single = tiny_view(&one);
            tiny_search(model, &single, (struct qkv_search_options){beam, 0.6, beam, 0}, &alone);
            for (int64_t i = 0; i < beam; i++) {
                cr_assert(equal(&together.best[s * beam + i], &alone.best[i]), "sentence %lld, %lld",
                          (long long)s, (long long)i);
                cr_assert_float_eq(together.best[s * beam + i].score, alone.best[i].score, 1e-11);
            }
        }
        qkv_translations_release(&together);
        qkv_translations_release(&alone);
        qkv_batch_release(&batch);
        qkv_batch_release(&one);
        qkv_model_free(model);
    }
}

Test(search, no_sentences_no_translations)
{
    struct qkv_model *model = model_of(3);
    struct qkv_batch batch = {0};
    struct qkv_translations found = {0};
    cr_assert_eq(qkv_batch_make(&batch, 0, NULL, NULL, NULL), QKV_OK);
    struct qkv_batch_view view = tiny_view(&batch);
    tiny_search(model, &view, (struct qkv_search_options){4, 0.6, 4, 0}, &found);
    cr_expect_eq(found.count, 0);
    qkv_translations_release(&found);
    qkv_batch_release(&batch);
    qkv_model_free(model);
}

/* ---- limits ---- */

/* Length of the best translation of a source of the given length, with `end` added to the logit of
 * </s>. */
static struct qkv_hypothesis bounded(struct qkv_model_config config, double end, int64_t beam, int64_t limit,
                                     int64_t source_length)
{
    struct qkv_model *model = tiny_model(&config, SOURCE_SIZE, TARGET_SIZE, QKV_FLOAT64, 4);
    tiny_favour(model, QKV_END, end);
    struct qkv_batch batch = {0};
    struct qkv_translations found = {0};
    struct qkv_batch_view view = sources_of(&batch, model, 1, &source_length);
    tiny_search(model, &view, (struct qkv_search_options){beam, 0.6, beam, limit}, &found);
    struct qkv_hypothesis best = found.best[0];
    best.ids = NULL;
    qkv_translations_release(&found);
    qkv_batch_release(&batch);
    qkv_model_free(model);
    return best;
}

Test(search, lengths_stay_within_their_limits)
{
    struct qkv_model_config config = tiny_config(), narrow = tiny_config(), short_sources = tiny_config();
    narrow.decoder.positions.max_length = 6;
    short_sources.encoder.positions.max_length = 4;
    for (int64_t beam = 1; beam <= 3; beam += 2) {
        struct qkv_hypothesis h = bounded(config, -30, beam, 7, 3);
        cr_expect_eq(h.length, 7, "the most that was asked for, not one more: %lld", (long long)h.length);
        cr_expect(!h.finished);
        h = bounded(config, -30, beam, 1, 3);
        cr_expect_eq(h.length, 1);
        cr_expect(!h.finished);
        h = bounded(config, -30, beam, 0, 3);
        cr_expect_eq(h.length, 2 * 3 + 10, "by default, twice the source and 10: %lld", (long long)h.length);
        h = bounded(config, -30, beam, 1000, 3);
        cr_expect_eq(h.length, 23, "24 positions, one of them for </s>: %lld", (long long)h.length);
        h = bounded(narrow, -30, beam, 0, 3);
        cr_expect_eq(h.length, 5);
        h = bounded(short_sources, -30, beam, 0, 3);
        cr_expect_eq(h.length, 16, "positions of the encoder bound sources, not translations: %lld",
                     (long long)h.length);
        h = bounded(config, 80, beam, 0, 3);
        cr_expect_eq(h.length, 0);
        cr_expect(h.finished);
    }
}

Test(search, translations_contain_no_special_token)
{
    for (int64_t beam = 1; beam <= 4; beam++) {
        struct qkv_model *model = model_of(2);
        tiny_favour(model, QKV_BEGIN, 60); /* the most probable first token */
        tiny_favour(model, QKV_UNKNOWN, 50);
        tiny_favour(model, QKV_END, -20);
        struct qkv_batch batch = {0};
        struct qkv_translations found = {0};
        struct qkv_batch_view view = sources_of(&batch, model, 1, (int64_t[]){4});
        tiny_search(model, &view, (struct qkv_search_options){beam, 0.6, beam, LONGEST}, &found);
        for (int64_t i = 0; i < beam && found.best[i].ids; i++)
            for (int64_t t = 0; t < found.best[i].length; t++)
                cr_expect_geq(found.best[i].ids[t], QKV_SPECIALS);
        if (beam == 1) cr_expect_eq(found.best[0].length, LONGEST);
        qkv_translations_release(&found);
        qkv_batch_release(&batch);
        qkv_model_free(model);
    }
}

Test(search, missing_translations_have_no_ids)
{
    struct qkv_model_config config = tiny_config();
    struct qkv_model *model = tiny_model(&config, SOURCE_SIZE, QKV_SPECIALS + 1, QKV_FLOAT64, 4);
    struct qkv_batch batch = {0};
    struct qkv_translations found = {0};
    struct qkv_batch_view view = sources_of(&batch, model, 2, (int64_t[]){3, 1});
    tiny_search(model, &view, (struct qkv_search_options){6, 0.6, 5, 2}, &found);
    for (int64_t s = 0; s < 2; s++)
        for (int64_t i = 0; i < 5; i++) /* nothing, one word, two words */
            cr_expect_eq(found.best[s * 5 + i].ids != NULL, i < 3, "sentence %lld, %lld", (long long)s,
                         (long long)i);
    qkv_translations_release(&found);
    qkv_batch_release(&batch);
    qkv_model_free(model);
}
