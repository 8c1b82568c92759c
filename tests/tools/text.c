/* Every command reads text in the same way: plain or gzip, from a file or standard input, with or without a byte order
 * mark, with LF or CRLF. */
#include "support.h"

/* Writes the forms of a file: .mark (a byte order mark and CRLF) and .packed (gzip). */
static void make_forms(const char *name)
{
    run_ok("(printf '\\357\\273\\277'; sed 's/$/\\r/' %s) >%s.mark && gzip -c %s.mark >%s.packed", name, name,
           name, name);
}

/* The command, whose last operand is the text, and `then` after it print the same for each form of the text. */
static void expect_same(const char *command, const char *name, const char *then)
{
    char *plain = run_ok("%s %s %s", command, name, then);
    const char *const forms[] = {
        format("%s.mark", name),      format("%s.packed", name),  format("- <%s", name),
        format("- <%s.packed", name), format("- <%s.mark", name), format("/dev/stdin <%s.packed", name),
    };
    for (size_t i = 0; i < sizeof forms / sizeof forms[0]; i++)
        cr_expect_str_eq(run_ok("%s %s %s", command, forms[i], then), plain, "%s %s", command, forms[i]);
}

Test(text, is_read_in_every_form_by_every_command)
{
    enter(tiny_run("forms", 4));
    run_ok("cut -f1 dev.tsv >source && cut -f2 dev.tsv >target && sed 's/.*/0-0/' dev.tsv >links && "
           "cp " QKV_SOURCE_DIR "/datasets/en_es/lexicon.txt lexicon");
    static const char *const names[] = {"source", "target", "links", "lexicon"};
    for (int i = 0; i < 4; i++) make_forms(names[i]);
    expect_same("qkv translate run", "source", "");
    expect_same("qkv score target", "source", "");
    expect_same("qkv evaluate run dev.tsv --links", "links", "");
    expect_same("qkv generate en_es -o made --overwrite --train 9 --dev 1 --test 1 --lexicon", "lexicon",
                ">made.log && cat made/train.tsv");
}

/* A sentence that is `-` is read from standard input, line by line. */
Test(text, is_read_in_every_form_where_a_sentence_is_expected)
{
    static const char *const commands[] = {"attention run - -q -f json", "explain run - -f json"};
    enter(tiny_run("sentences", 4));
    run_ok("cut -f1 dev.tsv >source");
    make_forms("source");
    for (int i = 0; i < 2; i++) {
        char *plain = run_ok("qkv %s <source", commands[i]);
        cr_expect_str_eq(run_ok("qkv %s <source.mark", commands[i]), plain);
        cr_expect_str_eq(run_ok("qkv %s <source.packed", commands[i]), plain);
        cr_expect(refused(run("printf 'a b\\377\\n' | qkv %s", commands[i]),
                          "qkv: <stdin>:1:4: byte 0xFF is not valid UTF-8"));
    }
    /* What a shell opens for `<(command)` is read. */
    cr_expect_str_eq(run_ok("qkv translate run /dev/fd/3 3<source"),
                     run_ok("cut -f1 dev.tsv | qkv translate run"));
}

/* Opening a pipe that nobody writes to would wait for ever. */
Test(text, is_not_waited_for, .timeout = 60)
{
    enter(tiny_run("pipes", 2));
    static const char *const cases[][2] = {
        {"run/qkv.format", "inspect run"},
        {"run/config.yaml", "inspect run"},
        {"run/source.vocabulary", "translate run dev.tsv"},
        {"run/best.safetensors", "translate run dev.tsv"},
        {"run/last.safetensors", "train c.yaml --resume -s training.updates=3"},
        {"run/metrics.jsonl", "train c.yaml --resume -s training.updates=3"},
        {"links", "evaluate run dev.tsv --links links"},
        {"evaluation.json", "compare evaluation.json"},
        {"c.yaml", "config c.yaml"},
        {"train.tsv", "train c.yaml --overwrite"},
    };
    run_ok("test -e run/best.safetensors || cp run/last.safetensors run/best.safetensors; touch links "
           "evaluation.json");
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        const char *file = cases[i][0];
        run_ok("mv %s kept && mkfifo %s", file, file);
        cr_expect(
            fails(run("qkv %s", cases[i][1]), 2, format("%s: cannot be read: it is a named pipe\n", file)));
        run_ok("mv kept %s", file);
    }
}
