/* Reports and explanations that a program fills in wrongly are refused, and never reach memory that is not theirs (run
 * with AddressSanitizer to see that). */
#include "maps.h"
#include "support.h"

#include "qkv/alignment_score.h"
#include "qkv/explanation.h"

#include <criterion/criterion.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

static const char *const words[] = {"a", "b"};
static const double weights[] = {1, 0, 0.5, 0.5};
static struct qkv_attention_map maps[2];
static struct qkv_attention_report report;
static struct qkv_step step;
static struct qkv_explanation explanations[2];
static struct qkv_error error;

static void setup(void)
{
    maps[0] = maps[1] = (struct qkv_attention_map){QKV_ATTENTION_CROSS, 1, 1, 2, 2, weights};
    maps[1].head = 2;
    report = (struct qkv_attention_report){.source = words,
                                           .source_length = 2,
                                           .target_input = words,
                                           .target_output = words,
                                           .target_length = 2,
                                           .maps = maps,
                                           .map_count = 2};
    step = (struct qkv_step){.name = "weights",
                             .title = "weights",
                             .formula = "",
                             .content = QKV_STEP_WEIGHTS,
                             .rows = 2,
                             .columns = 2,
                             .values = weights};
    explanations[0] = explanations[1] = (struct qkv_explanation){
        .first_head = 1, .heads = 1, .layer_heads = 1, .step_count = 1, .steps = &step};
}

TestSuite(misuse, .init = setup);

static void expect_message(const char *message)
{
    cr_expect_not_null(strstr(error.message, message), "'%s' lacks '%s'", error.message, message);
    error.message[0] = '\0';
}

/* Selecting, rendering and scoring refuse the report. */
static void expect_refused(const char *message)
{
    struct qkv_arena arena = {0};
    struct qkv_attention_report selected;
    struct qkv_alignment_score score = {0};
    char *bytes;
    size_t size;
    cr_expect_eq(
        qkv_attention_select(&report, 0, QKV_ATTENTION_EACH, QKV_ATTENTION_MEAN, &arena, &selected, &error),
        QKV_INVALID);
    expect_message(message);
    for (int i = 0; qkv_format(i); i++) {
        cr_expect_eq(qkv_attention_render(&report, qkv_format(i), NULL, &bytes, &size, &error), QKV_INVALID);
        expect_message(message);
    }
    cr_expect_eq(qkv_alignment_score_add(&score, &report, (struct qkv_attention_words){0},
                                         &(struct qkv_alignment){0}, &error),
                 QKV_INVALID);
    expect_message(message);
    qkv_alignment_score_release(&score);
    qkv_arena_release(&arena);
    setup();
}

Test(misuse, maps_that_cannot_be_are_refused)
{
    maps[1].rows = 1;
    expect_refused("cross maps have shapes [2, 2] and [1, 2], but must agree");
    maps[1].columns = -2;
    expect_refused("attention map 2 has shape [2, -2] or no weights");
    maps[0].rows = INT64_MAX;
    expect_refused("attention map 1 has shape [9223372036854775807, 2] or no weights");
    maps[0].weights = NULL;
    expect_refused("attention map 1 has shape [2, 2] or no weights");
    maps[0].kind = QKV_ATTENTION_KINDS;
    expect_refused("attention map 1 has kind 3, but there are 3 kinds, from 0");
    maps[0].kind = (enum qkv_attention_kind) - 1;
    expect_refused("attention map 1 has kind -1");
    maps[1].layer = INT32_MAX;
    expect_refused("attention map 2 is of layer 2147483647, head 2, but they count from 1 to 4096");
    maps[1].head = -1;
    expect_refused("attention map 2 is of layer 1, head -1");
    report.map_count = -1;
    expect_refused("a report has -1 attention maps");
}

Test(misuse, a_selection_that_no_map_can_match_is_refused)
{
    static const unsigned wrong[] = {1u << QKV_ATTENTION_KINDS, 1u << 9, 1u << 31};
    struct qkv_arena arena = {0};
    struct qkv_attention_report selected;
    for (int i = 0; i < 3; i++) {
        cr_expect_eq(qkv_attention_select(&report, wrong[i], QKV_ATTENTION_EACH, QKV_ATTENTION_EACH, &arena,
                                          &selected, &error),
                     QKV_INVALID);
        expect_message("there is no kind of attention in 0x");
    }
    report.map_count = 0;
    cr_expect_eq(
        qkv_attention_select(&report, 0, QKV_ATTENTION_EACH, QKV_ATTENTION_EACH, &arena, &selected, &error),
        QKV_INVALID);
    expect_message("the report has no attention maps");
    qkv_arena_release(&arena);
}

