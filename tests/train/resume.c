/* A run that was stopped, or killed at any moment, and resumed is bit by bit the run that nothing disturbed.
 */
#include "training.h"

#include "own_network.h"

/* What must be exact: shuffling over epochs, dropout, accumulation, sums between log lines, a list of best
 * checkpoints that changes, a rate that falls with the validations. */
static const char *const SETTINGS[] = {
    "updates=21 logging_freq=3 keep_best_ckpts=2 scheduling=plateau learning_rate_patience=0 "
    "learning_rate=0.05 early_stopping_metric=token_accuracy",
    "epochs=3 logging_freq=4 batch_multiplier=3 batch_type=token batch_size=40 validation_freq=4 "
    "optimizer=adamw weight_decay=0.01 scheduling=exponential clip_grad_norm=1",
    "updates=17 logging_freq=7 validation_freq=3 patience=2 optimizer=sgd learning_rate=1e-6 "
    "keep_best_ckpts=1",
    "updates=13 data.dev= logging_freq=5 r_drop=2",
    "updates=13 data.dev= logging_freq=5 simcut=2 simcut_rate=0.2",
    "updates=13 logging_freq=1 validation_freq=2 early_stopping_metric=sequence_accuracy learning_rate=1e-9 "
    "scheduling=plateau learning_rate_patience=1 decrease_factor=0.5 patience=4",
    /* Other pieces, and so another number of batches, in each epoch. */
    "epochs=3 batch_type=token batch_size=50 data.dev= data.joint_vocabulary=true data.src.level=bpe "
    "data.src.num_merges=8 data.src.bpe_dropout=0.3 data.trg.level=bpe data.trg.num_merges=8 "
    "data.trg.bpe_dropout=0.2",
    "updates=19 validation_freq=3 logging_freq=4 keep_last_ckpts=3 keep_best_ckpts=2 testing.average=2 "
    "early_stopping_metric=token_accuracy learning_rate=0.05",
    "updates=13 data.dev= validation_freq=4 keep_last_ckpts=2",
    "updates=17 ema=0.9 keep_last_ckpts=2 logging_freq=4 scheduling=plateau learning_rate_patience=0 "
    "learning_rate=0.05 testing.average=2",
    "updates=19 snapshots=5 logging_freq=4 ema=0.8",
    "epochs=3 snapshots=4 validation_freq=3 logging_freq=5",
    "updates=13 data.dev= logging_freq=5 guided_alignment=1",
    "model.network=own model.settings=gain=0.7 updates=13 validation_freq=4",
};

enum { SETTING_COUNT = sizeof SETTINGS / sizeof SETTINGS[0] };

/* Links the first words of each of the 60 pairs; returns the path. */
static const char *links_of_first_words(const char *folder)
{
    char text[60 * 4 + 1] = "";
    for (int i = 0; i < 60; i++) memcpy(text + 4 * i, "0-0\n", 5);
    return write_text(folder, "train.align", text);
}

/* ---- asked to stop ---- */

Test(resume, a_run_stopped_after_any_update_goes_on_exactly)
{
    own_network_register();
    for (int k = 0; k < SETTING_COUNT; k++) {
        if (is_left_out(k)) continue;
        const char *folder = scratch(format("stopped.%d", k));
        struct training training = training_as(folder, "uninterrupted", SETTINGS[k]);
        const char *uninterrupted = training.run;
        if (strstr(SETTINGS[k], "guided_alignment"))
            training.settings = format("%s data.train_links=%s", SETTINGS[k], links_of_first_words(folder));
        struct qkv_train_result expected = training_run(training);
        cr_assert_geq(expected.updates, 6);
        for (int64_t update = 1; update <= expected.updates; update += k && k < SETTING_COUNT - 1 ? 3 : 1) {
            training.run = format("%s/%lld", folder, (long long)update);
            training.stop_after = update;
            training.resume = false;
            training.threads = 1 + (int)(update % 2);
            struct qkv_train_result stopped = training_run(training);
            cr_assert_eq(stopped.end, QKV_TRAIN_STOPPED);
            cr_assert_eq(stopped.updates, update);
            training.stop_after = 0;
            training.resume = true;
            training.threads = 2;
            struct qkv_train_result result = training_run(training);
            cr_expect_eq(result.end, expected.end);
            cr_expect_eq(result.updates, expected.updates);
            cr_expect_eq(result.tokens, expected.tokens);
            cr_expect_eq(result.best_update, expected.best_update);
            training_expect_same(uninterrupted, training.run);
        }
    }
}

