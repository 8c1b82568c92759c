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
enum {
    EVERYTHING = 31,
    WIDEST = 16 * TARGET_SIZE
}; /* outputs of up to LONGEST words; no step has more candidates */

static struct qkv_model *sized_model(int32_t target_size, uint64_t seed)
{
    struct qkv_model_config config = tiny_config();
    return tiny_model(&config, SOURCE_SIZE, target_size, QKV_FLOAT64, seed);
}

static struct qkv_model *model_of(uint64_t seed)
{
    return sized_model(TARGET_SIZE, seed);
}

/* Makes a token more or less likely everywhere. */
static void favour(struct qkv_model *model, int32_t token, double by)
{
    double bias = qkv_parameter_get(&model->parameters, model->output_bias, token);
    qkv_parameter_set(&model->parameters, model->output_bias, token, bias + by);
}

static struct qkv_batch_view sources_of(struct qkv_batch *batch, const struct qkv_model *model, int64_t count,
                                        const int64_t *lengths)
{
    tiny_batch(batch, model, count, lengths, NULL, 9);
    return tiny_view(batch);
}

static void search(const struct qkv_model *model, const struct qkv_batch_view *batch,
                   struct qkv_search_options options, struct qkv_translations *translations)
{
    struct qkv_error error = {""};
    struct qkv_decoding *decoding = qkv_decoding_new(model);
    cr_assert_eq(qkv_search(decoding, batch, &options, translations, &error), QKV_OK, "%s", error.message);
    cr_assert_eq(translations->count, batch->count);
    qkv_decoding_free(decoding);
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
            search(model, &view, options, &found);
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
            search(model, &view, (struct qkv_search_options){beam, 0.6, beam, limit}, &found);
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

/* Log-probabilities of the token that follows `ids`, by a forced pass; to be freed. */
static double *next_log_probabilities(const struct qkv_model *model, const struct qkv_batch_view *batch,
                                      int64_t s, int64_t length, const int32_t *ids)
{
    struct qkv_ids source = source_ids(batch, s), target = {length, ids};
    struct qkv_batch one = {0};
    cr_assert_eq(qkv_batch_make(&one, 1, &source, &target, NULL), QKV_OK);
    struct qkv_batch_view view = tiny_view(&one);
    double *forced = tiny_log_probabilities(model, &view);
    memmove(forced, forced + length * model->target_size, (size_t)model->target_size * sizeof *forced);
    qkv_batch_release(&one);
    return forced;
}

/* The most probable token at each step, until </s> or the limit, by forced passes. */
static struct qkv_hypothesis chain(const struct qkv_model *model, const struct qkv_batch_view *batch,
                                   int64_t s, int64_t limit, int32_t *ids)
{
    struct qkv_hypothesis h = {.ids = ids};
    for (;;) {
        double *next = next_log_probabilities(model, batch, s, h.length, ids);
        int32_t best = QKV_END;
        for (int32_t c = QKV_SPECIALS; c < model->target_size; c++)
            if (next[c] > next[best]) best = c;
        double value = next[best];
        free(next);
        h.finished = best == QKV_END;
        if (!h.finished && h.length == limit) return h;
        h.log_probability += value;
        if (h.finished) return h;
        ids[h.length++] = best;
    }
}

/* Counts the samples that end with </s> and those that were cut. */
static void check_greedy(const struct qkv_model *model, int *finished, int *cut)
{
    static const int64_t LENGTHS[] = {3, 0, 5, 2};
    struct qkv_batch batch = {0};
    struct qkv_translations found = {0};
    struct qkv_batch_view view = sources_of(&batch, model, 4, LENGTHS);
    /* The length penalty plays no part: </s> ends greedy search even where a longer output would
     * score higher. */
    search(model, &view, (struct qkv_search_options){1, 3, 1, 6}, &found);
    for (int64_t s = 0; s < 4; s++) {
        int32_t ids[8];
        struct qkv_hypothesis expected = chain(model, &view, s, 6, ids);
        cr_expect(equal(&found.best[s], &expected), "sentence %lld: %lld tokens, not %lld", (long long)s,
                  (long long)found.best[s].length, (long long)expected.length);
        cr_expect_float_eq(found.best[s].log_probability, expected.log_probability, 1e-11);
        *finished += expected.finished && expected.length > 0;
        *cut += !expected.finished;
    }
    qkv_translations_release(&found);
    qkv_batch_release(&batch);
}

Test(search, greedy_is_the_chain_of_most_probable_tokens)
{
    int finished = 0, cut = 0;
    for (uint64_t seed = 1; seed <= 20; seed++) {
        struct qkv_model *model = model_of(seed);
        favour(model, QKV_END, seed % 2 ? 1.5 : -1.5);
        check_greedy(model, &finished, &cut);
        qkv_model_free(model);
    }
    cr_expect_gt(finished, 10, "both kinds occur");
    cr_expect_gt(cut, 10);
}

/* The best word may be in any group of QKV_GROUP tokens. The first group has special tokens, which
 * are sometimes more probable than every word. */
Test(search, greedy_finds_the_most_probable_of_many_words)
{
    int finished = 0, cut = 0;
    for (uint64_t seed = 1; seed <= 12; seed++) {
        struct qkv_model *model = sized_model(150, seed);
        favour(model, QKV_END, seed % 2 ? 2.5 : 0);
        favour(model, QKV_BEGIN, seed % 3 ? 0 : 50);
        check_greedy(model, &finished, &cut);
        qkv_model_free(model);
    }
    cr_expect(finished > 3 && cut > 10, "%d and %d: both kinds occur", finished, cut);
}

/* ---- beams over many words ---- */

enum { MANY = 400, BEAM = 4 };

struct partial {
    int64_t length;
    int32_t ids[LONGEST];
    double log_probability;
    bool finished;
};

struct continuation {
    int row;
    int32_t token;
    double log_probability;
};

static int by_log_probability(const void *left, const void *right)
{
    const struct continuation *a = left, *b = right;
    return (a->log_probability < b->log_probability) - (a->log_probability > b->log_probability);
}

/* Every continuation of the rows by a word or </s>, best first. Returns their number. */
static int all_continuations(const struct qkv_model *model, const struct qkv_batch_view *batch, int rows,
                             const struct partial *row, struct continuation *all)
{
    int count = 0;
    for (int r = 0; r < rows; r++) {
        double *next = next_log_probabilities(model, batch, 0, row[r].length, row[r].ids);
        for (int32_t c = 0; c < model->target_size; c++)
            if (c == QKV_END || c >= QKV_SPECIALS)
                all[count++] = (struct continuation){r, c, row[r].log_probability + next[c]};
        free(next);
    }
    qsort(all, (size_t)count, sizeof *all, by_log_probability);
    return count;
}

static void add_done(struct partial *done, int *count, int beam, struct partial partial)
{
    if (*count == beam && partial.log_probability <= done[beam - 1].log_probability) return;
    int i = *count < beam ? (*count)++ : beam - 1;
    for (; i > 0 && partial.log_probability > done[i - 1].log_probability; i--) done[i] = done[i - 1];
    done[i] = partial;
}

/* Beam search without a length penalty that looks at every continuation, by forced passes. Returns the number of outputs. */
static int plain_beam(const struct qkv_model *model, const struct qkv_batch_view *batch, int beam,
                      struct partial done[BEAM])
{
    struct partial live[BEAM] = {{0}}, next[BEAM] = {{0}};
    struct continuation all[BEAM * MANY];
    int rows = 1, count = 0;
    for (int64_t step = 0; rows; step++) {
        bool is_last = step == LONGEST, ended[BEAM] = {false};
        int next_rows = 0;
        all_continuations(model, batch, rows, live, all);
        for (int i = 0; i < 2 * beam && next_rows < beam; i++) {
            struct partial partial = live[all[i].row];
            if (all[i].token == QKV_END && i < beam) {
                ended[all[i].row] = partial.finished = true;
                partial.log_probability = all[i].log_probability;
                add_done(done, &count, beam, partial);
            }
            if (all[i].token == QKV_END || is_last) continue;
            partial.ids[partial.length++] = all[i].token;
            partial.log_probability = all[i].log_probability;
            next[next_rows++] = partial;
        }
        for (int r = 0; r < rows && is_last; r++)
            if (!ended[r]) add_done(done, &count, beam, live[r]);
        bool is_settled =
            count == beam && next_rows && done[beam - 1].log_probability >= next[0].log_probability;
        rows = is_settled ? 0 : next_rows;
        memcpy(live, next, sizeof live);
    }
    return count;
}

/* Search skips groups of tokens, and tokens, that cannot be among the best. */
Test(search, a_beam_finds_the_most_probable_of_many_words)
{
    int finished = 0, cut = 0;
    for (uint64_t seed = 1; seed <= 24; seed++) {
        struct qkv_model_config config = tiny_config();
        enum qkv_dtype dtype = seed % 2 ? QKV_FLOAT32 : QKV_FLOAT64;
        struct qkv_model *model = tiny_model(&config, SOURCE_SIZE, MANY, dtype, seed);
        favour(model, QKV_END, seed % 3 ? 3.5 : 0);
        favour(model, QKV_BEGIN, seed % 4 ? 0 : 50);
        const int beam = 2 + (int)(seed % 3);
        struct qkv_batch batch = {0};
        struct qkv_translations found = {0};
        struct qkv_batch_view view = sources_of(&batch, model, 1, (int64_t[]){4});
        search(model, &view, (struct qkv_search_options){beam, 0, beam, LONGEST}, &found);
        struct partial expected[BEAM];
        int count = plain_beam(model, &view, beam, expected);
        for (int i = 0; i < count; i++) {
            struct partial *e = &expected[i];
            struct qkv_hypothesis as_found = {
                .length = e->length, .ids = e->ids, .finished = e->finished};
            cr_assert_not_null(found.best[i].ids);
            cr_expect(equal(&found.best[i], &as_found), "seed %d, output %d", (int)seed, i);
            cr_expect_float_eq(found.best[i].log_probability, e->log_probability,
                               dtype == QKV_FLOAT32 ? 1e-5 : 1e-11);
            finished += e->finished;
            cut += !e->finished;
        }
        cr_expect(count == beam || !found.best[count].ids);
        qkv_translations_release(&found);
        qkv_batch_release(&batch);
        qkv_model_free(model);
    }
    cr_expect(finished > 10 && cut > 10, "%d and %d: both kinds occur", finished, cut);
}

Test(search, a_beam_finds_better_translations_than_greedy)
{
    int better = 0;
    for (uint64_t seed = 1; seed <= 30; seed++) {
        struct qkv_model *model = model_of(seed);
        favour(model, QKV_END, 1);
        struct qkv_batch batch = {0};
        struct qkv_translations greedy = {0}, beam = {0};
        struct qkv_batch_view view = sources_of(&batch, model, 1, (int64_t[]){4});
        struct output all[EVERYTHING];
        enumerate(model, &view, 0, 0, all);
        search(model, &view, (struct qkv_search_options){1, 0, 1, LONGEST}, &greedy);
        search(model, &view, (struct qkv_search_options){4, 0, 1, LONGEST}, &beam);
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
        favour(model, QKV_END, 1);
        struct qkv_batch batch = {0};
        struct qkv_batch_view view = sources_of(&batch, model, 5, lengths);
        for (int64_t beam = 1; beam <= 3; beam += 2) {
            struct qkv_translations scored = {0}, skip_scores = {0};
            search(model, &view, (struct qkv_search_options){beam, 0.6, 1, 6, false}, &scored);
            search(model, &view, (struct qkv_search_options){beam, 0.6, 1, 6, true}, &skip_scores);
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
        search(model, &view, (struct qkv_search_options){beam, 0.6, beam, 0}, &together);
        for (int64_t s = 0; s < COUNT; s++) {
            struct qkv_ids source = source_ids(&view, s);
            cr_assert_eq(qkv_batch_make(&one, 1, &source, NULL, NULL), QKV_OK);
            struct qkv_batch_view single = tiny_view(&one);
            search(model, &single, (struct qkv_search_options){beam, 0.6, beam, 0}, &alone);
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
    search(model, &view, (struct qkv_search_options){4, 0.6, 4, 0}, &found);
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
    favour(model, QKV_END, end);
    struct qkv_batch batch = {0};
    struct qkv_translations found = {0};
    struct qkv_batch_view view = sources_of(&batch, model, 1, &source_length);
    search(model, &view, (struct qkv_search_options){beam, 0.6, beam, limit}, &found);
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
        favour(model, QKV_BEGIN, 60); /* the most probable first token */
        favour(model, QKV_UNKNOWN, 50);
        favour(model, QKV_END, -20);
        struct qkv_batch batch = {0};
        struct qkv_translations found = {0};
        struct qkv_batch_view view = sources_of(&batch, model, 1, (int64_t[]){4});
        search(model, &view, (struct qkv_search_options){beam, 0.6, beam, LONGEST}, &found);
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
    search(model, &view, (struct qkv_search_options){6, 0.6, 5, 2}, &found);
    for (int64_t s = 0; s < 2; s++)
        for (int64_t i = 0; i < 5; i++) /* nothing, one word, two words */
            cr_expect_eq(found.best[s * 5 + i].ids != NULL, i < 3, "sentence %lld, %lld", (long long)s,
                         (long long)i);
    qkv_translations_release(&found);
    qkv_batch_release(&batch);
    qkv_model_free(model);
}
