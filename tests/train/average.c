/* Averages of checkpoints: which are kept for them, what they hold, and the one that training writes when it ends. */
#include "training.h"

/* Fails unless the checkpoint `name` is the mean of those of the updates, each number rounded once. */
static void expect_mean(const char *path, const char *name, int count, const int *updates)
{
    struct qkv_run mean RELEASED(qkv_run_release) = training_open(path, name), run[4];
    for (int k = 0; k < count; k++) run[k] = training_open(path, format("update-%d", updates[k]));
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
}

Test(average, the_last_checkpoints_are_kept_and_averaged)
{
    struct qkv_train_result result;
    struct qkv_average average;
    /* The loss rises from the first validation on, so that the best checkpoint is not among the last. Update 14 is no
     * multiple of validation_freq, and so comes in addition to the three that a longer training needs. */
    const char *run = training_of("last",
                                  "updates=14 validation_freq=3 keep_best_ckpts=1 keep_last_ckpts=3 "
                                  "learning_rate=5 scheduling=constant",
                                  &result);
    cr_assert_leq(result.best_update, 12);
    training_expect_kept(
        run, "update",
        format(result.best_update < 6 ? "%d 6 9 12 14" : "6 9 12 14", (int)result.best_update));
    expect_done(qkv_run_average(run, QKV_AVERAGE_LAST, 3, "all", &average, &error));
    cr_expect_eq(average.count, 3);
    expect_mean(run, "all", 3, (int[]){9, 12, 14});
    cr_assert_eq(qkv_run_average(run, QKV_AVERAGE_LAST, 2, "two", &average, &error), QKV_OK);
    expect_mean(run, "two", 2, (int[]){12, 14});
    cr_assert_eq(qkv_run_average(run, QKV_AVERAGE_BEST, 1, "one", &average, &error), QKV_OK);
    expect_mean(run, "one", 1, (int[]){(int)result.best_update});
}

/* Without a dev set, too; and fewer when a resumed run asks for fewer. */
Test(average, the_last_checkpoints_are_kept_by_their_number)
{
    const char *folder = scratch("fewer");
    struct training training =
        training_in(folder, "updates=11 validation_freq=3 keep_last_ckpts=4 data.dev=");
    training_run(training);
    training_expect_kept(training.run, "update", "3 6 9 11");
    cr_expect(!training_has(training.run, "best.safetensors"));
    /* Not a name that training gives: it stays. */
    write_text(training.run, "update-009.safetensors", "a copy of one's own");
    training.resume = true;
    training.settings = "updates=15 validation_freq=3 keep_last_ckpts=2 data.dev=";
    training_run(training);
    cr_expect(training_has(training.run, "update-009.safetensors"));
    training_expect_kept(training.run, "update", "12 15");
    training.settings = "updates=18 validation_freq=3 keep_last_ckpts=0 data.dev=";
    training_run(training);
    training_expect_kept(training.run, "update", "");
}

Test(average, training_ends_with_the_average_that_it_reports)
{
    struct qkv_train_result result;
    struct qkv_average average;
    const char *run = training_of("end", "updates=20 keep_best_ckpts=3 testing.average=3", &result);
    cr_assert_eq(result.averaged, 3);
    cr_assert_eq(qkv_run_average(run, QKV_AVERAGE_BEST, 3, "again", &average, &error), QKV_OK);
    cr_assert_eq(average.count, 3);
    int updates[3];
    for (int i = 0; i < 3; i++) updates[i] = (int)average.update[i];
    cr_expect(updates[0] < updates[1] && updates[1] < updates[2]);
    expect_mean(run, "average", 3, updates);
    run_ok("cd '%s' && cmp average.safetensors again.safetensors", run);
    cr_expect_eq(training_lines(run, "average"), 1);
    cr_expect_eq(training_metric(run, "average", 20, "loss"), result.average);
    cr_expect_eq(training_metric(run, "average", 20, "checkpoints"), 3);
    char *scores = run_ok("qkv evaluate '%s' '%s/../dev.tsv' --checkpoint average --json", run, run);
    cr_expect_eq(number_after(scores, "\"loss\":"), result.average);

    struct qkv_run opened RELEASED(qkv_run_release) = training_open(run, NULL);
    cr_expect(shows(opened.checkpoint, "/average.safetensors"));
    qkv_run_release(&opened);
    remove(format("%s/average.safetensors", run));
    opened = training_open(run, NULL);
    cr_expect(shows(opened.checkpoint, "/best.safetensors"));
}

