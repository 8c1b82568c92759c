/* What reaches a terminal: words of a corpus, texts of a scene and names of files that could steer it are escaped.
 * What is redirected is for programs, and stays as it is. */
#include "support.h"

#include <criterion/criterion.h>
#include <string.h>

/* Trains a run that translates into words with escape sequences and overrides. */
static const char *hostile_run(const char *name, struct outcome *training)
{
    static const char *const words[][2] = {
        {"one", "u\033[2Jno"}, {"two", "d\u202Eos"}, {"three", "t\xC2\x85res"}, {"four", "cuat\u2066ro"}};
    const char *folder = scratch(name), *lines = "";
    for (int i = 0; i < 16; i++)
        lines = format("%s%s %s\t%s %s\n", lines, words[i % 4][0], words[i / 4][0], words[i % 4][1],
                       words[i / 4][1]);
    write_text(folder, "train.tsv", lines);
    write_text(folder, "c.yaml",
               "name: tiny\n"
               "data: {train: train.tsv, dev: train.tsv, src: {lang: en}, trg: {lang: es}}\n"
               "model:\n"
               "  encoder: {num_layers: 1, num_heads: 2, hidden_size: 16, ff_size: 32}\n"
               "  decoder: {num_layers: 1, num_heads: 2, hidden_size: 16, ff_size: 32}\n"
               "training: {model_dir: \"run\\e[2J\", learning_rate: 0.01, batch_size: 16, updates: 100, "
               "validation_freq: 100}\n");
    *training = run("cd '%s' && qkv train c.yaml && ln -s run?* run", folder);
    cr_assert_eq(training->exit_code, 0, "%s", training->error);
    return folder;
}

static bool begins(const char *text, const char *start)
{
    return !strncmp(text, start, strlen(start));
}

static void expect_plain(const char *text)
{
    static const char *const hostile[] = {"\033", "\u202E", "\u2066", "\xC2\x85"};
    for (int i = 0; i < 4; i++) cr_expect(lacks(text, hostile[i]));
}

Test(plain_output, escapes_what_people_read)
{
    struct outcome training;
    enter(hostile_run("people", &training));
    expect_plain(training.error);
    cr_expect(begins(training.error, "run\\x1B[2J: "), "%s", training.error);
    cr_expect(strstr(training.error, "= u\\x1B[2Jno ") || strstr(training.error, "* u\\x1B[2Jno "), "%s",
              training.error);
    struct outcome attention = run("qkv attention run 'one two'");
    expect_plain(attention.error);
    expect_plain(attention.output);
    cr_expect(shows(attention.error, "u\\x1B[2Jno"));
    cr_expect(shows(attention.output, "u\uFFFD[2Jno"));
    struct outcome inspect = run("qkv inspect run?*");
    expect_plain(inspect.output);
    cr_expect(begins(inspect.output, "tiny (run\\x1B[2J, loaded from run\\x1B[2J/"), "%s", inspect.output);
}

Test(plain_output, keeps_redirected_translations_as_they_are)
{
    struct outcome training;
    enter(hostile_run("programs", &training));
    struct outcome outcome = run("echo 'one one' | qkv translate run");
    cr_expect_str_eq(outcome.output, "u\033[2Jno u\033[2Jno\n");
    if (run("command -v script").exit_code) cr_skip_test("script (util-linux) is not installed");
    outcome = run("script -qec \"echo 'one one' | '%s' translate run\" /dev/null", QKV_BINARY);
    cr_expect_str_eq(outcome.output, "u\\x1B[2Jno u\\x1B[2Jno\r\n");
    outcome = run("script -qec \"'%s' attention run 'one two' -q -f csv\" /dev/null", QKV_BINARY);
    expect_plain(outcome.output);
    cr_expect(shows(outcome.output, ",u\\x1B[2Jno,"));
}

Test(plain_output, escapes_the_texts_of_a_scene)
{
    const char *folder = enter(scratch("scene"));
    write_text(folder, "s.yaml",
               "name: \"x\\e[2J\"\nabout: \"a\\e[2J\\u202Eb\\nc\"\ntokens: [\"a\\e[2J\", b]\n"
               "embeddings: {from: random, width: 4}\nattention: {key_width: 4}\n");
    struct outcome outcome = run("qkv explain s.yaml");
    cr_expect(begins(outcome.output, "x\uFFFD[2J\n\na\uFFFD[2J\uFFFDb\nc\n"), "%s", outcome.output);
    expect_plain(outcome.output);
}

Test(plain_output, escapes_paths_and_keys_in_messages)
{
    const char *folder = enter(scratch("messages"));
    write_text(folder, "a\033[2J\u202E.yaml", "\"k\\e[2J\\u202E\": 3\n");
    struct outcome outcome = run("qkv config a*.yaml");
    cr_expect(begins(outcome.error, "a\\x1B[2J\\u202E.yaml:1:1: unknown key k\\x1B[2J\\u202E\n"), "%s",
              outcome.error);
    expect_plain(outcome.error);
    expect_plain(run("qkv explain a*.yaml").error);
    expect_plain(run("qkv inspect a*.yaml").error);
    expect_plain(run("qkv compare \"$(printf 'x\\033[2J')\"").error);
}

/* Where commands say which file they have written. */
Test(plain_output, escapes_the_names_of_written_files)
{
    enter(tiny_task("written"));
    struct outcome outcome = run("qkv prepare c.yaml -o \"$(printf 'p\033[2J').prepared\"");
    cr_expect_eq(outcome.exit_code, 0, "%s", outcome.error);
    expect_plain(outcome.output);
    cr_expect(
        shows(outcome.output,
              "\np\\x1B[2J.prepared: 0.0 MB; train from it with -s data.train=$'p\\x1B[2J.prepared'\n"));
    if (!has_page()) return;
    outcome = run("qkv page -o \"$(printf 'p\033[2J').html\"");
    cr_expect_eq(outcome.exit_code, 0);
    cr_expect_str_eq(outcome.error, "p\\x1B[2J.html is written: open it in a browser\n");
}

/* A config of training is no scene. */
Test(plain_output, explain_says_that_a_config_is_no_scene)
{
    enter(tiny_task("config"));
    cr_expect(
        refused(run("qkv explain c.yaml"),
                "qkv: c.yaml is a config of training, not a scene as in configs/seeds; its run is run"));
}
