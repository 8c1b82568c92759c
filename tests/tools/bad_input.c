/* What bad input gets, in every command that can get it: one sentence that says where, exit code 2, and
 * nothing written over. */
#include "support.h"

/* ---- configs and texts; tests/config/ and tests/data/ test all that can be wrong with them ---- */

Test(bad_input, every_command_refuses_bad_configs)
{
    static const char *const cases[][2] = {
        {"training: {batch_size: many}", ":1:24: training.batch_size is 'many', but must be an integer"},
        {"name: &n x", ":1:7: anchors are refused (&n); write the value out where it is used"},
        {"model: {encoder: {num_heads: 3}}",
         ":1:19: model.encoder.num_heads is 3, but must divide model.encoder.hidden_size (64)"},
    };
    static const char *const commands[] = {
        "gradcheck x.yaml",
        "train x.yaml -q -s name=x -s data.train=t.tsv -s data.src.lang=a -s data.trg.lang=b "
        "-s training.updates=1",
    };
    enter(scratch("configs"));
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        write_text(".", "x.yaml", cases[i][0]);
        for (int c = 0; c < 2; c++) {
            struct outcome outcome = run("qkv %s", commands[c]);
            const char *first = format("x.yaml%s\n", cases[i][1]);
            cr_expect(fails(outcome, 2, first) && !strncmp(outcome.error, first, strlen(first)), "%s",
                      commands[c]);
        }
    }
    cr_expect_str_eq(run("ls").output, "x.yaml\n");
}

Test(bad_input, every_command_refuses_bad_parallel_text)
{
    static const char *const texts[][2] = {
        {"x.tsv", "x.tsv:2:4: the line has no tab; a line is source<TAB>target"},
        {"x", "x.a:2:1: the line has no counterpart: x.a has 3 lines, but x.b has 1"},
        {"cut.tsv.gz", "cut.tsv.gz: the gzip file is truncated"},
    };
    static const char *const commands[] = {
        "train c.yaml -q -s training.model_dir=new -s data.train=",
        "train c.yaml -q -s training.model_dir=new -s data.dev=",
        "train c.yaml -q --overwrite -s data.train=",
        "train c.yaml -q --resume -s data.dev=",
        "evaluate run ",
    };
    enter(tiny_run("text", 2));
    run_ok("printf 'a\\tA\\na b\\n' >x.tsv && printf 'a\\nb\\nc\\n' >x.a && echo A >x.b && gzip <train.tsv | "
           "head -c 100 >cut.tsv.gz");
    char *before = fingerprint(".");
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++)
        for (size_t c = 0; c < sizeof commands / sizeof *commands; c++)
            cr_expect(refused(run("qkv %s%s", commands[c], texts[i][0]), format("qkv: %s", texts[i][1])),
                      "%s", commands[c]);
    cr_expect_str_eq(fingerprint("."), before);
}

/* ---- runs; tests/data/vocabulary.c and tests/run/ test all that can be wrong with their files ---- */

#define OTHER_WORDS                                                                                          \
    "run/%1$s.safetensors: was trained with another source vocabulary: its checksum was 8c6c0b63, but that " \
    "of source.vocabulary is "

/* Every command that reads the run is refused with the same sentence, of best.safetensors or, with --resume, of
 * last.safetensors. In the sentence, this is %1$s, its size %2$d, and one byte less %3$d. */
