/* Snapshots of a training: which updates have one, and what they hold. */
#include "parameters.h"
#include "training.h"

#include "framework/engine/checkpoint/safetensors.h"
#include "framework/engine/core/numbers.h"

#include <sys/stat.h>

static void expect_snapshots(const char *name, const char *settings, const char *updates)
{
    training_expect_kept(training_of(name, settings, NULL), "snapshot", updates);
}

static const char *trained(const char *folder, const char *name, const char *settings)
{
    struct training training = training_as(folder, name, settings);
    training_run(training);
    return training.run;
}

/* 25^(k / 4) - 1 and 16^(k / 4) - 1, rounded; with little to choose from, each update has one. */
Test(snapshots, are_even_in_the_logarithm_of_the_update)
{
    expect_snapshots("a", "updates=24 snapshots=5", "0 1 4 10 24");
    expect_snapshots("b", "updates=15 snapshots=5", "0 1 3 7 15");
    expect_snapshots("c", "updates=15 snapshots=2", "0 15");
    expect_snapshots("d", "updates=5 snapshots=64", "0 1 2 3 4 5");
    expect_snapshots("e", "updates=24 snapshots=12", "0 1 2 3 4 5 6 7 9 13 18 24");
    expect_snapshots("off", "updates=5", "");
}

/* The length is not known: after each new one, that with the closest neighbours goes. Without a limit, the updates would be
 * 0 1 2 3 4 5 7 9 11 14 17 21 and, at the end, 24. */
Test(snapshots, are_thinned_out_where_only_epochs_are_known)
{
    expect_snapshots("all", "epochs=3 snapshots=64", "0 1 2 3 4 5 7 9 11 14 17 21 24");
    expect_snapshots("few", "epochs=3 snapshots=5", "0 1 5 14 24");
    expect_snapshots("both", "epochs=3 updates=20 snapshots=3", "0 1 20");
}

Test(snapshots, of_a_training_that_goes_on_stay_bounded)
{
    const char *folder = scratch("more"), *run = trained(folder, "run", "updates=10 snapshots=4");
    struct training training = {.config = training_config(folder), .run = run, .resume = true};
    training.settings = "updates=40 snapshots=4";
    training_run(training);
    training_expect_kept(run, "snapshot", "0 4 11 40");
    training.resume = false;
    training_run((struct training){.config = training.config,
                                   .run = format("%s/other", folder),
                                   .settings = "updates=6 patience=1 learning_rate=1e-9 validation_freq=2 "
                                               "snapshots=3"});
    training_expect_kept(format("%s/other", folder), "snapshot", "0 2 4");
}

/* Training is the same with and without them; a snapshot holds the rounded values of the checkpoint of its update, in half
 * the bytes, and its loss. */
Test(snapshots, hold_the_rounded_values_and_the_loss)
{
    const char *folder = scratch("values"), *plain = trained(folder, "plain", "updates=15 ema=0.5"),
               *run = trained(folder, "run", "updates=15 ema=0.5 snapshots=5 logging_freq=5");
    struct qkv_run without RELEASED(qkv_run_release) = training_open(plain, "update-15"),
                           with RELEASED(qkv_run_release) = training_open(run, "update-15"),
                           half RELEASED(qkv_run_release) = training_open(run, "snapshot-15");
    const struct qkv_parameters *parameters = &with.model->parameters;
    const float *a = without.model->parameters.values, *b = parameters->values,
                *c = half.model->parameters.values;
    cr_assert_arr_eq(a, b, (size_t)parameters->elements * sizeof *a);
    for (int64_t i = 0; i < parameters->elements; i++)
        cr_assert_eq(c[i], qkv_half_value(qkv_half_of(b[i])), "%lld", (long long)i);
    double loss, tokens;
    cr_assert_eq(qkv_state_get_number(&half.state, "train.log_loss", &loss, NULL), QKV_OK);
    cr_assert_eq(qkv_state_get_number(&half.state, "train.log_tokens", &tokens, NULL), QKV_OK);
    cr_expect_eq(loss / tokens, training_metric(run, "train", 15, "loss"));
    struct qkv_parameters many RELEASED(qkv_parameters_release) = {0};
    struct stat complete, small;
    last_parameter(&many, QKV_FLOAT32, QKV_SHAPE(100, 100), NORMAL, "a");
    const char *path = format("%s/x.safetensors", folder);
    cr_assert_eq(qkv_checkpoint_save(path, &many, NULL, NULL, NULL), QKV_OK);
    cr_assert_eq(stat(path, &complete), 0);
    cr_assert_eq(qkv_checkpoint_save_half(path, &many, NULL, NULL), QKV_OK);
    cr_assert_eq(stat(path, &small), 0);
    cr_expect_eq(complete.st_size - small.st_size, 100 * 100 * 2);
    ((float *)many.values)[7] = 65520; /* would become infinite: the tensor keeps float32 */
    cr_assert_eq(qkv_checkpoint_save_half(path, &many, NULL, NULL), QKV_OK);
    cr_assert_eq(stat(path, &small), 0);
    cr_expect_eq(complete.st_size, small.st_size);
    cr_assert_eq(qkv_checkpoint_load(path, &many, NULL, NULL, NULL), QKV_OK);
    cr_expect_eq(((float *)many.values)[7], 65520);
}

/* --overwrite removes those of the old run, and --resume those that a kill left behind. */
Test(snapshots, of_an_old_run_are_removed)
{
    const char *folder = scratch("old"), *run_folder = trained(folder, "run", "updates=15 snapshots=5");
    write_text(run_folder, "snapshot-7.safetensors.12.0.tmp", "half");
    write_text(run_folder, "snapshot-12.safetensors", "ahead of last.safetensors");
    write_text(run_folder, "snapshot-notes", "not of the run");
    struct training training = {.config = training_config(folder),
                                .run = run_folder,
                                .settings = "updates=15 snapshots=5",
                                .resume = true};
    training_run(training);
    training_expect_kept(run_folder, "snapshot", "0 1 3 7 15");
    cr_expect(!training_has(run_folder, "snapshot-7.safetensors.12.0.tmp"));
    run_ok("qkv train '%s' -q --overwrite -s training.model_dir='%s' -s training.updates=3", training.config,
           run_folder);
    training_expect_kept(run_folder, "snapshot", "");
    cr_expect(training_has(run_folder, "snapshot-notes"));
}

Test(snapshots, one_alone_is_refused)
{
    const char *config = training_config(scratch("one"));
    cr_expect(refused(run("qkv train '%s' -s training.updates=3 -s training.snapshots=1", config),
                      "-s training.snapshots=1: training.snapshots is 1, but must be 0 or at least 2: the "
                      "first and the last"));
}
