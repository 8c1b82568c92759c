/* What bad input gets, in every command that can get it: one sentence that says where, exit code 2, and
 * nothing written over. */
#include "support.h"

#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

/* Writes what printf makes of `content` to the file. */
static void write_with_printf(const char *folder, const char *name, const char *content)
{
    run("cd '%s' && printf '%s' >%s", folder, content, name);
}

/* ---- configs ---- */

Test(bad_input, every_command_refuses_bad_configs)
{
    static const char *const cases[][2] = {
        {"model: {encoder: {num_head: 2}}",
         ":1:19: unknown key model.encoder.num_head; did you mean model.encoder.num_heads"},
        {"training: {batch_size: many}", ":1:24: training.batch_size is 'many', but must be an integer"},
        {"training: {updates: -1}", ":1:21: training.updates is -1, but must be at least 0"},
        {"name: x\\nname: y", ":2:1: duplicate key name, already given in line 1"},
        {"name: &n x", ":1:7: anchors are refused (&n); write the value out where it is used"},
        {"model: {encoder: {num_heads: 3}}",
         ":1:19: model.encoder.num_heads is 3, but must divide model.encoder.hidden_size (64)"},
        {"name: \\377", ":1:7: not valid UTF-8 (byte 0xFF)"},
        {"name: \\000", ":1:7: NUL byte"},
        {"", ": the file is empty"},
    };
    static const char *const commands[] = {"train %s -q", "config %s", "gradcheck %s"};
    static const char *const overrides = "-s name=x -s data.train=t.tsv -s data.src.lang=a -s "
                                         "data.trg.lang=b -s training.batch_size=2 -s training.updates=1";
    const char *folder = enter(scratch("configs"));
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        write_with_printf(folder, "x.yaml", cases[i][0]);
        for (int c = 0; c < 3; c++) {
            char *command = format(commands[c], "x.yaml"); /* NOLINT: the formats are listed above */
            struct outcome outcome = run("qkv %s $(test %d = 2 || echo %s)", command, c, overrides);
            char *first = format("x.yaml%s\n", cases[i][1]);
            cr_expect_eq(outcome.exit_code, 2);
            cr_expect(!strncmp(outcome.error, first, strlen(first)), "%s: %swanted %s", command,
                      outcome.error, first);
            cr_expect_str_empty(outcome.output);
        }
    }
    cr_expect_str_eq(run("ls '%s'", folder).output, "x.yaml\n");
}

/* ---- parallel text ---- */

Test(bad_input, every_command_refuses_bad_parallel_text)
{
    static const char *const cases[][2] = {
        {"", ": the file is empty"},
        {"\\n", ":1:1: the line has no tab; a line is source<TAB>target"},
        {"a\\tA\\na b\\n", ":2:4: the line has no tab; a line is source<TAB>target"},
        {"a\\tA\\tA\\n",
         ":1:4: the line has a second tab; a line is source<TAB>target (cut -f1,2 takes two columns)"},
        {"a\\tA\\n \\tA\\n", ":2:1: the source side is empty"},
        {"a\\tA\\na\\t\\n", ":2:3: the target side is empty"},
        {"a\\tA\\na\\tA \\303\\n", ":2:5: byte 0xC3 is not valid UTF-8"},
        {"a\\tA\\000\\n", ":1:4: a NUL byte is not allowed in text"},
    };
    static const char *const commands[] = {
        "train c.yaml -q -s training.model_dir=new -s data.train=x.tsv",
        "train c.yaml -q -s training.model_dir=new -s data.dev=x.tsv",
        "train c.yaml -q --overwrite -s data.train=x.tsv",
        "train c.yaml -q --resume -s data.dev=x.tsv",
        "evaluate run x.tsv",
    };
    const char *folder = enter(tiny_run("text", 2));
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        write_with_printf(folder, "x.tsv", cases[i][0]);
        char *before = fingerprint(folder);
        for (size_t c = 0; c < sizeof commands / sizeof commands[0]; c++)
            cr_expect(refused(run("qkv %s", commands[c]), format("qkv: x.tsv%s", cases[i][1])), "%s",
                      commands[c]);
        cr_expect_str_eq(fingerprint(folder), before);
    }
}

