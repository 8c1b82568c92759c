/* Averages of checkpoints: which are kept for them, what they hold, and the one that training writes when it ends. */
#include "training.h"

#include "qkv/average.h"
#include "qkv/run.h"
#include "support.h"

#include <criterion/criterion.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const char *train(const char *name, const char *settings, struct qkv_train_result *result)
{
    const char *folder = scratch(name);
    struct training training = training_in(folder, settings);
    *result = training_run(training);
    return training.run;
}

/* Opens a run with one of its checkpoints; the default one for NULL. */
static struct qkv_run open_run(const char *path, const char *checkpoint)
{
    struct qkv_run run;
    struct qkv_error error = {""};
    cr_assert_eq(qkv_run_open(&run, path, checkpoint, QKV_FLOAT32, &error), QKV_OK, "%s", error.message);
    return run;
}

/* Fails unless the checkpoint `name` is the mean of those of the updates, each number rounded once. */
static void expect_mean(const char *path, const char *name, int count, const int *updates)
{
    struct qkv_run mean = open_run(path, name), run[4];
    for (int k = 0; k < count; k++) run[k] = open_run(path, format("update-%d", updates[k]));
    const float *values = mean.model->parameters.values;
    for (int64_t i = 0; i < mean.model->parameters.elements; i++) {
        double sum = 0;
        for (int k = 0; k < count; k++) sum += (double)((const float *)run[k].model->parameters.values)[i];
        cr_assert_eq(values[i], (float)(sum / count), "number %lld", (long long)i);
    }
    for (int k = 0; k < count; k++) {
        const char *file = qkv_state_get(&mean.state, format("average.%d", k + 1));
        cr_assert_not_null(file);
        cr_expect_str_eq(file, format("update-%d.safetensors", updates[k]));
        qkv_run_release(&run[k]);
    }
    cr_expect_str_eq(qkv_state_get(&mean.state, "average.count"), format("%d", count));
    cr_expect_null(qkv_state_get(&mean.state, format("average.%d", count + 1)));
    cr_expect_str_eq(qkv_state_get(&mean.state, "train.update"), format("%d", updates[count - 1]));
    qkv_run_release(&mean);
}

Test(average, the_last_checkpoints_are_kept_and_averaged)
{
    struct qkv_train_result result;
    struct qkv_average average;
    struct qkv_error error = {""};
    /* The loss rises from the first validation on, so that the best checkpoint is not among the last. Update 14 is no multiple of
     * validation_freq, and so comes in addition to the three that a longer training needs. */
    const char *run = train("last",
                            "updates=14 validation_freq=3 keep_best_ckpts=1 keep_last_ckpts=3 "
                            "learning_rate=5 scheduling=constant",
                            &result);
    for (int update = 1; update <= 14; update++)
        cr_expect_eq(training_has(run, format("update-%d.safetensors", update)),
                     update == 6 || update == 9 || update == 12 || update == 14 ||
                         update == result.best_update,
                     "%d", update);
    cr_assert_eq(qkv_run_average(run, QKV_AVERAGE_LAST, 3, "all", &average, &error), QKV_OK, "%s",
                 error.message);
    cr_expect_eq(average.count, 3);
    expect_mean(run, "all", 3, (int[]){9, 12, 14});
    cr_assert_eq(qkv_run_average(run, QKV_AVERAGE_LAST, 2, "two", &average, &error), QKV_OK);
    expect_mean(run, "two", 2, (int[]){12, 14});
    cr_assert_eq(qkv_run_average(run, QKV_AVERAGE_BEST, 1, "one", &average, &error), QKV_OK);
    expect_mean(run, "one", 1, (int[]){(int)result.best_update});
}

Test(average, without_a_dev_set_the_last_checkpoints_are_kept_too)
{
    struct qkv_train_result result;
    const char *run = train("no_dev", "updates=11 validation_freq=3 keep_last_ckpts=2 data.dev=", &result);
    for (int update = 1; update <= 11; update++)
        cr_expect_eq(training_has(run, format("update-%d.safetensors", update)),
                     update == 6 || update == 9 || update == 11, "%d", update);
    cr_expect(!training_has(run, "best.safetensors"));
}

Test(average, fewer_are_kept_when_a_resumed_run_asks_for_fewer)
{
    const char *folder = scratch("fewer"), *run = format("%s/run", folder);
    struct training training = {.config = training_config(folder),
                                .run = run,
                                .settings = "updates=12 validation_freq=3 keep_last_ckpts=4 data.dev="};
    training_run(training);
    /* Not a name that training gives: it stays. */
    write_text(run, "update-009.safetensors", "a copy of one's own");
    training.resume = true;
    training.settings = "updates=15 validation_freq=3 keep_last_ckpts=2 data.dev=";
    training_run(training);
    cr_expect(training_has(run, "update-009.safetensors"));
    for (int update = 1; update <= 15; update++)
        cr_expect_eq(training_has(run, format("update-%d.safetensors", update)), update == 12 || update == 15,
                     "%d", update);
    training.settings = "updates=18 validation_freq=3 keep_last_ckpts=0 data.dev=";
    training_run(training);
    cr_expect(!training_has(run, "update-15.safetensors") && !training_has(run, "update-18.safetensors"));
}