Test(misuse, layers_and_heads_out_of_range_are_refused, .timeout = 30)
{
    static const int wrong[] = {3, INT32_MAX, INT32_MIN};
    struct qkv_arena arena = {0};
    struct qkv_attention_report selected;
    for (int i = 0; i < 3; i++) {
        cr_expect_eq(qkv_attention_select(&report, 0, wrong[i], 1, &arena, &selected, &error), QKV_INVALID);
        if (wrong[i] > 0) expect_message("the cross attention has no layer");
        cr_expect_eq(qkv_attention_select(&report, 0, 1, wrong[i], &arena, &selected, &error), QKV_INVALID);
        expect_message("the cross attention has no head");
        cr_expect_eq(
            qkv_attention_select(&report, 0, wrong[i], QKV_ATTENTION_BEST, &arena, &selected, &error),
            QKV_INVALID);
    }
    qkv_arena_release(&arena);
}

Test(misuse, numbers_of_tokens_below_0_are_refused)
{
    static const int64_t wrong[] = {-1, INT64_MIN};
    struct qkv_arena arena = {0};
    for (int i = 0; i < 4; i++) {
        struct qkv_attention_report merged;
        report.map_count = 0;
        *(i < 2 ? &report.source_length : &report.target_length) = wrong[i % 2];
        cr_expect_eq(
            qkv_attention_merge_words(&report, (struct qkv_attention_words){0}, &arena, &merged, &error),
            QKV_INVALID);
        expect_message(i < 2 ? "source tokens" : "target tokens");
        setup();
    }
    qkv_arena_release(&arena);
}

Test(misuse, kinds_without_a_name_have_one_that_says_so)
{
    char name[64];
    maps[0].kind = (enum qkv_attention_kind)1000;
    cr_expect_str_eq(qkv_attention_kind_name(maps[0].kind), "unknown");
    qkv_attention_map_name(&maps[0], name, sizeof name);
    cr_expect_str_eq(name, "unknown.1.1");
}

Test(misuse, a_format_that_was_not_found_is_refused)
{
    cr_expect_eq(qkv_attention_write(&report, qkv_format_of_path("x.none"), NULL, "x.none", &error),
                 QKV_INVALID);
    expect_message("the format is NULL");
    cr_expect_eq(qkv_explanation_write(explanations, 1, qkv_format_find("none"), NULL, "x.none", &error),
                 QKV_INVALID);
    expect_message("the format is NULL");
}

/* What a program keeps may be a copy of a row; what is in no row of the table has no writer. */
Test(misuse, a_copy_of_a_format_is_that_format)
{
    char *bytes[2];
    size_t size[2];
    for (int i = 0; qkv_format(i); i++) {
        struct qkv_format *copy = malloc(sizeof *copy); /* so that a sanitizer sees what lies behind it */
        *copy = *qkv_format(i);
        for (int explains = 0; explains < 2; explains++) {
            for (int c = 0; c < 2; c++) {
                const struct qkv_format *format = c ? copy : qkv_format(i);
                enum qkv_status status =
                    explains
                        ? qkv_explanation_render(explanations, 1, format, NULL, &bytes[c], &size[c], &error)
                        : qkv_attention_render(&report, format, NULL, &bytes[c], &size[c], &error);
                cr_assert_eq(status, QKV_OK, "%s: %s", format->name, error.message);
            }
            cr_expect(size[0] == size[1] && !memcmp(bytes[0], bytes[1], size[0]), "%s", copy->name);
            free(bytes[0]);
            free(bytes[1]);
        }
        copy->name = "none";
        cr_expect_eq(qkv_attention_render(&report, copy, NULL, &bytes[0], &size[0], &error), QKV_INVALID);
        expect_message("there is no format 'none'");
        *copy = (struct qkv_format){0};
        cr_expect_eq(qkv_explanation_render(explanations, 1, copy, NULL, &bytes[0], &size[0], &error),
                     QKV_INVALID);
        expect_message("there is no format ''");
        free(copy);
    }
}

Test(misuse, more_digits_than_a_double_has_are_not_printed)
{
    const struct qkv_format_options options = {.digits = INT32_MAX};
    char *bytes;
    size_t size;
    cr_assert_eq(
        qkv_explanation_render(explanations, 1, qkv_format_find("html"), &options, &bytes, &size, &error),
        QKV_OK, "%s", error.message);
    cr_expect_not_null(strstr(bytes, ">0.50000000000000000<"));
    free(bytes);
}

/* A head that select_head has removed is not there any more. */
/* Letters of a thousand pixels are too large for FreeType, and Pango would print warnings. */
Test(misuse, the_scale_of_a_png_is_at_most_32)
{
    static const double scales[] = {33, 100, 1e300, INFINITY};
    char *bytes;
    size_t size;
    for (int i = 0; i < 4; i++) {
        const struct qkv_format_options options = {.scale = scales[i]};
        cr_expect_eq(qkv_attention_render(&report, qkv_format_find("png"), &options, &bytes, &size, &error),
                     QKV_INVALID);
        expect_message(format("the scale of a png is %g, but must be at most 32", scales[i]));
        cr_assert_eq(qkv_attention_render(&report, qkv_format_find("svg"), &options, &bytes, &size, &error),
                     QKV_OK);
        free(bytes);
    }
}

