/* qkv train: what it refuses, what it leaves alone, how it ends and goes on. */
#include "support.h"

#include <signal.h>

TestSuite(train, .init = enter_tiny_task);

#define ENDLESS "-s training.updates=0 -s training.epochs=1000000 -s training.patience=0"

Test(train, writes_a_run_and_prints_its_progress_as_lines)
{
    cr_expect_str_empty(run_ok("qkv train c.yaml --threads 1 2>printed"));
    cr_expect(lacks(read_file("printed", NULL), "\r") && lacks(read_file("printed", NULL), "\033"));
    /* Measured times and speeds become N, computed numbers F, and the translation T. */
    cr_expect_str_eq(
        run_ok("sed -E 's/[0-9]+\\.[0-9]+/F/g; s/(about|left) [^,]*(,|$)/\\1 N\\2/; s/[0-9]+ (tokens.s|MB)/N "
               "\\1/; s/^      =.*/      = T/' printed"),
        "run: 6171 parameters, 80 training pairs, 8 dev pairs, vocabularies of 11 and 11, 1 thread\n"
        "20 updates will take about N, without validations; N MB of memory so far\n"
        "update 5  epoch 1  loss F  N tokens/s  left N\n"
        "update 10  epoch 2  loss F  N tokens/s  left N\n"
        "update 10  dev: loss F  perplexity F  tokens F %  sequences F %  BLEU F  chrF F  (best)\n"
        "    f g b e\n"
        "      = T\n"
        "      * F G B E\n"
        "update 15  epoch 3  loss F  N tokens/s  left N\n"
        "update 20  epoch 4  loss F  N tokens/s\n"
        "update 20  dev: loss F  perplexity F  tokens F %  sequences F %  BLEU F  chrF F  (best)\n"
        "    f g b e\n"
        "      = T\n"
        "      * F G B E\n"
        "done after 20 updates (1264 target tokens); best loss F at update 20\n"
        "next: echo 'f g b e' | qkv translate run\n"
        "      qkv attention run 'f g b e'\n");
    cr_expect_str_eq(run_ok("ls run"),
                     "best.safetensors\nconfig.yaml\nlast.safetensors\nmetrics.jsonl\nqkv.format\n"
                     "source.vocabulary\ntarget.vocabulary\nupdate-10.safetensors\nupdate-20.safetensors\n");
    /* How long it takes is said once. */
    const char *more = run_ok("qkv train c.yaml -s training.updates=40 --resume 2>&1");
    const char *line = strstr(more, "resuming after update 20\n20 updates will take about ");
    cr_assert_not_null(line, "%s", more);
    cr_expect(lacks(strchr(line, '\n') + 30, " will take about "));
    cr_expect(shows(run_ok("qkv train c.yaml -s training.patience=9 --overwrite 2>&1"),
                    "\nat most 20 updates will take about "));
    cr_expect_str_empty(
        run_ok("qkv train -q c.yaml --overwrite 2>&1 && qkv train c.yaml --resume --quiet 2>&1"));
}

/* ---- what it refuses ---- */

#define NO_TAB "qkv: bad.tsv:2:4: the line has no tab; a line is source<TAB>target"
#define TRAINED(was, now)                                                                                    \
    "qkv: run/last.safetensors: was trained with " was ", but the config has " now                           \
    ": put it back, or train a new run"
#define FROM ", which --from can start with these parameters"
/* A change of a key that is not of the network. */
#define RESUME(key, was, now) LIST("--resume -s '" key "=" now "'", TRAINED(key " " was, now) FROM)

