/* Attention maps as svg and png. */
#include "maps.h"
#include "support.h"

#include <cairo.h>
#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

static const char *const source[] = {"<b>", "R&D", "</s>"};
static const char *const input[] = {"<s>", "狗"};
static const char *const output[] = {"狗", "</s>"};
static const double cross[] = {0.75, 0.25, 0, 0, 0, 1}, other[] = {0, 1, 0, 0.5, 0.5, 0};
static const struct qkv_attention_map maps[] = {
    {QKV_ATTENTION_CROSS, 1, 1, 2, 3, cross},
    {QKV_ATTENTION_CROSS, 1, 2, 2, 3, other},
};
static const struct qkv_attention_report report = SMALL_REPORT("R&D → 狗", "tiny", maps, 1);

static int occurrences(const char *text, const char *part)
{
    int count = 0;
    for (; (text = strstr(text, part)); text++) count++;
    return count;
}

Test(svg, holds_escaped_tokens_and_weights)
{
    char *svg = rendered(&report, "svg", NULL, NULL);
    cr_assert(strstr(svg, "<svg xmlns=\"http://www.w3.org/2000/svg\"") == svg);
    cr_assert(strstr(svg, ">R&amp;D → 狗</text>"));
    cr_assert(strstr(svg, ">cross attention, layer 1, head 1 · tiny</text>"));
    cr_assert_eq(occurrences(svg, ">&lt;b&gt;</text>"), 1);
    cr_assert_eq(occurrences(svg, ">R&amp;D</text>"), 1);
    cr_assert_eq(occurrences(svg, ">&lt;/s&gt;</text>"), 2);
    cr_assert_eq(occurrences(svg, ">狗</text>"), 1);
    cr_assert(strstr(svg, ">target (output)</text>") && strstr(svg, ">source</text>"));
    cr_assert(strstr(svg, ">attention weight</text>") && strstr(svg, ">1.0</text>") &&
              strstr(svg, ">0.2</text>"));
    cr_assert_eq(occurrences(svg, "<title>"), 6, "one cell per weight");
    cr_assert(strstr(svg, " fill=\"#800026\"><title>&lt;/s&gt; → &lt;/s&gt;: 1.00</title></rect>"));
    cr_assert_null(strstr(svg, "<b>"));
    cr_assert_str_eq(svg + strlen(svg) - 7, "</svg>\n");
    free(svg);
}

Test(svg, annotates_cells_on_request)
{
    char *svg =
        rendered(&report, "svg", &(struct qkv_format_options){.annotate = true, .colormap = "gray"}, NULL);
    cr_assert(strstr(svg, "fill=\"#000000\" text-anchor=\"middle\">0.75</text>"), "dark on light");
    cr_assert(strstr(svg, "fill=\"#ffffff\" text-anchor=\"middle\">0.25</text>"), "light on dark");
    free(svg);
}

Test(svg, draws_labels_once_for_the_heads_of_a_layer)
{
    struct qkv_attention_report both = report;
    both.map_count = 2;
    char *svg = rendered(&both, "svg", NULL, NULL);
    cr_assert(strstr(svg, ">layer 1, head 1</text>") && strstr(svg, ">layer 1, head 2</text>"));
    cr_assert_eq(occurrences(svg, ">狗</text>"), 1, "row labels once a line");
    cr_assert_eq(occurrences(svg, ">&lt;b&gt;</text>"), 2, "column labels below each panel");
    cr_assert_eq(occurrences(svg, ">attention weight</text>"), 1);
    cr_assert_eq(occurrences(svg, "<title>"), 12);
    free(svg);
}