Test(average, training_ends_with_the_average_that_it_reports)
{
    struct qkv_train_result result;
    struct qkv_average average;
    struct qkv_error error = {""};
    const char *run = train("end", "updates=20 keep_best_ckpts=3 testing.average=3", &result);
    cr_assert_eq(result.averaged, 3);
    cr_assert_eq(qkv_run_average(run, QKV_AVERAGE_BEST, 3, "again", &average, &error), QKV_OK);
    cr_assert_eq(average.count, 3);
    int updates[3];
    for (int i = 0; i < 3; i++) updates[i] = (int)average.update[i];
    cr_expect(updates[0] < updates[1] && updates[1] < updates[2]);
    expect_mean(run, "average", 3, updates);
    size_t size, again_size;
    char *bytes = read_file(format("%s/average.safetensors", run), &size);
    char *again = read_file(format("%s/again.safetensors", run), &again_size);
    cr_assert_eq(size, again_size);
    cr_expect_arr_eq(bytes, again, size);

    cr_expect_eq(training_lines(run, "average"), 1);
    cr_expect_eq(training_metric(run, "average", 20, "loss"), result.average);
    cr_expect_eq(training_metric(run, "average", 20, "checkpoints"), 3);
    char *scores = run_ok("qkv evaluate '%s' '%s/../dev.tsv' --checkpoint average --json", run, run);
    const char *loss = strstr(scores, "\"loss\":");
    cr_assert_not_null(loss);
    cr_expect_eq(strtod(loss + strlen("\"loss\":"), NULL), result.average);

    struct qkv_run opened = open_run(run, NULL);
    cr_expect(strstr(opened.checkpoint, "/average.safetensors"), "%s", opened.checkpoint);
    qkv_run_release(&opened);
    remove(format("%s/average.safetensors", run));
    opened = open_run(run, NULL);
    cr_expect(strstr(opened.checkpoint, "/best.safetensors"), "%s", opened.checkpoint);
    qkv_run_release(&opened);
}

Test(average, is_of_as_many_checkpoints_as_there_are)
{
    struct qkv_train_result result;
    const char *run = train("short", "updates=10 keep_best_ckpts=8 testing.average=8", &result);
    cr_expect_eq(result.averaged, 2, "validations after 5 and 10");
    expect_mean(run, "average", 2, (int[]){5, 10});
}

Test(average, one_that_is_made_by_hand_is_no_default)
{
    struct qkv_train_result result;
    struct qkv_average average;
    struct qkv_error error;
    const char *run = train("by_hand", "updates=10", &result);
    cr_expect_eq(result.averaged, 0);
    cr_expect(!training_has(run, "average.safetensors"));
    cr_assert_eq(qkv_run_average(run, QKV_AVERAGE_BEST, 2, "average", &average, &error), QKV_OK);
    struct qkv_run opened = open_run(run, NULL);
    cr_expect(strstr(opened.checkpoint, "/best.safetensors"), "%s", opened.checkpoint);
    qkv_run_release(&opened);
}

Test(average, a_run_that_goes_on_has_no_old_average)
{
    const char *folder = scratch("goes_on");
    struct training training = training_in(folder, "updates=10 testing.average=2");
    training_run(training);
    cr_assert(training_has(training.run, "average.safetensors"));
    training.resume = true;
    training.stop_after = 12;
    training.settings = "updates=20 testing.average=2";
    cr_assert_eq(training_run(training).end, QKV_TRAIN_STOPPED);
    cr_expect(!training_has(training.run, "average.safetensors"));
    cr_expect_eq(training_lines(training.run, "average"), 0);
    training.stop_after = 0;
    cr_expect_eq(training_run(training).averaged, 2);
    cr_expect_eq(training_lines(training.run, "average"), 1);
    /* Also where it makes none itself. */
    training.settings = "updates=30 testing.average=0";
    training_run(training);
    cr_expect(!training_has(training.run, "average.safetensors"));
    cr_expect_eq(training_lines(training.run, "average"), 0);
}

Test(average, by_hand_stays_until_training_goes_on)
{
    const char *folder = scratch("by_hand");
    struct training training = training_in(folder, "updates=10");
    struct qkv_average average;
    struct qkv_error error;
    training_run(training);
    cr_assert_eq(qkv_run_average(training.run, QKV_AVERAGE_BEST, 1, "average", &average, &error), QKV_OK,
                 "%s", error.message);
    training.resume = true;
    training_run(training);
    cr_expect(training_has(training.run, "average.safetensors"), "it was finished");
    training.settings = "updates=20";
    training_run(training);
    cr_expect(!training_has(training.run, "average.safetensors"));
}