Test(misuse, of_a_selected_head_no_other_can_be_selected)
{
    struct qkv_arena arena = {0};
    static const double two_heads[] = {1, 0, 0.5, 0.5, 0, 1, 0.25, 0.75};
    struct qkv_explanation *one = &explanations[0];
    step.heads = one->heads = one->layer_heads = 2;
    step.values = two_heads;
    cr_expect_eq(qkv_explanation_select_head(one, 3, &arena, &error), QKV_INVALID);
    expect_message("there is no head 3: heads are 1 to 2");
    cr_assert_eq(qkv_explanation_select_head(one, 2, &arena, &error), QKV_OK);
    cr_expect_eq(qkv_explanation_select_head(one, 1, &arena, &error), QKV_INVALID);
    expect_message("there is no head 1: heads are 2 to 2");
    cr_expect_eq(qkv_explanation_select_head(one, 2, &arena, &error), QKV_OK);
    qkv_arena_release(&arena);
}

/* In a terminal of 8 columns nothing fits; but of fewer than three columns none can be left out. */
Test(misuse, explanations_of_few_columns_are_shown_whole_in_a_narrow_terminal)
{
    static const char *const names[] = {"first", "middle", "last"};
    static const double numbers[] = {1, 2, 3, 4, 5, 6};
    for (int columns = 0; columns <= 3; columns++) {
        char *bytes;
        size_t size;
        step = (struct qkv_step){.name = "scores",
                                 .title = "",
                                 .formula = "",
                                 .rows = 2,
                                 .columns = columns,
                                 .values = numbers,
                                 .column_names = names};
        cr_assert_eq(qkv_explanation_render(explanations, 1, qkv_format_find("text"),
                                            &(struct qkv_format_options){.width = 8}, &bytes, &size, &error),
                     QKV_OK, "%s", error.message);
        cr_expect_eq(!!strstr(bytes, "…"), columns == 3, "%d: %s", columns, bytes);
        for (int c = 0; c < columns && columns < 3; c++)
            cr_expect_not_null(strstr(bytes, names[c]), "%d: %s", columns, bytes);
        free(bytes);
    }
}

Test(misuse, explanations_that_cannot_be_are_refused)
{
    struct qkv_step other = step;
    struct qkv_arena arena = {0};
    char *bytes;
    size_t size;
    explanations[1].steps = &other;
    struct {
        int64_t *field, wrong;
        const char *message;
    } const cases[] = {
        {&other.heads, 2, "step weights has 0 heads in one explanation and 2 in another"},
        {&step.rows, -1, "step 1 of an explanation has no name"},
        {&step.columns, INT64_MAX, "step 1 of an explanation has no name"},
        {&step.heads, INT64_MAX, "step 1 of an explanation has no name"},
        {&explanations[0].step_count, -1, "invalid explanation: -1 steps"},
        {&explanations[1].heads, INT64_MIN, "and -9223372036854775808 heads from 1"},
    };
    for (size_t c = 0; c < sizeof cases / sizeof *cases; c++) {
        int64_t right = *cases[c].field;
        *cases[c].field = cases[c].wrong;
        for (int i = 0; qkv_format(i); i++) {
            cr_expect_eq(qkv_explanation_render(explanations, 2, qkv_format(i), NULL, &bytes, &size, &error),
                         QKV_INVALID);
            expect_message(cases[c].message);
        }
        *cases[c].field = right;
    }
    for (int count = -1; count < 1; count++) {
        cr_expect_eq(qkv_explanation_render(explanations, count, qkv_format(0), NULL, &bytes, &size, &error),
                     QKV_INVALID);
        expect_message("but at least one is needed");
    }
    step.values = NULL;
    cr_expect_eq(qkv_explanation_select_head(&explanations[0], QKV_ATTENTION_BEST, &arena, &error),
                 QKV_INVALID);
    expect_message("step 1 of an explanation has no name");
    qkv_arena_release(&arena);
}

/* Heat maps of explanations side by side show tokens of the first: all need its shape. */
Test(misuse, pictures_of_explanations_of_different_shapes_are_refused)
{
    struct qkv_step wide = step;
    char *bytes;
    size_t size;
    wide.rows = 1, wide.columns = 4;
    explanations[1].steps = &wide;
    cr_expect_eq(qkv_explanation_render(explanations, 2, qkv_format_find("svg"), NULL, &bytes, &size, &error),
                 QKV_INVALID);
    expect_message("cross maps have shapes [2, 2] and [1, 4], but must agree");
}