/* A report of decoder maps: `heads` heads of `layers` layers over `words` words. */
static struct qkv_attention_report decoder_report(struct qkv_arena *arena, int layers, int heads,
                                                  int64_t words, const struct qkv_attention_rule *rule)
{
    double *weights = qkv_arena_zeroed(arena, (size_t)(words * words) * sizeof *weights);
    const char **tokens = qkv_arena_zeroed(arena, (size_t)words * sizeof *tokens);
    struct qkv_attention_map *all = qkv_arena_zeroed(arena, (size_t)(layers * heads) * sizeof *all);
    for (int64_t row = 0; row < words; row++) {
        tokens[row] = "between";
        for (int64_t key = 0; key <= row; key++) weights[row * words + key] = 1. / (double)(row + 1);
    }
    for (int i = 0; i < layers * heads; i++)
        all[i] = (struct qkv_attention_map){.kind = QKV_ATTENTION_DECODER,
                                            .layer = i / heads + 1,
                                            .head = i % heads + 1,
                                            .rows = words,
                                            .columns = words,
                                            .weights = weights,
                                            .rule = rule};
    return (struct qkv_attention_report){.source = tokens,
                                         .source_length = words,
                                         .target_input = tokens,
                                         .target_output = tokens,
                                         .target_length = words,
                                         .maps = all,
                                         .map_count = layers * heads};
}

Test(svg, hatches_the_cells_that_a_row_does_not_see)
{
    struct qkv_arena arena = {0};
    const struct qkv_attention_rule causal = {.heads = 1, .causal = true}, window = {.heads = 1, .window = 1};
    struct qkv_attention_report one = decoder_report(&arena, 1, 1, 4, &causal);
    char *hidden = rendered(&one, "svg", NULL, NULL);
    cr_expect_eq(occurrences(hidden, "<title>"), 10, "visible cells");
    cr_expect_eq(occurrences(hidden, "<polyline"), 1);
    free(hidden);
    one = decoder_report(&arena, 1, 1, 4, &window);
    hidden = rendered(&one, "svg", NULL, NULL);
    cr_expect_eq(occurrences(hidden, "<title>"), 10, "three of four diagonals");
    free(hidden);
    one = decoder_report(&arena, 1, 1, 4, NULL);
    char *all = rendered(&one, "svg", NULL, NULL);
    cr_expect_eq(occurrences(all, "<title>"), 16);
    cr_expect_eq(occurrences(all, "<polyline"), 0);
    free(all);
    qkv_arena_release(&arena);
}

Test(svg, does_not_print_zeros)
{
    struct qkv_arena arena = {0};
    struct qkv_attention_report one = decoder_report(&arena, 1, 1, 2, NULL);
    char *svg = rendered(&one, "svg", &(struct qkv_format_options){.annotate = true}, NULL);
    cr_expect_eq(occurrences(svg, ">0.50</text>"), 2);
    cr_expect_eq(occurrences(svg, ">0.00</text>"), 0);
    free(svg);
    qkv_arena_release(&arena);
}

Test(svg, puts_all_heads_of_a_layer_into_a_line_with_the_words_of_both_axes)
{
    struct qkv_arena arena = {0};
    struct qkv_attention_report many = decoder_report(&arena, 2, 8, 3, NULL);
    char *svg = rendered(&many, "svg", NULL, NULL);
    cr_expect_eq(occurrences(svg, ">between</text>"), 2 * 3 + 16 * 3, "rows once a line, columns below each");
    const char *first = strstr(svg, ">layer 1, head 1</text>"),
               *last = strstr(svg, ">layer 1, head 8</text>");
    cr_assert(first && last);
    while (strncmp(first, " y=", 3)) first--;
    while (strncmp(last, " y=", 3)) last--;
    cr_expect_eq(atoi(first + 4), atoi(last + 4));
    free(svg);
    qkv_arena_release(&arena);
}

Test(svg, stays_small_with_many_heads_and_words)
{
    struct qkv_arena arena = {0};
    const struct qkv_attention_rule causal = {.heads = 8, .causal = true};
    struct qkv_attention_report many = decoder_report(&arena, 6, 8, 31, &causal);
    char *svg = rendered(&many, "svg", NULL, NULL);
    cr_expect_lt(strlen(svg), 1000000u);
    cr_expect_eq(occurrences(svg, "<title>"), 0);
    uint32_t half;
    qkv_colormap_color(NULL, 0.5, &half);
    cr_expect_eq(occurrences(svg, format("stroke=\"#%06x\"", (unsigned)half)), 48, "one path for each panel");
    cr_expect_eq(occurrences(svg, "h26\"/>\n"), 96,
                 "two cells of 13 in the second row: the ground, the colour");
    free(svg);
    qkv_arena_release(&arena);
}

