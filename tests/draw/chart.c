/* Line charts. */
#include "maps.h"
#include "parse.h"

#include "framework/translator/draw/chart.h"

#include <cairo.h>

static const double X[] = {3, 8, 13, 18, 23, 28, 33, 38, 43, 48};
static const double FALLING[] = {90, 75, 50, 28, 12, 4, 1, 0, 0, 0};
static const double HIGH[] = {99, 98.5, 98, 97.5, 97, 90, 70, 45, 25, 12};

static struct chart_line lines[] = {{"bottle & neck", 10, X, FALLING}, {"attention", 10, X, HIGH}};
static const struct chart chart = {.title = "Accuracy",
                                   .x_label = "length, tokens",
                                   .y_label = "right, %",
                                   .y_end = 100,
                                   .vertical_line = 25,
                                   .vertical_line_label = "longest in training",
                                   .lines = lines,
                                   .line_count = 2};

/* A chart of a local array of lines, whose axes are x and y; what follows are further fields. */
#define CHART_OF(of_lines, ...)                                                                              \
    LIST(.x_label = "x", .y_label = "y", .lines = of_lines, .line_count = LENGTH_OF(of_lines), __VA_ARGS__)

static const char *draw(const struct chart *what, const char *name)
{
    const char *path = format("%s/%s", scratch(name), name);
    expect_done(qkv_charts_write(what, 1, 1, path, NULL, &error));
    return path;
}

static const char *svg_of(const struct chart *what)
{
    return read_file(draw(what, "chart.svg"), NULL);
}

Test(chart, shows_axes_with_labels_and_a_line_and_a_legend_entry_per_series)
{
    static const char texts[] =
        "Accuracy|length, tokens|right, %|longest in training|bottle &amp; neck|attention|0|50|100|45";
    const char *svg = svg_of(&chart);
    for (char *text = strtok(format("%s", texts), "|"); text; text = strtok(NULL, "|"))
        cr_expect(shows(svg, format(">%s<", text)), "%s", text);
    cr_expect_eq(occurrences(svg, "<polyline"), 5,
                 "two lines, their samples in the legend, and the vertical line");
    cr_expect_eq(occurrences(svg, "<polygon"), 44, "a mark with a rim per point and sample");
}

/* (0, 0) is the lower left corner of the plot, (50, 100) the upper right one. */
Test(chart, places_values_by_the_scale_of_the_axes)
{
    static const double x[] = {0, 50}, y[] = {0, 100};
    static const struct chart_line line[] = {{"corners", 2, x, y}};
    const struct chart corners = CHART_OF(line, .y_end = 100);
    const char *svg = svg_of(&corners);
    const char *points = strstr(svg, "points=\"");
    cr_assert_not_null(points);
    double left, bottom, right, top;
    cr_assert_eq(sscanf(points, "points=\"%lf,%lf %lf,%lf\"", &left, &bottom, &right, &top), 4);
    cr_expect_float_eq(right - left, 560, 0.01);
    cr_expect_float_eq(bottom - top, 320, 0.01);
    cr_expect(shows(svg, format("<rect x=\"%g\" y=\"%g\" width=\"560\" height=\"1\"", left, bottom)));
}

Test(chart, ends_axes_at_round_numbers)
{
    static const double x[] = {0.1, 0.33}, y[] = {7, 1234};
    static const struct chart_line line[] = {{"odd", 2, x, y}};
    const struct chart odd = CHART_OF(line, );
    const char *svg = svg_of(&odd);
    cr_expect(strstr(svg, ">0.35<") && !strstr(svg, ">0.40<"));
    cr_expect(strstr(svg, ">1400<") && !strstr(svg, ">1600<"));
}

/* Both lines are drawn in their colours. */
Test(chart, draws_the_same_lines_as_pixels)
{
    cairo_surface_t *surface = cairo_image_surface_create_from_png(draw(&chart, "chart.png"));
    cr_assert_eq(cairo_surface_status(surface), CAIRO_STATUS_SUCCESS);
    int width = cairo_image_surface_get_width(surface), height = cairo_image_surface_get_height(surface);
    cr_expect(width > 1200 && width < 1900 && height > 700 && height < 900, "%d x %d", width, height);
    const unsigned char *data = cairo_image_surface_get_data(surface);
    int stride = cairo_image_surface_get_stride(surface), black = 0, orange = 0;
    for (int y = 0; y < height; y++) {
        for (int x = 0; x < width; x++) {
            const unsigned char *bgr = data + y * stride + 4 * x;
            black += bgr[0] == 0 && bgr[1] == 0 && bgr[2] == 0;
            orange += bgr[0] == 0x00 && bgr[1] == 0x9F && bgr[2] == 0xE6;
        }
    }
    cr_expect_gt(black, 5000);
    cr_expect_gt(orange, 3000);
    cairo_surface_destroy(surface);
}

