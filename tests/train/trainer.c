/* The trainer: how long it runs, what it keeps, which rates it uses. */
#include "config/config_keys.h"
#include "framework/engine/core/choices.h"
#include "training.h"

#include "own_network.h"
#include "tiny.h"

#include <malloc.h>

/* ---- threads ---- */

Test(trainer, the_same_bits_with_any_number_of_threads_and_others_with_another_seed)
{
    static const struct {
        const char *settings;
        int threads;
        bool is_same; /* as the one before */
    } CASES[] = {
        {"updates=12 logging_freq=3 batch_multiplier=2", 1, false},
        {"updates=12 logging_freq=3 batch_multiplier=2", 4, true},
        {"updates=12 logging_freq=3 batch_multiplier=2", 7, true},
        {"updates=12 logging_freq=3 batch_multiplier=2 random_seed=7", 1, false},
        {"updates=12 model.network=own model.decoder.dropout=0.2", 1, false},
        {"updates=12 model.network=own model.decoder.dropout=0.2", 3, true},
    };
    const char *folder = scratch("threads"), *config = training_config(folder), *before = NULL;
    own_network_register();
    for (int i = 0; i < 6; i++) {
        const char *run_folder = format("%s/%d", folder, i);
        training_run((struct training){config, run_folder, CASES[i].settings, CASES[i].threads});
        if (CASES[i].is_same) training_expect_same(before, run_folder);
        if (before && !CASES[i].is_same)
            run_ok("! cmp '%s/last.safetensors' '%s/last.safetensors'", before, run_folder);
        before = run_folder;
    }
    cr_expect(training_has(before, "last.safetensors") && training_has(before, "best.safetensors"));
}

/* ---- memory ---- */

/* Heap memory in use after some updates, each of which wrote a log line. */
struct memory_use {
    size_t early, late;
};

static void note_memory(void *context, const struct qkv_train_progress *progress)
{
    struct memory_use *use = context;
    if (progress->update == 100) use->early = mallinfo2().uordblks;
    if (progress->update == 1100) use->late = mallinfo2().uordblks;
}

Test(trainer, log_lines_and_validations_leave_no_memory_behind)
{
    struct memory_use use = {0};
    const struct qkv_train_listener listener = {.context = &use, .progress = note_memory};
    struct training training =
        training_in(scratch("lines"), "updates=1100 logging_freq=1 validation_freq=50");
    training.listener = &listener;
    training_run(training);
    cr_expect_lt((int64_t)use.late - (int64_t)use.early, 1000, "%lld bytes for 1000 lines",
                 (long long)use.late - (long long)use.early);
}

/* ---- networks from outside ---- */

/* Row i is the hidden state of row i + 1 of its sentence. */
static struct qkv_tensor *forward_ahead(const struct qkv_model *model, struct qkv_graph *graph,
                                        const struct qkv_batch_view *batch, struct qkv_trace *trace)
{
    const struct qkv_segments target = {batch->count, batch->target_start, batch->target_length};
    return qkv_neighbours(graph, own_network("own").forward(model, graph, batch, trace), target, 1, 1);
}

static void reorder_nothing(struct qkv_decoding *decoding, int64_t rows, const int64_t *parents)
{
    (void)decoding, (void)rows, (void)parents;
}

/* Expects qkv_train to refuse a network that is registered under this name, before it makes a run. */
static void expect_network_refused(const char *name, const char *message)
{
    struct training training = training_in(scratch(name), format("updates=5 model.network=%s", name));
    struct qkv_train_result result;
    cr_expect_eq(training_try(training, &result, &error), QKV_INVALID);
    cr_expect(begins(error.message, message));
    cr_expect_not(training_has(training.run, "config.yaml"));
}

/* One that looks ahead; and the transformer, whose decoding forgets to move keys and values when hypotheses change their
 * rows. */
Test(trainer, refuses_networks_that_look_ahead_or_decode_other_numbers)
{
    static struct qkv_network_interface ahead, forgetful;
    static struct qkv_decoding_interface decoding;
    const struct qkv_model_config config = tiny_config();
    struct qkv_model *model = tiny_model(&config, 9, 9, QKV_FLOAT32, 1);
    ahead = own_network("ahead");
    ahead.forward = forward_ahead;
    forgetful = *model->interface;
    decoding = *forgetful.decoding;
    decoding.reorder = reorder_nothing;
    forgetful.name = "forgetful";
    forgetful.decoding = &decoding;
    qkv_model_free(model);
    cr_assert_eq(qkv_network_register(&ahead, NULL), QKV_OK);
    cr_assert_eq(qkv_network_register(&forgetful, NULL), QKV_OK);
    expect_network_refused("ahead", "network ahead: forward looks ahead");
    expect_network_refused("forgetful", "network forgetful: step 3 of its decoding gives ");
}