Test(average, of_a_finished_run_is_kept)
{
    const char *folder = tiny_task("finished_average");
    const char *settings = "-s testing.average=2 -s training.keep_best_ckpts=3 -s training.validation_freq=5";
    const char *files = "cd '%s/run' && stat -c '%%i %%Y' average.safetensors && cat metrics.jsonl";
    struct outcome outcome = run("cd '%s' && qkv train c.yaml %s", folder, settings);
    cr_assert_not_null(strstr(outcome.error, "\naverage of updates "), "%s", outcome.error);
    char *before = run_ok(files, folder);
    outcome = run("cd '%s' && qkv train c.yaml --resume %s", folder, settings);
    cr_expect_not_null(strstr(outcome.error, "\nalready finished after 20 updates; "), "%s", outcome.error);
    cr_expect_null(strstr(outcome.error, "average of"), "%s", outcome.error);
    cr_expect_str_eq(run_ok(files, folder), before);
    /* It is made again where it is of other checkpoints, or was not scored. */
    static const char *const cases[] = {"true", "sed -i /average/d metrics.jsonl", "rm average.safetensors",
                                        "sed -i 's/\"checkpoints\":2/\"checkpoints\":1/' metrics.jsonl"};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        run_ok("cd '%s/run' && %s", folder, cases[i]);
        outcome =
            run("cd '%s' && qkv train c.yaml --resume %s -s testing.average=%d", folder, settings, i ? 2 : 3);
        cr_expect_not_null(strstr(outcome.error, "\naverage of updates "), "%s", outcome.error);
        cr_expect_eq(training_lines(format("%s/run", folder), "average"), 1);
    }
}

Test(average, of_a_finished_run_is_reported_again)
{
    const char *folder = scratch("again");
    struct training training = training_in(folder, "updates=10 testing.average=2");
    struct qkv_train_result first = training_run(training);
    training.resume = true;
    struct qkv_train_result second = training_run(training);
    cr_expect_eq(second.averaged, 2);
    cr_expect_eq(second.average, first.average);
}

Test(average, a_new_run_has_no_average_of_the_old_one)
{
    const char *folder = tiny_task("overwritten");
    run_ok("cd '%s' && qkv train c.yaml -q -s testing.average=2", folder);
    cr_assert(training_has(folder, "run/average.safetensors"));
    run_ok("cd '%s' && qkv train c.yaml -q --overwrite", folder);
    cr_expect(!training_has(folder, "run/average.safetensors"));
}

Test(average, refuses_a_checkpoint_that_is_not_finite)
{
    struct qkv_train_result result;
    struct qkv_average average;
    struct qkv_error error = {""};
    const char *path = train("not_finite", "updates=10", &result),
               *file = format("%s/update-5.safetensors", path);
    struct qkv_run run = open_run(path, "update-5");
    struct qkv_parameters *parameters = &run.model->parameters;
    qkv_parameter_set(parameters, parameters->list[2], 0, (double)NAN);
    cr_assert_eq(qkv_checkpoint_save(file, parameters, NULL, &run.state, &error), QKV_OK);
    cr_expect_eq(qkv_run_average(path, QKV_AVERAGE_BEST, 2, "average", &average, &error), QKV_FAILED);
    cr_expect_str_eq(error.message, format("%s: %s holds infinity or NaN, so it cannot be averaged", file,
                                           parameters->list[2]->name));
    cr_expect(!training_has(path, "average.safetensors"));
    qkv_run_release(&run);
}

Test(average, refuses_a_choice_that_does_not_exist)
{
    struct qkv_train_result result;
    struct qkv_average average;
    const char *path = train("choices", "updates=10", &result);
    static const int CHOICES[] = {-1, 2, INT32_MIN, INT32_MAX};
    for (int i = 0; i < 4; i++) {
        struct qkv_error error = {""};
        const enum qkv_average_choice none = (enum qkv_average_choice)CHOICES[i];
        cr_expect_eq(qkv_run_average(path, none, 1, "average", &average, &error), QKV_INVALID);
        cr_expect_str_eq(error.message, format("there is no choice %d of checkpoints to average", (int)none));
    }
}

Test(average, refuses_counts_that_make_no_sense)
{
    static const int64_t counts[] = {-1, 0, QKV_AVERAGE_MAX + 1, INT64_MAX};
    struct qkv_train_result result;
    struct qkv_average average;
    const char *path = train("counts", "updates=10", &result);
    for (size_t i = 0; i < sizeof counts / sizeof counts[0]; i++) {
        struct qkv_error error = {""};
        cr_expect_eq(qkv_run_average(path, QKV_AVERAGE_BEST, counts[i], "average", &average, &error),
                     QKV_INVALID);
        cr_expect_str_eq(error.message, format("%lld checkpoints cannot be averaged: choose from 1 to %d",
                                               (long long)counts[i], QKV_AVERAGE_MAX));
    }
}
