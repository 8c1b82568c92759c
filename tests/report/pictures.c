/* Attention maps as svg and png. */
#include "draw/text.h"
#include "maps.h"

#include <cairo.h>

static const char *const source[] = {"<b>", "R&D", "</s>"};
static const char *const input[] = {"<s>", "狗"};
static const char *const output[] = {"狗", "</s>"};
static const double cross[] = {0.75, 0.25, 0, 0, 0, 1}, other[] = {0, 1, 0, 0.5, 0.5, 0};
static const struct qkv_attention_map one_map[] = {{QKV_ATTENTION_CROSS, 1, 1, 2, 3, cross}},
                                      two_maps[] = {{QKV_ATTENTION_CROSS, 1, 1, 2, 3, cross},
                                                    {QKV_ATTENTION_CROSS, 1, 2, 2, 3, other}};
static const struct qkv_attention_report report = REPORT_OF(source, input, output, one_map,
                                                            .title = "R&D → 狗", .model = "tiny"),
                                         both = REPORT_OF(source, input, output, two_maps, );

/* A text, and how often it occurs. */
struct part {
    const char *text;
    int count;
};

static void expect_parts(const char *svg, const struct part *parts)
{
    for (; parts->text; parts++)
        cr_expect_eq(occurrences(svg, parts->text), parts->count, "%d times: %s", parts->count, parts->text);
}

/* Escaped tokens and weights; numbers in cells, dark on light and light on dark, but for zeros; the labels of two heads, of rows
 * once, of columns below each panel; and the requested maximum of the colour bar, beyond which cells have the last colour. */
