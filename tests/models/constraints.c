/* Constraints on translations (length, repetition, prefix, unknown words) and length penalties, against searches that
 * are written in the plainest way. */
#include "next_tokens.h"
#include "tiny.h"

#include "qkv/search.h"
#include "qkv/vocabulary.h"

#include <criterion/criterion.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { SOURCE_SIZE = 9, TARGET_SIZE = 40, FEW = 5, SENTENCES = 4, LONGEST = 12 };

static const enum qkv_network TYPES[] = {QKV_NETWORK_TRANSFORMER, QKV_NETWORK_RECURRENT};
static const int64_t LENGTHS[SENTENCES] = {3, 1, 5, 2};

/* A model of C target types, and sources for it. */
struct setting {
    struct qkv_model *model;
    struct qkv_batch batch;
    struct qkv_batch_view view;
    struct qkv_translations found;
};

static struct setting setting_of(enum qkv_network type, int32_t target_size, uint64_t seed)
{
    struct setting s = {.model = tiny_model_of_type(type, SOURCE_SIZE, target_size, QKV_FLOAT64, seed)};
    tiny_batch(&s.batch, s.model, SENTENCES, LENGTHS, NULL, 9);
    s.view = tiny_view(&s.batch);
    return s;
}

static void release(struct setting *s)
{
    qkv_translations_release(&s->found);
    qkv_batch_release(&s->batch);
    qkv_model_free(s->model);
}

static struct qkv_ids source_of(const struct setting *s, int64_t i)
{
    return (struct qkv_ids){s->view.source_length[i] - 1, s->view.source + s->view.source_start[i]};
}

static void search(struct setting *s, struct qkv_search_options options)
{
    tiny_search(s->model, &s->view, options, &s->found);
}

/* Makes </s> less likely, so that translations are long. */
static void discourage_end(struct setting *s, double by)
{
    tiny_favour(s->model, QKV_END, -by);
}

static bool has(int64_t length, const int32_t *ids, int32_t token)
{
    for (int64_t i = 0; i < length; i++)
        if (ids[i] == token) return true;
    return false;
}

/* Whether ids, followed by `token`, ends with `size` tokens that it also has earlier. */
static bool repeats(int64_t size, int64_t length, const int32_t *ids, int32_t token)
{
    if (!size) return false;
    for (int64_t begin = 0; begin + size <= length; begin++)
        if (ids[begin + size - 1] == token &&
            !memcmp(ids + begin, ids + length - size + 1, (size_t)(size - 1) * sizeof *ids))
            return true;
    return false;
}

/* The log-probabilities of the next tokens under the options; -infinity: excluded. */
static void constrained(const struct setting *s, int64_t i, const struct qkv_search_options *options,
                        int64_t length, const int32_t *ids, double *values)
{
    int64_t classes = s->model->target_size;
    next_logits(s->model, source_of(s, i), length, ids, values);
    for (int32_t token = 0; token < classes && options->repetition_penalty > 0; token++)
        if (has(length, ids, token))
            values[token] = values[token] > 0 ? values[token] / options->repetition_penalty
                                              : values[token] * options->repetition_penalty;
    log_softmax(classes, values);
    double end = values[QKV_END];
    bool any = false;
    for (int32_t token = 0; token < classes; token++) {
        bool excluded = token == QKV_BEGIN || (token == QKV_UNKNOWN && !options->allow_unknown) ||
                        (token == QKV_END && length < options->min_output_length) ||
                        (token != QKV_END && repeats(options->no_repeat_ngram, length, ids, token));
        if (excluded) values[token] = -HUGE_VAL;
        any = any || !excluded;
    }
    if (!any) values[QKV_END] = end;
}

/* Greedy search, the plainest. Returns the length and stores the log-probability. */
static int64_t greedy(const struct setting *s, int64_t i, const struct qkv_search_options *options,
                      int32_t ids[LONGEST], double *log_probability)
{
    *log_probability = 0;
    for (int64_t length = 0;; length++) {
        double values[TARGET_SIZE];
        int32_t best = 0;
        constrained(s, i, options, length, ids, values);
        for (int32_t token = 1; token < s->model->target_size; token++)
            if (values[token] > values[best]) best = token;
        if (best == QKV_END) *log_probability += values[best];
        if (best == QKV_END || length == options->max_output_length) return length;
        *log_probability += values[best];
        ids[length] = best;
    }
}

