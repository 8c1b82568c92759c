/* qkv train on a terminal: a block that is drawn in place, messages above it, and lines wherever it cannot be drawn. */
#include "pseudo_terminal.h"

#include <ctype.h>

TestSuite(train_terminal, .init = enter_tiny_task);

#define ENDLESS                                                                                              \
    "-s training.updates=0 -s training.epochs=1000000 -s training.patience=0 -s "                            \
    "training.validation_freq=200"

/* What begins every drawing, and ends it. */
static const char DRAWING[] = "\033[?7l", DRAWN[] = "\033[?7h";

static bool has_line(const char *text, const char *start)
{
    return strstr(format("\n%s", text), format("\n%s", start)) != NULL;
}

/* A text without spaces and line ends: what a narrow terminal has wrapped is one text again. */
static char *squeezed(const char *text)
{
    char *copy = format("%s", text), *end = copy;
    for (; *text; text++)
        if (!isspace((unsigned char)*text)) *end++ = *text;
    *end = '\0';
    return copy;
}

static int widest_line(const char *text)
{
    int widest = 0;
    while (*text) {
        int columns = 0;
        for (; *text && *text != '\n'; text++) columns += (*text & 0xC0) != 0x80;
        if (columns > widest) widest = columns;
        text += *text == '\n';
    }
    return widest;
}

/* Trains the tiny task on a terminal until the end; returns the terminal. */
static struct pseudo_terminal *trained(int columns, int rows, const char *variables, const char *options)
{
    struct pseudo_terminal *terminal =
        pseudo_terminal_start(columns, rows, "rm -rf run && %s qkv train c.yaml %s", variables, options);
    cr_expect_eq(pseudo_terminal_end(terminal), 0);
    return terminal;
}

/* Starts an endless training. */
static struct pseudo_terminal *started(int columns, int rows, const char *options)
{
    return pseudo_terminal_start(columns, rows, "qkv train c.yaml " ENDLESS " %s", options);
}

/* Expects as many blocks as there should be on the screen. */
static char *expect_block(const struct pseudo_terminal *terminal, int blocks)
{
    char *text = pseudo_terminal_text(terminal);
    cr_expect_eq(occurrences(format("\n%s", text), "\nupdate  "), blocks, "%s", text);
    return text;
}

Test(train_terminal, keeps_one_block_at_the_end)
{
    const char *options = "--threads 1 -s training.label_smoothing=0.1";
    run_ok("qkv train c.yaml %s -s training.model_dir=lines", options);
    struct pseudo_terminal *terminal = trained(100, 40, "", options);
    char *text = pseudo_terminal_text(terminal);
    cr_expect(has_line(text, "run: 6171 parameters, 80 training pairs"), "%s", text);
    cr_expect(has_line(text, "20 updates will take about "), "%s", text);
    cr_expect_eq(occurrences(text, "update "), 3, "%s",
                 text); /* of the block, of its dev scores and of the end */
    cr_expect(has_line(text, "update  20 of 20  epoch 4  "), "%s", text);
    cr_expect(shows(text, " tokens/s\n        [####") && shows(text, "####] 100 %\nloss    "));
    cr_expect(shows(text, "\n        █")); /* the loss of the first five updates */
    cr_expect(shows(text, "▁\ndev     loss ") && shows(text, "  at update 20 (best)\n    "));
    cr_expect(shows(text, "\n      = ") && lacks(text, "\ndone after 20 updates (\n"));
    cr_expect(has_line(text, "done after 20 updates ("), "%s", text);
    /* The numbers of the last log line. */
    const char *logged =
        run_ok("grep '\"train\"' run/metrics.jsonl | tail -n 1 | sed 's/.*cross_entropy\": *//'");
    cr_expect_float_eq(number_after(text, " (cross-entropy "), strtod(logged, NULL), 5.1e-5, "%s\n%s", text,
                       logged);
    /* What is shown has no effect on what is learned. */
    const char *sums = "cd %s && cksum *.safetensors && sed 's/\"seconds\".*//' metrics.jsonl";
    cr_expect_str_eq(run_ok(sums, "run"), run_ok(sums, "lines"));
}