Test(bad_input, two_files_must_have_the_same_number_of_lines)
{
    const char *folder = enter(tiny_run("pairs", 2));
    write_text(folder, "x.a", "a\nb\nc\n");
    write_text(folder, "x.b", "A\n");
    write_text(folder, "y.a", "a\n\n");
    write_text(folder, "y.b", "A\nB\n");
    char *before = fingerprint(folder);
    static const char *const commands[] = {"train c.yaml -q --overwrite -s data.train=%s",
                                           "train c.yaml -q --overwrite -s data.dev=%s", "evaluate run %s"};
    for (int c = 0; c < 3; c++) {
        char *x = format(commands[c], "x"), *y = format(commands[c], "y"); /* NOLINT */
        cr_expect(refused(run("qkv %s", x),
                          "qkv: x.a:2:1: the line has no counterpart: x.a has 3 lines, but x.b has 1"));
        cr_expect(refused(run("qkv %s", y), "qkv: y.a:2:1: the line is empty"));
    }
    cr_expect_str_eq(fingerprint(folder), before);
}

Test(bad_input, damaged_gzip_files_are_refused)
{
    enter(tiny_run("gzip", 2));
    run("gzip <train.tsv >whole.gz && head -c 100 whole.gz >x.tsv.gz");
    cr_expect(refused(run("qkv evaluate run x.tsv.gz"), "qkv: x.tsv.gz: the gzip file is truncated"));
    run("{ head -c 100 whole.gz; printf 'XXXXXXXXXXXXXXXX'; tail -c +117 whole.gz; } >x.tsv.gz");
    struct outcome outcome = run("qkv evaluate run x.tsv.gz");
    cr_expect_eq(outcome.exit_code, 2);
    cr_expect_eq(strstr(outcome.error, "qkv: x.tsv.gz: the gzip file is damaged: "), outcome.error, "%s",
                 outcome.error);
}

/* ---- runs ---- */

/* Runs every command that reads the run and expects the same sentence of each; `resumed` is that of --resume,
 * which reads last.safetensors where the others read best.safetensors. */
static void expect_of_all(const char *folder, const char *sentence, const char *resumed)
{
    static const char *const commands[] = {"translate run dev.tsv", "evaluate run dev.tsv", "attention run a",
                                           "inspect run", "train c.yaml --resume"};
    char *before = fingerprint(folder);
    for (int c = 0; c < 5; c++)
        cr_expect(refused(run("cd '%s' && qkv %s", folder, commands[c]), c == 4 ? resumed : sentence), "%s",
                  commands[c]);
    cr_expect_str_eq(fingerprint(folder), before);
}

Test(bad_input, a_vocabulary_of_another_model_is_refused)
{
    const char *folder = enter(tiny_run("vocabulary", 2));
#define OTHER(file, side)                                                                                    \
    "qkv: run/" file ".safetensors: was trained with another " side                                          \
    " vocabulary: its checksum was 8c6c0b63, but that of " side ".vocabulary is %s: put it back"
    /* As many words, but others; then fewer. The checksums are those of `crc32 source.vocabulary`. */
    run("cd run && cp source.vocabulary kept && sed -i s/h/x/ source.vocabulary");
    const char *sum = "dc755cfc";
    expect_of_all(folder, format(OTHER("best", "source"), sum), format(OTHER("last", "source"), sum));
    run("cd run && head -7 kept >source.vocabulary");
    sum = "4f633c00";
    expect_of_all(folder, format(OTHER("best", "source"), sum), format(OTHER("last", "source"), sum));
    run("cd run && cp kept source.vocabulary && rm kept");
    cr_expect_eq(run("qkv translate run dev.tsv").exit_code, 0);
}