Test(train, changes_nothing_when_it_refuses)
{
    static const char *const cases[][2] = {
        {"", "qkv: run: holds a run already; continue it with --resume or replace it with --overwrite"},
        {"-s training.model_dir=other", "qkv: other: is an incomplete run: it has metrics.jsonl, but no "
                                        "last.safetensors to continue from; replace it with --overwrite"},
        {"-s training.model_dir=none --resume",
         "qkv: none: nothing to resume: there is no last.safetensors; start without --resume"},
        {"--resume --overwrite", "qkv: --resume and --overwrite exclude each other"},
        {"--overwrite -s data.train=bad.tsv", NO_TAB},
        {"--overwrite -s data.dev=bad.tsv", NO_TAB},
        {"--overwrite -s data.dev=none.tsv",
         "qkv: none.tsv: there is no such text: set data.dev to its path"},
        {"--overwrite -s model.decoder.positions.max_length=3",
         "qkv: train.tsv:2: the target has 6 tokens with </s>, but model.decoder.positions.max_length is 3"},
        {"--resume -s training.updates=4",
         "qkv: run/last.safetensors: has 5 updates, but training.updates is 4: give at least 5"},
        {"--resume -s model.encoder.hidden_size=32 -s model.decoder.hidden_size=32",
         TRAINED("model.encoder.hidden_size 16", "32")},
        {"--resume -s model.decoder.num_heads=4",
         TRAINED("model.decoder.num_heads 2", "4")}, /* the same shapes */
        {"--resume -s model.encoder.activation=gelu", TRAINED("model.encoder.activation relu", "gelu")},
        {"--resume -s model.encoder.num_layers=2", TRAINED("model.encoder.num_layers 1", "2")},
        {"--resume -s data.src.level=char", TRAINED("data.src.level word", "char")},
        RESUME("training.optimizer", "adam", "sgd"),
        RESUME("training.batch_size", "16", "17"),
        RESUME("training.batch_type", "sentence", "token"),
        RESUME("training.batch_multiplier", "1", "2"),
        RESUME("training.random_seed", "42", "43"),
        RESUME("training.shards", "4", "2"),
        RESUME("training.adam_betas", "[0.9, 0.999]", "[0.9, 0.98]"),
        RESUME("training.label_smoothing", "0", "0.1"),
        RESUME("training.early_stopping_metric", "loss", "bleu"),
        RESUME("model.encoder.dropout", "0", "0.1"),
        RESUME("model.init_gain", "1", "2"),
        RESUME("data.trg.voc_limit", "0", "5"),
        RESUME("data.src.max_length", "10", "9"),
        RESUME("data.src.lang", "a", "xx"),
        RESUME("data.joint_vocabulary", "false", "true"),
    };
    enter(tiny_run("refused", 5));
    write_text(".", "bad.tsv", "a\tb\na b\n");
    run_ok("mkdir other && echo mine >other/metrics.jsonl");
    EXPECT_REFUSALS("qkv train c.yaml", cases);
    run_ok("cp train.tsv same.tsv && cp -r run moved && qkv train c.yaml --resume -q -s training.updates=8 "
           "-s training.epochs=3 -s training.patience=9 -s training.validation_freq=1 -s "
           "training.logging_freq=1 -s training.validation_samples=0 -s training.keep_best_ckpts=1 -s "
           "testing.beam_size=2 -s testing.batch_size=3 -s name=other -s data.train=same.tsv -s "
           "data.test=dev.tsv -s training.model_dir=moved -j2");
}

Test(train, overwrite_replaces_files_of_a_run_and_no_others)
{
    enter(tiny_run("overwrite", 5));
    run_ok("cd run && for f in notes.txt update-1.txt my.safetensors last.safetensors.bak a.tmp "
           "config.yaml.old.1.tmp; do echo mine >$f; done; echo half >last.safetensors.4711.0.tmp; echo old "
           ">update-999.safetensors");
    cr_assert_str_eq(
        run_ok("qkv train c.yaml --overwrite -q && ls run && cd run && cat notes.txt update-1.txt "
               "my.safetensors last.safetensors.bak a.tmp config.yaml.old.1.tmp"),
        "a.tmp\nbest.safetensors\nconfig.yaml\nconfig.yaml.old.1.tmp\nlast.safetensors\n"
        "last.safetensors.bak\nmetrics.jsonl\nmy.safetensors\nnotes.txt\nqkv.format\nsource.vocabulary\n"
        "target.vocabulary\nupdate-1.txt\nupdate-10.safetensors\nupdate-20.safetensors\n"
        "mine\nmine\nmine\nmine\nmine\nmine\n");
}

