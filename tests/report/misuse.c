/* Reports and explanations that a program fills in wrongly are refused, and never reach memory that is not theirs (run
 * with AddressSanitizer to see that). */
#include "maps.h"

#include "report/alignment_score.h"

static const char *const words[] = {"a", "b"};
static const double weights[] = {1, 0, 0.5, 0.5};
static struct qkv_attention_map maps[2];
static struct qkv_attention_report report;
static struct qkv_step step[1];
static struct qkv_explanation explanations[2];
static struct qkv_arena arena; /* until the test ends */

static void setup(void)
{
    maps[0] = maps[1] = (struct qkv_attention_map){QKV_ATTENTION_CROSS, 1, 1, 2, 2, weights};
    maps[1].head = 2;
    report = (struct qkv_attention_report)REPORT_OF(words, words, words, maps, );
    step[0] = (struct qkv_step)STEP_OF("weights", 2, 2, weights, .content = QKV_STEP_WEIGHTS);
    explanations[0] = explanations[1] = (struct qkv_explanation)EXPLANATION_OF(step, );
}

TestSuite(misuse, .init = setup);

static enum qkv_status select_maps(unsigned kinds, int layer, int head)
{
    struct qkv_attention_report selected;
    return qkv_attention_select(&report, kinds, layer, head, &arena, &selected, &error);
}

static enum qkv_status render(const struct qkv_format *format, const struct qkv_format_options *options)
{
    char *bytes RELEASED(free_memory) = NULL;
    size_t size;
    return qkv_attention_render(&report, format, options, &bytes, &size, &error);
}

static enum qkv_status render_explanations(int count, const struct qkv_format *format)
{
    char *bytes RELEASED(free_memory) = NULL;
    size_t size;
    return qkv_explanation_render(explanations, count, format, NULL, &bytes, &size, &error);
}

static enum qkv_status add_score(struct qkv_attention_words given, const struct qkv_alignment *gold)
{
    struct qkv_alignment_score score RELEASED(qkv_alignment_score_release) = {0};
    enum qkv_status status = qkv_alignment_score_add(&score, &report, given, gold, &error);
    cr_expect(status == QKV_OK || score.sentences == 0);
    return status;
}

/* Selecting, rendering and scoring refuse the report. */
static void expect_refused(const char *message)
{
    expect_refusal_with(select_maps(0, QKV_ATTENTION_EACH, QKV_ATTENTION_MEAN), message);
    for (int i = 0; qkv_format(i); i++) expect_refusal_with(render(qkv_format(i), NULL), message);
    expect_refusal_with(add_score((struct qkv_attention_words){0}, &(struct qkv_alignment){0}), message);
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
    char name[64];
    maps[0].kind = (enum qkv_attention_kind)1000;
    qkv_attention_map_name(&maps[0], name, sizeof name);
    cr_expect_str_eq(name, "unknown.1.1");
}

Test(misuse, a_selection_that_no_map_can_match_is_refused, .timeout = 30)
{
    static const int wrong[] = {3, INT32_MAX, INT32_MIN};
    for (int i = 0; i < 3; i++) {
        expect_refusal_with(select_maps(0, wrong[i], 1), i < 2 ? "has no layer" : "");
        expect_refusal_with(select_maps(0, 1, wrong[i]), "the cross attention has no head");
        expect_refusal_with(select_maps(0, wrong[i], QKV_ATTENTION_BEST), "");
    }
    for (unsigned bit = QKV_ATTENTION_KINDS; bit < 32; bit += 14)
        expect_refusal_with(select_maps(1u << bit, QKV_ATTENTION_EACH, QKV_ATTENTION_EACH),
                            "there is no kind of attention in 0x");
    report.map_count = 0;
    expect_refusal_with(select_maps(0, QKV_ATTENTION_EACH, QKV_ATTENTION_EACH),
                        "the report has no attention maps");
}

Test(misuse, numbers_of_tokens_below_0_are_refused)
{
    static const int64_t wrong[] = {-1, INT64_MIN};
    for (int i = 0; i < 4; i++) {
        struct qkv_attention_report merged;
        report.map_count = 0;
        *(i < 2 ? &report.source_length : &report.target_length) = wrong[i % 2];
        expect_refusal_with(
            qkv_attention_merge_words(&report, (struct qkv_attention_words){0}, &arena, &merged, &error),
            i < 2 ? "source tokens" : "target tokens");
        setup();
    }
}

Test(misuse, a_format_that_was_not_found_is_refused)
{
    expect_refusal_with(qkv_attention_write(&report, qkv_format_of_path("x.none"), NULL, "x.none", &error),
                        "the format is NULL");
    expect_refusal_with(render_explanations(1, qkv_format_find("none")), "the format is NULL");
}