/* ---- how long ---- */

Test(trainer, ends_with_updates_or_epochs_whichever_is_first)
{
    static const struct {
        const char *keys;
        int64_t updates;
    } CASES[] = {
        {"updates=3", 3},
        {"epochs=2", 16},
        {"epochs=1 updates=5", 5},
        {"epochs=1 updates=9", 8},
        {"epochs=1 batch_multiplier=3", 3}, /* 3 + 3 + 2 batches */
        {"epochs=2 batch_multiplier=3", 6}, /* an update may span two epochs */
        {"epochs=1 batch_multiplier=100", 1},
    };
    for (size_t i = 0; i < sizeof CASES / sizeof CASES[0]; i++) {
        struct qkv_train_result result;
        const char *run = training_of(format("length.%zu", i), CASES[i].keys, &result);
        cr_expect_eq(result.end, QKV_TRAIN_DONE);
        cr_expect_eq(result.updates, CASES[i].updates, "%s: %lld updates", CASES[i].keys,
                     (long long)result.updates);
        cr_expect(result.validated, "the end is validated");
        /* The last update has its log line, wherever it falls. */
        cr_expect_eq(training_metric(run, "train", result.updates, "tokens"), (double)result.tokens, "%s",
                     CASES[i].keys);
        cr_expect_eq(training_metric(run, "validation", result.updates, "tokens"), (double)result.tokens);
    }
}

Test(trainer, every_token_of_an_epoch_is_trained_on_once)
{
    const char *keys[] = {"epochs=2", "epochs=2 batch_type=token batch_size=20 ",
                          "epochs=2 batch_size=1 batch_multiplier=7", "epochs=2 batch_size=1000 "};
    int64_t tokens = 0;
    for (int i = 0; i < 4; i++) {
        struct qkv_train_result result;
        training_of(format("tokens.%d", i), keys[i], &result);
        if (i) cr_expect_eq(result.tokens, tokens, "%s", keys[i]);
        tokens = result.tokens;
    }
}

/* An accuracy of nothing but zeros: each validation after the first is one without progress. */
#define NO_PROGRESS "early_stopping_metric=sequence_accuracy learning_rate=1e-9 validation_freq=2 "

Test(trainer, patience_ends_training)
{
    const char *folder = scratch("patience");
    struct training training = training_in(folder, NO_PROGRESS "updates=100 patience=3");
    const char *run = training.run;
    struct qkv_train_result result = training_run(training);
    cr_expect_eq(result.end, QKV_TRAIN_PATIENCE);
    cr_expect_eq(result.updates, 2 * (1 + 3));
    cr_expect_eq(result.best_update, 2);
    cr_expect_eq(training_lines(run, "validation"), 4);
    cr_expect_eq(training_metric(run, "validation", 2, "best"), 1);
    cr_expect_eq(training_metric(run, "validation", 4, "best"), 0, "as good as the best is not better");
    /* Going on ends at once and leaves all as it was. */
    const char *copy = format("%s/copy", folder);
    cr_assert_eq(system(format("cp -r '%s' '%s'", run, copy)), 0);
    training.resume = true;
    result = training_run(training);
    cr_expect_eq(result.end, QKV_TRAIN_PATIENCE);
    cr_expect_eq(result.updates, 8);
    training_expect_same(run, copy);
}

/* ---- what is kept ---- */

/* By token accuracy; of equal ones, by loss. */
static int compare_best(const char *run, int64_t a, int64_t b)
{
    double x = training_metric(run, "validation", a, "token_accuracy"),
           y = training_metric(run, "validation", b, "token_accuracy");
    if (x != y) return x > y ? -1 : 1;
    return training_metric(run, "validation", a, "loss") < training_metric(run, "validation", b, "loss") ? -1
                                                                                                         : 1;
}