static const struct qkv_search_options GREEDY[] = {
    {1, 0, 1, LONGEST, .min_output_length = 7},
    {1, 0, 1, LONGEST, .no_repeat_ngram = 1},
    {1, 0, 1, LONGEST, .no_repeat_ngram = 2},
    {1, 0, 1, LONGEST, .no_repeat_ngram = 3},
    {1, 0, 1, LONGEST, .repetition_penalty = 1.5},
    {1, 0, 1, LONGEST, .repetition_penalty = 20},
    {1, 0, 1, LONGEST, .min_output_length = 9, .no_repeat_ngram = 2, .repetition_penalty = 1.2},
    {1, 0, 1, LONGEST, .allow_unknown = true, .no_repeat_ngram = 2},
};

Test(constraints, greedy_search_equals_the_plainest_search)
{
    int different = 0;
    for (int t = 0; t < 2; t++)
        for (size_t o = 0; o < sizeof GREEDY / sizeof GREEDY[0]; o++) {
            struct setting s = setting_of(TYPES[t], TARGET_SIZE, 3 + o);
            discourage_end(&s, GREEDY[o].min_output_length ? -2 : 2);
            search(&s, (struct qkv_search_options){1, 0, 1, LONGEST});
            int64_t plain = s.found.best[0].length;
            int32_t first[LONGEST];
            memcpy(first, s.found.best[0].ids, (size_t)plain * sizeof *first);
            search(&s, GREEDY[o]);
            different += plain != s.found.best[0].length ||
                         memcmp(first, s.found.best[0].ids, (size_t)plain * sizeof *first) != 0;
            for (int64_t i = 0; i < SENTENCES; i++) {
                int32_t ids[LONGEST];
                double log_probability;
                int64_t length = greedy(&s, i, &GREEDY[o], ids, &log_probability);
                const struct qkv_hypothesis *h = &s.found.best[i];
                cr_expect_eq(h->length, length, "options %d: %d tokens instead of %d", (int)o, (int)h->length,
                             (int)length);
                cr_expect(h->length == length && !memcmp(h->ids, ids, (size_t)length * sizeof *ids));
                cr_expect_float_eq(h->log_probability, log_probability, 1e-9, "options %d: %.12g, not %.12g",
                                   (int)o, h->log_probability, log_probability);
            }
            release(&s);
        }
    cr_expect_geq(different, 12, "only %d of 16 searches were affected", different);
}

/* ---- beam search against enumeration: with two words, every translation can be scored ---- */

enum { WORDS = FEW - QKV_SPECIALS, SHORT = 4, EVERYTHING = 31, WIDEST = 16 * FEW };

struct output {
    int64_t length;
    int32_t ids[SHORT];
    double log_probability, score;
};

static int by_score(const void *left, const void *right)
{
    const struct output *a = left, *b = right;
    return (a->score < b->score) - (a->score > b->score);
}

static double penalty_of(const struct qkv_search_options *options, int64_t length)
{
    if (options->length_penalty == QKV_LENGTH_PENALTY_NONE) return 1;
    if (options->length_penalty == QKV_LENGTH_PENALTY_AVERAGE) return (double)length;
    return pow((5 + (double)length) / 6, options->beam_alpha);
}

/* Every translation of up to SHORT words that the options allow, best first. Returns their number. */
static int enumerate(const struct setting *s, int64_t sentence, const struct qkv_search_options *options,
                     struct output all[EVERYTHING])
{
    int count = 0;
    const struct qkv_ids prefix = options->prefixes ? options->prefixes[sentence] : (struct qkv_ids){0, NULL};
    for (int64_t length = 0, kinds = 1; length <= SHORT; length++, kinds *= WORDS)
        for (int64_t kind = 0; kind < kinds; kind++) {
            struct output o = {.length = length};
            for (int64_t i = 0, rest = kind; i < length; i++, rest /= WORDS)
                o.ids[i] = QKV_SPECIALS + (int32_t)(rest % WORDS);
            for (int64_t i = 0; i <= length; i++) {
                double values[FEW];
                int32_t token = i < length ? o.ids[i] : QKV_END;
                bool forced = i < prefix.length;
                struct qkv_search_options none = {0};
                constrained(s, sentence, forced ? &none : options, i, o.ids, values);
                o.log_probability += forced && token != prefix.ids[i] ? -HUGE_VAL : values[token];
            }
            o.score = o.log_probability / penalty_of(options, length + 1);
            if (isfinite(o.log_probability)) all[count++] = o;
        }
    qsort(all, (size_t)count, sizeof all[0], by_score);
    return count;
}

