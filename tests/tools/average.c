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
    enter(trained("checkpoint"));
    cr_expect_str_eq(run_ok("qkv average run --last 2"),
                     "run/average.safetensors: the mean of update-10, update-20\n");
    cr_expect_str_eq(run_ok("qkv average run --best 1 -o top"), run_ok("qkv average run -b 1 --output top"));
    run_ok("echo 'a b' | qkv translate run --checkpoint average");
    run_ok("qkv evaluate run dev.tsv --checkpoint average");
    run_ok("qkv attention run 'a b' --checkpoint average.safetensors");
    cr_expect_str_eq(run_ok("head -c 99 dev.tsv | qkv translate run --checkpoint top"),
                     run_ok("head -c 99 dev.tsv | qkv translate run --checkpoint best"),
                     "the mean of one is that one");
    char *text = run_ok("qkv inspect run --checkpoint average");
    cr_expect(shows(text, "\n  average of   update-10.safetensors, update-20.safetensors\n"));
    text = run_ok("qkv inspect run --checkpoint average --json");
    cr_expect(shows(text, "update-10.safetensors"));
    cr_expect(lacks(run_ok("qkv inspect run"), "average of"));
}

Test(average, training_says_what_it_averages)
{
    enter(tiny_task("training"));
    struct outcome outcome = run("qkv train c.yaml -s testing.average=2");
    cr_assert_eq(outcome.exit_code, 0);
    cr_expect(shows(outcome.error, "\naverage of updates 10, 20  dev: loss "));
    cr_expect(shows(outcome.error, "; average of 2: loss "));
    cr_expect(shows(outcome.error,
                    "\nthe average is worse than the best checkpoint, which --checkpoint best names\n"),
              "after 20 updates, the loss still falls fast: %s", outcome.error);
    cr_expect(shows(run_ok("qkv inspect run"), "loaded from run/average.safetensors"));
    cr_expect(refused(run("qkv average run --best 1"),
                      "qkv: run: its average is that of testing.average, which "
                      "commands use by default; name another one with --output"));
    run_ok("qkv average run --best 1 -o another");
}

Test(average, training_that_goes_on_says_that_it_deletes_one)
{
    enter(trained("goes_on"));
    run_ok("qkv average run --last 2 && qkv average run --last 2 -o kept");
    struct outcome outcome = run("qkv train c.yaml --resume -s training.updates=30");
    cr_assert_eq(outcome.exit_code, 0, "%s", outcome.error);
    cr_expect(shows(outcome.error, "notice: average.safetensors is deleted, because training goes on: "));
    cr_expect_str_eq(run_ok("cd run && ls average.safetensors kept.safetensors 2>&1 | grep -v cannot"),
                     "kept.safetensors\n");
    outcome = run("qkv train c.yaml --resume -s training.updates=40");
    cr_expect(lacks(outcome.error, "is deleted"));
}

Test(average, refuses_what_cannot_be_averaged)
{
    const char *folder = enter(trained("refused"));
    const char *before = fingerprint(folder);
    static const char *const cases[][2] = {
        {"run --last 3", "qkv: run: keeps 2 last checkpoints, but 3 are to be averaged: ask for fewer, or "
                         "raise training.keep_last_ckpts"},
        {"run --best 3", "qkv: run: keeps 2 best checkpoints, but 3 are to be averaged: ask for fewer, or "
                         "raise training.keep_best_ckpts"},
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
    EXPECT_REFUSALS("qkv average ", cases);
    cr_expect_str_eq(fingerprint(folder), before);
    remove("run/update-10.safetensors");
    cr_expect(refused(run("qkv average run --last 2"),
                      "qkv: run/update-10.safetensors: cannot be read: No such file or directory"));
    cr_expect_null(read_file("run/average.safetensors", NULL));
}

Test(average, refuses_a_run_that_keeps_none)
{
    enter(tiny_run("none", 10));
    cr_expect(refused(run("qkv average run --last 1"),
                      "qkv: run: has no last checkpoints to average: train with training.keep_last_ckpts"));
    run_ok("qkv train c.yaml -q --overwrite -s training.keep_last_ckpts=5 -s training.validation_freq=10 -s "
           "training.updates=20");
    cr_expect(refused(run("qkv average run --last 5"),
                      "qkv: run: has 2 last checkpoints, but 5 are to be averaged: ask for fewer, train "
                      "longer, or lower training.validation_freq"));
    enter(tiny_task("no_dev"));
    run_ok("qkv train c.yaml -q -s data.dev=");
    cr_expect(refused(run("qkv average run --best 1"),
                      "qkv: run: has no best checkpoints to average: train with data.dev"));
}

Test(average, refuses_a_checkpoint_of_another_model)
{
    const char *folder = enter(trained("other")), *other = tiny_task("other_model");
    run_ok("cd '%s' && sed -i 's/a/z/g' train.tsv && qkv train c.yaml -q", other); /* the same shapes */
    run_ok("cp '%s/run/update-10.safetensors' '%s/run'", other, folder);
    cr_expect(fails(run("qkv average run --last 2"), 2,
                    "qkv: run/update-10.safetensors: was trained with another source vocabulary"));
}

Test(average, rules_between_keys)
{
    enter(tiny_task("rules"));
    cr_expect(refused(
        run("qkv config c.yaml -s testing.average=3"),
        "-s testing.average=3: testing.average is 3, but must not exceed training.keep_best_ckpts (2)"));
    cr_expect(refused(run("qkv config c.yaml -s testing.average=2 -s data.dev="),
                      "-s testing.average=2: testing.average is 2, but needs data.dev"));
}
