/* Search: limits of lengths, and unscored translations. constraints.c compares scores and order with the plainest searches. */
#include "tiny.h"

enum { SOURCE_SIZE = 9, TARGET_SIZE = 5, MANY = 5 };

static const int64_t LENGTHS[MANY] = {3, 0, 5, 2, 4};

static struct tiny tiny_of(const struct qkv_model_config *config, int64_t count, const int64_t *lengths,
                           uint64_t seed)
{
    return tiny_with(tiny_model(config, SOURCE_SIZE, TARGET_SIZE, QKV_FLOAT64, seed), count, lengths, NULL,
                     9);
}

/* Greedy search without log sums gives the same translations, also those that are cut. A beam needs
 * the sums and ignores the option. */
Test(search, unscored_translations_are_the_same)
{
    const struct qkv_model_config config = tiny_config();
    int finished = 0, cut = 0;
    for (uint64_t seed = 1; seed <= 20; seed++) {
        struct tiny tiny RELEASED(tiny_release) = tiny_of(&config, MANY, LENGTHS, seed);
        tiny_favour(tiny.model, QKV_END, 1);
        for (int64_t beam = 1; beam <= 3; beam += 2) {
            struct qkv_translations scored RELEASED(qkv_translations_release) = {0},
                                           skip_scores RELEASED(qkv_translations_release) = {0};
            tiny_search(tiny.model, &tiny.view, (struct qkv_search_options){beam, 0.6, 1, 6, false}, &scored);
            tiny_search(tiny.model, &tiny.view, (struct qkv_search_options){beam, 0.6, 1, 6, true},
                        &skip_scores);
            for (int64_t i = 0; i < MANY; i++) {
                const struct qkv_hypothesis *a = &scored.best[i], *b = &skip_scores.best[i];
                cr_assert(tiny_is_same(a, b), "seed %d, beam %d, sentence %d", (int)seed, (int)beam, (int)i);
                cr_expect_eq(b->score, beam == 1 ? 0 : a->score);
                cr_expect_eq(b->log_probability, beam == 1 ? 0 : a->log_probability);
                cr_expect_lt(a->score, 0);
                finished += beam == 1 && a->finished;
                cut += beam == 1 && !a->finished;
            }
        }
    }
    cr_expect(finished > 5 && cut > 5, "%d and %d: both kinds occur", finished, cut);
}

Test(search, no_sentences_no_translations)
{
    const struct qkv_model_config config = tiny_config();
    struct tiny tiny RELEASED(tiny_release) = tiny_of(&config, 0, NULL, 3);
    struct qkv_translations found RELEASED(qkv_translations_release) = {0};
    tiny_search(tiny.model, &tiny.view, (struct qkv_search_options){4, 0.6, 4, 0}, &found);
    cr_expect_eq(found.count, 0);
}

Test(search, lengths_stay_within_their_limits)
{
    static const struct {
        const char *what;
        double end; /* added to the logit of </s> */
        int64_t limit, target_positions, source_positions, length;
    } CASES[] = {
        {"the most that was asked for, not one more", -30, 7, 24, 24, 7},
        {"one token", -30, 1, 24, 24, 1},
        {"by default, twice the source and 10", -30, 0, 24, 24, 2 * 3 + 10},
        {"24 positions, one of them for </s>", -30, 1000, 24, 24, 23},
        {"6 positions", -30, 0, 6, 24, 5},
        {"positions of the encoder bound sources, not translations", -30, 0, 24, 4, 16},
        {"nothing", 80, 0, 24, 24, 0},
    };
    for (size_t i = 0; i < sizeof CASES / sizeof *CASES; i++)
        for (int64_t beam = 1; beam <= 3; beam += 2) {
            struct qkv_model_config config = tiny_config();
            config.decoder.positions.max_length = CASES[i].target_positions;
            config.encoder.positions.max_length = CASES[i].source_positions;
            struct tiny tiny RELEASED(tiny_release) = tiny_of(&config, 1, LENGTHS, 4);
            struct qkv_translations found RELEASED(qkv_translations_release) = {0};
            tiny_favour(tiny.model, QKV_END, CASES[i].end);
            tiny_search(tiny.model, &tiny.view, (struct qkv_search_options){beam, 0.6, beam, CASES[i].limit},
                        &found);
            cr_expect_eq(found.best[0].length, CASES[i].length, "%s: %d", CASES[i].what,
                         (int)found.best[0].length);
            cr_expect_eq(found.best[0].finished, CASES[i].end > 0, "%s", CASES[i].what);
        }
}

/* Counts tokens, and interrupts the search at the third one. */
struct tokens {
    int count;
    bool interrupt;
};

static void count_token(void *context, int32_t id)
{
    struct tokens *tokens = context;
    (void)id;
    tokens->interrupt = ++tokens->count == 3;
}

Test(search, stops_after_the_token_at_which_it_is_interrupted)
{
    const struct qkv_model_config config = tiny_config();
    struct tiny tiny RELEASED(tiny_release) = tiny_of(&config, 1, LENGTHS, 4);
    struct qkv_decoding *decoding RELEASED(free_decoding) = qkv_decoding_new(tiny.model);
    struct qkv_translations found RELEASED(qkv_translations_release) = {0};
    struct tokens tokens = {0};
    struct qkv_search_options options = {1, 0.6, 1, 7, .token = count_token, .context = &tokens};
    tiny_favour(tiny.model, QKV_END, -30);
    qkv_set_interrupt(&tokens.interrupt);
    expect_refusal(qkv_search(decoding, &tiny.view, &options, &found, &error), "interrupted");
    cr_expect_eq(tokens.count, 3);
    qkv_set_interrupt(NULL);
    expect_done(qkv_search(decoding, &tiny.view, &options, &found, &error));
    cr_expect_eq(found.best[0].length, 7, "the decoding can be used again");
}