static void expect_everything(struct qkv_search_options options, int min, int max)
{
    for (int t = 0; t < 2; t++) {
        struct setting s = setting_of(TYPES[t], FEW, 4);
        search(&s, options);
        for (int64_t i = 0; i < SENTENCES; i++) {
            struct output all[EVERYTHING];
            int count = enumerate(&s, i, &options, all);
            cr_assert(min <= count && count <= max, "%d outputs", count);
            for (int k = 0; k < count; k++) {
                const struct qkv_hypothesis *h = &s.found.best[i * EVERYTHING + k];
                cr_assert_not_null(h->ids, "%d of %d found", k, count);
                cr_expect_eq(h->length, all[k].length);
                cr_expect_float_eq(h->log_probability, all[k].log_probability, 1e-9);
                cr_expect_float_eq(h->score, all[k].score, 1e-9);
            }
        }
        release(&s);
    }
}

Test(constraints, an_unlimited_beam_finds_every_translation_that_is_allowed)
{
    const struct qkv_search_options all = {WIDEST, 0.6, EVERYTHING, SHORT};
    struct qkv_search_options options = all;
    expect_everything(options, EVERYTHING, EVERYTHING);
    options.min_output_length = 3;
    expect_everything(options, 24, 24);
    options = all;
    options.no_repeat_ngram = 1;
    expect_everything(options, 5, 5); /* none, two of one word, two of two words */
    options.no_repeat_ngram = 2;
    expect_everything(options, 10, 30);
    options = all;
    options.repetition_penalty = 1.3;
    expect_everything(options, EVERYTHING, EVERYTHING);
}

Test(constraints, length_penalties_order_translations)
{
    struct qkv_search_options options = {WIDEST, 3, EVERYTHING, SHORT};
    const enum qkv_length_penalty kinds[] = {QKV_LENGTH_PENALTY_WU, QKV_LENGTH_PENALTY_AVERAGE,
                                             QKV_LENGTH_PENALTY_NONE};
    double lengths[3] = {0};
    for (int k = 0; k < 3; k++) {
        options.length_penalty = kinds[k];
        expect_everything(options, EVERYTHING, EVERYTHING);
        struct setting s = setting_of(QKV_NETWORK_TRANSFORMER, FEW, 4);
        search(&s, options);
        for (int i = 0; i < SENTENCES; i++) lengths[k] += (double)s.found.best[i * EVERYTHING].length;
        release(&s);
    }
    cr_expect_lt(lengths[2], lengths[1]);
    cr_expect_leq(lengths[1], lengths[0]);
}

Test(constraints, translations_begin_with_their_prefix)
{
    const int32_t words[] = {3, 4, 4};
    const struct qkv_ids prefixes[SENTENCES] = {{2, words + 1}, {0, NULL}, {1, words}, {3, words}};
    struct qkv_search_options options = {WIDEST, 0.6, EVERYTHING, SHORT, .prefixes = prefixes};
    expect_everything(options, 3, EVERYTHING);
    options.min_output_length = 3;
    expect_everything(options, 3, EVERYTHING);
    for (int t = 0; t < 2; t++)
        for (int sampled = 0; sampled < 2; sampled++) {
            struct setting s = setting_of(TYPES[t], TARGET_SIZE, 5);
            const struct qkv_search_options one = {
                1, 0, 1, 0, .prefixes = prefixes, .sampling = {sampled, 1, 0, 1, 7}};
            search(&s, one);
            for (int i = 0; i < SENTENCES; i++) {
                cr_expect_geq(s.found.best[i].length, prefixes[i].length);
                cr_expect(!prefixes[i].length ||
                          !memcmp(s.found.best[i].ids, prefixes[i].ids, (size_t)prefixes[i].length * 4));
            }
            release(&s);
        }
}

/* A forced unknown word stays; the model does not add another. */
Test(constraints, unknown_words_are_in_translations_only_on_request)
{
    const int32_t unknown[] = {QKV_UNKNOWN};
    const struct qkv_ids prefixes[SENTENCES] = {{1, unknown}, {1, unknown}, {1, unknown}, {1, unknown}};
    for (int t = 0; t < 2; t++)
        for (int mode = 0; mode < 3; mode++) { /* greedy, beam, samples */
            struct setting s = setting_of(TYPES[t], TARGET_SIZE, 5);
            qkv_parameter_set(&s.model->parameters, s.model->output_bias, QKV_UNKNOWN, 4);
            struct qkv_search_options options = {
                mode == 1 ? 3 : 1, 0, 1, LONGEST, .prefixes = prefixes, .sampling = {mode == 2, 1, 0, 1, 7}};
            for (int allowed = 0; allowed < 2; allowed++) {
                int found = 0;
                options.allow_unknown = allowed;
                search(&s, options);
                for (int i = 0; i < SENTENCES; i++) {
                    const struct qkv_hypothesis *h = &s.found.best[i];
                    cr_assert_geq(h->length, 1);
                    cr_expect_eq(h->ids[0], QKV_UNKNOWN);
                    found += has(h->length - 1, h->ids + 1, QKV_UNKNOWN);
                }
                cr_expect(allowed ? found > 0 : !found, "mode %d: %d", mode, found);
            }
            release(&s);
        }
}