Test(trainer, the_best_checkpoints_stay_and_no_others)
{
    for (int keep = 1; keep <= 4; keep++) {
        struct qkv_train_result result;
        const char *run = training_of(format("keep.%d", keep),
                                      format("updates=24 validation_freq=2 keep_best_ckpts=%d "
                                             "early_stopping_metric=token_accuracy learning_rate=0.05",
                                             keep),
                                      &result);
        int kept = 0;
        for (int64_t update = 2; update <= 24; update += 2) {
            int better = 0;
            for (int64_t other = 2; other <= 24; other += 2)
                better += other != update && compare_best(run, other, update) < 0;
            const char *name = format("update-%lld.safetensors", (long long)update);
            cr_expect_eq(training_has(run, name), better < keep, "keep %d: %s, %d are better", keep, name,
                         better);
            kept += training_has(run, name);
            if (better) continue;
            cr_expect_eq(result.best_update, update);
            cr_expect_eq(result.best, training_metric(run, "validation", update, "token_accuracy"));
            size_t size, last_size;
            run_ok("cd '%s' && cmp %s best.safetensors", run, name);
            read_file(format("%s/%s", run, name), &size);
            read_file(format("%s/last.safetensors", run), &last_size);
            cr_expect_gt(last_size, 2 * size, "only the last one has the optimizer's moments");
        }
        cr_expect_eq(kept, keep);
    }
}

/* ---- rates ---- */

Test(trainer, every_optimizer_runs_with_every_schedule)
{
    for (int c = 0; c < QKV_SCHEDULE_COUNT * QKV_OPTIMIZER_COUNT; c++) {
        const enum qkv_schedule_kind kind = (enum qkv_schedule_kind)(c / QKV_OPTIMIZER_COUNT);
        const char *optimizer = qkv_optimizer_kind_name((enum qkv_optimizer_kind)(c % QKV_OPTIMIZER_COUNT)),
                   *scheduling = qkv_schedule_kind_name(kind);
        const char *run = training_of(
            format("schedules.%d", c),
            format("updates=3 learning_rate_warmup=2 logging_freq=1 weight_decay=0.01 clip_grad_norm=1 "
                   "clip_grad_val=0.1 optimizer=%s scheduling=%s",
                   optimizer, scheduling),
            NULL);
        const struct qkv_training_config like = {.scheduling = kind,
                                                 .learning_rate = 0.02,
                                                 .learning_rate_factor = 1,
                                                 .decrease_factor = 0.7,
                                                 .learning_rate_warmup = 2,
                                                 .updates = 3,
                                                 .learning_rate_patience = 5};
        struct qkv_schedule schedule = qkv_schedule_from_config(&like, 8);
        for (int64_t u = 1; u <= 3; u++) {
            double rate = training_metric(run, "train", u, "learning_rate"),
                   norm = training_metric(run, "train", u, "gradient_norm");
            cr_expect_float_eq(rate, qkv_schedule_rate(&schedule, u, 0), 1e-12, "%s, %s, update %d: %g",
                               optimizer, scheduling, (int)u, rate);
            cr_expect(norm > 0 && isfinite(norm), "%s, %s", optimizer, scheduling);
        }
    }
}

/* A plateau: validations at 2 (the best), 4 and 6 (two without progress: more than 1), 8. Exponential: with the epochs. */
Test(trainer, rates_follow_validations_and_epochs)
{
    const char *plateau = training_of("plateau",
                                      NO_PROGRESS "updates=9 scheduling=plateau learning_rate_patience=1 "
                                                  "decrease_factor=0.5 logging_freq=1",
                                      NULL),
               *exponential = training_of(
                   "exponential", "epochs=3 scheduling=exponential decrease_factor=0.5 logging_freq=1", NULL);
    for (int64_t u = 1; u <= 9; u++)
        cr_expect_float_eq(training_metric(plateau, "train", u, "learning_rate"), u < 7 ? 1e-9 : 5e-10, 1e-15,
                           "update %lld", (long long)u);
    for (int64_t u = 1; u <= 24; u++) {
        cr_expect_eq(training_metric(exponential, "train", u, "epoch"), (double)((u - 1) / 8 + 1));
        cr_expect_float_eq(training_metric(exponential, "train", u, "learning_rate"),
                           0.02 * pow(0.5, (double)((u - 1) / 8)), 1e-12, "update %lld", (long long)u);
    }
}