Test(bad_input, a_damaged_vocabulary_is_refused)
{
    static const char *const cases[][2] = {
        {"", ": the file is empty"},
        {"<unk>\\n<s>\\nx\\n", ":3: is \"x\", but a vocabulary begins with <unk>, <s>, </s>"},
        {"<unk>\\n<s>\\n</s>\\na\\n\\n", ":5: the line is empty"},
        {"<unk>\\n<s>\\n</s>\\na\\nb\\na\\n", ":6: \"a\" repeats line 4"},
        {"<unk>\\n<s>\\n</s>\\na\\nb", ":5: the last line has no newline; the file may be truncated"},
        {"<unk>\\n<s>\\n</s>\\n\\377\\n", ":4:1: byte 0xFF is not valid UTF-8"},
    };
    const char *folder = enter(tiny_run("broken_vocabulary", 2));
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        write_with_printf(folder, "run/target.vocabulary", cases[i][0]);
        char *sentence = format("qkv: run/target.vocabulary%s", cases[i][1]);
        expect_of_all(folder, sentence, sentence);
    }
    run("rm 'run/target.vocabulary'");
    const char *missing = "qkv: run/target.vocabulary: cannot be read: No such file or directory";
    expect_of_all(folder, missing, missing);
}

Test(bad_input, a_config_that_the_run_was_not_trained_with_is_refused)
{
    const char *folder = enter(tiny_run("other_config", 2));
    run("sed -i 's/num_heads: 2/num_heads: 4/' c.yaml run/config.yaml");
#define HEADS(file)                                                                                          \
    "qkv: run/" file                                                                                         \
    ".safetensors: was trained with model.encoder.num_heads 2, but the config has 4: put it back, or "       \
    "train a new run"
    expect_of_all(folder, HEADS("best"), HEADS("last"));
    run("sed -i 's/num_heads: 4/num_heads: 2/' c.yaml run/config.yaml && echo 'nam: x' >>run/config.yaml");
    struct outcome outcome = run("qkv translate run dev.tsv");
    cr_expect_eq(outcome.exit_code, 2);
    cr_expect_eq(strstr(outcome.error, "qkv: run/config.yaml:"), outcome.error);
    cr_expect(shows(outcome.error, ": unknown key nam; did you mean name\n"));
}

/* ---- checkpoints ---- */

static void cut_checkpoints(const char *folder, const char *bytes, size_t size)
{
    write_bytes(folder, "run/best.safetensors", bytes, size);
    write_bytes(folder, "run/last.safetensors", bytes, size);
}

Test(bad_input, a_truncated_checkpoint_is_refused_with_the_byte_where_it_ends)
{
    const char *folder = enter(tiny_run("truncated", 2));
    size_t size;
    char *bytes = read_file("run/last.safetensors", &size);
    const size_t lengths[] = {0, 7, 8, 1000, size / 2, size - 1};
    for (size_t i = 0; i < sizeof lengths / sizeof lengths[0]; i++) {
        cut_checkpoints(folder, bytes, lengths[i]);
        char *what =
            lengths[i] <= 1000
                ? format("byte %zu: the file ends within its header: it was cut short, or is not a "
                         "safetensors file",
                         lengths[i])
                : format("byte %zu: the file ends here, but its data goes on to byte %zu: it was cut short",
                         lengths[i], size);
        expect_of_all(folder, format("qkv: run/best.safetensors: %s", what),
                      format("qkv: run/last.safetensors: %s", what));
    }
    char *longer = remember(realloc(bytes, size + 1));
    longer[size] = 'x';
    cut_checkpoints(folder, longer, size + 1);
    char *what = format("byte %zu: the data ends here, but the file goes on", size);
    expect_of_all(folder, format("qkv: run/best.safetensors: %s", what),
                  format("qkv: run/last.safetensors: %s", what));
}