Test(average, is_of_as_many_checkpoints_as_there_are)
{
    struct qkv_train_result result;
    const char *run = training_of("short", "updates=10 keep_best_ckpts=8 testing.average=8", &result);
    cr_expect_eq(result.averaged, 2, "validations after 5 and 10");
    expect_mean(run, "average", 2, (int[]){5, 10});
}

Test(average, a_run_that_goes_on_has_no_old_average)
{
    struct training training = training_in(scratch("goes_on"), "updates=10 testing.average=2");
    const struct qkv_train_result first = training_run(training);
    cr_assert(training_has(training.run, "average.safetensors"));
    training.resume = true;
    const struct qkv_train_result again = training_run(training);
    cr_expect(again.averaged == 2 && again.average == first.average, "it is reported again");
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

/* One that is made by hand is no default, and stays until training goes on. */
Test(average, of_no_training)
{
    struct training training = training_in(scratch("by_hand"), "updates=10");
    struct qkv_average average;
    cr_expect_eq(training_run(training).averaged, 0);
    cr_expect(!training_has(training.run, "average.safetensors"));
    expect_done(qkv_run_average(training.run, QKV_AVERAGE_BEST, 2, "average", &average, &error));
    struct qkv_run opened = training_open(training.run, NULL);
    cr_expect(shows(opened.checkpoint, "/best.safetensors"));
    qkv_run_release(&opened);
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
    cr_assert(shows(outcome.error, "\naverage of updates "));
    char *before = run_ok(files, folder);
    outcome = run("cd '%s' && qkv train c.yaml --resume %s", folder, settings);
    cr_expect(shows(outcome.error, "\nalready finished after 20 updates; "));
    cr_expect(lacks(outcome.error, "average of"));
    cr_expect_str_eq(run_ok(files, folder), before);
    /* It is made again where it is of other checkpoints, or was not scored. */
    static const char *const cases[] = {"true", "sed -i /average/d metrics.jsonl", "rm average.safetensors",
                                        "sed -i 's/\"checkpoints\":2/\"checkpoints\":1/' metrics.jsonl"};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        run_ok("cd '%s/run' && %s", folder, cases[i]);
        outcome =
            run("cd '%s' && qkv train c.yaml --resume %s -s testing.average=%d", folder, settings, i ? 2 : 3);
        cr_expect(shows(outcome.error, "\naverage of updates "));
        cr_expect_eq(training_lines(format("%s/run", folder), "average"), 1);
    }
}

Test(average, a_new_run_has_no_average_of_the_old_one)
{
    const char *folder = tiny_task("overwritten");
    run_ok("cd '%s' && qkv train c.yaml -q -s testing.average=2", folder);
    cr_assert(training_has(folder, "run/average.safetensors"));
    run_ok("cd '%s' && qkv train c.yaml -q --overwrite", folder);
    cr_expect(!training_has(folder, "run/average.safetensors"));
}

Test(average, refuses_what_cannot_be_averaged)
{
    static const struct {
        int choice;
        int64_t count;
    } CASES[] = {{-1, 1}, {2, 1}, {INT32_MIN, 1}, {0, -1}, {0, 0}, {0, QKV_AVERAGE_MAX + 1}, {0, INT64_MAX}};
    struct qkv_average average;
    const char *path = training_of("refused", "updates=10", NULL),
               *file = format("%s/update-5.safetensors", path);
    for (size_t i = 0; i < sizeof CASES / sizeof *CASES; i++)
        expect_refusal(qkv_run_average(path, (enum qkv_average_choice)CASES[i].choice, CASES[i].count,
                                       "average", &average, &error),
                       CASES[i].choice
                           ? format("there is no choice %d of checkpoints to average", CASES[i].choice)
                           : format("%lld checkpoints cannot be averaged: choose from 1 to %d",
                                    (long long)CASES[i].count, QKV_AVERAGE_MAX));
    struct qkv_run run RELEASED(qkv_run_release) = training_open(path, "update-5");
    struct qkv_parameters *parameters = &run.model->parameters;
    qkv_parameter_set(parameters, parameters->list[2], 0, (double)NAN);
    cr_assert_eq(qkv_checkpoint_save(file, parameters, NULL, &run.state, &error), QKV_OK);
    cr_expect_eq(qkv_run_average(path, QKV_AVERAGE_BEST, 2, "average", &average, &error), QKV_FAILED);
    cr_expect_str_eq(error.message, format("%s: %s holds infinity or NaN, so it cannot be averaged", file,
                                           parameters->list[2]->name));
    cr_expect(!training_has(path, "average.safetensors"));
}