Test(misuse, pictures_number_rows_and_columns_without_names)
{
    char *bytes;
    size_t size;
    cr_assert_eq(qkv_explanation_render(explanations, 1, qkv_format_find("svg"), NULL, &bytes, &size, &error),
                 QKV_OK, "%s", error.message);
    cr_expect_not_null(strstr(bytes, ">2</text>"));
    free(bytes);
}

Test(misuse, words_and_links_out_of_range_are_refused)
{
    static const int64_t wrong[] = {2, -2, INT64_MAX, INT64_MIN};
    const struct qkv_alignment none = {0};
    struct qkv_alignment_score score = {0};
    for (int i = 0; i < 4; i++) {
        const int64_t numbers[] = {0, wrong[i]};
        for (int side = 0; side < 2; side++) {
            const struct qkv_attention_words given = {side ? numbers : NULL, side ? NULL : numbers};
            cr_expect_eq(qkv_alignment_score_add(&score, &report, given, &none, &error), QKV_INVALID);
            expect_message(side ? "source token 1 belongs to word" : "target token 1 belongs to word");
        }
    }
    const struct qkv_alignment_link link = {.source = -1, .target = 0, .sure = true};
    const struct qkv_alignment gold = {.links = &link, .count = 1};
    cr_expect_eq(qkv_alignment_score_add(&score, &report, (struct qkv_attention_words){0}, &gold, &error),
                 QKV_INVALID);
    expect_message("has no source word -1");
    cr_expect_eq(score.sentences, 0);
    qkv_alignment_score_release(&score);
}

/* A corpus without its lines. */
Test(misuse, a_corpus_that_does_not_fit_the_run_is_refused)
{
    struct qkv_run run;
    struct qkv_corpus corpus;
    struct qkv_alignment_score score = {0};
    const char *folder = scratch("corpus");
    const char *text = write_text(folder, "x.tsv", "the cat\tel gato\n");
    const char *links = write_text(folder, "x.align", "0-0\n");
    cr_assert_eq(qkv_run_open(&run, QKV_SOURCE_DIR "/tests/fixtures/run-0.1/run", NULL, QKV_FLOAT32, &error),
                 QKV_OK, "%s", error.message);
    cr_assert_eq(qkv_corpus_read(&corpus, text, &run.config.data, (struct qkv_corpus_options){0}, &error),
                 QKV_OK);
    cr_expect_eq(qkv_alignment_evaluate(&run, &corpus, links, 0, &score, &error), QKV_INVALID);
    expect_message("need a corpus that keeps its raw lines");
    qkv_corpus_release(&corpus);
    qkv_alignment_score_release(&score);
    qkv_run_release(&run);
}

/* The terms of a number of the last of `count` steps are refused. */
static void expect_no_terms(const struct qkv_step *steps, int64_t count, struct qkv_number number,
                            const char *message)
{
    const struct qkv_explanation made = {
        .first_head = 1, .heads = 1, .layer_heads = 1, .step_count = count, .steps = steps};
    struct qkv_arena arena = {0};
    struct qkv_terms terms;
    cr_expect_eq(qkv_explanation_terms(&made, &number, &arena, &terms, &error), QKV_INVALID);
    cr_expect_eq(terms.count, 0);
    expect_message(message);
    qkv_arena_release(&arena);
}

/* Steps that a program made, whose shapes do not follow from one another. */
Test(misuse, terms_need_steps_that_fit)
{
    static const char *const one_name[] = {"a"};
    struct qkv_step steps[2] = {
        {.name = "x", .title = "", .formula = "", .rows = 1, .columns = 0, .values = weights},
        {.name = "y", .title = "", .formula = "", .rows = 1, .columns = 2, .values = weights, .from = {"x"}},
    };
    const struct qkv_number last = {&steps[1], 0, 0, 1};
    steps[1].rule = QKV_STEP_RULE_JOIN;
    expect_no_terms(steps, 2, last, "step y has 2 columns, but step x, from which it is made, has 0");
    steps[0].columns = 1;
    expect_no_terms(steps, 2, last, "column 1 of step y is of head 2, which step x does not have");
    steps[1].rule = QKV_STEP_RULE_SOFTMAX;
    steps[0].columns = 4;
    steps[1].columns = 1;
    steps[1].column_names = one_name;
    const struct qkv_number first = {&steps[1], 0, 0, 0};
    expect_no_terms(steps, 2, first, "step y has 1 columns, but step x, from which it is made, has 4");
    expect_no_terms(steps, 1, first, "the explanation has no step y");
    steps[0].rows = -1;
    expect_no_terms(steps, 2, first, "step 1 of an explanation has no name");
}