Test(train_terminal, marks_the_best_validation)
{
    /* Patience ends the training when a validation is not the best. */
    struct pseudo_terminal *terminal = trained(
        100, 40, "", "-s training.updates=10000 -s training.patience=1 -s training.learning_rate=0.3");
    char *text = pseudo_terminal_text(terminal);
    cr_expect(lacks(text, "(best)"));
    const char *best = strstr(text, "\nbest    loss "), *end = strstr(text, "; best loss ");
    cr_assert(best && end, "%s", text);
    best += strlen("\nbest    ");
    end += strlen("; best ");
    cr_expect(!strncmp(best, end, strlen("loss 1.2345")), "%s", text);
}

/* More losses than are kept: neighbours have been merged, twice, and the course still begins and ends where it did. */
Test(train_terminal, draws_a_long_course)
{
    struct pseudo_terminal *terminal =
        trained(100, 40, "", "-s training.updates=700 -s training.logging_freq=1");
    char *text = pseudo_terminal_text(terminal), *course = strstr(text, "\n        █");
    cr_assert_not_null(course, "%s", text);
    course++;
    course[strcspn(course, "\n")] = '\0';
    cr_expect_eq(widest_line(course), 8 + 60, "%s", course);
    /* It falls for the first half at least, with rises of one height at most. */
    int heights[60], lowest = 7;
    for (int i = 0; i < 60; i++) heights[i] = (unsigned char)course[8 + 3 * i + 2] - 0x81;
    for (int i = 0; i < 30; i++) {
        cr_expect_leq(heights[i], lowest + 1, "%s", course);
        if (heights[i] < lowest) lowest = heights[i];
    }
    cr_expect_leq(heights[59], 2, "%s", course);
}

Test(train_terminal, fits_a_narrow_terminal)
{
    struct pseudo_terminal *terminal = trained(40, 24, "", "--threads 1 -s training.label_smoothing=0.1");
    char *text = pseudo_terminal_text(terminal);
    char *block = strstr(text, "\nupdate  20 of 20  ");
    cr_assert_not_null(block, "%s", text);
    char *end = strstr(block, "\ndone after ");
    cr_assert_not_null(end, "%s", text);
    *end = '\0';
    cr_expect_leq(widest_line(block), 39, "%s", block);
    cr_expect(shows(block, ")\n        learning rate "));
    cr_expect_not_null(strstr(block, "]  100 %") ? block : strstr(block, "] 100 %\n"), "%s", block);
    cr_expect(shows(block, "\ndev     loss ") && shows(block, "\n      = "));
}

/* Of a terminal with few rows, the block takes no more than there are. */
Test(train_terminal, fits_a_low_terminal)
{
    struct pseudo_terminal *terminal = started(80, 6, "");
    pseudo_terminal_wait(terminal, "validations; ");
    for (int i = 0; i < 4; i++) pseudo_terminal_wait(terminal, DRAWN);
    cr_expect_eq(pseudo_terminal_leave(terminal, "\003"), 130);
    char *text = expect_block(terminal, 1);
    cr_expect_eq(occurrences(text, "\nloss    "), 1, "%s", text);
}

Test(train_terminal, follows_a_new_size_and_says_that_it_is_interrupted)
{
    struct pseudo_terminal *terminal = started(100, 40, "");
    pseudo_terminal_wait(terminal, "] 0 %");
    pseudo_terminal_wait(terminal, "(best)");
    pseudo_terminal_wait(terminal, DRAWN);
    static const int columns[] = {40, 120, 60};
    for (int i = 0; i < 3; i++) {
        pseudo_terminal_resize(terminal, columns[i], 30);
        pseudo_terminal_wait(terminal, DRAWING); /* the first may have been drawn for the old size */
        pseudo_terminal_wait(terminal, DRAWING);
        pseudo_terminal_wait(terminal, DRAWN);
        char *text = expect_block(terminal, 1);
        cr_expect_eq(occurrences(text, "\ndev     "), 1, "%d columns:\n%s", columns[i], text);
        cr_expect_eq(occurrences(text, "\n      = "), 1, "%d columns:\n%s", columns[i], text);
    }
    pseudo_terminal_type(terminal, "\003");
    pseudo_terminal_wait(terminal, "without saving");
    cr_expect_eq(pseudo_terminal_end(terminal), 130);
    char *text = pseudo_terminal_text(terminal);
    const char *message = strstr(text, "qkv: interrupted: "), *block = strstr(text, "\nupdate  ");
    cr_expect(message && block && message < block, "%s", text);
    /* A notice about overfitting may come between the message and the block. */
    cr_expect(shows(squeezed(text),
                    "qkv:interrupted:savingacheckpointafterthisupdate;interruptagaintostopwithoutsaving"),
              "%s", text);
    cr_expect(lacks(text, "^C"));
    cr_expect_eq(occurrences(text, "\nupdate  "), 1, "%s", text);
    cr_expect(shows(squeezed(text), "saved;continuewith:qkvtrainc.yaml-s"), "%s", text);
}

