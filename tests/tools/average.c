/* qkv average, through the command line. tests/tools/config.c has the rules between its keys. */
#include "support.h"

/* Enters a run of two validations with one checkpoint more than the best. */
static void enter_trained(const char *name)
{
    enter(tiny_task(name));
    run_ok("qkv train c.yaml -q -s training.keep_last_ckpts=2");
}

Test(average, is_a_checkpoint_for_other_commands)
{
    enter_trained("checkpoint");
    cr_expect_str_eq(run_ok("qkv average run --last 2"),
                     "run/average.safetensors: the mean of update-10, update-20\n");
    cr_expect_str_eq(run_ok("qkv average run --best 1 -o top"), run_ok("qkv average run -b 1 --output top"));
    run_ok("echo 'a b' | qkv translate run --checkpoint average && qkv evaluate run dev.tsv --checkpoint "
           "average && qkv attention run 'a b' --checkpoint average.safetensors");
    cr_expect_str_eq(run_ok("head -c 99 dev.tsv | qkv translate run --checkpoint top"),
                     run_ok("head -c 99 dev.tsv | qkv translate run --checkpoint best"),
                     "the mean of one is that one");
    cr_expect(shows(run_ok("qkv inspect run --checkpoint average"),
                    "\n  average of   update-10.safetensors, update-20.safetensors\n"));
    cr_expect(shows(run_ok("qkv inspect run --checkpoint average --json"), "update-10.safetensors"));
    cr_expect(lacks(run_ok("qkv inspect run"), "average of"));
    /* Training that goes on deletes it, and says so once. */
    run_ok("qkv average run --last 2 -o kept");
    cr_expect(shows(run_ok("qkv train c.yaml --resume -s training.updates=30 2>&1"),
                    "notice: average.safetensors is deleted, because training goes on: "));
    run_ok("! ls run/average.safetensors && ls run/kept.safetensors");
    cr_expect(lacks(run_ok("qkv train c.yaml --resume -s training.updates=40 2>&1"), "is deleted"));
}

Test(average, training_says_what_it_averages)
{
    enter(tiny_task("training"));
    const char *printed = run_ok("qkv train c.yaml -s testing.average=2 2>&1");
    cr_expect(shows(printed, "\naverage of updates 10, 20  dev: loss ") &&
              shows(printed, "; average of 2: loss "));
    /* After 20 updates, the loss still falls fast. */
    cr_expect(
        shows(printed, "\nthe average is worse than the best checkpoint, which --checkpoint best names\n"));
    cr_expect(shows(run_ok("qkv inspect run"), "loaded from run/average.safetensors"));
    cr_expect(refused(run("qkv average run --best 1"),
                      "qkv: run: its average is that of testing.average, which commands use "
                      "by default; name another one with --output"));
    run_ok("qkv average run --best 1 -o another");
}

Test(average, refuses_what_cannot_be_averaged)
{
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
        {"begun --last 1",
         "qkv: begun: has no last checkpoints to average: train with training.keep_last_ckpts"},
        {"short --last 5", "qkv: short: has 2 last checkpoints, but 5 are to be averaged: ask for fewer, "
                           "train longer, or lower training.validation_freq"},
        {"blind --best 1", "qkv: blind: has no best checkpoints to average: train with data.dev"},
        {"none --best 2", "qkv: none: there is no such run"},
    };
    enter_trained("refused");
    run_ok("train() { qkv train c.yaml -q -s training.model_dir=\"$@\"; }; train begun && train blind -s "
           "data.dev= && train short -s training.keep_last_ckpts=5 && sed 's/a/z/g' train.tsv >other.tsv && "
           "train other -s data.train=other.tsv -s data.dev=");
    EXPECT_REFUSALS("qkv average", cases);
    run_ok("cp other/last.safetensors run/update-10.safetensors"); /* of the same shapes */
    cr_expect(fails(run("qkv average run --last 2"), 2,
                    "qkv: run/update-10.safetensors: was trained with another source vocabulary"));
    cr_expect(refused(run("rm run/update-10.safetensors && qkv average run --last 2"),
                      "qkv: run/update-10.safetensors: cannot be read: No such file or directory"));
    run_ok("! ls run/average.safetensors");
}