Test(bad_input, a_flipped_bit_anywhere_in_a_checkpoint_is_found)
{
    const char *folder = enter(tiny_run("flipped", 2));
    size_t size;
    char *bytes = read_file("run/best.safetensors", &size);
    for (size_t i = 0; i < 24; i++) {
        size_t place = i < 8 ? i * 9 : size / 16 * (i - 8) + 5;
        bytes[place] ^= (char)(1 << i % 8);
        write_bytes(folder, "run/best.safetensors", bytes, size);
        struct outcome outcome = run("qkv translate run dev.tsv");
        cr_expect_eq(outcome.exit_code, 2, "byte %zu", place);
        cr_expect_eq(strstr(outcome.error, "qkv: run/best.safetensors: "), outcome.error, "%s",
                     outcome.error);
        cr_expect_eq(strchr(outcome.error, '\n'), outcome.error + strlen(outcome.error) - 1, "%s",
                     outcome.error);
        cr_expect_str_empty(outcome.output);
        bytes[place] ^= (char)(1 << i % 8);
    }
    bytes[size - 3] ^= 4;
    cut_checkpoints(folder, bytes, size);
    struct outcome outcome = run("qkv train c.yaml --resume");
    cr_expect_eq(outcome.exit_code, 2);
    cr_expect_eq(strstr(outcome.error, "qkv: run/last.safetensors: is damaged: its checksum is "),
                 outcome.error, "%s", outcome.error);
}

Test(bad_input, a_checkpoint_of_another_run_is_refused)
{
    enter(tiny_run("foreign", 2));
    run("tr h x <train.tsv >other.tsv && qkv train c.yaml -q -s training.model_dir=other -s "
        "data.train=other.tsv -s data.dev= && cp other/last.safetensors run/best.safetensors");
    struct outcome outcome = run("qkv translate run dev.tsv");
    cr_expect_eq(outcome.exit_code, 2);
    cr_expect_eq(
        strstr(outcome.error, "qkv: run/best.safetensors: was trained with another source vocabulary: "),
        outcome.error, "%s", outcome.error);
}

/* ---- writing ---- */

static const char *const WRITERS[] = {
    "translate run dev.tsv -q",
    "evaluate run dev.tsv",
    "evaluate run dev.tsv --json",
    "config c.yaml",
    "config --reference",
    "inspect run",
    "inspect run --json",
    "attention run a -q",
    "--help",
    "train --help",
    "--version",
    "score c.yaml c.yaml",
    "generate copy -o made --train 3 --dev 1 --test 1 --overwrite",
    "init train.tsv -o made/new.yaml --updates 3 --overwrite",
};

static void expect_unwritable(const char *folder, const char *stream, const char *reason)
{
    for (size_t i = 0; i < sizeof WRITERS / sizeof WRITERS[0]; i++)
        cr_expect(refused(run("cd '%s' && qkv %s %s", folder, WRITERS[i], stream),
                          format("qkv: <stdout>: cannot be written: %s", reason)),
                  "%s %s", WRITERS[i], stream);
}

Test(bad_input, closed_standard_streams_are_an_error)
{
    if (is_emulated()) cr_skip_test("valgrind opens closed streams again");
    const char *folder = enter(tiny_run("closed", 2));
    expect_unwritable(folder, ">&-", "Bad file descriptor");
    cr_expect(refused(run("qkv attention run - <&-"), "qkv: <stdin>: cannot be read: Bad file descriptor"));
}

Test(bad_input, results_that_cannot_be_written_are_an_error)
{
    const char *folder = enter(tiny_run("full", 2));
    expect_unwritable(folder, ">/dev/full", "No space left on device");
    cr_expect(refused(run("qkv attention run a -q --format svg -o /dev/full"),
                      "qkv: /dev/full: cannot be written: No space left on device"));
}

Test(bad_input, a_full_disk_while_training_leaves_complete_files)
{
    enter(tiny_task("disk"));
    /* A limit on the size of files stands in for the disk: it is there for every user and file system. */
    struct outcome outcome = run("(ulimit -f 80; qkv train c.yaml -q); code=$?; ls run; exit $code");
    cr_expect(refused(outcome, "qkv: run/last.safetensors: cannot be written: File too large"));
    cr_expect_str_eq(outcome.output, "source.vocabulary\ntarget.vocabulary\n");
    /* metrics.jsonl outgrows the limit, in the middle of a line; what was saved before stands and goes on. */
    outcome = run("(ulimit -f 200; qkv train c.yaml -q --overwrite -s training.logging_freq=1 -s "
                  "training.updates=2000 -s training.validation_freq=100)");
    cr_expect_eq(outcome.exit_code, 2);
    cr_expect_str_eq(
        outcome.error,
        "qkv: run/metrics.jsonl: cannot be written: File too large\n"
        "the last checkpoint is complete; continue with: qkv train c.yaml -s training.logging_freq=1 -s "
        "training.updates=2000 -s training.validation_freq=100 --resume\n");
    cr_expect_str_eq(run("cd run && ls | grep tmp; tail -c 2 metrics.jsonl").output, "}\n");
    outcome = run("qkv train c.yaml -q --resume -s training.updates=600 && qkv translate run dev.tsv");
    cr_expect_eq(outcome.exit_code, 0, "%s", outcome.error);
}