Test(train_terminal, shows_notices_whole_above_the_block)
{
    struct pseudo_terminal *terminal = started(200, 40, "-s data.dev= -s training.learning_rate=1e-9");
    pseudo_terminal_wait(terminal, "notice: ");
    pseudo_terminal_wait(terminal, DRAWN);
    char *text = expect_block(terminal, 1);
    const char *notice = strstr(text, "\nnotice: "), *block = strstr(text, "\n\nupdate  ");
    cr_assert(notice && block && notice < block, "%s", text);
    cr_expect(shows(squeezed(notice), "belongtogetherupdate"));
    cr_expect_eq(pseudo_terminal_leave(terminal, "\003"), 130);
}

/* Ctrl-Z and `fg`: the shell does not write over the block, and it comes back. */
Test(train_terminal, leaves_the_terminal_when_it_is_stopped)
{
    struct pseudo_terminal *terminal = pseudo_terminal_start(
        100, 40, "set -m && '%s' train c.yaml %s; echo the shell; fg", QKV_BINARY, ENDLESS);
    pseudo_terminal_wait(terminal, DRAWN);
    pseudo_terminal_type(terminal, "\032");
    pseudo_terminal_wait(terminal, "the shell\r\n");
    expect_block(terminal, 0);
    pseudo_terminal_wait(terminal, DRAWN);
    expect_block(terminal, 1);
    pseudo_terminal_type(terminal, "\003");
    pseudo_terminal_wait(terminal, "interrupted after");
    pseudo_terminal_end(terminal);
}

/* In the background, with TERM=dumb and with --quiet, and where standard error is no terminal. */
Test(train_terminal, draws_nothing_where_it_should_not)
{
    struct pseudo_terminal *terminal =
        pseudo_terminal_start(100, 40, "set -m && { '%s' train c.yaml & wait; }", QKV_BINARY);
    pseudo_terminal_end(terminal);
    cr_expect(lacks(terminal->bytes, DRAWING));
    cr_expect(shows(pseudo_terminal_text(terminal), "\nupdate 10  dev: loss "));
    cr_expect_eq(trained(80, 24, "", "-q")->size, 0);
    cr_expect_eq(trained(80, 24, "", "2>log")->size, 0);
    cr_expect(has_line(read_file("log", NULL), "update 5  epoch 1  loss ") &&
              lacks(read_file("log", NULL), "\033"));
    const char *dumb = trained(80, 24, "TERM=dumb", "")->bytes;
    cr_expect(lacks(dumb, "\033") && shows(dumb, "\nupdate 5  epoch 1  loss "));
}

Test(train_terminal, has_colors_and_unicode_unless_the_environment_refuses_them)
{
    struct pseudo_terminal *plain = trained(80, 24, "NO_COLOR=1", ""),
                           *ascii = trained(80, 24, "LC_ALL=C", "");
    cr_expect(trained(80, 24, "", "")->screen.is_colored);
    cr_expect_not(plain->screen.is_colored);
    cr_expect(has_line(pseudo_terminal_text(plain), "update  20 of 20  "));
    for (size_t i = 0; i < ascii->size; i++) cr_assert_lt((unsigned char)ascii->bytes[i], 128);
    cr_expect(shows(pseudo_terminal_text(ascii), "\n        #"));
}
