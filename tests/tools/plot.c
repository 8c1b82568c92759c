/* qkv plot: curves of runs whose metrics are written here, without training. */
#include "written_runs.h"

TestSuite(plot, .init = enter_tiny_task);

/* A validation every 10 updates, at which the loss of training has fallen by 0.5. */
static char *metrics_of(int validations, const double dev[])
{
    char *lines = format("%s", "");
    for (int i = 0; i < validations; i++)
        lines = format("%s%s%s", lines, written_train_line(10 * (i + 1), 4 - 0.5 * i),
                       written_validation_line(10 * (i + 1), dev[i], 10 * (i + 1)));
    return lines;
}

static const double OVERFITS[] = {4, 3, 3.2, 3.4, 3.6, 3.8}, TWICE[] = {4, 3, 3.2, 3.4};

static char *svg_of(const char *arguments)
{
    run_ok("qkv plot %s -o plot.svg", arguments);
    return read_file("plot.svg", NULL);
}

Test(plot, marks_the_best_validation_and_where_overfitting_begins)
{
    static const char *const texts[] = {">over<",
                                        ">twice<",
                                        ">best validation<",
                                        ">overfitting begins<",
                                        ">loss, nats per target token<",
                                        ">BLEU of data.dev<",
                                        ">token accuracy of data.dev, %<",
                                        ">learning rate × 1000<",
                                        ">gradient norm, before clipping<",
                                        ">updates<"};
    written_run("over", 1, "", metrics_of(6, OVERFITS));
    written_run("twice", 1, "-s model.encoder.dropout=0.5", metrics_of(4, TWICE));
    const char *text = run_ok("LC_ALL=C qkv plot over --show loss");
    cr_expect(shows(text, "\n@  overfitting begins\n.  loss of training, without label smoothing\n"));
    cr_expect_eq(occurrences(text, "@"), 2, "in the chart and in the legend:\n%s", text);
    text = run_ok("LC_ALL=C qkv plot twice --show loss,bleu");
    cr_expect_eq(occurrences(text, "@"), 0, "two validations are not three:\n%s", text);
    cr_expect_eq(occurrences(text, "*"), 3, "the lowest loss, in both charts and in the legend:\n%s", text);
    const char *svg = svg_of("over twice");
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) cr_expect(shows(svg, texts[i]));
    cr_expect(lacks(svg, "sequence accuracy")); /* is not recorded here */
    /* Characters are those of the locale. */
    const char *plain = run_ok("LC_ALL=C qkv plot over");
    for (const char *at = plain; *at; at++) cr_assert((unsigned char)*at < 128, "%s", plain);
    cr_expect(shows(run_ok("LC_ALL=C.UTF-8 qkv plot over"), "\xE2\xA0")); /* Braille patterns */
}

/* BLEU 10, 20 and 30, 40: the means are 20 and 30, with a deviation of 14.14, so that the axis ends at 45. */
Test(plot, shows_runs_that_differ_in_their_seed_alone_as_their_mean)
{
    char *low = format("%s%s", written_validation_line(10, 2, 10), written_validation_line(20, 1, 20));
    char *high = format("%s%s", written_validation_line(10, 2, 30), written_validation_line(20, 1, 40));
    written_run("small-seed1", 1, "", low);
    written_run("small-seed2", 2, "", high);
    written_run("other", 2, "-s training.learning_rate=0.5", low);
    const char *svg = svg_of("small-seed1 small-seed2 --show bleu");
    cr_expect(shows(svg, ">small (mean of 2 seeds)<"));
    cr_expect(shows(svg, ">mean ± standard deviation over seeds<"));
    double x[2], y[2], band[8];
    const char *line = strstr(svg, "<polyline"), *area = strstr(svg, "fill-opacity=\"0.2\"");
    cr_assert(line && area);
    cr_assert_eq(sscanf(strstr(line, "points=\""), "points=\"%lf,%lf %lf,%lf", x, y, x + 1, y + 1), 4);
    cr_expect_float_eq(y[0] - y[1], 320 * 10. / 45, 0.02);
    cr_assert_eq(sscanf(strstr(area, "points=\""), "points=\"%lf,%lf %lf,%lf %lf,%lf %lf,%lf", band, band + 1,
                        band + 2, band + 3, band + 4, band + 5, band + 6, band + 7),
                 8);
    cr_expect_float_eq(band[7] - band[1], 320 * 2 * sqrt(200) / 45, 0.02, "one deviation on either side");
    svg = svg_of("small-seed1 small-seed2 other --show bleu");
    cr_expect(strstr(svg, ">small (mean of 2 seeds)<") && strstr(svg, ">other<"));
    svg = svg_of("small-seed1 other --show bleu");
    cr_expect(strstr(svg, ">small<") && strstr(svg, ">other<"));
    cr_expect(lacks(svg, "over seeds"));
}

Test(plot, runs_over_updates_tokens_or_time)
{
    written_run("a", 1, "", metrics_of(6, OVERFITS));
    written_run("old", 1, "", "{\"kind\":\"train\",\"update\":5,\"tokens\":50,\"loss\":3}\n");
    cr_expect(shows(run_ok("qkv plot a -x tokens"), " target tokens, thousands\n"));
    const char *seconds = run_ok("qkv plot a -x time --show bleu");
    cr_expect(shows(seconds, " time of training, seconds\n") &&
              shows(seconds, " 120\n")); /* 2 for each update */
    run_ok("qkv plot old");
    static const char *const cases[][2] = {
        {"old -x time",
         "qkv: old: records no times, as an older qkv has trained it; plot it over updates or tokens\n"
         "qkv: there is nothing to plot"},
        {"a a", "qkv: a: is named twice; name each run once"},
        {"none", "qkv: none: there is no such run"},
        {"a -o a.jpg", "qkv: a.jpg: a chart is written as .svg or .png"}};
    EXPECT_REFUSALS("qkv plot", cases);
}

Test(plot, shows_a_run_that_still_trains)
{
    written_run("a", 1, "", format("%s{\"kind\":\"train\",\"upd", metrics_of(2, OVERFITS)));
    written_run("b", 1, "-s training.learning_rate=0.5", "");
    struct outcome outcome = run("qkv plot a b --show bleu");
    cr_expect_eq(outcome.exit_code, 0);
    cr_expect_str_eq(outcome.error,
                     "qkv: b: has no metrics yet; the first come after training.logging_freq (5) updates\n");
    cr_expect(strstr(outcome.output, "\na  a\n") && !strstr(outcome.output, "\nb  b\n"), "%s",
              outcome.output);
}