/* Constraints that exclude nothing give the same bits as none; those that exclude every word end the translation. */
Test(constraints, at_their_limits)
{
    for (int64_t beam = 1; beam <= 4; beam += 3) {
        struct setting s = setting_of(QKV_NETWORK_TRANSFORMER, TARGET_SIZE, 6), other = s;
        other.found = (struct qkv_translations){0};
        search(&s, (struct qkv_search_options){beam, 0.6, beam, LONGEST});
        search(&other, (struct qkv_search_options){beam, 0.6, beam, LONGEST, .no_repeat_ngram = 1000});
        for (int64_t i = 0; i < SENTENCES * beam; i++) {
            const struct qkv_hypothesis *a = &s.found.best[i], *b = &other.found.best[i];
            cr_expect_eq(a->length, b->length);
            cr_expect(!memcmp(a->ids, b->ids, (size_t)a->length * sizeof *a->ids));
            cr_expect_eq(a->score, b->score);
        }
        qkv_translations_release(&other.found);
        release(&s);
        s = setting_of(QKV_NETWORK_TRANSFORMER, FEW, 6);
        search(&s,
               (struct qkv_search_options){beam, 0.6, 1, 0, .no_repeat_ngram = 1, .min_output_length = 100});
        for (int64_t i = 0; i < SENTENCES; i++) {
            cr_expect_eq(s.found.best[i].length, WORDS);
            cr_expect(s.found.best[i].finished);
        }
        release(&s);
    }
}

Test(constraints, contradictions_are_refused)
{
    static const int32_t words[] = {3, 3, 3, 3, 3}, wrong[] = {QKV_END}, large[] = {TARGET_SIZE};
    static const struct qkv_ids too_long[SENTENCES] = {{0, NULL}, {5, words}},
                                special[SENTENCES] = {{1, wrong}}, outside[SENTENCES] = {{1, large}},
                                negative[SENTENCES] = {{-1, words}},
                                endless[SENTENCES] = {{INT64_MAX, words}};
    static const int64_t numbers[SENTENCES] = {10, 20, 30, 40};
    static const struct {
        struct qkv_search_options options;
        const char *message;
    } CASES[] = {
        {{1, 0, 1, 3, .min_output_length = 4},
         "min_output_length is 4, but must not exceed max_output_length (3)"},
        {{1, 0, 1, 0, .min_output_length = -1}, "min_output_length is -1, but must be 0 or more"},
        {{1, 0, 1, 0, .no_repeat_ngram = -2}, "no_repeat_ngram is -2, but must be 0 or more"},
        {{1, 0, 1, 0, .repetition_penalty = -1}, "repetition_penalty is -1, but must be between 0 and 1000"},
        {{1, 0, 1, 0, .repetition_penalty = NAN},
         "repetition_penalty is nan, but must be between 0 and 1000"},
        {{1, 0, 1, 0, .length_penalty = (enum qkv_length_penalty)9}, "there is no length penalty of kind 9"},
        {{1, 0, 1, 4, .prefixes = too_long},
         "sentence 1: its prefix has 5 tokens, but a translation has at most 4"},
        {{1, 0, 1, 4, .prefixes = too_long, .numbers = numbers},
         "sentence 20: its prefix has 5 tokens, but a translation has at most 4"},
        {{1, 0, 1, 0, .prefixes = special}, "sentence 0: its prefix holds the id 2, which is no word"},
        {{1, 0, 1, 0, .prefixes = outside}, "sentence 0: its prefix holds the id 40, which is no word"},
        {{1, 0, 1, 5, .prefixes = negative},
         "sentence 0: its prefix has -1 tokens, but a translation has at most 5"},
        {{1, 0, 1, 0, .prefixes = endless},
         "sentence 0: its prefix has 9223372036854775807 tokens, but a translation has at most 23"},
    };
    struct setting s = setting_of(QKV_NETWORK_TRANSFORMER, TARGET_SIZE, 6);
    struct qkv_decoding *decoding = qkv_decoding_new(s.model);
    for (size_t i = 0; i < sizeof CASES / sizeof CASES[0]; i++) {
        struct qkv_error error = {""};
        cr_expect_eq(qkv_search(decoding, &s.view, &CASES[i].options, &s.found, &error), QKV_INVALID);
        cr_expect_str_eq(error.message, CASES[i].message);
    }
    qkv_decoding_free(decoding);
    release(&s);
}