/* In two columns, the second chart is right of the first and the third below it. There is one legend. */
Test(chart, shares_a_sheet_and_a_legend_with_others)
{
    struct chart_line plain = {.name = "computed", .count = 10, .x = X, .y = HIGH, .without_marks = true};
    const struct chart sheet[] = {
        {.x_label = "first", .y_label = "y", .lines = &plain, .line_count = 1},
        {.x_label = "second", .y_label = "y", .lines = lines, .line_count = 2},
        {.x_label = "third", .y_label = "y", .lines = lines, .line_count = 1},
    };
    const char *path = format("%s/sheet.svg", scratch("sheet"));
    expect_done(qkv_charts_write(sheet, 3, 2, path, NULL, &error));
    const char *svg = read_file(path, NULL);
    cr_expect_eq(occurrences(svg, "<polyline"), 6, "four lines and two samples");
    cr_expect_eq(occurrences(svg, "<polygon"), 64, "marks with rims of three lines and two samples");
    cr_expect_eq(occurrences(svg, ">attention<"), 1);
    cr_expect_eq(occurrences(svg, ">computed<"), 0, "a line of a chart with fewer lines");
    double x[3], y[3];
    for (int i = 0; i < 3; i++) {
        const char *text = strstr(svg, format(">%s<", sheet[i].x_label));
        cr_assert_not_null(text);
        while (strncmp(text, "<text", 5) != 0) text--;
        cr_assert_eq(sscanf(text, "<text x=\"%lf\" y=\"%lf\"", &x[i], &y[i]), 2, "%.80s", text);
    }
    cr_expect(x[1] > x[0] + 360 && y[1] == y[0]);
    cr_expect(x[2] == x[0] && y[2] > y[0] + 220);
}

/* Invalid UTF-8, of which measuring the width must end at its end, and what XML forbids. */
Test(chart, replaces_what_is_no_text)
{
    static const struct chart_line odd[] = {{"a name\xFFz\xE4", 10, X, HIGH},
                                            {"a\033[2J\uFFFE\u202E<&\"", 10, X, HIGH}};
    const struct chart hostile = {
        .title = "]]>\x01", .x_label = "\r", .y_label = "\uFFFF", .lines = odd, .line_count = 2};
    struct markup markup = parse_markup(svg_of(&hostile));
    cr_expect(has_text(markup, "a name\uFFFDz\uFFFD") && has_text(markup, "a\uFFFD[2J\uFFFD\uFFFD<&\""));
    cr_expect(has_text(markup, "]]>\uFFFD"));
    draw(&hostile, "hostile.png");
}

/* A name of 200,000 letters, or of marks without a letter, which have no width, costs no more than another. */
Test(chart, cuts_long_names, .timeout = 30)
{
    enum { SIZE = 200000 };
    char *letters = remember(malloc(SIZE + 1)), *marks = remember(malloc(SIZE + 1));
    memset(letters, 'x', SIZE);
    for (int i = 0; i < SIZE; i += 2) memcpy(marks + i, "\xCC\x81", 2);
    letters[SIZE] = marks[SIZE] = 0;
    struct chart_line both[] = {{letters, 10, X, HIGH}, {marks, 10, X, FALLING}};
    const struct chart large = {
        .title = letters, .x_label = letters, .y_label = marks, .lines = both, .line_count = 2};
    const char *svg = svg_of(&large);
    parse_markup(svg);
    cr_expect(shows(svg, "xxx…</text>"));
    cr_expect_lt(strlen(svg), 20000);
    draw(&large, "large.png");
}

