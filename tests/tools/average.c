/* qkv average, through the command line. */
#include "support.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

/* A run of two validations with one checkpoint more than the best. */
static const char *trained(const char *name)
{
    const char *folder = tiny_task(name);
    run_ok("cd '%s' && qkv train c.yaml -q -s training.keep_last_ckpts=2", folder);
    return folder;
}

Test(average, is_a_checkpoint_for_other_commands)
{
    const char *folder = trained("checkpoint");
    cr_expect_str_eq(run_ok("cd '%s' && qkv average run --last 2", folder),
                     "run/average.safetensors: the mean of update-10, update-20\n");
    cr_expect_str_eq(run_ok("cd '%s' && qkv average run --best 1 -o top", folder),
                     run_ok("cd '%s' && qkv average run -b 1 --output top", folder));
    run_ok("cd '%s' && echo 'a b' | qkv translate run --checkpoint average", folder);
    run_ok("cd '%s' && qkv evaluate run dev.tsv --checkpoint average", folder);
    run_ok("cd '%s' && qkv attention run 'a b' --checkpoint average.safetensors", folder);
    cr_expect_str_eq(run_ok("cd '%s' && head -c 99 dev.tsv | qkv translate run --checkpoint top", folder),
                     run_ok("cd '%s' && head -c 99 dev.tsv | qkv translate run --checkpoint best", folder),
                     "the mean of one is that one");
    char *text = run_ok("cd '%s' && qkv inspect run --checkpoint average", folder);
    cr_expect_not_null(strstr(text, "\n  average of   update-10.safetensors, update-20.safetensors\n"), "%s",
                       text);
    text = run_ok("cd '%s' && qkv inspect run --checkpoint average --json", folder);
    cr_expect_not_null(strstr(text, "update-10.safetensors"), "%s", text);
    cr_expect_null(strstr(run_ok("cd '%s' && qkv inspect run", folder), "average of"));
}

Test(average, training_says_what_it_averages)
{
    const char *folder = tiny_task("training");
    struct outcome outcome = run("cd '%s' && qkv train c.yaml -s testing.average=2", folder);
    cr_assert_eq(outcome.exit_code, 0);
    cr_expect_not_null(strstr(outcome.error, "\naverage of updates 10, 20  dev: loss "), "%s", outcome.error);
    cr_expect_not_null(strstr(outcome.error, "; average of 2: loss "), "%s", outcome.error);
    cr_expect_not_null(strstr(outcome.error, "\nthe average is worse than the best checkpoint, which "
                                             "--checkpoint best names\n"),
                       "after 20 updates, the loss still falls fast: %s", outcome.error);
    cr_expect_not_null(
        strstr(run_ok("cd '%s' && qkv inspect run", folder), "loaded from run/average.safetensors"));
    cr_expect(refused(
        run("cd '%s' && qkv average run --best 1", folder),
        "qkv: run: its average is that of testing.average, which commands use by default; name another "
        "one with --output"));
    run_ok("cd '%s' && qkv average run --best 1 -o another", folder);
}

Test(average, training_that_goes_on_says_that_it_deletes_one)
{
    const char *folder = trained("goes_on");
    run_ok("cd '%s' && qkv average run --last 2 && qkv average run --last 2 -o kept", folder);
    struct outcome outcome = run("cd '%s' && qkv train c.yaml --resume -s training.updates=30", folder);
    cr_assert_eq(outcome.exit_code, 0, "%s", outcome.error);
    cr_expect_not_null(
        strstr(outcome.error, "notice: average.safetensors is deleted, because training goes on: "), "%s",
        outcome.error);
    cr_expect_str_eq(
        run_ok("cd '%s/run' && ls average.safetensors kept.safetensors 2>&1 | grep -v cannot", folder),
        "kept.safetensors\n");
    outcome = run("cd '%s' && qkv train c.yaml --resume -s training.updates=40", folder);
    cr_expect_null(strstr(outcome.error, "is deleted"), "%s", outcome.error);
}