Test(bad_input, a_folder_that_cannot_be_written_is_an_error)
{
    const char *folder = enter(tiny_task("folder"));
    static const char *const cases[][2] = {
        {"c.yaml", "qkv: c.yaml: cannot make this folder: Not a directory"},
        {"c.yaml/run", "qkv: c.yaml/run: cannot make this folder: Not a directory"},
        {"/proc/run", "qkv: /proc/run: cannot make this folder: No such file or directory"},
    };
    char *before = fingerprint(folder);
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        cr_expect(refused(run("qkv train c.yaml -s training.model_dir=%s", cases[i][0]), cases[i][1]));
        cr_expect(
            refused(run("qkv train c.yaml --overwrite -s training.model_dir=%s", cases[i][0]), cases[i][1]));
    }
    cr_expect_str_eq(fingerprint(folder), before);
    run("mkdir -p run/update-3.safetensors");
    cr_expect(refused(run("qkv train c.yaml --overwrite"),
                      "qkv: run/update-3.safetensors: cannot be read: it is a folder"));
}

/* ---- what stands where a file should ---- */

Test(bad_input, folders_devices_and_empty_names_are_refused)
{
    const char *folder = enter(tiny_run("places", 2));
    run("mkdir d d.tsv && cp dev.tsv dev.txt && gzip -k dev.tsv && head -c 30 dev.tsv.gz >cut.tsv.gz && cp "
        "-r run lost && rm lost/source.vocabulary && cp -r run empty && : >empty/best.safetensors");
    static const char *const cases[][2] = {
        {"evaluate run d", "qkv: d: cannot be read: it is a folder"},
        {"evaluate run d.tsv", "qkv: d.tsv: cannot be read: it is a folder"},
        {"evaluate run dev.txt",
         "qkv: dev.txt: the name of a file of pairs must end in .tsv or .tsv.gz; as the "
         "common prefix of two files it needs dev.txt.a, which does not exist"},
        {"evaluate run cut.tsv.gz", "qkv: cut.tsv.gz: the gzip file is truncated"},
        {"evaluate run - </dev/null", "qkv: <stdin>: the file is empty"},
        {"evaluate run dev.tsv --links d", "qkv: d: cannot be read: it is a folder"},
        {"evaluate run dev.tsv >/dev/full", "qkv: <stdout>: cannot be written: No space left on device"},
        {"translate run d", "qkv: d: cannot be read: it is a folder"},
        {"translate run <&-", "qkv: <stdin>: cannot be read: Bad file descriptor"},
        {"translate run --checkpoint .", "qkv: run/.: cannot be read: it is a folder"},
        {"translate ''", "qkv: RUN is empty (usage: qkv translate RUN [FILE] [options])"},
        {"translate lost", "qkv: lost/source.vocabulary: cannot be read: No such file or directory"},
        {"inspect empty", "qkv: empty/best.safetensors: byte 0: the file ends within its header: it was cut "
                          "short, or is not a safetensors file"},
        {"inspect dev.tsv", "qkv: dev.tsv: is a file, but a run is a folder"},
        {"inspect c.yaml", "qkv: c.yaml: is a config, but a run is a folder; its run is run"},
        {"score d dev.tsv", "qkv: d: cannot be read: it is a folder"},
        {"score dev.tsv /dev/null", "qkv: dev.tsv: has more lines than /dev/null, which ends after line 0"},
        {"attention run a -q -o d/ -f png", "qkv: d/: cannot be written: it is a folder"},
        {"attention run a -q -o /dev/full -f svg",
         "qkv: /dev/full: cannot be written: No space left on device"},
        {"gradcheck --op add >/dev/full", "qkv: <stdout>: cannot be written: No space left on device"},
        {"generate copy -o dev.tsv", "qkv: dev.tsv: cannot make this folder: Not a directory"},
        {"train c.yaml -q -s training.model_dir=dev.tsv",
         "qkv: dev.tsv: cannot make this folder: Not a directory"},
        {"train c.yaml -q -s training.model_dir=/proc/x",
         "qkv: /proc/x: cannot make this folder: No such file or directory"},
    };
    char *before = fingerprint(folder);
    EXPECT_REFUSALS("qkv ", cases);
    cr_expect_str_eq(fingerprint(folder), before);
}