Test(bad_input, every_command_refuses_a_run_with_a_bad_file)
{
    static const char *const commands[] = {"translate run dev.tsv", "evaluate run dev.tsv", "attention run a",
                                           "inspect run", "train c.yaml --resume"};
    static const char *const cases[][2] = {
        /* The checksums are those of `crc32 source.vocabulary`: as many words, but others; fewer. */
        {"sed -i s/h/x/ source.vocabulary", OTHER_WORDS "dc755cfc: put it back"},
        {"head -7 ../kept/source.vocabulary >source.vocabulary", OTHER_WORDS "4f633c00: put it back"},
        {"printf x >>target.vocabulary",
         "run/target.vocabulary:12: the last line has no newline; the file may be truncated"},
        {"rm target.vocabulary", "run/target.vocabulary: cannot be read: No such file or directory"},
        {"sed -i 's/num_heads: 2/num_heads: 4/' ../c.yaml config.yaml",
         "run/%1$s.safetensors: was trained with model.encoder.num_heads 2, but the config has 4: put it "
         "back, or train a new run"},
        {"truncate -s 1000 *.safetensors", "run/%1$s.safetensors: byte 1000: the file ends within its "
                                           "header: it was cut short, or is not a safetensors file"},
        {"truncate -s -1 *.safetensors", "run/%1$s.safetensors: byte %3$d: the file ends here, but its data "
                                         "goes on to byte %2$d: it was cut short"},
        {"truncate -s +1 *.safetensors",
         "run/%1$s.safetensors: byte %2$d: the data ends here, but the file goes on"},
        {"for f in *.safetensors; do printf '\\277' | dd of=$f bs=1 conv=notrunc seek=$(($(wc -c <$f) - 3)); "
         "done",
         "run/%1$s.safetensors: is damaged: its checksum is "},
    };
    enter(tiny_run("spoiled", 2));
    run_ok("cp -r run kept && cp c.yaml kept.yaml");
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        run_ok("rm -r run && cp -r kept run && cp kept.yaml c.yaml && cd run && %s", cases[i][0]);
        char *before = fingerprint(".");
        for (int c = 0; c < 5; c++) {
            const char *name = c == 4 ? "last" : "best";
            int size = atoi(run_ok("wc -c <kept/%s.safetensors", name));
            const char *wanted = format(format("qkv: %s", cases[i][1]), name, size, size - 1); /* NOLINT */
            struct outcome outcome = run("qkv %s", commands[c]);
            cr_expect(fails(outcome, 2, wanted) && !strncmp(outcome.error, wanted, strlen(wanted)), "%s, %s",
                      cases[i][0], commands[c]);
            cr_expect_eq(strchr(outcome.error, '\n'), strrchr(outcome.error, '\n'), "%s", outcome.error);
        }
        cr_expect_str_eq(fingerprint("."), before);
    }
    run_ok("rm -r run && cp -r kept run && echo 'nam: x' >>run/config.yaml");
    cr_expect(refused(run("qkv translate run dev.tsv"),
                      format("qkv: run/config.yaml:%d:1: unknown key nam; did you mean name",
                             atoi(run_ok("wc -l <run/config.yaml")))));
}

/* ---- weights that are not finite, or too large ---- */

/* Sets the numbers of a parameter, all or the last one, in the best checkpoint of `run`. Returns its name. */
static const char *spoil(const char *name, bool all, double value)
{
    struct qkv_run trained RELEASED(qkv_run_release);
    expect_done(qkv_run_open(&trained, "run", "last.safetensors", QKV_FLOAT32, &error));
    struct qkv_parameters *parameters = &trained.model->parameters;
    const struct qkv_parameter *parameter =
        name ? qkv_parameters_find(parameters, name) : parameters->list[parameters->count - 1];
    for (int64_t i = all ? 0 : parameter->count - 1; i < parameter->count; i++)
        qkv_parameter_set(parameters, parameter, i, value);
    expect_done(qkv_checkpoint_save("run/best.safetensors", parameters, NULL, &trained.state, &error));
    name = format("%s", parameter->name);
    return name;
}

/* Every command that reads a run says so, and fails as a check does. */
Test(bad_input, a_parameter_that_is_not_finite_is_refused)
{
    static const char *const commands[] = {
        "translate run dev.tsv",
        "evaluate run dev.tsv",
        "attention run 'a b' -o map.json",
        "explain run 'a b'",
        "inspect run",
        "gradcheck run",
        "translate run --beam 3",
        "explain scene.yaml",
        "align run dev.tsv",
        "align whole dev.tsv --reverse run",
        "translate whole dev.tsv --with run",
        "tokenize run dev.tsv",
        "heads run dev.tsv -o heads.json",
        "film run 'a b' -o film.png",
        "quantize run -o int8",
        "compare run",
        "prepare c.yaml --from run -o new.prepared",
        "train c.yaml --from run -s training.model_dir=new",
    };
    static const double values[] = {(double)NAN, (double)INFINITY};
    enter(tiny_run("not_finite", 2));
    run_ok("cp -r run whole");
    write_text(".", "scene.yaml",
               "name: learned\ntokens: a b\nrun: {path: run}\nembeddings: {from: learned}\n"
               "weights: {from: learned}\n");
    for (int i = 0; i < 2; i++) {
        const char *line = format("run/best.safetensors: %s holds infinity or NaN, so the model computes "
                                  "nothing: choose another checkpoint",
                                  spoil(NULL, false, values[i]));
        for (size_t c = 0; c < sizeof commands / sizeof *commands; c++) {
            struct outcome outcome = run("qkv %s", commands[c]);
            cr_expect(fails(outcome, 1, line) && strchr(outcome.error, '\n')[1] == '\0', "%s", commands[c]);
        }
    }
    run_ok("qkv translate run --checkpoint last.safetensors dev.tsv -q");
}

