/* qkv train: what it refuses, what it leaves alone, how it ends and goes on. */
#include "support.h"

#include <criterion/criterion.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define ENDLESS "-s training.updates=0 -s training.epochs=1000000 -s training.patience=0"

static bool there(const char *folder, const char *name)
{
    return access(format("%s/%s", folder, name), F_OK) == 0;
}

static char *last_line(char *text)
{
    size_t length = strlen(text);
    if (length) text[length - 1] = '\0';
    char *newline = strrchr(text, '\n');
    return newline ? newline + 1 : text;
}

Test(train, writes_a_run_and_prints_its_progress_as_lines)
{
    const char *folder = enter(tiny_task("run"));
    struct outcome outcome = run("qkv train c.yaml --threads 1");
    cr_assert_eq(outcome.exit_code, 0, "%s", outcome.error);
    cr_expect_str_empty(outcome.output);
    cr_expect_null(strchr(outcome.error, '\r'));
    cr_expect_null(strchr(outcome.error, '\033'));
    const char *start =
        "run: 6171 parameters, 80 training pairs, 8 dev pairs, vocabularies of 11 and 11, 1 thread\n"
        "20 updates will take about ";
    cr_expect(!strncmp(outcome.error, start, strlen(start)), "%s", outcome.error);
    const char *memory = strstr(outcome.error, ", without validations; ");
    cr_assert_not_null(memory, "%s", outcome.error);
    int megabytes, length = 0;
    sscanf(memory, ", without validations; %d MB of memory so far\nupdate 5  epoch 1  loss %n", &megabytes,
           &length);
    cr_expect(length && megabytes > 2 && megabytes < 4000, "%s", outcome.error);
    /* However long it takes. */
    const char *left = strstr(outcome.error, " tokens/s  left ");
    cr_assert_not_null(left, "%s", outcome.error);
    left += strlen(" tokens/s  left ");
    const char *behind = left + strspn(left, "0123456789");
    cr_expect(behind > left && !strncmp(behind, "s\nupdate 10  ", 13), "%s", outcome.error);
    cr_expect(shows(outcome.error, "\nupdate 10  dev: loss "));
    cr_expect(shows(outcome.error, "%  BLEU "));
    cr_expect(shows(outcome.error, "  (best)\n    "));
    char *end = strstr(outcome.error, "\ndone after 20 updates (");
    cr_assert_not_null(end, "%s", outcome.error);
    cr_expect(shows(end, "; best loss "));
    static const char *const names[] = {"config.yaml",   "source.vocabulary", "target.vocabulary",
                                        "metrics.jsonl", "last.safetensors",  "best.safetensors"};
    for (int i = 0; i < 6; i++) cr_expect(there(folder, format("run/%s", names[i])), "%s", names[i]);
}

Test(train, says_once_how_long_it_will_take)
{
    enter(tiny_run("estimate", 20));
    struct outcome outcome = run("qkv train c.yaml -s training.updates=40 --resume");
    char *line = strstr(outcome.error, "resuming after update 20\n20 updates will take about ");
    cr_assert_not_null(line, "%s", outcome.error);
    line = strstr(line, " will take about ");
    cr_expect(lacks(line + 1, " will take about "), "%s", outcome.error);
    outcome = run("qkv train c.yaml -s training.patience=9 --overwrite");
    cr_expect(shows(outcome.error, "\nat most 20 updates will take about "));
}

Test(train, quiet_prints_nothing)
{
    struct outcome outcome =
        run("cd '%s' && qkv train -q c.yaml && qkv train c.yaml --resume --quiet", tiny_task("quiet"));
    cr_assert_eq(outcome.exit_code, 0);
    cr_assert_str_empty(outcome.output);
    cr_assert_str_empty(outcome.error);
}

Test(train, refuses_to_replace_a_run)
{
    const char *folder = enter(tiny_run("replace", 5));
    char *before = fingerprint(folder);
    cr_expect(fails(run("qkv train c.yaml"), 2,
                    ": holds a run already; continue it with --resume or replace it with --overwrite\n"));
    /* A single file of a run is enough: it may be all that is left of one. */
    run("mkdir other && echo mine >other/metrics.jsonl");
    cr_assert(refused(run("qkv train c.yaml -s training.model_dir=other"),
                      "qkv: other: is an incomplete run: it has metrics.jsonl, but no last.safetensors to "
                      "continue from; replace it with --overwrite"));
    cr_assert_str_eq(run("cat other/*").output, "mine\n");
    run("rm -r 'other'");
    cr_assert_str_eq(fingerprint(folder), before);
}