/* A validation at the end of a part, which is out of turn, lowers no rate, and its checkpoint does not stay. */
Test(resume, a_finished_run_goes_on_when_it_is_given_more_to_do)
{
    static const struct {
        const char *settings;
        int parts[2];        /* updates; 0: no more */
        const char *same[5]; /* the files that must be the same; none: all */
        bool has_only_its_rates;
    } CASES[] = {
        {"logging_freq=1 testing.average=2", {10}},
        {"logging_freq=1 validation_freq=7 scheduling=plateau learning_rate_patience=0 "
         "early_stopping_metric=sequence_accuracy learning_rate=1e-9",
         {16},
         .has_only_its_rates = true},
        {"logging_freq=1 validation_freq=5 keep_best_ckpts=2 keep_last_ckpts=2 learning_rate=0.05 "
         "testing.average=2",
         LIST(16, 18), LIST("last", "best", "average", "update-15", "update-20")},
    };
    for (int i = 0; i < 3; i++) {
        const char *folder = scratch(format("more.%d", i));
        struct training training =
            training_as(folder, "uninterrupted", format("updates=20 %s", CASES[i].settings));
        const char *uninterrupted = training.run;
        training_run(training);
        training.run = format("%s/more", folder);
        for (int k = 0; k < 2 && CASES[i].parts[k]; k++) {
            training.settings = format("updates=%d %s", CASES[i].parts[k], CASES[i].settings);
            training_run(training);
            training.resume = true;
        }
        training.settings = format("updates=20 %s", CASES[i].settings);
        cr_expect_eq(training_run(training).updates, 20);
        for (int update = 1; update <= 20; update++)
            cr_expect_eq(training_metric(training.run, "train", update, "learning_rate"),
                         training_metric(uninterrupted, "train", update, "learning_rate"),
                         "case %d, update %d", i, update);
        for (int k = 0; k < 5 && CASES[i].same[k]; k++)
            training_expect_same_file(uninterrupted, training.run,
                                      format("%s.safetensors", CASES[i].same[k]));
        cr_expect_not(training_has(training.run, "update-18.safetensors"));
        if (!CASES[i].same[0] && !CASES[i].has_only_its_rates)
            training_expect_same(uninterrupted, training.run);
    }
}

/* ---- with the text prepared; tests/faults/kills.c kills trainings at every call ---- */

static const char *const PREPARED =
    "updates=14 logging_freq=1 validation_freq=3 validation_samples=0 keep_best_ckpts=2 scheduling=plateau "
    "learning_rate_patience=0 learning_rate=0.05 early_stopping_metric=token_accuracy keep_last_ckpts=2 "
    "testing.average=2 ema=0.8 snapshots=4";

Test(resume, a_run_goes_on_exactly_from_its_text_prepared_and_back)
{
    const char *folder = scratch("prepared");
    struct training training = training_as(folder, "uninterrupted", PREPARED);
    const char *uninterrupted = training.run;
    training_run(training);
    run_ok("qkv prepare '%s' -o '%s/x.prepared' -s training.updates=1", training.config, folder);
    const char *prepared = format("data.train=%s/x.prepared %s", folder, PREPARED);
    for (int update = 1; update < 12; update += 2) {
        training.run = format("%s/%d", folder, update);
        for (int part = 0; part < 3; part++) { /* the last checkpoint names its text */
            training.resume = part;
            training.settings = part == 1 || (!part && update % 4 == 1) ? prepared : PREPARED;
            training.stop_after = part < 2 ? update + part : 0;
            cr_expect_eq(training_run(training).end == QKV_TRAIN_STOPPED, part < 2, "%d, part %d", update,
                         part);
        }
        training_expect_same_file(uninterrupted, training.run, "last.safetensors");
    }
}

/* ---- what a kill leaves ---- */