/* An empty file in place of the library stops the loader. */
Test(chart, says_what_a_png_needs)
{
    const char *folder = scratch("absent");
    write_text(folder, "libpangocairo-1.0.so.0", "");
    write_text(folder, "a.json",
               "{\"run\": \"a\", \"parameters\": 1, \"test\": \"t\", \"sentences\": 2, \"token_accuracy\": "
               "1, \"sequence_accuracy\": 1, \"bleu\": 1, \"by_length\": [{\"from\": 1, \"to\": 2, "
               "\"sentences\": 2, \"sequence_accuracy\": 1}]}");
    struct outcome outcome = run("cd '%s' && LD_LIBRARY_PATH=. qkv compare a.json -o a.svg -o a.png", folder);
    cr_expect_eq(outcome.exit_code, 2);
    cr_expect(begins(outcome.error, "qkv: png and pdf need "));
    cr_expect(shows(outcome.error, "Pango and Cairo, which cannot be loaded (./libpango"));
    cr_expect(shows(outcome.error, "apt-get install libpangocairo-1.0-0), or choose svg\n"));
    cr_expect_not_null(read_file(format("%s/a.svg", folder), NULL));
    cr_expect_null(read_file(format("%s/a.png", folder), NULL));
}

Test(chart, refuses_numbers_that_no_axis_shows)
{
    const double numbers[] = {(double)NAN, (double)INFINITY, -1, 1e16, 1e308};
    const char *path = format("%s/chart.svg", scratch("numbers"));
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++) {
        const double x[] = {1, 2}, y[] = {1, numbers[i]};
        const struct chart_line across = {"a", 2, y, x, false}, up = {"a", 2, x, y, false};
        const struct chart charts[] = {{.lines = &across, .line_count = 1},
                                       {.lines = &up, .line_count = 1},
                                       {.y_end = numbers[i]},
                                       {.vertical_line = numbers[i]}};
        for (size_t c = 0; c < LENGTH_OF(charts); c++)
            expect_refusal_with(qkv_charts_write(&charts[c], 1, 1, path, NULL, &error),
                                "a chart cannot show ");
    }
    cr_expect_null(read_file(path, NULL));
    expect_refusal(qkv_charts_write(&chart, 1, 1, "chart.bmp", NULL, &error),
                   "chart.bmp: a chart is written as .svg or .png");
}

Test(chart, lines_of_the_same_colour_differ_in_dashes_and_marks)
{
    enum { LINES = 8 }; /* one more than there are colours */
    static const double x[] = {1, 2}, y[] = {1, 2};
    struct chart_line many[LINES];
    for (int i = 0; i < LINES; i++) many[i] = (struct chart_line){"line", 2, x, y};
    const struct chart full = CHART_OF(many, );
    const char *svg = svg_of(&full);
    cr_expect_eq(occurrences(svg, "stroke=\"#000000\" stroke-width=\"2\" shape"), 2,
                 "the first, and in the legend");
    cr_expect_eq(occurrences(svg, "stroke=\"#000000\" stroke-width=\"2\" stroke-dasharray"), 2, "the last");
}

/* Bands, companions and symbols, and what the legend says of them. */
Test(chart, companions_have_the_colour_of_their_line_and_no_entry_in_the_legend)
{
    static const double x[] = {1, 2}, y[] = {1, 2}, low[] = {0.5, 1}, high[] = {1.5, 3};
    const struct chart_line two[] = {{"dev", 2, x, y, .low = low, .high = high},
                                     {"train", 2, x, low, .companion_of = 1}};
    const struct chart_point ring = {2, 2, 0, CHART_RING};
    struct chart both = CHART_OF(two, .points = &ring, .point_count = 1, .companion_meaning = "thin",
                                 .band_meaning = "the band", .symbol_meaning = {[CHART_RING] = "the ring"});
    const char *svg = svg_of(&both);
    cr_expect(lacks(svg, ">train<"));
    cr_expect(strstr(svg, ">dev<") && strstr(svg, ">the ring<") && strstr(svg, ">thin<") &&
              strstr(svg, ">the band<"));
    cr_expect_eq(occurrences(svg, "stroke=\"#000000\" stroke-width=\"1\""), 1, "the companion");
    cr_expect_eq(occurrences(svg, "fill-opacity"), 2, "the band, and in the legend");
    cr_expect_eq(occurrences(svg, "stroke-width=\"1.5\""), 2, "the ring, and in the legend");
    cr_expect(shows(svg, ">3.0<"), "the axis holds the band");
    static const double bad[] = {1, -1};
    struct chart_line below = {"x", 2, x, y, .low = bad, .high = high};
    both.lines = &below;
    both.line_count = 1;
    cr_expect_eq(qkv_charts_write(&both, 1, 1, "never.svg", NULL, &error), QKV_INVALID);
}
