/* qkv/attention_map.h: text in, translation and maps out. tests/examples/programs.c compares its numbers with those of
 * `qkv attention`. */

#include "support.h"

static const unsigned cross = 1u << QKV_ATTENTION_CROSS;

static struct qkv_text_translator *opened(void)
{
    const char *run = format("%s/run", learned_run("run"));
    struct qkv_text_translator *translator = made(qkv_text_translator_open(run, NULL, &error));
    return translator;
}

Test(text_translator, gives_translations_and_maps_of_one_sentence_after_another)
{
    struct qkv_text_translator *translator RELEASED(free_text_translator) = opened();
    const char *const sentences[] = {"a b c", "d"};
    for (int s = 0; s < 2; s++) {
        const char *translation = made(qkv_text_translator_run(translator, sentences[s], 2, &error));
        const int64_t tokens = (int64_t)strlen(translation) / 2 + 1;
        const struct qkv_attention_report *report = qkv_text_translator_attention(translator, cross, &error);
        cr_assert_not_null(report, "%s", error.message);
        cr_assert_gt(report->map_count, 0);
        cr_expect_eq(report->source_length, (int64_t)strlen(sentences[s]) / 2 + 2);
        cr_expect_eq(report->target_length, tokens + 1, "%s", translation);
        cr_expect_eq(report->target_output[0][0], translation[0]);
        for (int64_t m = 0; m < report->map_count; m++)
            cr_expect_eq(report->maps[m].kind, QKV_ATTENTION_CROSS);
        cr_expect_not_null(report->model);
        cr_expect_null(report->precision);
    }
}

/* The text may be the last translation, whose memory the call takes. */
Test(text_translator, translates_its_own_translation)
{
    struct qkv_text_translator *translator = opened();
    qkv_arena_guard(true);
    const char *first = made(qkv_text_translator_run(translator, "a b c", 1, &error));
    const char *copy = format("%s", first), *second = qkv_text_translator_run(translator, first, 1, &error);
    cr_assert_not_null(second, "%s", error.message);
    const char *expected = format("%s", second);
    cr_expect_str_eq(qkv_text_translator_run(translator, copy, 1, &error), expected);
    qkv_text_translator_free(translator);
    qkv_arena_guard(false);
}

static void expect_failure(struct qkv_text_translator *translator, const char *text, int64_t beam_size,
                           const char *message)
{
    expect_refusal_with(STATUS_OF(qkv_text_translator_run(translator, text, beam_size, &error)), message);
    expect_refusal_with(STATUS_OF(qkv_text_translator_attention(translator, 0, &error)),
                        "there is no translation");
}

Test(text_translator, says_what_is_wrong_and_goes_on)
{
    expect_refusal(STATUS_OF(qkv_text_translator_open("no_such_run", NULL, &error)),
                   "no_such_run: there is no such run");
    struct qkv_text_translator *translator RELEASED(free_text_translator) = opened();
    cr_expect_null(qkv_text_translator_attention(translator, 0, &error));
    cr_assert_not_null(qkv_text_translator_run(translator, "a b", 0, &error), "%s", error.message);
    expect_failure(translator, " ", 0, "the sentence contains no words");
    expect_failure(translator, "a \xFF", 0, "the sentence: column 3: byte 0xFF is not valid UTF-8");
    expect_failure(translator, "a", -1, "beam");
    cr_expect_not_null(qkv_text_translator_run(translator, "a b", 0, &error), "%s", error.message);
    cr_expect_not_null(qkv_text_translator_attention(translator, 0, &error), "%s", error.message);
    qkv_text_translator_free(NULL);
}