Test(resume, what_a_kill_left_half_done_is_made_undone)
{
    const char *folder = scratch("left");
    struct training training =
        training_as(folder, "uninterrupted", "updates=20 logging_freq=1 keep_best_ckpts=2");
    const char *uninterrupted = training.run;
    training_run(training);
    training.run = format("%s/run", folder);
    training.stop_after = 12; /* validations after 5 and 10 */
    training_run(training);
    /* A kill in the middle of the validation after update 15 leaves these: its checkpoint stands, the best
     * one has changed, last.safetensors is half written, and so is a line. */
    write_text(training.run, "update-15.safetensors", "a checkpoint that is ahead");
    remove(format("%s/best.safetensors", training.run));
    write_text(training.run, "best.safetensors", "a best one that is ahead");
    write_text(training.run, "last.safetensors.123.0.tmp", "half");
    write_text(training.run, "update-15.safetensors.123.1.tmp", "half");
    write_text(training.run, "best.safetensors.tmp", "half");
    FILE *metrics = fopen(format("%s/metrics.jsonl", training.run), "a");
    fputs("{\"kind\":\"train\",\"update\":13}\n{\"kind\":\"train\",\"update\":1", metrics);
    fclose(metrics);
    write_text(training.run, "notes.tmp", "not of the run");
    write_text(training.run, "update-notes", "not of the run either");

    training.resume = true;
    training.stop_after = 13;
    training_run(training);
    cr_expect(!training_has(training.run, "update-15.safetensors"));
    cr_expect(!training_has(training.run, "best.safetensors.tmp"));
    cr_expect(training_has(training.run, "notes.tmp"));
    cr_expect(training_has(training.run, "update-notes"));
    double best = training_metric(training.run, "validation", 10, "best");
    size_t size;
    char *now = read_file(format("%s/best.safetensors", training.run), &size);
    char *named = read_file(format("%s/update-%d.safetensors", training.run, best > 0 ? 10 : 5), NULL);
    cr_expect_arr_eq(now, named, size, "the best one is again the best of the first ten updates");

    remove(format("%s/notes.tmp", training.run));
    remove(format("%s/update-notes", training.run));
    training.stop_after = 0;
    training_run(training);
    training_expect_same(uninterrupted, training.run);
}

Test(resume, the_log_has_the_loss_without_smoothing_and_the_seconds_of_all_processes)
{
    const char *folder = scratch("log");
    struct training training = training_as(folder, "plain", "updates=6 logging_freq=2 label_smoothing=0");
    training_run(training);
    cr_expect_eq(training_metric(training.run, "train", 4, "cross_entropy"),
                 training_metric(training.run, "train", 4, "loss"));
    training.run = format("%s/run", folder);
    training.settings = "updates=6 logging_freq=2 label_smoothing=0.4";
    training.stop_after = 5;
    training_run(training);
    double before = training_metric(training.run, "train", 4, "seconds");
    cr_expect_gt(before, 0);
    cr_expect_neq(training_metric(training.run, "train", 4, "cross_entropy"),
                  training_metric(training.run, "train", 4, "loss"));
    /* As if the process before had trained for an hour. */
    run_ok("sed -i 's/\"seconds\":/&3600/' '%s/metrics.jsonl'", training.run);
    training.resume = true;
    training.stop_after = 0;
    training_run(training);
    cr_expect_gt(training_metric(training.run, "train", 6, "seconds"), 3600);
}

/* ---- another learning rate ---- */

/* Rates that fall and rise in every way; %s is the learning rate, or the factor of noam. */
static const char *const SCHEDULES[] = {
    "learning_rate=%s learning_rate_warmup=8",
    "scheduling=noam learning_rate_warmup=8 learning_rate_factor=%s",
    "scheduling=inverse_sqrt learning_rate_warmup=3 learning_rate=%s ema=0.9",
    "scheduling=linear learning_rate_warmup=3 learning_rate_min=1e-10 learning_rate=%s optimizer=sgd",
    "scheduling=cosine learning_rate_min=1e-9 learning_rate=%s optimizer=adamw",
    "scheduling=exponential learning_rate=%s batch_multiplier=2 epochs=3",
    "scheduling=plateau learning_rate_patience=0 learning_rate=%s early_stopping_metric=sequence_accuracy",
};

/* Trains 5 updates with the learning rate 1e-9, then to the end with 3e-9; stops once on the way, if `stop` is not 0. From there
 * on the config has 1e-9 again. */