Test(svg, uses_the_requested_maximum_of_the_colour_bar)
{
    char *svg = rendered(&report, "svg", &(struct qkv_format_options){.maximum = 0.25}, NULL);
    cr_assert_eq(occurrences(svg, " fill=\"#800026\"><title>"), 3, "0.25, 0.75 and 1 get the last colour");
    cr_assert(strstr(svg, ">0.25</text>") && strstr(svg, ">0.05</text>"));
    free(svg);
}

static uint32_t pixel(cairo_surface_t *surface, int x, int y)
{
    uint32_t value;
    memcpy(&value,
           cairo_image_surface_get_data(surface) + y * cairo_image_surface_get_stride(surface) + 4 * x, 4);
    return value & 0xFFFFFF;
}

/* Returns the integer value of the first attribute such as ` width="` at or after `from`. */
static int attribute(const char *from, const char *name)
{
    return atoi(strstr(from, name) + strlen(name));
}

/* At one pixel per unit, positions in the svg are pixels of the png. */
Test(png, shows_what_the_svg_shows)
{
    const struct qkv_format_options options = {.scale = 1};
    const char *path = format("%s/map.png", scratch("png"));
    char *svg = rendered(&report, "svg", &options, NULL);
    cr_assert_eq(qkv_attention_write(&report, qkv_format_of_path(path), &options, path, NULL), QKV_OK);
    size_t size;
    char *bytes = read_file(path, &size);
    cr_assert(size > 8 && !memcmp(bytes, "\x89PNG\r\n\x1a\n", 8));
    free(bytes);

    cairo_surface_t *surface = cairo_image_surface_create_from_png(path);
    cr_assert_eq(cairo_surface_status(surface), CAIRO_STATUS_SUCCESS);
    cr_assert_eq(cairo_image_surface_get_width(surface), attribute(svg, " width=\""));
    cr_assert_eq(cairo_image_surface_get_height(surface), attribute(svg, " height=\""));
    cr_assert_eq(pixel(surface, 1, 1), 0xFFFFFFu);
    int cells = 0;
    for (const char *cell = svg; (cell = strstr(cell, "\"><title>")); cell++, cells++) {
        const char *start = cell;
        while (strncmp(start, "<rect", 5)) start--;
        int x = attribute(start, " x=\""), y = attribute(start, " y=\""),
            side = attribute(start, " width=\"");
        uint32_t color;
        qkv_colormap_color(NULL, cross[cells], &color);
        cr_assert_eq(pixel(surface, x, y), color);
        cr_assert_eq(pixel(surface, x + side - 1, y + side - 1), color);
    }
    cr_assert_eq(cells, 6);
    cairo_surface_destroy(surface);
    free(svg);
}

Test(png, refuses_an_image_that_is_too_large)
{
    struct qkv_attention_report huge = report;
    int64_t count = 30000;
    const char **tokens = malloc((size_t)count * sizeof *tokens);
    double *weights = calloc((size_t)count, sizeof *weights);
    for (int64_t i = 0; i < count; i++) tokens[i] = "a";
    struct qkv_attention_map map = {QKV_ATTENTION_CROSS, 1, 1, 1, count, weights};
    huge.source = tokens;
    huge.source_length = count;
    huge.target_length = 1;
    huge.maps = &map;
    char *bytes;
    size_t size;
    struct qkv_error error;
    cr_assert_eq(qkv_attention_render(&huge, qkv_format_find("png"), NULL, &bytes, &size, &error),
                 QKV_INVALID);
    cr_assert(strstr(error.message, "more than 32767 a side: choose fewer maps, or svg"), "%s",
              error.message);
    free(weights);
    free(tokens);
}