/* Line ends, byte order marks, tabs: what other systems and hands leave in a text is no part of it. */
Test(bad_input, harmless_differences_between_files_are_accepted)
{
    enter(tiny_run("harmless", 2));
    const char *plain = run("cut -f1 dev.tsv | qkv translate run").output;
    cr_expect_str_eq(run("cut -f1 dev.tsv | sed 's/$/\\r/; s/ /\\t/g' | qkv translate run").output, plain);
    cr_expect_str_eq(run("{ printf '\\357\\273\\277'; cut -f1 dev.tsv; } | qkv translate run").output, plain);
    cr_expect_str_eq(run("qkv translate run </dev/null").output, "");
    const char *scores = run("qkv evaluate run dev.tsv").output;
    cr_expect_str_eq(
        without_paths(
            run("{ printf '\\357\\273\\277'; sed 's/$/\\r/' dev.tsv; } | qkv evaluate run -").output),
        without_paths(scores));
    cr_expect_str_eq(run("sed 's/$/\\r/' c.yaml | qkv config -").output, run("qkv config c.yaml").output);
    const char *map = run("qkv attention run 'a b' -q").output;
    cr_expect_str_eq(run("qkv attention run \"$(printf 'a\\tb')\" -q").output, map);
}

Test(bad_input, a_closed_pipe_ends_the_command)
{
    enter(tiny_run("reader", 2));
    struct outcome outcome =
        run("for i in $(seq 200); do cut -f1 train.tsv; done >many && { env --default-signal=PIPE '%s' "
            "translate run many -q -b 1; echo $? >code; } | head -n 1 && cat code",
            QKV_BINARY);
    cr_expect(shows(outcome.output, "\n141\n"));
    cr_expect_str_empty(outcome.error);
}

/* ---- attention ---- */

Test(bad_input, missing_heads_and_layers_are_refused)
{
    enter(tiny_run("heads", 2));
    static const char *const cases[][2] = {
        {"--head 9", "qkv: the cross attention has no head 9: its heads are 1 to 2"},
        {"--layer 2", "qkv: the cross attention has no layer 2: its layers are 1 to 1"},
        {"--head 0", "qkv: --head is '0', but must be a number from 1, all, mean or best"},
        {"--head=-1", "qkv: --head is '-1', but must be a number from 1, all, mean or best"},
        {"--head 1x", "qkv: --head is '1x', but must be a number from 1, all, mean or best"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        cr_expect(refused(run("qkv attention run a %s", cases[i][0]), cases[i][1]));
        cr_expect(refused(run("qkv attention run a %s -o x.svg", cases[i][0]), cases[i][1]));
    }
    cr_expect_eq(run("test -e 'x.svg'").exit_code, 1);
    static const char *const sentences[][2] = {
        {"''", "qkv: SENTENCE is empty (usage: qkv attention RUN SENTENCE [options])"},
        {"' '", "qkv: the sentence contains no words"},
        {"\"$(printf 'a\\377')\"", "qkv: the sentence: column 2: byte 0xFF is not valid UTF-8"},
        {"- </dev/null", "qkv: <stdin>: the input is empty: a sentence is missing"},
    };
    EXPECT_REFUSALS("qkv attention run -q ", sentences);
    cr_expect(refused(run("yes a | head -100000 | tr '\\n' ' ' | qkv attention run -q -"),
                      "qkv: the sentence has 100000 tokens, but the model has positions for 511"));
}