Test(train, overwrite_deletes_nothing_when_the_input_is_bad)
{
    const char *folder = enter(tiny_run("overwrite_late", 5));
    write_text(folder, "bad.tsv", "a\tb\na b\n");
    char *before = fingerprint(folder);
    static const char *const cases[][2] = {
        {"-s data.train=bad.tsv", "qkv: bad.tsv:2:4: the line has no tab; a line is source<TAB>target"},
        {"-s data.dev=bad.tsv", "qkv: bad.tsv:2:4: the line has no tab; a line is source<TAB>target"},
        {"-s data.dev=none.tsv", "qkv: none.tsv: there is no such text: set data.dev to its path"},
        {"-s model.encoder.num_heads=3", "-s model.encoder.num_heads=3: model.encoder.num_heads is 3, but "
                                         "must divide model.encoder.hidden_size (16)"},
        {"-s model.decoder.positions.max_length=3",
         "qkv: train.tsv:2: the target has 6 tokens with </s>, but model.decoder.positions.max_length is 3"},
        {"--threads=0", "qkv: --threads is 0, but must lie between 1 and 1024"},
    };
    EXPECT_REFUSALS("qkv train c.yaml --overwrite ", cases);
    cr_assert_str_eq(fingerprint(folder), before);
}

Test(train, overwrite_replaces_files_of_a_run_and_no_others)
{
    enter(tiny_run("overwrite", 5));
    run("cd run && for f in notes.txt update-1.txt my.safetensors last.safetensors.bak a.tmp "
        "config.yaml.old.1.tmp; do echo mine >$f; done; echo half >last.safetensors.4711.0.tmp; echo old "
        ">update-999.safetensors");
    struct outcome outcome =
        run("qkv train c.yaml --overwrite -q && ls run && cd run && cat notes.txt update-1.txt "
            "my.safetensors last.safetensors.bak a.tmp config.yaml.old.1.tmp");
    cr_assert_eq(outcome.exit_code, 0, "%s", outcome.error);
    cr_assert_str_eq(
        outcome.output,
        "a.tmp\nbest.safetensors\nconfig.yaml\nconfig.yaml.old.1.tmp\nlast.safetensors\n"
        "last.safetensors.bak\nmetrics.jsonl\nmy.safetensors\nnotes.txt\nqkv.format\nsource.vocabulary\n"
        "target.vocabulary\nupdate-1.txt\nupdate-10.safetensors\nupdate-20.safetensors\n"
        "mine\nmine\nmine\nmine\nmine\nmine\n");
}

Test(train, resume_needs_a_run)
{
    const char *folder = enter(tiny_task("no_run"));
    cr_expect(refused(run("qkv train c.yaml --resume"),
                      "qkv: run: nothing to resume: there is no last.safetensors; start without --resume"));
    cr_expect_not(there(folder, "run"));
    cr_expect(refused(run("qkv train c.yaml --resume --overwrite"),
                      "qkv: --resume and --overwrite exclude each other"));
}

Test(train, resume_of_a_finished_run_changes_nothing)
{
    const char *folder = enter(tiny_task("finished"));
    run("qkv train c.yaml -q");
    char *before = fingerprint(folder);
    for (int i = 0; i < 2; i++) {
        struct outcome outcome = run("qkv train c.yaml --resume");
        cr_assert_eq(outcome.exit_code, 0);
        cr_expect(shows(outcome.error, "\nresuming after update 20\nalready finished after 20 updates; raise "
                                       "training.updates or training.epochs to go on\n"));
        cr_assert_str_eq(fingerprint(folder), before);
    }
    cr_expect(
        refused(run("qkv train c.yaml --resume -s training.updates=10"),
                "qkv: run/last.safetensors: has 20 updates, but training.updates is 10: give at least 20"));
    cr_expect(refused(run("qkv train c.yaml --resume -s data.trg.lang=fr"),
                      "qkv: run/last.safetensors: was trained with data.trg.lang b, but the config has fr: "
                      "put it back, or train a new run, which --from can start with these parameters"));
    cr_assert_str_eq(fingerprint(folder), before);
    struct outcome outcome = run("qkv train c.yaml --resume -s training.updates=25");
    cr_assert_eq(outcome.exit_code, 0);
    cr_expect(shows(outcome.error, "\ndone after 25 updates ("));
}

