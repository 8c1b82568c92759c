/* Wrong calls of an aligner, and what a head is chosen by. tests/tools/align.c compares links with those of other commands. */
#include "report/aligner.h"

#include "support.h"

static struct qkv_run first_run;

static void open_run(void)
{
    expect_done(
        qkv_run_open(&first_run, QKV_SOURCE_DIR "/tests/fixtures/run-0.1/run", NULL, QKV_FLOAT32, &error));
}

TestSuite(aligner, .init = open_run);

/* Makes an aligner of the run and of another, or NULL. */
static enum qkv_status make(const struct qkv_run *other, struct qkv_aligner_options options)
{
    struct qkv_aligner *aligner RELEASED(free_aligner) =
        qkv_aligner_new(&first_run, other, &options, NULL, &error);
    enum qkv_status status = STATUS_OF(aligner);
    return status;
}

Test(aligner, needs_a_head)
{
    struct qkv_aligner_options options = {.map = {{QKV_ATTENTION_MEAN, QKV_ATTENTION_BEST}}};
    struct qkv_aligned_pair pairs[2] = {{.texts = {"the cat", "el gato"}}, {.texts = {"", ""}}};
    struct qkv_chosen_head chosen;
    struct qkv_aligner *aligner RELEASED(free_aligner) =
        made(qkv_aligner_new(&first_run, NULL, &options, NULL, &error));
    cr_expect_null(qkv_head_rule_name(QKV_HEAD_RULES));
    static const char *const none =
        ": its best head cannot be chosen: there is no sentence pair to choose by";
    /* Pairs without gold links do not count. */
    expect_refusal(qkv_aligner_choose(aligner, 0, QKV_HEAD_RULE_GOLD, 2, pairs, &chosen, &error),
                   format("%s%s", first_run.path, none));
    expect_refusal(qkv_aligner_choose(aligner, 0, QKV_HEAD_RULE_ENTROPY, 1, pairs + 1, &chosen, &error),
                   format("%s%s", first_run.path, none));
    cr_expect_eq(qkv_aligner_choose(aligner, 0, QKV_HEAD_RULE_ENTROPY, 2, pairs, &chosen, &error), QKV_OK);
    cr_expect(chosen.map.layer >= 1 && chosen.map.head >= 1 && chosen.value > 0);
    cr_expect_eq(qkv_aligner_run(aligner, 2, pairs, &error), QKV_OK);
    cr_expect_eq(pairs[0].links.count, 2);
    cr_expect(!pairs[1].links.count && !pairs[1].reason);
    qkv_aligner_free(NULL);
}

Test(aligner, refuses_text_and_maps_that_cannot_be)
{
    const struct qkv_aligner_options options = {.map = {{1, 1}}};
    expect_refusal_with(make(NULL, (struct qkv_aligner_options){.map = {{9, 1}}}),
                        ": the cross attention has no layer 9");
    struct qkv_aligned_pair pair = {.texts = {"the \xff", "el gato"}};
    struct qkv_aligner *aligner RELEASED(free_aligner) =
        made(qkv_aligner_new(&first_run, NULL, &options, NULL, &error));
    expect_refusal(qkv_aligner_run(aligner, 1, &pair, &error), "column 5: byte 0xFF is not valid UTF-8");
}

/* Of languages that are not known, the other run may translate in the other direction. */
Test(aligner, needs_a_run_of_the_other_direction)
{
    static const struct {
        const char *source, *target, *other_source, *other_target, *refusal;
    } rows[] = {
        {"src", "trg", "src", "trg", NULL},
        {"en", "de", "de", "fr", "from de to fr, but"},
        {"en", "trg", "de", "en", NULL},
        {"en", "de", "deu", "en-US", NULL},
    };
    const struct qkv_aligner_options options = {.map = {{1, 1}, {1, 1}}};
    struct qkv_run other = first_run;
    expect_refusal_with(make(&first_run, options), "must translate in the other direction");
    expect_refusal_with(make(&other, options), "must translate in the other direction");
    other.path = format("%s/", first_run.path);
    cr_expect_eq(make(&other, options), QKV_INVALID, "the same folder");
    other.path = "other";
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        first_run.config.data.src.lang = rows[i].source;
        first_run.config.data.trg.lang = rows[i].target;
        other.config.data.src.lang = rows[i].other_source;
        other.config.data.trg.lang = rows[i].other_target;
        if (rows[i].refusal)
            expect_refusal_with(make(&other, options), rows[i].refusal);
        else
            expect_done(make(&other, options));
    }
}

Test(aligner, refuses_layers_and_heads_that_it_does_not_name)
{
    static const struct qkv_aligner_map WRONG[] = {{QKV_ATTENTION_EACH, 1},
                                                   {QKV_ATTENTION_BEST, 1},
                                                   {1, QKV_ATTENTION_EACH},
                                                   {INT32_MIN, QKV_ATTENTION_BEST},
                                                   {1, -3}};
    for (size_t i = 0; i < sizeof WRONG / sizeof WRONG[0]; i++)
        expect_refusal(
            make(NULL, (struct qkv_aligner_options){.map = {WRONG[i]}}),
            format("%s: links are drawn from layer %d, head %d, but these count from 1, or are 0 for a mean",
                   first_run.path, WRONG[i].layer, WRONG[i].head));
}

Test(aligner, can_be_interrupted)
{
    const bool interrupt = true;
    const struct qkv_aligner_options options = {.map = {{1, 1}}};
    struct qkv_aligned_pair pair = {.texts = {"the cat", "el gato"}};
    struct qkv_aligner *aligner RELEASED(free_aligner) =
        qkv_aligner_new(&first_run, NULL, &options, NULL, &error);
    qkv_set_interrupt(&interrupt);
    expect_refusal(qkv_aligner_run(aligner, 1, &pair, &error), "interrupted");
    qkv_set_interrupt(NULL);
    expect_done(qkv_aligner_run(aligner, 1, &pair, &error));
    cr_expect_eq(pair.links.count, 2);
}
