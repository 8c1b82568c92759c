/* Mistakes of first-time users, and messages that say what to do instead. */
#include "support.h"

#include <criterion/criterion.h>
#include <string.h>

/* Expects a command to print this line on standard error, alone or among others. */
static void expect_line(const char *folder, const char *command, const char *line)
{
    struct outcome outcome = run("cd '%s' && %s", folder, command);
    const char *errors = format("\n%s", outcome.error);
    cr_expect(shows(errors, format("\n%s\n", line)), "%s prints\n%s", command, outcome.error);
}

Test(mistakes, a_sentence_where_a_file_is_expected)
{
    const char *folder = tiny_run("sentence", 2);
    expect_line(folder, "qkv translate run a b c",
                "qkv: unexpected operand 'b'; a sentence is read from standard input (usage: qkv translate "
                "RUN [FILE] [options])");
    expect_line(folder, "qkv train c.yaml run",
                "qkv: unexpected operand 'run' (usage: qkv train CONFIG [options])");
    if (!has_page()) return;
    expect_line(folder, "qkv page run 'a b'",
                "qkv: a page holds one run, or scenes; --sentence gives the sentence that it opens with");
    expect_line(folder, "qkv page run run", "qkv: a page holds one run, or scenes");
}

Test(mistakes, a_sentence_that_begins_with_a_dash)
{
    const char *folder = enter(tiny_run("dash", 2));
    static const char *const sentences[] = {"-a b", "- a b", "-- a b", "-qa b"};
    for (int i = 0; i < 4; i++) {
        const char *line = format(
            "qkv: '%s' is read as an option; put -- before a sentence that begins with a dash", sentences[i]);
        expect_line(folder, format("qkv attention run '%s'", sentences[i]), line);
        expect_line(folder, format("qkv attention '%s' run", sentences[i]), line);
    }
    run_ok("qkv attention run -- '-a b'");
    expect_line(folder, "qkv attention run a -xy", "qkv: unknown option '-x' (see `qkv attention --help`)");
    expect_line(folder, "qkv attention run a '--bem=a b'",
                "qkv: unknown option '--bem'; did you mean --beam (see `qkv attention --help`)");
    /* The beginning of a name is none: that of --without would say the contrary. */
    expect_line(folder, "qkv attention run a --with run",
                "qkv: unknown option '--with'; did you mean --without (see `qkv attention --help`)");
    expect_line(folder, "qkv attention run a --bea=2",
                "qkv: unknown option '--bea'; did you mean --beam (see `qkv attention --help`)");
    expect_line(folder, "echo a | qkv translate run '-x y'",
                "qkv: unknown option '-x' (see `qkv translate --help`)");
}

Test(mistakes, a_file_where_a_sentence_is_expected)
{
    const char *folder = enter(tiny_run("file", 2));
    const char *line = "qkv: dev.tsv is read as a sentence, but is a file; to read its lines, give - as the "
                       "sentence, and <dev.tsv";
    expect_line(folder, "qkv attention run dev.tsv", line);
    cr_expect(lacks(run("touch a && qkv attention run a").error, "file"), "a is a word");
    cr_expect(lacks(run("qkv attention run dev.tsv -q").error, "file"));
}

Test(mistakes, an_output_file_of_a_command_that_prints)
{
    const char *folder = tiny_run("output", 2);
    static const char *const commands[] = {"translate run dev.tsv -o x", "evaluate run --output=x",
                                           "tokenize run --output x"};
    for (int i = 0; i < 3; i++) {
        const char *command = commands[i];
        const char *option = strstr(command, " -") + 1;
        expect_line(folder, format("qkv %s </dev/null", command),
                    format("qkv: unknown option '%.*s'; results go to standard output: append >FILE (see "
                           "`qkv %.*s --help`)",
                           (int)strcspn(option, " ="), option, (int)strcspn(command, " "), command));
    }
    expect_line(folder, "qkv train c.yaml -o x", "qkv: unknown option '-o' (see `qkv train --help`)");
    expect_line(folder, "qkv attention run a -o x.y/map",
                "qkv: x.y/map: the name has no extension, which would choose a format; choose one with "
                "--format: text, json, csv, npz, html, svg, png");
    expect_line(folder, "qkv attention run a -o x.y/map.jpg",
                "qkv: x.y/map.jpg: .jpg is no known extension (known: txt, json, csv, npz, html, svg, png); "
                "choose a format with --format to keep it");
    expect_line(folder, "qkv attention run a -o x.y/map.svg",
                "qkv: x.y/map.svg: cannot be written: there is no folder x.y");
}

Test(mistakes, a_format_as_an_option)
{
    const char *folder = tiny_run("format", 2);
    static const char *const commands[][2] = {{"heads run dev.tsv --json", "json"},
                                              {"attention run a --json", "json"},
                                              {"explain run a --json", "json"},
                                              {"attention run a --svg", "svg"}};
    for (int i = 0; i < 4; i++)
        expect_line(folder, format("qkv %s", commands[i][0]),
                    format("qkv: unknown option '--%s'; did you mean -f %s (see `qkv %.*s --help`)",
                           commands[i][1], commands[i][1], (int)strcspn(commands[i][0], " "),
                           commands[i][0]));
}

Test(mistakes, a_sentence_of_the_target)
{
    const char *folder = enter(tiny_run("side", 2));
    static const char hint[] =
        "; most of them are words of the target language: this run translates from a to b";
    expect_line(folder, "echo A B a | qkv translate run",
                format("qkv: <stdin>:1: not in the vocabulary: A, B%s", hint));
    expect_line(folder, "qkv attention run 'A B'",
                format("qkv: the sentence: not in the vocabulary: A, B%s", hint));
    expect_line(folder, "qkv attention run a --target 'a b'",
                "qkv: --target: not in the target vocabulary: a, b; most of them are words of the source "
                "language: this run translates from a to b");
    expect_line(folder, "echo a b | qkv tokenize run --side trg",
                "qkv: <stdin>:1: not in the target vocabulary: a, b; most of them are words of the source "
                "language: this run translates from a to b");
    /* Names may be in both languages, and one word is not enough to tell. */
    static const char *const others[] = {"A B a b", "A", "x y", "A x y"};
    for (int i = 0; i < 4; i++)
        cr_expect(lacks(run("echo %s | qkv translate run", others[i]).error, hint), "%s", others[i]);
}

Test(mistakes, a_text_with_swapped_columns)
{
    const char *folder = enter(tiny_run("swapped", 2));
    static const char *const commands[] = {"evaluate run %s --no-translation",
                                           "heads run %s --no-translation --quiet", "align run %s"};
    run_ok("awk -F '\\t' '{print $2 \"\\t\" $1}' dev.tsv >swapped.tsv && cp dev.tsv half.tsv && head -4 "
           "swapped.tsv >>half.tsv");
    for (int i = 0; i < 3; i++) {
        char *command = format(format("cd '%%s' && qkv %s", commands[i]), folder, "swapped.tsv");
        cr_expect_str_eq(
            run("%s", command).error,
            "qkv: swapped.tsv: most of its source words are not in the vocabulary, but most of these are "
            "words of the target language: this run translates from a to b; are the columns swapped?\n",
            "%s", command);
        command = format(format("cd '%%s' && qkv %s", commands[i]), folder, "half.tsv");
        cr_expect_str_empty(run("%s", command).error);
    }
    cr_expect(shows(run("qkv evaluate run - <swapped.tsv").error, "qkv: <stdin>: most of its source words"));
}