/* Finite weights whose products are not: nothing may look like an answer. */
Test(bad_input, attention_that_is_not_finite_is_refused)
{
    static const char *const commands[] = {
        "align run dev.tsv",
        "align run dev.tsv --head best -o out.links",
        "attention run 'a b' -t 'A B'",
        "attention run 'a b' -q -t 'A B' -f csv",
        "attention run 'a b' -t 'A B' -o map.svg",
        "film run 'a b' -t 'A B' -o film.png",
        "heads run dev.tsv --no-translation -o heads.json",
        "evaluate run dev.tsv --links dev.links",
    };
    enter(tiny_task("overflowing"));
    run_ok("sed 's/.*/0-0/' dev.tsv >dev.links && qkv train c.yaml -q -s training.updates=2 -s "
           "training.validation_freq=2 -s training.snapshots=2");
    spoil("encoder.1.self.key.weight", true, 3e38);
    char *before = fingerprint(".");
    for (size_t c = 0; c < sizeof commands / sizeof *commands; c++) {
        struct outcome outcome = run("qkv %s", commands[c]);
        cr_expect(fails(outcome, 1, " not finite: ") &&
                      shows(outcome.error, "the model's weights are too large, or infinity or NaN\n"),
                  "%s", commands[c]);
    }
    cr_expect_str_eq(fingerprint("."), before);
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
    "gradcheck --op add",
    "attention run a -q",
    "--help",
    "train --help",
    "--version",
    "score c.yaml c.yaml",
    "generate copy -o made --train 3 --dev 1 --test 1 --overwrite",
    "init train.tsv -o made/new.yaml --updates 3 --overwrite",
};

Test(bad_input, closed_standard_streams_and_full_disks_are_an_error)
{
    static const char *const streams[][2] = {{">/dev/full", "No space left on device"},
                                             {">&-", "Bad file descriptor"}};
    enter(tiny_run("streams", 2));
    for (int s = 0; s < (is_emulated() ? 1 : 2); s++) /* valgrind opens closed streams again */
        for (size_t i = 0; i < sizeof WRITERS / sizeof *WRITERS; i++)
            cr_expect(refused(run("qkv %s %s", WRITERS[i], streams[s][0]),
                              format("qkv: <stdout>: cannot be written: %s", streams[s][1])),
                      "%s %s", WRITERS[i], streams[s][0]);
}

/* ---- what stands where a file should ---- */

Test(bad_input, folders_devices_and_empty_names_are_refused)
{
    static const char *const cases[][2] = {
        {"evaluate run d", "qkv: d: cannot be read: it is a folder"},
        {"evaluate run d.tsv", "qkv: d.tsv: cannot be read: it is a folder"},
        {"evaluate run dev.txt", "qkv: dev.txt: the name of a file of pairs must end in .tsv or .tsv.gz; as "
                                 "the common prefix of two files it needs dev.txt.a, which does not exist; a "
                                 "text without translations needs a config with data.text"},
        {"evaluate run cut.tsv.gz", "qkv: cut.tsv.gz: the gzip file is truncated"},
        {"evaluate run - </dev/null", "qkv: <stdin>: the file is empty"},
        {"evaluate run dev.tsv --links d", "qkv: d: cannot be read: it is a folder"},
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
        {"generate copy -o dev.tsv", "qkv: dev.tsv: cannot make this folder: Not a directory"},
        {"attention run ''", "qkv: SENTENCE is empty (usage: qkv attention RUN SENTENCE [options])"},
        {"train c.yaml -q -s training.model_dir=c.yaml/run",
         "qkv: c.yaml/run: cannot make this folder: Not a directory"},
        {"train c.yaml -q --overwrite -s training.model_dir=c.yaml",
         "qkv: c.yaml: cannot make this folder: Not a directory"},
        {"train c.yaml -q --overwrite -s training.model_dir=odd",
         "qkv: odd/update-3.safetensors: cannot be read: it is a folder"},
        {"train c.yaml -q -s training.model_dir=dev.tsv",
         "qkv: dev.tsv: cannot make this folder: Not a directory"},
        {"train c.yaml -q -s training.model_dir=/proc/x",
         "qkv: /proc/x: cannot make this folder: No such file or directory"},
    };
    enter(tiny_run("places", 2));
    run_ok("mkdir -p d d.tsv odd/update-3.safetensors && cp dev.tsv dev.txt && gzip -k dev.tsv && head -c 30 "
           "dev.tsv.gz >cut.tsv.gz && cp -r run lost && rm lost/source.vocabulary && cp -r run empty && : "
           ">empty/best.safetensors");
    EXPECT_REFUSALS("qkv", cases);
    if (!is_emulated()) /* valgrind opens closed streams again */
        cr_expect(
            refused(run("qkv attention run - <&-"), "qkv: <stdin>: cannot be read: Bad file descriptor"));
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