Test(train, resume_of_a_finished_run_changes_nothing)
{
    run_ok("qkv train c.yaml -q");
    char *before = fingerprint(".");
    for (int i = 0; i < 2; i++) {
        cr_expect(shows(run_ok("qkv train c.yaml --resume 2>&1"),
                        "\nresuming after update 20\nalready finished after 20 updates; raise "
                        "training.updates or training.epochs to go on\n"));
        cr_expect_str_eq(fingerprint("."), before);
    }
    cr_expect(
        shows(run_ok("qkv train c.yaml --resume -s training.updates=25 2>&1"), "\ndone after 25 updates ("));
}

/* The row of beam_alpha has another condition, too. */
Test(train, resume_refuses_changes_of_the_schedule)
{
    static const char *const cases[][4] = {
        {"cosine", "training.updates", "4", "8"},          {"linear", "training.updates", "4", "8"},
        {"plateau", "training.validation_freq", "2", "1"}, {"plateau", "testing.beam_size", "1", "2"},
        {"plateau", "testing.beam_alpha", "0.6", "0.1"},
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
    enter(tiny_run("other_text", 5));
    /* The same words in another order, of as many pairs. */
    run_ok("tac train.tsv >other.tsv && { tail -n 7 dev.tsv; head -n 1 dev.tsv; } >others.tsv");
    char *before = fingerprint(".");
    struct outcome outcome = run("qkv train c.yaml --resume -s data.train=other.tsv");
    cr_expect(fails(outcome, 2,
                    "qkv: run/last.safetensors: was trained with data.train train.tsv (80 pairs, checksum "));
    cr_expect(shows(outcome.error, "), but now other.tsv holds other text (80 pairs, checksum ") &&
              shows(outcome.error, "): put it back, or train a new run" FROM "\n"));
    cr_expect(fails(run("qkv train c.yaml --resume -s data.dev=others.tsv"), 2,
                    ": was trained with data.dev dev.tsv (8 pairs, checksum "));
    cr_expect_str_eq(fingerprint("."), before);
    /* What training does not see is nothing to it: other line ends, a name; nor is a dev set that is gone. */
    run_ok("gzip -k train.tsv && qkv train c.yaml --resume -q -s data.train=train.tsv.gz -s data.dev= -s "
           "training.updates=6 && sed -i 's/$/\\r/' train.tsv && qkv train c.yaml --resume -q -s "
           "training.updates=7");
}

/* ---- signals and failures ---- */

/* Starts an endless training, sends it a signal (a shell ignores SIGINT in the background unless told otherwise) once it has
 * validated, and waits for its end. */
static struct outcome interrupt(const char *signal, const char *options)
{
    return run("env --default-signal=INT '%s' train c.yaml " ENDLESS
               " %s >train.out 2>train.err & pid=$!; until grep -q validation run/metrics.jsonl || ! kill -0 "
               "$pid; do :; done 2>/dev/null; kill -%s $pid; wait $pid; code=$?; cat train.out && cat "
               "train.err >&2; exit $code",
               QKV_BINARY, options, signal);
}

Test(train, a_signal_saves_and_prints_how_to_continue)
{
    static const struct {
        const char *name;
        int number;
    } signals[] = {{"INT", SIGINT}, {"TERM", SIGTERM}, {"HUP", SIGHUP}};
    for (int i = 0; i < 3; i++) {
        enter(tiny_task("signal"));
        struct outcome outcome = interrupt(signals[i].name, "-s 'data.test=a file.tsv'");
        cr_expect(fails(outcome, 128 + signals[i].number,
                        "\nqkv: interrupted: saving a checkpoint after this update; interrupt again to stop "
                        "without saving\n"));
        cr_expect(shows(outcome.error, "\ninterrupted after "));
        const char *last =
            "\nsaved; continue with: qkv train c.yaml " ENDLESS " -s 'data.test=a file.tsv' --resume\n";
        cr_expect_str_eq(outcome.error + strlen(outcome.error) - strlen(last), last);
        cr_expect(shows(run_ok("qkv translate run dev.tsv -q >/dev/null && qkv train c.yaml --resume -s "
                               "training.updates=0 -s training.epochs=1 2>&1"),
                        "\nresuming after update "));
    }
    enter(tiny_task("quiet_signal"));
    struct outcome outcome = interrupt("INT", "-q");
    cr_expect_eq(outcome.exit_code, 128 + SIGINT);
    cr_expect_str_empty(outcome.error);
}

Test(train, a_run_is_trained_by_one_process_at_a_time)
{
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

/* The folder is moved while it trains, and another run begins in its place. */
Test(train, a_run_whose_folder_is_moved_writes_into_no_other_run)
{
    struct outcome outcome =
        run("qkv train c.yaml -q -s training.model_dir=alone && { '%s' train c.yaml " ENDLESS
            " -q & } && pid=$!; until grep -q validation run/metrics.jsonl || ! kill -0 $pid; do :; done "
            "2>/dev/null; mv run moved && qkv train c.yaml -q; echo $?; wait $pid; echo $?; qkv inspect "
            "moved >/dev/null; echo $?",
            QKV_BINARY);
    cr_expect_str_eq(outcome.output, "0\n2\n0\n", "%s", outcome.error);
    cr_expect(shows(outcome.error,
                    "qkv: run: this folder was moved, replaced or removed while the run was trained in it"));
    run_ok("cmp alone/last.safetensors run/last.safetensors && cmp alone/best.safetensors "
           "run/best.safetensors && test $(wc -l <alone/metrics.jsonl) = $(wc -l <run/metrics.jsonl) && test "
           "$(ls alone | wc -l) = $(ls run | wc -l)");
}

/* As in a script's background job. */
Test(train, a_signal_that_is_ignored_at_the_start_stays_ignored)
{
    static const char *const names[] = {"INT", "TERM", "HUP"};
    for (int i = 0; i < 3; i++) {
        struct outcome outcome =
            run("trap '' %s; '%s' train c.yaml " ENDLESS " -q --overwrite & pid=$!; until grep -q validation "
                "run/metrics.jsonl || ! kill -0 $pid; do :; done 2>/dev/null; kill -%s $pid; n=$(grep -c "
                "validation run/metrics.jsonl); until test $(grep -c validation run/metrics.jsonl) -gt $((n "
                "+ 1)) || ! "
                "kill -0 $pid; do :; done 2>/dev/null; kill -KILL $pid && echo trained on; wait $pid",
                names[i], QKV_BINARY, names[i]);
        cr_expect_str_eq(outcome.output, "trained on\n", "%s: %s", names[i], outcome.error);
    }
}

Test(train, overwrite_replaces_only_what_a_run_has_written)
{
    static const char *const names[] = {"config.yaml",   "best.safetensors",  "update-100.safetensors",
                                        "metrics.jsonl", "source.vocabulary", "source.codes"};
    for (int i = 0; i < 6; i++) {
        run_ok("rm -rf run && mkdir run && echo 'name: mine and precious' >run/%s", names[i]);
        cr_expect(refused(run("qkv train c.yaml --overwrite"),
                          format("qkv: run/%s: no run of qkv wrote this file, so --overwrite does not "
                                 "replace it: move it, or choose another training.model_dir",
                                 names[i])));
        cr_expect_str_eq(read_file(format("run/%s", names[i]), NULL), "name: mine and precious\n");
    }
    run_ok("rm -rf run && qkv train c.yaml -q && touch run/note && qkv train c.yaml -q --overwrite && test "
           "-e run/note");
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
    cr_expect(
        fails(outcome, 2, "qkv: run: is an incomplete run: it has ") &&
        shows(outcome.error, "but no last.safetensors to continue from; replace it with --overwrite\n"));
    run_ok("qkv train c.yaml --overwrite -q && ! ls run | grep tmp");
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

Test(train, names_the_update_whose_learning_rate_makes_parameters_infinite)
{
    static const char *const optimizers[] = {"adam", "adamw", "sgd"};
    for (int i = 0; i < 3; i++) {
        struct outcome outcome = run("qkv train c.yaml -q --overwrite -s training.optimizer=%s -s "
                                     "training.updates=1 -s training.learning_rate=1e300",
                                     optimizers[i]);
        cr_expect(fails(outcome, 1,
                        "qkv: update 1: the learning rate 1e+300 makes parameters infinite, first in "));
        cr_expect(shows(outcome.error, "; lower training.learning_rate, or set training.clip_grad_norm"));
    }
}

Test(train, stops_when_the_loss_is_not_finite)
{
    cr_expect(fails(
        run("qkv train c.yaml -q -s training.learning_rate=1e30"), 1,
        "qkv: update 2: the loss is not finite; the first tensor that is not finite is "
        "encoder.1.self.query (linear); lower training.learning_rate, or set training.clip_grad_norm\n"));
    cr_expect(refused(run("rm run/last.safetensors && qkv translate run dev.tsv"),
                      "qkv: run: holds no checkpoint: training has not saved one yet"));
}

Test(train, a_closed_stderr_does_not_end_training)
{
    cr_expect_str_eq(run_ok("{ qkv train c.yaml; echo $? >code; } 2>&1 | :; cat code"), "0\n");
    run_ok("qkv train c.yaml --overwrite <&- >&- 2>&- && qkv translate run dev.tsv");
}

Test(train, drops_long_pairs_and_counts_them)
{
    run_ok("{ yes a | head -100000 | tr '\\n' ' '; printf '\\tb\\na\\t'; yes b | head -11 | tr '\\n' ' '; "
           "echo; } >>train.tsv");
    cr_expect(shows(run_ok("qkv train c.yaml 2>&1"),
                    "\ndropped 2 of 82 training pairs; longer than max_length: 1 source, 1 target\n"));
}

Test(train, reads_a_config_from_standard_input_and_options_in_any_order)
{
    run_ok("qkv train - -q <c.yaml");
    cr_expect(refused(run("echo 'nam: x' | qkv train - -s name=x -s data.train=t -s data.src.lang=a -s "
                          "data.trg.lang=b -s training.updates=1"),
                      "/dev/stdin:1:1: unknown key nam; did you mean name"));
    /* The last of a repeated option counts. */
    const char *printed = run_ok("qkv train --overwrite --threads 2 c.yaml -j1 -s training.updates=1 --set "
                                 "training.updates=2 2>&1");
    cr_expect(shows(printed, ", 1 thread\n") && shows(printed, "\ndone after 2 updates"));
}

/* ---- the commands that training names at its end: what to do with the run ---- */

/* Returns the commands that training names at its end, as a script. */
static const char *next_commands(const char *text)
{
    const char *line = strstr(text, "\nnext: ");
    cr_assert_not_null(line, "%s", text);
    return format("%s", line + strlen("\nnext: "));
}

Test(train, names_commands_that_use_the_run)
{
    struct outcome outcome = run("qkv train c.yaml -s training.model_dir=\"my run\"");
    const char *commands = next_commands(outcome.error);
    /* The sentence is a sample of the dev set, so that no word of it is unknown. */
    cr_expect(lacks(commands, "a sentence"));
    outcome = run("%s", commands);
    cr_expect_eq(outcome.exit_code, 0, "%s", outcome.error);
    cr_expect(lacks(outcome.error, "not in the vocabulary"));
    cr_expect(shows(outcome.output, "\ncross attention, layer 1"));
    /* A finished run has no sample; commands in the shell need quotation marks around these sentences. */
    outcome = run("qkv train c.yaml -s training.model_dir=\"my run\" --resume");
    const char *wanted = "echo 'a sentence' | qkv translate 'my run'\n"
                         "      qkv attention 'my run' 'a sentence'\n";
    cr_expect_str_eq(next_commands(outcome.error), wanted);
    static const char *const unfit[] = {"a '\\''b", "- a b", "a \\\\n b"};
    for (int i = 0; i < 3; i++) {
        run_ok("printf '%%s\\tA B\\n' '%s' >dev.tsv", unfit[i]);
        outcome = run("qkv train c.yaml -s training.model_dir=\"my run\" --overwrite");
        cr_expect_str_eq(next_commands(outcome.error), wanted, "%s", unfit[i]);
    }
}

Test(train, names_no_attention_of_a_run_that_has_none)
{
    train_recurrent("run", "", ", attention: {score: none}", 1);
    const char *commands = next_commands(run_ok("qkv train recurrent.yaml --overwrite 2>&1"));
    cr_expect(shows(commands, "| qkv translate run\n") && lacks(commands, "qkv attention"));
}
