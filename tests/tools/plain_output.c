/* What reaches a terminal: words of a corpus, texts of a scene and names of files that could steer it are escaped.
 * What is redirected is for programs, and stays as it is. */
#include "support.h"

/* Enters a run that translates into words with escape sequences and overrides. Returns what training printed. */
static const char *enter_hostile(const char *name)
{
    static const char *const hostile[] = {"u\033[2Jno", "d\u202Eos", "t\xC2\x85res", "cuat\u2066ro", "cinco"};
    enter(scratch(name));
    write_text(".", "train.tsv", word_pairs(25, ONE_TO_FIVE[0], hostile));
    write_config("train: train.tsv, dev: train.tsv, src: {lang: en}, trg: {lang: es}",
                 "num_layers: 1, num_heads: 2, hidden_size: 16, ff_size: 32", NULL,
                 "learning_rate: 0.01, batch_size: 16, updates: 300, validation_freq: 300");
    return run_ok(
        "qkv train c.yaml -s \"training.model_dir=$(printf 'run\\033[2J')\" 2>&1 && ln -s run?* run");
}

/* Expects a text without such sequences that begins with `start` and has `part`. */
static void expect_plain(const char *text, const char *start, const char *part)
{
    static const char *const hostile[] = {"\033", "\u202E", "\u2066", "\xC2\x85"};
    for (int i = 0; i < 4; i++) cr_expect(lacks(text, hostile[i]));
    cr_expect(begins(text, start));
    cr_expect(shows(text, part));
}

Test(plain_output, escapes_what_people_read)
{
    expect_plain(enter_hostile("people"), "run\\x1B[2J: ", " u\\x1B[2Jno ");
    struct outcome attention = run("qkv attention run 'one two'");
    expect_plain(attention.error, "", "u\\x1B[2Jno");
    expect_plain(attention.output, "", "u\uFFFD[2Jno");
    expect_plain(run("qkv inspect run?*").output, "tiny (run\\x1B[2J, loaded from run\\x1B[2J/", "");
    /* Redirected translations stay as they are. */
    cr_expect_str_eq(run_ok("echo 'one one' | qkv translate run"), "u\033[2Jno u\033[2Jno\n");
    skip_without_program("script");
    cr_expect_str_eq(run_ok("script -qec \"echo 'one one' | '%s' translate run\" /dev/null", QKV_BINARY),
                     "u\\x1B[2Jno u\\x1B[2Jno\r\n");
    expect_plain(run_ok("script -qec \"'%s' attention run 'one two' -q -f csv\" /dev/null", QKV_BINARY), "",
                 ",u\\x1B[2Jno,");
}

/* Texts of a scene, paths and keys in messages, and where commands say which file they have written. */
Test(plain_output, escapes_names)
{
    enter(tiny_task("names"));
    write_text(".", "s.yaml",
               "name: \"x\\e[2J\"\nabout: \"a\\e[2J\\u202Eb\\nc\"\ntokens: [\"a\\e[2J\", b]\n"
               "embeddings: {from: random, width: 4}\nattention: {key_width: 4}\n");
    expect_plain(run_ok("qkv explain s.yaml"), "x\uFFFD[2J\n\na\uFFFD[2J\uFFFDb\nc\n", "");
    write_text(".", "a\033[2J\u202E.yaml", "\"k\\e[2J\\u202E\": 3\n");
    expect_plain(run("qkv config a*.yaml").error, "a\\x1B[2J\\u202E.yaml:1:1: unknown key k\\x1B[2J\\u202E\n",
                 "");
    static const char *const commands[] = {"explain a*.yaml", "inspect a*.yaml",
                                           "compare \"$(printf 'x\\033[2J')\""};
    for (int i = 0; i < 3; i++) expect_plain(run("qkv %s", commands[i]).error, "", "\\x1B[2J");
    expect_plain(run_ok("qkv prepare c.yaml -o \"$(printf 'p\033[2J').prepared\""), "",
                 "\np\\x1B[2J.prepared: 0.0 MB; train from it with -s data.train=$'p\\x1B[2J.prepared'\n");
    if (has_page())
        cr_expect_str_eq(run("qkv page -o \"$(printf 'p\033[2J').html\"").error,
                         "p\\x1B[2J.html is written: open it in a browser\n");
}
