/* Greedy and beam search, with constraints on translations (length, repetition, prefix, unknown words) and length penalties,
 * against searches that are written in the plainest way: they look at every word of every distribution, while the search
 * itself skips words, and groups of QKV_GROUP words, that cannot be among the best. */
#include "next_tokens.h"
#include "tiny.h"

enum { SOURCE_SIZE = 9, TARGET_SIZE = 150, FEW = 5, SENTENCES = 4, LONGEST = 12 };

static const enum qkv_network TYPES[] = {QKV_NETWORK_TRANSFORMER, QKV_NETWORK_RECURRENT};
static const int64_t LENGTHS[SENTENCES] = {3, 0, 5, 2};

/* A model of C target types, sources for it, and their translations. */
struct setting {
    struct tiny tiny;
    struct qkv_translations found;
};

static struct setting setting_of(enum qkv_network type, int32_t target_size, uint64_t seed)
{
    struct qkv_model *model = tiny_model_of_type(type, SOURCE_SIZE, target_size, QKV_FLOAT64, seed);
    return (struct setting){.tiny = tiny_with(model, SENTENCES, LENGTHS, NULL, 9)};
}

static void release(struct setting *s)
{
    qkv_translations_release(&s->found);
    tiny_release(&s->tiny);
}

static void search(struct setting *s, struct qkv_search_options options)
{
    tiny_search(s->tiny.model, &s->tiny.view, options, &s->found);
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
    const struct qkv_batch_view *view = &s->tiny.view;
    const struct qkv_ids source = {view->source_length[i] - 1, view->source + view->source_start[i]};
    int64_t classes = s->tiny.model->target_size;
    next_logits(s->tiny.model, source, length, ids, values);
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

/* ---- greedy search ---- */

struct output {
    int64_t length;
    int32_t ids[LONGEST];
    double log_probability, score;
    bool finished;
};

/* Greedy search, the plainest. */
static struct output greedy(const struct setting *s, int64_t i, const struct qkv_search_options *options)
{
    struct output output = {0};
    for (;;) {
        double values[TARGET_SIZE];
        int32_t best = 0;
        constrained(s, i, options, output.length, output.ids, values);
        for (int32_t token = 1; token < s->tiny.model->target_size; token++)
            if (values[token] > values[best]) best = token;
        output.finished = best == QKV_END;
        if (!output.finished && output.length == options->max_output_length) return output;
        output.log_probability += values[best];
        if (output.finished) return output;
        output.ids[output.length++] = best;
    }
}

static void expect_output(const char *what, const struct qkv_hypothesis *found, const struct output *expected,
                          double tolerance)
{
    cr_assert_not_null(found->ids, "%s", what);
    cr_assert_eq(found->length, expected->length, "%s: %d tokens, not %d", what, (int)found->length,
                 (int)expected->length);
    cr_expect_eq(found->finished, expected->finished, "%s", what);
    cr_expect_arr_eq(found->ids, expected->ids, (size_t)expected->length * sizeof *found->ids, "%s", what);
    cr_expect_float_eq(found->log_probability, expected->log_probability, tolerance, "%s: %.12g, not %.12g",
                       what, found->log_probability, expected->log_probability);
}

static const struct {
    const char *what;
    struct qkv_search_options options;
} GREEDY[] = {
    {"7 words or more", {1, 0, 1, LONGEST, .min_output_length = 7}},
    {"no word twice", {1, 0, 1, LONGEST, .no_repeat_ngram = 1}},
    {"no pair twice", {1, 0, 1, LONGEST, .no_repeat_ngram = 2}},
    {"no triple twice", {1, 0, 1, LONGEST, .no_repeat_ngram = 3}},
    {"repetition penalty", {1, 0, 1, LONGEST, .repetition_penalty = 1.5}},
    {"high repetition penalty", {1, 0, 1, LONGEST, .repetition_penalty = 20}},
    {"three constraints",
     LIST(1, 0, 1, LONGEST, .min_output_length = 9, .no_repeat_ngram = 2, .repetition_penalty = 1.2)},
    {"unknown words", {1, 0, 1, LONGEST, .allow_unknown = true, .no_repeat_ngram = 2}},
};

Test(constraints, greedy_search_equals_the_plainest_search)
{
    int different = 0;
    for (int t = 0; t < 2; t++)
        for (size_t o = 0; o < sizeof GREEDY / sizeof GREEDY[0]; o++) {
            const struct qkv_search_options *options = &GREEDY[o].options;
            struct setting s RELEASED(release) = setting_of(TYPES[t], TARGET_SIZE, 3 + o);
            tiny_favour(s.tiny.model, QKV_END, options->min_output_length ? 2 : -2);
            search(&s, (struct qkv_search_options){1, 0, 1, LONGEST});
            struct output plain = {.length = s.found.best[0].length};
            memcpy(plain.ids, s.found.best[0].ids, (size_t)plain.length * sizeof *plain.ids);
            search(&s, *options);
            different += plain.length != s.found.best[0].length ||
                         memcmp(plain.ids, s.found.best[0].ids, (size_t)plain.length * sizeof *plain.ids);
            for (int64_t i = 0; i < SENTENCES; i++) {
                struct output expected = greedy(&s, i, options);
                expect_output(GREEDY[o].what, &s.found.best[i], &expected, 1e-9);
            }
        }
    cr_expect_geq(different, 12, "only %d of 16 searches were affected", different);
}

/* The best word may be in any group. The first group has special tokens, which are sometimes more probable than every word.
 * The length penalty plays no part: </s> ends greedy search even where a longer output would score higher. */
Test(constraints, greedy_search_takes_the_most_probable_of_few_and_of_many_words)
{
    static const struct qkv_search_options PLAIN = {1, 3, 1, 6};
    int finished = 0, cut = 0;
    for (uint64_t seed = 1; seed <= 24; seed++) {
        struct setting s RELEASED(release) = setting_of(TYPES[0], seed % 2 ? FEW : TARGET_SIZE, seed);
        tiny_favour(s.tiny.model, QKV_END, seed % 4 < 2 ? 2 : -1);
        tiny_favour(s.tiny.model, QKV_BEGIN, seed % 3 ? 0 : 50);
        search(&s, PLAIN);
        for (int64_t i = 0; i < SENTENCES; i++) {
            struct output expected = greedy(&s, i, &PLAIN);
            expect_output("plain", &s.found.best[i], &expected, 1e-11);
            finished += expected.finished && expected.length > 0;
            cut += !expected.finished;
        }
    }
    cr_expect(finished > 10 && cut > 10, "%d and %d: both kinds occur", finished, cut);
}

/* ---- beam search, the plainest ---- */

enum { BEAM = 4, STEPS = 4 };

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

/* Every continuation of the rows by a word or </s>, best first. */
static void list_continuations(const struct setting *s, int64_t sentence, int rows, const struct output *row,
                               struct continuation all[BEAM * TARGET_SIZE])
{
    static const struct qkv_search_options NONE = {0};
    for (int r = 0; r < rows; r++) {
        double next[TARGET_SIZE];
        constrained(s, sentence, &NONE, row[r].length, row[r].ids, next);
        for (int32_t c = 0; c < TARGET_SIZE; c++)
            all[r * TARGET_SIZE + c] = (struct continuation){r, c, row[r].log_probability + next[c]};
    }
    qsort(all, (size_t)(rows * TARGET_SIZE), sizeof *all, by_log_probability);
}

/* Inserts an output into a list of the `beam` best. */
static void insert(struct output *list, int *count, int beam, struct output output)
{
    if (*count == beam && output.log_probability <= list[beam - 1].log_probability) return;
    int i = *count < beam ? (*count)++ : beam - 1;
    for (; i > 0 && output.log_probability > list[i - 1].log_probability; i--) list[i] = list[i - 1];
    list[i] = output;
}

/* Beam search without a length penalty. Returns the number of outputs. */
static int plain_beam(const struct setting *s, int64_t sentence, int beam, struct output list[BEAM])
{
    struct output live[BEAM] = {{0}}, next[BEAM] = {{0}};
    struct continuation all[BEAM * TARGET_SIZE];
    int rows = 1, count = 0;
    for (int64_t step = 0; rows; step++) {
        bool is_last = step == STEPS, has_ended[BEAM] = {false};
        int next_rows = 0;
        list_continuations(s, sentence, rows, live, all);
        for (int i = 0; i < 2 * beam && next_rows < beam; i++) {
            struct output output = live[all[i].row];
            output.log_probability = all[i].log_probability;
            output.finished = all[i].token == QKV_END;
            if (output.finished && i < beam) {
                has_ended[all[i].row] = true;
                insert(list, &count, beam, output);
            }
            if (output.finished || is_last) continue;
            output.ids[output.length++] = all[i].token;
            next[next_rows++] = output;
        }
        for (int r = 0; r < rows && is_last; r++)
            if (!has_ended[r]) insert(list, &count, beam, live[r]);
        bool is_settled =
            count == beam && next_rows && list[beam - 1].log_probability >= next[0].log_probability;
        rows = is_settled ? 0 : next_rows;
        memcpy(live, next, sizeof live);
    }
    return count;
}

Test(constraints, a_beam_equals_the_plainest_beam)
{
    int finished = 0, cut = 0;
    for (uint64_t seed = 1; seed <= 12; seed++) {
        const int beam = 2 + (int)(seed % 3);
        const enum qkv_dtype dtype = seed % 4 < 2 ? QKV_FLOAT32 : QKV_FLOAT64;
        struct qkv_model *model = tiny_model_of_type(TYPES[seed % 2], SOURCE_SIZE, TARGET_SIZE, dtype, seed);
        struct setting s RELEASED(release) = {.tiny = tiny_with(model, SENTENCES, LENGTHS, NULL, 9)};
        tiny_favour(s.tiny.model, QKV_END, seed % 3 ? 2.5 : 0);
        tiny_favour(s.tiny.model, QKV_BEGIN, seed % 4 ? 0 : 50);
        search(&s, (struct qkv_search_options){beam, 0, beam, STEPS});
        for (int64_t i = 0; i < SENTENCES; i++) {
            struct output expected[BEAM];
            int count = plain_beam(&s, i, beam, expected);
            for (int k = 0; k < count; k++) {
                expect_output("beam", &s.found.best[i * beam + k], &expected[k],
                              dtype == QKV_FLOAT32 ? 1e-4 : 1e-11);
                finished += expected[k].finished;
                cut += !expected[k].finished;
            }
            cr_expect(count == beam || !s.found.best[i * beam + count].ids);
        }
    }
    cr_expect(finished > 10 && cut > 10, "%d and %d: both kinds occur", finished, cut);
}

/* ---- beam search against enumeration: with two words, every translation can be scored ---- */

enum { WORDS = FEW - QKV_SPECIALS, SHORT = 4, EVERYTHING = 31, WIDEST = 16 * FEW };

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
            struct output o = {.length = length, .finished = true};
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

/* Expects all translations that the options allow, whose number lies in min .. max. */
static void expect_everything(const char *what, struct qkv_search_options options, int min, int max)
{
    for (int t = 0; t < 2; t++) {
        struct setting s RELEASED(release) = setting_of(TYPES[t], FEW, 4);
        search(&s, options);
        for (int64_t i = 0; i < SENTENCES; i++) {
            struct output all[EVERYTHING];
            int count = enumerate(&s, i, &options, all);
            cr_assert(min <= count && count <= max, "%s: %d outputs", what, count);
            for (int k = 0; k < count; k++) {
                expect_output(what, &s.found.best[i * EVERYTHING + k], &all[k], 1e-9);
                cr_expect_float_eq(s.found.best[i * EVERYTHING + k].score, all[k].score, 1e-9, "%s", what);
            }
            cr_expect(count == EVERYTHING || !s.found.best[i * EVERYTHING + count].ids, "%s", what);
        }
    }
}

Test(constraints, an_unlimited_beam_finds_every_translation_that_is_allowed)
{
    const struct {
        const char *what;
        int min, max;
        struct qkv_search_options options;
    } CASES[] = {
        {"all", EVERYTHING, EVERYTHING, {.beam_alpha = 0.6}},
        {"no length penalty", EVERYTHING, EVERYTHING, {.beam_alpha = 0}},
        {"high length penalty", EVERYTHING, EVERYTHING, {.beam_alpha = 2}},
        {"average", EVERYTHING, EVERYTHING, {.length_penalty = QKV_LENGTH_PENALTY_AVERAGE}},
        {"none", EVERYTHING, EVERYTHING, {.beam_alpha = 3, .length_penalty = QKV_LENGTH_PENALTY_NONE}},
        {"3 words or more", 24, 24, {.beam_alpha = 0.6, .min_output_length = 3}},
        /* none, two of one word, two of two words */
        {"no word twice", 5, 5, {.beam_alpha = 0.6, .no_repeat_ngram = 1}},
        {"no pair twice", 10, 30, {.beam_alpha = 0.6, .no_repeat_ngram = 2}},
        {"repetition penalty", EVERYTHING, EVERYTHING, {.beam_alpha = 0.6, .repetition_penalty = 1.3}},
    };
    for (size_t i = 0; i < sizeof CASES / sizeof *CASES; i++) {
        struct qkv_search_options options = CASES[i].options;
        options.beam_size = WIDEST, options.n_best = EVERYTHING, options.max_output_length = SHORT;
        expect_everything(CASES[i].what, options, CASES[i].min, CASES[i].max);
    }
}

Test(constraints, translations_begin_with_their_prefix)
{
    const int32_t words[] = {3, 4, 4};
    const struct qkv_ids prefixes[SENTENCES] = {{2, words + 1}, {0, NULL}, {1, words}, {3, words}};
    struct qkv_search_options options = {WIDEST, 0.6, EVERYTHING, SHORT, .prefixes = prefixes};
    expect_everything("prefix", options, 3, EVERYTHING);
    options.min_output_length = 3;
    expect_everything("prefix, 3 words or more", options, 3, EVERYTHING);
    for (int t = 0; t < 2; t++)
        for (int sampled = 0; sampled < 2; sampled++) {
            struct setting s RELEASED(release) = setting_of(TYPES[t], TARGET_SIZE, 5);
            const struct qkv_search_options one = {
                1, 0, 1, 0, .prefixes = prefixes, .sampling = {sampled, 1, 0, 1, 7}};
            search(&s, one);
            for (int i = 0; i < SENTENCES; i++) {
                cr_expect_geq(s.found.best[i].length, prefixes[i].length);
                cr_expect(!prefixes[i].length ||
                          !memcmp(s.found.best[i].ids, prefixes[i].ids, (size_t)prefixes[i].length * 4));
            }
        }
}

/* A forced unknown word stays; the model does not add another. */
Test(constraints, unknown_words_are_in_translations_only_on_request)
{
    const int32_t unknown[] = {QKV_UNKNOWN};
    const struct qkv_ids prefixes[SENTENCES] = {{1, unknown}, {1, unknown}, {1, unknown}, {1, unknown}};
    for (int t = 0; t < 2; t++)
        for (int mode = 0; mode < 3; mode++) { /* greedy, beam, samples */
            struct setting s RELEASED(release) = setting_of(TYPES[t], TARGET_SIZE, 5);
            tiny_favour(s.tiny.model, QKV_UNKNOWN, 4);
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
        }
}

/* Constraints that exclude nothing give the same bits as none; those that exclude every word end the translation. */
Test(constraints, at_their_limits)
{
    for (int64_t beam = 1; beam <= 4; beam += 3) {
        struct setting s RELEASED(release) = setting_of(QKV_NETWORK_TRANSFORMER, TARGET_SIZE, 6), other = s;
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
        {LIST(1, 0, 1, 3, .min_output_length = 4),
         "min_output_length is 4, but must not exceed max_output_length (3)"},
        {{1, 0, 1, 0, .min_output_length = -1}, "min_output_length is -1, but must be 0 or more"},
        {{1, 0, 1, 0, .no_repeat_ngram = -2}, "no_repeat_ngram is -2, but must be 0 or more"},
        {{1, 0, 1, 0, .repetition_penalty = -1}, "repetition_penalty is -1, but must be between 0 and 1000"},
        {LIST(1, 0, 1, 0, .repetition_penalty = NAN),
         "repetition_penalty is nan, but must be between 0 and 1000"},
        {{1, 0, 1, 0, .length_penalty = (enum qkv_length_penalty)9}, "there is no length penalty of kind 9"},
        {LIST(1, 0, 1, 4, .prefixes = too_long),
         "sentence 1: its prefix has 5 tokens, but a translation has at most 4"},
        {LIST(1, 0, 1, 4, .prefixes = too_long, .numbers = numbers),
         "sentence 20: its prefix has 5 tokens, but a translation has at most 4"},
        {{1, 0, 1, 0, .prefixes = special}, "sentence 0: its prefix holds the id 2, which is no word"},
        {{1, 0, 1, 0, .prefixes = outside}, "sentence 0: its prefix holds the id 150, which is no word"},
        {LIST(1, 0, 1, 5, .prefixes = negative),
         "sentence 0: its prefix has -1 tokens, but a translation has at most 5"},
        {LIST(1, 0, 1, 0, .prefixes = endless),
         "sentence 0: its prefix has 9223372036854775807 tokens, but a translation has at most 23"},
    };
    struct setting s RELEASED(release) = setting_of(QKV_NETWORK_TRANSFORMER, TARGET_SIZE, 6);
    struct qkv_decoding *decoding RELEASED(free_decoding) = qkv_decoding_new(s.tiny.model);
    for (size_t i = 0; i < sizeof CASES / sizeof CASES[0]; i++)
        expect_refusal(qkv_search(decoding, &s.tiny.view, &CASES[i].options, &s.found, &error),
                       CASES[i].message);
}
