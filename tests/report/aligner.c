/* Wrong calls of an aligner, and what a head is chosen by. tests/tools/align.c compares links with those of other commands. */
#include "qkv/aligner.h"

#include "support.h"

#include <criterion/criterion.h>
#include <string.h>

static struct qkv_error error;

static struct qkv_run open_run(void)
{
    struct qkv_run run;
    cr_assert_eq(qkv_run_open(&run, QKV_SOURCE_DIR "/tests/fixtures/run-0.1/run", NULL, QKV_FLOAT32, &error),
                 QKV_OK, "%s", error.message);
    return run;
}

static struct qkv_pair_texts texts_of(const char *source, const char *target)
{
    return (struct qkv_pair_texts){source, target, strlen(source), strlen(target)};
}

Test(aligner, needs_a_head)
{
    struct qkv_run run = open_run();
    struct qkv_aligner_options options = {.map = {{QKV_ATTENTION_MEAN, QKV_ATTENTION_BEST}}};
    struct qkv_aligned_pair pairs[2] = {{.texts = texts_of("the cat", "el gato")},
                                        {.texts = texts_of("", "")}};
    struct qkv_chosen_head chosen;
    struct qkv_aligner *aligner = qkv_aligner_new(&run, NULL, &options, NULL, &error);
    cr_assert_not_null(aligner, "%s", error.message);
    cr_expect_eq(qkv_aligner_run(aligner, 2, pairs, &error), QKV_INVALID);
    cr_expect_str_eq(error.message, format("%s: its best head is not chosen yet", run.path));
    cr_expect_eq(qkv_aligner_choose(aligner, 1, QKV_HEAD_RULE_ENTROPY, 2, pairs, &chosen, &error),
                 QKV_INVALID);
    cr_expect_str_eq(error.message, "run 1 of the aligner has no best head to choose");
    cr_expect_eq(qkv_aligner_choose(aligner, 0, QKV_HEAD_RULES, 2, pairs, &chosen, &error), QKV_INVALID);
    cr_expect_str_eq(error.message, "there is no rule 3 to choose a head");
    cr_expect_null(qkv_head_rule_name(QKV_HEAD_RULES));
    static const char *const none =
        ": its best head cannot be chosen: there is no sentence pair to choose by";
    cr_expect_eq(qkv_aligner_choose(aligner, 0, QKV_HEAD_RULE_GOLD, 2, pairs, &chosen, &error), QKV_INVALID);
    cr_expect_str_eq(error.message, format("%s%s", run.path, none), "pairs without gold links do not count");
    cr_expect_eq(qkv_aligner_choose(aligner, 0, QKV_HEAD_RULE_ENTROPY, 1, pairs + 1, &chosen, &error),
                 QKV_INVALID);
    cr_expect_str_eq(error.message, format("%s%s", run.path, none));
    cr_expect_eq(qkv_aligner_choose(aligner, 0, QKV_HEAD_RULE_ENTROPY, 2, pairs, &chosen, &error), QKV_OK);
    cr_expect(chosen.map.layer >= 1 && chosen.map.head >= 1 && chosen.value > 0);
    cr_expect_eq(qkv_aligner_run(aligner, 2, pairs, &error), QKV_OK);
    cr_expect_eq(pairs[0].links.count, 2);
    cr_expect(!pairs[1].links.count && !pairs[1].reason);
    qkv_aligner_free(aligner);
    qkv_aligner_free(NULL);
    qkv_run_release(&run);
}

Test(aligner, refuses_readings_and_drawings_that_do_not_exist)
{
    static const int WRONG[] = {-1, 1000, INT32_MIN, INT32_MAX};
    struct qkv_run run = open_run();
    for (int i = 0; i < 4; i++) {
        const struct qkv_aligner_options reading = {.reading = (enum qkv_alignment_reading)WRONG[i]},
                                         drawing = {.drawing = (enum qkv_alignment_drawing)WRONG[i]};
        cr_expect_null(qkv_aligner_new(&run, NULL, &reading, NULL, &error));
        cr_expect_str_eq(error.message, format("there is no reading %d with a drawing 0 of links", WRONG[i]));
        cr_expect_null(qkv_aligner_new(&run, NULL, &drawing, NULL, &error));
        cr_expect_str_eq(error.message, format("there is no reading 0 with a drawing %d of links", WRONG[i]));
    }
    qkv_run_release(&run);
}