Test(train, resume_refuses_another_model)
{
    const char *folder = enter(tiny_run("other_model", 5));
    char *before = fingerprint(folder);
    static const char warm[] = ", which --from can start with these parameters";
    static const char *const cases[][3] = {
        {"-s model.encoder.hidden_size=32 -s model.decoder.hidden_size=32",
         "model.encoder.hidden_size 16, but the config has 32", ""},
        {"-s model.decoder.num_heads=4", "model.decoder.num_heads 2, but the config has 4",
         ""}, /* the same shapes */
        {"-s model.encoder.activation=gelu", "model.encoder.activation relu, but the config has gelu", ""},
        {"-s model.encoder.num_layers=2", "model.encoder.num_layers 1, but the config has 2", ""},
        {"-s data.src.level=char", "data.src.level word, but the config has char", ""},
        {"-s training.optimizer=sgd", "training.optimizer adam, but the config has sgd", warm},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++)
        cr_expect(refused(
            run("qkv train c.yaml --resume %s", cases[i][0]),
            format("qkv: run/last.safetensors: was trained with %s: put it back, or train a new run%s",
                   cases[i][1], cases[i][2])));
    cr_assert_str_eq(fingerprint(folder), before);
}

Test(train, resume_refuses_changes_that_change_the_numbers)
{
    const char *folder = enter(tiny_run("other_course", 5));
    char *before = fingerprint(folder);
    static const char *const cases[][3] = {
        {"training.batch_size", "16", "17"},
        {"training.batch_type", "sentence", "token"},
        {"training.batch_multiplier", "1", "2"},
        {"training.random_seed", "42", "43"},
        {"training.shards", "4", "2"},
        {"training.learning_rate", "0.01", "0.02"},
        {"training.adam_betas", "[0.9, 0.999]", "[0.9, 0.98]"},
        {"training.label_smoothing", "0", "0.1"},
        {"training.early_stopping_metric", "loss", "bleu"},
        {"model.encoder.dropout", "0", "0.1"},
        {"model.init_gain", "1", "2"},
        {"data.trg.voc_limit", "0", "5"},
        {"data.src.max_length", "10", "9"},
        {"data.src.lang", "a", "xx"},
        {"data.joint_vocabulary", "false", "true"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++)
        cr_expect(
            refused(run("qkv train c.yaml --resume -s '%s=%s'", cases[i][0], cases[i][2]),
                    format("qkv: run/last.safetensors: was trained with %s %s, but the config has %s: put it "
                           "back, or train a new run, which --from can start with these parameters",
                           cases[i][0], cases[i][1], cases[i][2])));
    cr_assert_str_eq(fingerprint(folder), before);
    struct outcome outcome =
        run("cp train.tsv same.tsv && cp -r run moved && qkv train c.yaml --resume -q -s training.updates=8 "
            "-s training.epochs=3 -s training.patience=9 -s training.validation_freq=1 -s "
            "training.logging_freq=1 -s training.validation_samples=0 -s training.keep_best_ckpts=1 -s "
            "testing.beam_size=2 -s testing.batch_size=3 -s name=other -s data.train=same.tsv -s "
            "data.test=dev.tsv -s training.model_dir=moved -j2");
    cr_expect_eq(outcome.exit_code, 0, "%s", outcome.error);
}

Test(train, resume_refuses_changes_of_the_schedule)
{
    enter(tiny_task("schedules"));
    static const char *const cases[][4] = {
        {"cosine", "training.updates", "4", "8"},
        {"linear", "training.updates", "4", "8"},
        {"plateau", "training.validation_freq", "2", "1"},
        {"plateau", "testing.beam_size", "1", "2"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        const char *train = format("qkv train c.yaml -q -s training.scheduling=%s -s training.updates=4 -s "
                                   "training.validation_freq=2",
                                   cases[i][0]);
        cr_assert_eq(run("%s --overwrite", train).exit_code, 0);
        cr_expect(refused(run("%s --resume -s %s=%s", train, cases[i][1], cases[i][3]),
                          format("qkv: run/last.safetensors: was trained with %s %s, but the config has %s, "
                                 "which changes the learning rates of the %s schedule: put it back, or train "
                                 "a new run, which --from can start with these parameters",
                                 cases[i][1], cases[i][2], cases[i][3], cases[i][0])));
    }
}

Test(train, resume_refuses_another_text)
{
    const char *folder = enter(tiny_run("other_text", 5));
    /* The same words in another order, of as many pairs. */
    run("tac train.tsv >other.tsv && { tail -n 7 dev.tsv; head -n 1 dev.tsv; } >others.tsv");
    char *before = fingerprint(folder);
    struct outcome outcome = run("qkv train c.yaml --resume -s data.train=other.tsv");
    cr_expect_eq(outcome.exit_code, 2);
    cr_expect_str_empty(outcome.output);
    const char *train =
        "qkv: run/last.safetensors: was trained with data.train train.tsv (80 pairs, checksum ";
    cr_expect(!strncmp(outcome.error, train, strlen(train)), "%s", outcome.error);
    cr_expect(shows(outcome.error, "), but now other.tsv holds other text (80 pairs, checksum "));
    cr_expect(shows(outcome.error,
                    "): put it back, or train a new run, which --from can start with these parameters\n"));
    cr_expect(fails(run("qkv train c.yaml --resume -s data.dev=others.tsv"), 2,
                    ": was trained with data.dev dev.tsv (8 pairs, checksum "));
    cr_assert_str_eq(fingerprint(folder), before);
    /* What training does not see is nothing to it: other line ends, a name; nor is a dev set that is gone. */
    outcome = run("gzip -k train.tsv && qkv train c.yaml --resume -q -s data.train=train.tsv.gz -s data.dev= "
                  "-s training.updates=6 && sed -i 's/$/\\r/' train.tsv && qkv train c.yaml --resume -q -s "
                  "training.updates=7");
    cr_expect_eq(outcome.exit_code, 0, "%s", outcome.error);
}

/* Starts an endless training, sends it a signal once it has validated, and waits for its end. */
static struct outcome interrupt(const char *folder, const char *signal, const char *options)
{
    return run("cd '%s' && '%s' train c.yaml " ENDLESS
               " %s >train.out 2>train.err & pid=$!; until grep -q validation '%s/run/metrics.jsonl' || ! "
               "kill -0 $pid; do :; done 2>/dev/null; kill -%s $pid; wait $pid; code=$?; cd '%s' && cat "
               "train.out && cat train.err >&2; exit $code",
               folder, QKV_BINARY, options, folder, signal, folder);
}

Test(train, a_signal_saves_and_prints_how_to_continue)
{
    static const struct {
        const char *name;
        int number;
    } signals[] = {{"INT", SIGINT}, {"TERM", SIGTERM}, {"HUP", SIGHUP}};
    for (int i = 0; i < 3; i++) {
        const char *folder = enter(tiny_task("signal"));
        struct outcome outcome = interrupt(folder, signals[i].name, "-s 'data.test=a file.tsv'");
        cr_assert_eq(outcome.exit_code, 128 + signals[i].number, "%s", outcome.error);
        cr_expect_str_empty(outcome.output);
        cr_expect(shows(outcome.error, "\nqkv: interrupted: saving a checkpoint after this update; interrupt "
                                       "again to stop without saving\n"));
        cr_expect(shows(outcome.error, "\ninterrupted after "));
        cr_expect_str_eq(last_line(outcome.error), "saved; continue with: qkv train c.yaml " ENDLESS
                                                   " -s 'data.test=a file.tsv' --resume");
        outcome = run("qkv translate run dev.tsv -q >/dev/null && qkv train c.yaml --resume -s "
                      "training.updates=0 -s training.epochs=1");
        cr_expect_eq(outcome.exit_code, 0, "%s", outcome.error);
        cr_expect(shows(outcome.error, "\nresuming after update "));
    }
}

Test(train, a_signal_with_quiet_prints_nothing)
{
    struct outcome outcome = interrupt(tiny_task("quiet_signal"), "INT", "-q");
    cr_assert_eq(outcome.exit_code, 128 + SIGINT);
    cr_assert_str_empty(outcome.error);
}

Test(train, a_run_is_trained_by_one_process_at_a_time)
{
    enter(tiny_task("locked"));
    struct outcome outcome = run("{ '%s' train c.yaml " ENDLESS
                                 " -q 2>/dev/null & } && pid=$!; until [ -e run/config.yaml ] || ! kill -0 "
                                 "$pid; do :; done; qkv train c.yaml --resume; echo $?; qkv train c.yaml "
                                 "--overwrite; echo $?; { kill $pid; wait $pid; echo $?; } 2>/dev/null",
                                 QKV_BINARY);
    cr_expect_str_eq(outcome.output, "2\n2\n143\n"); /* 128 + SIGTERM */
#define BUSY                                                                                                 \
    "qkv: run: another process trains this run now; wait for it, or choose another training.model_dir\n"
    cr_expect_str_eq(outcome.error, BUSY BUSY);
}

Test(train, a_killed_run_leaves_complete_files_and_can_be_resumed)
{
    const char *folder = enter(tiny_task("killed"));
    struct outcome outcome = interrupt(folder, "KILL", "-q");
    cr_assert_eq(outcome.exit_code, 128 + 9);
    run("echo half >'run/last.safetensors.1.0.tmp'");
    outcome = run("qkv train c.yaml --resume -q && ls run | grep tmp");
    cr_expect_eq(outcome.exit_code, 1, "%s", outcome.error); /* of grep, which finds none */
    cr_expect_str_empty(outcome.error);
}

/* What a process that is killed while it begins leaves: every file that it writes before the first checkpoint. Each
 * message says what to do, and doing so works. */
Test(train, a_run_killed_before_its_first_checkpoint_can_be_started_again)
{
    enter(tiny_run("begun", 2));
    run_ok("cd run && rm last.safetensors best.safetensors update-* metrics.jsonl config.yaml qkv.format && "
           "touch last.safetensors.1.0.tmp");
    cr_expect(
        refused(run("qkv train c.yaml --resume"),
                "qkv: run: nothing to resume: there is no last.safetensors; start again with --overwrite"));
    struct outcome outcome = run("qkv train c.yaml");
    cr_expect_eq(outcome.exit_code, 2);
    cr_expect(
        strstr(outcome.error, "qkv: run: is an incomplete run: it has ") &&
            strstr(outcome.error, "but no last.safetensors to continue from; replace it with --overwrite\n"),
        "%s", outcome.error);
    outcome = run("qkv train c.yaml --overwrite -q && ls run | grep tmp");
    cr_expect_eq(outcome.exit_code, 1, "%s", outcome.error); /* of grep, which finds none */
}

/* Reading a FIFO would wait for ever, and reading a device would never end. */
Test(train, refuses_files_of_a_run_that_are_not_regular)
{
    static const char *const names[] = {"metrics.jsonl", "last.safetensors", "source.vocabulary",
                                        "qkv.format"};
    enter(tiny_run("fifo", 2));
    for (int i = 0; i < 4; i++) {
        static const char *const kinds[][2] = {{"mkfifo", "it is a named pipe"},
                                               {"ln -s /dev/zero", "it is not a regular file"}};
        for (int k = 0; k < 2; k++) {
            run_ok("cd run && mv %s kept && %s %s", names[i], kinds[k][0], names[i]);
            const char *sentence = format("qkv: run/%s: cannot be read: %s", names[i], kinds[k][1]);
            cr_expect(refused(run("timeout 20 '%s' train c.yaml --resume", QKV_BINARY), sentence));
            cr_expect(refused(run("timeout 20 '%s' train c.yaml", QKV_BINARY), sentence));
            run_ok("cd run && mv kept %s", names[i]);
        }
    }
    run_ok("qkv train c.yaml --resume -q");
}

Test(train, stops_when_the_loss_is_not_finite)
{
    enter(tiny_task("diverging"));
    struct outcome outcome = run("qkv train c.yaml -q -s training.learning_rate=1e30");
    cr_assert_eq(outcome.exit_code, 1);
    cr_assert_str_eq(
        outcome.error,
        "qkv: update 2: the loss is not finite; the first tensor that is not finite is encoder.1.self.query "
        "(linear); lower training.learning_rate, or set training.clip_grad_norm\n");
    run("rm 'run/last.safetensors'");
    cr_assert(refused(run("qkv translate run dev.tsv"),
                      "qkv: run: holds no checkpoint: training has not saved one yet"));
}

Test(train, a_closed_stderr_does_not_end_training)
{
    struct outcome outcome =
        run("cd '%s' && { qkv train c.yaml; echo $? >code; } 2>&1 | :; cat code", tiny_task("pipe"));
    cr_assert_str_eq(outcome.output, "0\n", "%s", outcome.error);
    enter(tiny_task("closed"));
    outcome = run("qkv train c.yaml <&- >&- 2>&-");
    cr_assert_eq(outcome.exit_code, 0);
    cr_assert_eq(run("qkv translate run dev.tsv").exit_code, 0);
}

Test(train, drops_long_pairs_and_counts_them)
{
    enter(tiny_task("long"));
    run("{ yes a | head -100000 | tr '\\n' ' '; printf '\\tb\\na\\t'; yes b | head -11 | tr '\\n' ' '; echo; "
        "} >>train.tsv");
    struct outcome outcome = run("qkv train c.yaml");
    cr_assert_eq(outcome.exit_code, 0);
    cr_assert(shows(outcome.error,
                    "\ndropped 2 of 82 training pairs; longer than max_length: 1 source, 1 target\n"));
}

Test(train, reads_a_config_from_standard_input)
{
    enter(tiny_task("stdin"));
    cr_expect_eq(run("cat c.yaml | qkv train - -q").exit_code, 0);
    cr_expect(refused(run("echo 'nam: x' | qkv train - -s name=x -s data.train=t -s data.src.lang=a -s "
                          "data.trg.lang=b -s training.updates=1"),
                      "/dev/stdin:1:1: unknown key nam; did you mean name"));
}

Test(train, refuses_bad_arguments)
{
    static const char *const cases[][2] = {
        {"", "qkv: CONFIG is missing (usage: qkv train CONFIG [options])"},
        {"a b", "qkv: unexpected operand 'b' (usage: qkv train CONFIG [options])"},
        {"a -s training.updates 5", "qkv: unexpected operand '5'; -s takes KEY=VALUE, such as -s "
                                    "training.updates=5 (usage: qkv train CONFIG [options])"},
        {"a -s name=x b=2",
         "qkv: unexpected operand 'b=2'; write -s before each KEY=VALUE (usage: qkv train CONFIG [options])"},
        {"-s name=x b=2 a",
         "qkv: unexpected operand 'b=2'; write -s before each KEY=VALUE (usage: qkv train CONFIG [options])"},
        {"a b=2",
         "qkv: unexpected operand 'b=2'; write -s before each KEY=VALUE (usage: qkv train CONFIG [options])"},
        {"a -- --quiet", "qkv: unexpected operand '--quiet' (usage: qkv train CONFIG [options])"},
        {"--bogus a", "qkv: unknown option '--bogus'; keys of the config are set by -s KEY=VALUE (see `qkv "
                      "train --help`)"},
        {"a --bogus=3", "qkv: unknown option '--bogus'; keys of the config are set by -s KEY=VALUE (see `qkv "
                        "train --help`)"},
        {"a -qx", "qkv: unknown option '-x' (see `qkv train --help`)"},
        {"a --threads", "qkv: option '--threads' needs a value (see `qkv train --help`)"},
        {"a -s", "qkv: option '-s' needs a value (see `qkv train --help`)"},
        {"a --quiet=yes", "qkv: option '--quiet' takes no value"},
        {"a --threads two", "qkv: --threads needs a whole number, but got 'two'"},
        {"a --threads 2.5", "qkv: --threads needs a whole number, but got '2.5'"},
        {"a --threads ''", "qkv: --threads needs a whole number, but got ''"},
        {"a -j 1025", "qkv: --threads is 1025, but must lie between 1 and 1024"},
        {"a --threads=99999999999999999999",
         "qkv: --threads is 99999999999999999999, but must lie between 1 and 1024"},
        {"none.yaml", "none.yaml: cannot be read: No such file or directory"},
    };
    enter(scratch("arguments"));
    EXPECT_REFUSALS("qkv train ", cases);
    struct outcome outcome = run("qkv train --help");
    cr_expect_eq(outcome.exit_code, 0);
    cr_expect_str_empty(outcome.error);
    cr_expect(!strncmp(outcome.output, "Usage: qkv train CONFIG [options]\n", 34));
    /* The last of a repeated option counts, and options may stand before or behind operands. */
    outcome =
        run("cd '%s' && qkv train --threads 2 c.yaml -j1 -s training.updates=1 --set training.updates=2",
            tiny_task("last"));
    cr_expect(shows(outcome.error, ", 1 thread\n"));
    cr_expect(shows(outcome.error, "\ndone after 2 updates"));
}