/* What a program keeps may be a copy of a row; what is in no row of the table has no writer. */
Test(misuse, a_copy_of_a_format_is_that_format)
{
    for (int i = 0; qkv_format(i); i++) {
        struct qkv_format *copy RELEASED(free_memory) =
            malloc(sizeof *copy); /* so that a sanitizer sees what lies behind it */
        *copy = *qkv_format(i);
        expect_done(render(copy, NULL));
        expect_done(render_explanations(1, copy));
        copy->name = "none";
        expect_refusal_with(render(copy, NULL), "there is no format 'none'");
        *copy = (struct qkv_format){0};
        expect_refusal_with(render_explanations(1, copy), "there is no format ''");
    }
}

Test(misuse, more_digits_than_a_double_has_are_not_printed)
{
    const struct qkv_format_options options = {.digits = INT32_MAX};
    cr_expect(shows(explained(explanations, 1, "html", &options, NULL), ">0.50000000000000000<"));
}

/* Letters of a thousand pixels are too large for FreeType, and Pango would print warnings. */
Test(misuse, the_scale_of_a_png_is_at_most_32)
{
    static const double scales[] = {33, 1e300, INFINITY};
    for (int i = 0; i < 3; i++) {
        const struct qkv_format_options options = {.scale = scales[i]};
        expect_refusal_with(render(qkv_format_find("png"), &options),
                            format("the scale of a png is %g, but must be at most 32", scales[i]));
        expect_done(render(qkv_format_find("svg"), &options));
    }
}

/* A head that select_head has removed is not there any more. */
Test(misuse, of_a_selected_head_no_other_can_be_selected)
{
    static const double two_heads[] = {1, 0, 0.5, 0.5, 0, 1, 0.25, 0.75};
    struct qkv_explanation *one = &explanations[0];
    step->heads = one->heads = one->layer_heads = 2;
    step->values = two_heads;
    expect_refusal_with(qkv_explanation_select_head(one, 3, &arena, &error),
                        "there is no head 3: heads are 1 to 2");
    expect_done(qkv_explanation_select_head(one, 2, &arena, &error));
    expect_refusal_with(qkv_explanation_select_head(one, 1, &arena, &error),
                        "there is no head 1: heads are 2 to 2");
    expect_done(qkv_explanation_select_head(one, 2, &arena, &error));
}

/* In a terminal of 8 columns nothing fits: a block has one column. */
Test(misuse, explanations_are_shown_whole_in_a_narrow_terminal)
{
    static const char *const names[] = {"first", "middle", "last"};
    static const double numbers[] = {1, 2, 3, 4, 5, 6};
    for (int columns = 0; columns <= 3; columns++) {
        *step = (struct qkv_step)STEP_OF("scores", 2, columns, numbers, .column_names = names);
        char *text = explained(explanations, 1, "text", &(struct qkv_format_options){.width = 8}, NULL);
        cr_expect(lacks(text, "…"));
        for (int c = 0; c < columns; c++) cr_expect(shows(text, names[c]), "%d: %s", columns, text);
    }
}

Test(misuse, steps_of_different_heads_are_not_shown_side_by_side)
{
    struct qkv_step other = *step;
    other.heads = 2;
    explanations[1].steps = &other;
    for (int i = 0; qkv_format(i); i++)
        expect_refusal_with(render_explanations(2, qkv_format(i)),
                            "step weights has 0 heads in one explanation and 2 in another");
}

/* Heat maps of explanations side by side show tokens of the first: all need its shape. */
Test(misuse, pictures_of_explanations_of_different_shapes_are_refused)
{
    struct qkv_step wide = *step;
    wide.rows = 1, wide.columns = 4;
    explanations[1].steps = &wide;
    expect_refusal_with(render_explanations(2, qkv_format_find("svg")),
                        "cross maps have shapes [2, 2] and [1, 4], but must agree");
}

Test(misuse, pictures_number_rows_and_columns_without_names)
{
    cr_expect(shows(explained(explanations, 1, "svg", NULL, NULL), ">2</text>"));
}

Test(misuse, words_and_links_out_of_range_are_refused)
{
    static const int64_t wrong[] = {2, -2, INT64_MAX, INT64_MIN};
    for (int i = 0; i < 8; i++) {
        const int64_t numbers[] = {0, wrong[i / 2]};
        const struct qkv_attention_words given = {i % 2 ? numbers : NULL, i % 2 ? NULL : numbers};
        expect_refusal_with(add_score(given, &(struct qkv_alignment){0}),
                            i % 2 ? "source token 1 belongs to word" : "target token 1 belongs to word");
    }
    const struct qkv_alignment_link link = {.source = -1, .target = 0, .sure = true};
    expect_refusal_with(
        add_score((struct qkv_attention_words){0}, &(struct qkv_alignment){.links = &link, .count = 1}),
        "has no source word -1");
}