static void change_rate(struct training training, const char *schedule, int64_t stop)
{
    const char *common = "updates=12 logging_freq=1 validation_freq=2 ",
               *old = format("%s%s", common, format(schedule, "1e-9")),
               *new = format("%s%s", common, format(schedule, "3e-9"));
    training.settings = old;
    training.stop_after = 5;
    training_run(training);
    training.resume = training.new_rate = true;
    training.settings = new;
    training.stop_after = stop;
    training_run(training);
    if (!stop) return;
    training.stop_after = 0;
    training.new_rate = false;
    training.settings = old;
    training_run(training);
}

Test(resume, another_learning_rate_holds_from_there_on_with_every_schedule)
{
    for (int k = 0; k < 7; k++) {
        if (is_left_out(k)) continue;
        const char *folder = scratch(format("rate.%d", k));
        struct training training = training_in(folder, NULL);
        training.run = format("%s/whole", folder);
        training.settings =
            format("updates=12 logging_freq=1 validation_freq=2 %s", format(SCHEDULES[k], "3e-9"));
        training_run(training);
        training.run = format("%s/changed", folder);
        change_rate(training, SCHEDULES[k], 0);
        for (int update = 1; update <= 12; update++) {
            double rate = training_metric(training.run, "train", update, "learning_rate"),
                   whole = training_metric(format("%s/whole", folder), "train", update, "learning_rate");
            cr_expect_gt(rate, 0);
            cr_expect_float_eq(rate / whole, update <= 5 ? 1.0 / 3 : 1, 0.3, "%s, update %d", SCHEDULES[k],
                               update);
            if (update > 5) cr_expect_eq(rate, whole, "%s, update %d", SCHEDULES[k], update);
        }
        cr_expect_eq(training_lines(training.run, "rate"), 1);
        cr_expect_eq(training_metric(training.run, "rate", 5, "before"), 1e-9);
        cr_expect_eq(training_metric(training.run, "rate", 5, "rate"), 3e-9);
        cr_expect(
            shows(read_file(format("%s/config.yaml", training.run), NULL),
                  strstr(SCHEDULES[k], "noam") ? "learning_rate_factor: 3e-9\n" : "learning_rate: 3e-9\n"));
        for (int64_t stop = 6; stop < 12; stop += 3) {
            training.run = format("%s/stopped.%d", folder, (int)stop);
            change_rate(training, SCHEDULES[k], stop);
            training_expect_same(format("%s/changed", folder), training.run);
        }
    }
}

/* Returns the tensors of a checkpoint, which follow its header. */
static char *tensors_of(const char *path, size_t *size)
{
    uint64_t header;
    char *bytes = read_file(path, size);
    cr_assert(bytes && *size > sizeof header);
    memcpy(&header, bytes, sizeof header);
    *size -= header + sizeof header;
    return bytes + header + sizeof header;
}

/* It is recorded before the next update, and changes no parameter and no moment. */
Test(resume, another_learning_rate_is_recorded_at_once_with_the_same_moments)
{
    const char *folder = scratch("recorded"), *at = format("%s/run/last.safetensors", folder);
    struct training training = training_in(folder, "updates=6 validation_freq=3 learning_rate=0.01");
    size_t size, new_size;
    training_run(training);
    const char *tensors = tensors_of(at, &size);
    training.resume = true;
    training.settings = "updates=6 validation_freq=3 learning_rate=0.001";
    struct qkv_train_result result;
    expect_refusal_with(
        training_try(training, &result, &error),
        "was trained with training.learning_rate 0.01, but the config has 0.001: put it back, or train a new "
        "run, which --from can start with these parameters; --resume -s KEY=VALUE changes it from here on");
    training.new_rate = true;
    training_run(training);
    const char *same = tensors_of(at, &new_size);
    cr_assert_eq(size, new_size);
    cr_expect_arr_eq(tensors, same, size);
    training.new_rate = false;
    training.settings = "updates=12 validation_freq=3 learning_rate=0.01";
    training_run(training);
    training.run = format("%s/other", folder);
    training.resume = false;
    training.settings = "updates=6 validation_freq=3 learning_rate=0.01";
    training_run(training);
    training.resume = training.new_rate = true;
    training.settings = "updates=12 validation_freq=3 learning_rate=0.001";
    training_run(training);
    training_expect_same(format("%s/run", folder), training.run);
    training.new_rate = false;
    training.settings = "updates=13 validation_freq=3 learning_rate=0.02";
    expect_refusal_with(training_try(training, &result, &error),
                        "was trained with training.learning_rate 0.001, but the config has 0.02");
}