Test(aligner, refuses_text_and_maps_that_cannot_be)
{
    struct qkv_run run = open_run();
    struct qkv_aligner_options options = {.map = {{9, 1}}};
    cr_expect_null(qkv_aligner_new(&run, NULL, &options, NULL, &error));
    cr_expect_not_null(strstr(error.message, ": the cross attention has no layer 9"), "%s", error.message);
    cr_expect_null(qkv_aligner_new(&run, &run, &options, NULL, &error));
    cr_expect_not_null(strstr(error.message, "must translate in the other direction"), "%s", error.message);
    /* src and trg are no languages: another run may translate in the other direction. */
    struct qkv_run other = open_run();
    cr_expect_null(qkv_aligner_new(&run, &other, &options, NULL, &error));
    cr_expect_not_null(strstr(error.message, "must translate in the other direction"), "%s", error.message);
    other.path = format("%s/", run.path);
    cr_expect_null(qkv_aligner_new(&run, &other, &options, NULL, &error));
    other.path = "other";
    options.map[0].layer = options.map[1].layer = 1;
    struct qkv_aligner *both = qkv_aligner_new(&run, &other, &options, NULL, &error);
    cr_expect_not_null(both, "%s", error.message);
    qkv_aligner_free(both);
    run.config.data.src.lang = "en";
    run.config.data.trg.lang = "de";
    other.config.data.src.lang = "de";
    other.config.data.trg.lang = "fr";
    cr_expect_null(qkv_aligner_new(&run, &other, &options, NULL, &error));
    cr_expect_not_null(strstr(error.message, "from de to fr, but"), "%s", error.message);
    run.config.data.trg.lang = "trg"; /* not known: it may be German */
    other.config.data.trg.lang = "en";
    both = qkv_aligner_new(&run, &other, &options, NULL, &error);
    cr_expect_not_null(both, "%s", error.message);
    qkv_aligner_free(both);
    run.config.data.trg.lang = "de";
    other.config.data.src.lang = "deu";
    other.config.data.trg.lang = "en-US";
    both = qkv_aligner_new(&run, &other, &options, NULL, &error);
    cr_expect_not_null(both, "%s", error.message);
    qkv_aligner_free(both);
    qkv_run_release(&other);
    struct qkv_aligned_pair pair = {.texts = texts_of("the \xff", "el gato")};
    struct qkv_aligner *aligner = qkv_aligner_new(&run, NULL, &options, NULL, &error);
    cr_assert_not_null(aligner);
    cr_expect_eq(qkv_aligner_run(aligner, 1, &pair, &error), QKV_INVALID);
    cr_expect_str_eq(error.message, "column 5: byte 0xFF is not valid UTF-8");
    qkv_aligner_free(aligner);
    qkv_run_release(&run);
}

Test(aligner, refuses_layers_and_heads_that_it_does_not_name)
{
    static const struct qkv_aligner_map WRONG[] = {{QKV_ATTENTION_EACH, 1},
                                                   {QKV_ATTENTION_BEST, 1},
                                                   {1, QKV_ATTENTION_EACH},
                                                   {INT32_MIN, QKV_ATTENTION_BEST},
                                                   {1, -3}};
    struct qkv_run run = open_run();
    for (size_t i = 0; i < sizeof WRONG / sizeof WRONG[0]; i++) {
        const struct qkv_aligner_options options = {.map = {WRONG[i]}};
        cr_expect_null(qkv_aligner_new(&run, NULL, &options, NULL, &error), "layer %d, head %d",
                       WRONG[i].layer, WRONG[i].head);
        cr_expect_str_eq(
            error.message,
            format("%s: links are drawn from layer %d, head %d, but these count from 1, or are 0 for "
                   "a mean",
                   run.path, WRONG[i].layer, WRONG[i].head));
    }
    qkv_run_release(&run);
}