Test(svg, has_each_text_as_often_as_it_should)
{
    static const struct {
        const struct qkv_attention_report *report;
        struct qkv_format_options options;
        struct part parts[17];
    } rows[] = {
        {&report,
         {0},
         LIST({"<svg xmlns=\"http://www.w3.org/2000/svg\"", 1}, {">R&amp;D → 狗</text>", 1},
              {">cross attention, layer 1, head 1 · tiny</text>", 1}, {">&lt;b&gt;</text>", 1},
              {">R&amp;D</text>", 1}, {">&lt;/s&gt;</text>", 2}, {">狗</text>", 1},
              {">target (output)</text>", 1}, {">source</text>", 1}, {">attention weight</text>", 1},
              {">1.0</text>", 1}, {">0.2</text>", 1}, {"<title>", 6},
              {" fill=\"#800026\"><title>&lt;/s&gt; → &lt;/s&gt;: 1.00</title></rect>", 1}, {"<b>", 0},
              {"</svg>\n", 1})},
        {&report, LIST(.annotate = true, .colormap = "gray"),
         LIST({"fill=\"#000000\" text-anchor=\"middle\">0.75</text>", 1},
              {"fill=\"#ffffff\" text-anchor=\"middle\">0.25</text>", 1}, {">0.00</text>", 0})},
        {&both,
         {0},
         LIST({">layer 1, head 1</text>", 1}, {">layer 1, head 2</text>", 1}, {">狗</text>", 1},
              {">&lt;b&gt;</text>", 2}, {">attention weight</text>", 1}, {"<title>", 12})},
        {&report,
         {.maximum = 0.25},
         LIST({" fill=\"#800026\"><title>", 3}, {">0.25</text>", 1}, {">0.05</text>", 1})},
    };
    for (size_t i = 0; i < LENGTH_OF(rows); i++)
        expect_parts(rendered(rows[i].report, "svg", &rows[i].options, NULL), rows[i].parts);
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

/* Layers with one head each are in one line, whose rows are labelled once. Each of several kinds has a title. */
Test(svg, puts_layers_with_one_head_into_a_line)
{
    static const double square[9] = {1, 0, 0, 0, 1, 0, 0, 0, 1};
    static const struct qkv_attention_map maps[] = {{QKV_ATTENTION_ENCODER, 1, 1, 3, 3, square},
                                                    {QKV_ATTENTION_ENCODER, 1, 2, 3, 3, square},
                                                    {QKV_ATTENTION_CROSS, 1, 1, 2, 3, cross},
                                                    {QKV_ATTENTION_CROSS, 2, 1, 2, 3, other}};
    const struct qkv_attention_report all = REPORT_OF(source, input, output, maps, );
    static const struct part parts[] = {{">encoder attention</text>", 1},
                                        {">cross attention</text>", 1},
                                        {">layer 1, head 1</text>", 2},
                                        {">layer 2, head 1</text>", 1},
                                        {NULL}},
                             line[] = {{">between</text>", 3 + 2 * 3}, {NULL}};
    struct qkv_arena arena RELEASED(qkv_arena_release) = {0};
    struct qkv_attention_report layers = decoder_report(&arena, 2, 1, 3, NULL);
    expect_parts(rendered(&all, "svg", NULL, NULL), parts);
    expect_parts(rendered(&layers, "svg", NULL, NULL), line);
}

/* Kinds that take turns have a block each. The places of a few are chosen; the others are below them. */
Test(svg, places_any_number_of_blocks)
{
    enum { COUNT = 20 };
    struct qkv_arena arena RELEASED(qkv_arena_release) = {0};
    struct qkv_attention_report turns = decoder_report(&arena, COUNT, 1, 2, NULL);
    struct qkv_attention_map *maps = qkv_arena_zeroed(&arena, COUNT * sizeof *maps);
    turns.maps = memcpy(maps, turns.maps, COUNT * sizeof *maps);
    for (int i = 0; i < COUNT; i += 2) maps[i].kind = QKV_ATTENTION_ENCODER;
    const struct part parts[] = {{">encoder attention</text>", COUNT / 2}, {">query</text>", COUNT}, {NULL}};
    expect_parts(rendered(&turns, "svg", NULL, NULL), parts);
}

Test(svg, hatches_the_cells_that_a_row_does_not_see)
{
    static const struct qkv_attention_rule causal = {.heads = 1, .causal = true},
                                           window = {.heads = 1, .window = 1};
    static const struct {
        const struct qkv_attention_rule *rule;
        struct part parts[3];
    } rows[] = {
        {&causal, {{"<title>", 10}, {"<polyline", 1}}},
        {&window, {{"<title>", 10}}}, /* three of four diagonals */
        {NULL, {{"<title>", 16}, {"<polyline", 0}}},
    };
    struct qkv_arena arena RELEASED(qkv_arena_release) = {0};
    for (size_t i = 0; i < LENGTH_OF(rows); i++) {
        struct qkv_attention_report one = decoder_report(&arena, 1, 1, 4, rows[i].rule);
        expect_parts(rendered(&one, "svg", NULL, NULL), rows[i].parts);
    }
}

Test(svg, puts_all_heads_of_a_layer_into_a_line_with_the_words_of_both_axes)
{
    struct qkv_arena arena RELEASED(qkv_arena_release) = {0};
    struct qkv_attention_report many = decoder_report(&arena, 2, 8, 3, NULL);
    char *svg = rendered(&many, "svg", NULL, NULL);
    cr_expect_eq(occurrences(svg, ">between</text>"), 2 * 3 + 16 * 3, "rows once a line, columns below each");
    const char *first = strstr(svg, ">layer 1, head 1</text>"),
               *last = strstr(svg, ">layer 1, head 8</text>");
    cr_assert(first && last);
    while (strncmp(first, " y=", 3)) first--;
    while (strncmp(last, " y=", 3)) last--;
    cr_expect_eq(atoi(first + 4), atoi(last + 4));
}

Test(svg, stays_small_with_many_heads_and_words)
{
    struct qkv_arena arena RELEASED(qkv_arena_release) = {0};
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
}

/* A text among bytes; NULL: it is not there. */
static const char *find_text(const char *bytes, size_t size, const char *text)
{
    for (const char *at = bytes; at + strlen(text) <= bytes + size; at++)
        if (!memcmp(at, text, strlen(text))) return at;
    return NULL;
}

/* A PDF is one page of the size of the svg, in points, and the same every time. */
Test(png, a_pdf_is_a_page_of_the_size_of_the_svg)
{
    size_t size, again;
    char *svg = rendered(&report, "svg", NULL, NULL), *pdf = rendered(&report, "pdf", NULL, &size),
         *same = rendered(&report, "pdf", NULL, &again);
    cr_assert(begins(pdf, "%PDF-1."));
    cr_expect(size == again && !memcmp(pdf, same, size));
    const char *box = find_text(pdf, size, "/MediaBox [ 0 0 ");
    cr_assert_not_null(box);
    double width, height;
    cr_assert_eq(sscanf(box + 16, "%lf %lf", &width, &height), 2);
    cr_expect_float_eq(width, 0.75 * attribute(svg, " width=\""), 0.01);
    cr_expect_float_eq(height, 0.75 * attribute(svg, " height=\""), 0.01);
    cr_expect_not_null(find_text(pdf, size, "/FontFile"), "text is text");
}

Test(png, refuses_an_image_that_is_too_large)
{
    enum { COUNT = 30000 };
    static const char *tokens[COUNT];
    static double weights[COUNT];
    static const struct qkv_attention_map map[] = {{QKV_ATTENTION_CROSS, 1, 1, 1, COUNT, weights}};
    for (int i = 0; i < COUNT; i++) tokens[i] = "a";
    struct qkv_attention_report huge = REPORT_OF(tokens, input, output, map, );
    huge.target_length = 1;
    char *bytes;
    size_t size;
    expect_refusal_with(qkv_attention_render(&huge, qkv_format_find("png"), NULL, &bytes, &size, &error),
                        "more than 32767 a side: choose fewer maps, or svg");
}