Test(average, refuses_what_cannot_be_averaged)
{
    const char *folder = trained("refused");
    const char *before = fingerprint(folder);
    static const struct {
        const char *arguments, *sentence;
    } cases[] = {
        {"run --last 3",
         "qkv: run: keeps 2 last checkpoints, but 3 are to be averaged: ask for fewer, or raise "
         "training.keep_last_ckpts"},
        {"run --best 3",
         "qkv: run: keeps 2 best checkpoints, but 3 are to be averaged: ask for fewer, or raise "
         "training.keep_best_ckpts"},
        {"run",
         "qkv: give --last or --best, with the number of checkpoints (usage: qkv average RUN [options])"},
        {"run --last 1 --best 1", "qkv: give --last or --best, not both (usage: qkv average RUN [options])"},
        {"run --best 2 -o best",
         "qkv: 'best' is a checkpoint that training writes: give the average another name"},
        {"run --best 2 -o snapshot-4",
         "qkv: 'snapshot-4' is a checkpoint that training writes: give the average another name"},
        {"run --best 2 -o update-7",
         "qkv: 'update-7' is a checkpoint that training writes: give the average another name"},
        {"run --best 2 -o a/b", "qkv: 'a/b' cannot name a checkpoint: give a name, not a path"},
        {"run --best 2 -o ''", "qkv: '' cannot name a checkpoint: give a name, not a path"},
        {"none --best 2", "qkv: none: there is no such run"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++)
        cr_expect(refused(run("cd '%s' && qkv average %s", folder, cases[i].arguments), cases[i].sentence));
    cr_expect_str_eq(fingerprint(folder), before);
    remove(format("%s/run/update-10.safetensors", folder));
    cr_expect(refused(run("cd '%s' && qkv average run --last 2", folder),
                      "qkv: run/update-10.safetensors: cannot be read: No such file or directory"));
    cr_expect_null(read_file(format("%s/run/average.safetensors", folder), NULL));
}

Test(average, refuses_a_run_that_keeps_none)
{
    const char *folder = tiny_run("none", 10);
    cr_expect(refused(run("cd '%s' && qkv average run --last 1", folder),
                      "qkv: run: has no last checkpoints to average: train with training.keep_last_ckpts"));
    run_ok("cd '%s' && qkv train c.yaml -q --overwrite -s training.keep_last_ckpts=5 -s "
           "training.validation_freq=10 -s training.updates=20",
           folder);
    cr_expect(
        refused(run("cd '%s' && qkv average run --last 5", folder),
                "qkv: run: has 2 last checkpoints, but 5 are to be averaged: ask for fewer, train longer, "
                "or lower training.validation_freq"));
    folder = tiny_task("no_dev");
    run_ok("cd '%s' && qkv train c.yaml -q -s data.dev=", folder);
    cr_expect(refused(run("cd '%s' && qkv average run --best 1", folder),
                      "qkv: run: has no best checkpoints to average: train with data.dev"));
}

Test(average, refuses_a_checkpoint_of_another_model)
{
    const char *folder = trained("other"), *other = tiny_task("other_model");
    run_ok("cd '%s' && sed -i 's/a/z/g' train.tsv && qkv train c.yaml -q", other); /* the same shapes */
    run_ok("cp '%s/run/update-10.safetensors' '%s/run'", other, folder);
    struct outcome outcome = run("cd '%s' && qkv average run --last 2", folder);
    cr_expect_eq(outcome.exit_code, 2);
    cr_expect(
        strstr(outcome.error, "qkv: run/update-10.safetensors: was trained with another source vocabulary"),
        "%s", outcome.error);
}

Test(average, rules_between_keys)
{
    const char *folder = tiny_task("rules");
    cr_expect(refused(
        run("cd '%s' && qkv config c.yaml -s testing.average=3", folder),
        "-s testing.average=3: testing.average is 3, but must not exceed training.keep_best_ckpts (2)"));
    cr_expect(refused(run("cd '%s' && qkv config c.yaml -s testing.average=2 -s data.dev=", folder),
                      "-s testing.average=2: testing.average is 2, but needs data.dev"));
}
