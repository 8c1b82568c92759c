/* training.ema: the moving average of the parameters, in the optimizer and in a run. */
#include "parameters.h"
#include "training.h"

/* ---- the optimizer ---- */

enum { COUNT = 40003, UPDATES = 30 };

static float gradient_at(int i, int update)
{
    return (float)((i * 7 + update * 5) % 11 - 5) / 4;
}

/* Parameters and an optimizer after UPDATES updates of gradient descent. */
struct trained {
    struct qkv_parameters parameters;
    struct qkv_optimizer optimizer;
    float *followed; /* [COUNT]: the average by its formula */
};

static struct trained follow(double ema, const char *kernels, int threads)
{
    struct trained t = {0};
    const struct qkv_optimizer_options settings = {
        .optimizer = QKV_OPTIMIZER_SGD, .momentum = 0.5, .ema = ema};
    struct qkv_workers *workers RELEASED(free_workers) = qkv_workers_new(threads, NULL);
    setenv("QKV_KERNELS", kernels, 1);
    last_parameter(&t.parameters, QKV_FLOAT32, QKV_SHAPE(COUNT), NORMAL, "weights");
    cr_assert_eq(qkv_optimizer_init(&t.optimizer, &settings, &t.parameters, NULL), QKV_OK);
    float *values = t.parameters.values;
    t.followed = calloc(COUNT, sizeof *t.followed);
    memcpy(t.followed, values, COUNT * sizeof *t.followed);
    float *gradient RELEASED(free_memory) = calloc((size_t)t.parameters.elements, sizeof *gradient);
    void *gradients[] = {gradient};
    for (int update = 1; update <= UPDATES; update++) {
        for (int i = 0; i < COUNT; i++) gradient[i] = gradient_at(i, update);
        qkv_optimizer_step(&t.optimizer, &t.parameters, workers, 1, gradients, 1, 0.1);
        float weight = (float)(1 - fmin(ema, (1.0 + update) / (10.0 + update)));
        for (int i = 0; i < COUNT; i++) t.followed[i] += weight * (values[i] - t.followed[i]);
    }
    return t;
}

static void release(struct trained *t)
{
    free(t->followed);
    qkv_optimizer_release(&t->optimizer);
    qkv_parameters_release(&t->parameters);
}

Test(ema, follows_its_formula_in_every_instruction_set)
{
    static const char *const KERNELS[] = {"portable", "avx2", "avx512"};
    struct trained plain RELEASED(release) = follow(0, "portable", 1);
    cr_expect_null(plain.optimizer.state.average);
    for (int k = 0; k < 3; k++)
        for (int threads = 1; threads <= 3; threads += 2) {
            /* 0.6 is reached at update 13: the decay before it is lower. */
            struct trained t RELEASED(release) = follow(0.6, KERNELS[k], threads);
            cr_assert_arr_eq(t.optimizer.state.average, t.followed, COUNT * sizeof(float), "%s", KERNELS[k]);
            cr_assert_arr_eq(t.parameters.values, plain.parameters.values, COUNT * sizeof(float),
                             "the average changes nothing of training");
        }
}

Test(ema, is_exchanged_with_the_parameters)
{
    struct trained t RELEASED(release) = follow(0.9, "portable", 1),
                     plain RELEASED(release) = follow(0.9, "portable", 1),
                     without RELEASED(release) = follow(0, "portable", 1);
    uint64_t changes = t.parameters.changes;
    qkv_optimizer_swap_average(&t.optimizer, &t.parameters);
    cr_expect_arr_eq(t.parameters.values, plain.followed, COUNT * sizeof(float));
    cr_expect_arr_eq(t.optimizer.state.average, plain.parameters.values, COUNT * sizeof(float));
    cr_expect_neq(t.parameters.changes, changes, "copies of the values are out of date");
    qkv_optimizer_swap_average(&t.optimizer, &t.parameters);
    cr_expect_arr_eq(t.parameters.values, plain.parameters.values, COUNT * sizeof(float));
    qkv_optimizer_swap_average(&without.optimizer, &without.parameters);
    cr_expect_arr_eq(without.parameters.values, plain.parameters.values, COUNT * sizeof(float));
}

/* ---- a run ---- */

static size_t bytes_of(const struct qkv_run *run)
{
    return (size_t)run->model->parameters.elements * sizeof(float);
}

Test(ema, training_goes_on_as_without_it)
{
    const char *with = training_of("with", "updates=20 ema=0.9", NULL),
               *without = training_of("without", "updates=20", NULL);
    struct qkv_run averaged RELEASED(qkv_run_release) = training_open(with, "last"),
                            plain RELEASED(qkv_run_release) = training_open(without, "last");
    cr_expect_neq(memcmp(averaged.model->parameters.values, plain.model->parameters.values, bytes_of(&plain)),
                  0, "the values of the checkpoint are the average");
    /* As --resume loads it: the parameters that training goes on with, and their average. */
    struct qkv_optimizer optimizer RELEASED(qkv_optimizer_release);
    struct qkv_run resumed RELEASED(qkv_run_release) = training_open(with, "last");
    const struct qkv_optimizer_options settings = qkv_optimizer_options_from_config(&resumed.config.training);
    cr_assert_eq(qkv_optimizer_init(&optimizer, &settings, &resumed.model->parameters, &error), QKV_OK);
    expect_done(
        qkv_checkpoint_load(resumed.checkpoint, &resumed.model->parameters, &optimizer.state, NULL, &error));
    cr_expect_arr_eq(resumed.model->parameters.values, plain.model->parameters.values, bytes_of(&plain));
    cr_expect_arr_eq(optimizer.state.average, averaged.model->parameters.values, bytes_of(&plain));
    for (int update = 5; update <= 20; update += 5)
        cr_expect_neq(training_metric(with, "validation", update, "loss"),
                      training_metric(without, "validation", update, "loss"),
                      "validations score the average");
    size_t size, plain_size;
    read_file(format("%s/best.safetensors", with), &size);
    read_file(format("%s/best.safetensors", without), &plain_size);
    cr_expect_lt(size, plain_size + 100, "the best one has the average alone");
}

/* Every file of the last update holds the average, and validation has scored it. */
Test(ema, checkpoints_hold_what_was_validated)
{
    const char *path =
        training_of("checkpoints", "updates=20 ema=0.8 keep_best_ckpts=4 keep_last_ckpts=1", NULL);
    /* A file that is the last, but not among the best, is written outside of a validation. */
    const char *no_dev = training_of("kept", "updates=20 ema=0.8 keep_last_ckpts=1 data.dev=", NULL);
    for (int i = 0; i < 2; i++) {
        struct qkv_run last RELEASED(qkv_run_release) = training_open(i ? no_dev : path, "last"),
                            kept RELEASED(qkv_run_release) = training_open(i ? no_dev : path, "update-20");
        cr_expect_arr_eq(last.model->parameters.values, kept.model->parameters.values, bytes_of(&last));
    }
    static const char *const checkpoints[] = {"update-10", "update-20", "last"};
    static const int updates[] = {10, 20, 20};
    for (int i = 0; i < 3; i++) {
        const char *scores =
            run_ok("qkv evaluate '%s' '%s/../dev.tsv' --checkpoint %s --json", path, path, checkpoints[i]);
        cr_expect_eq(number_after(scores, "\"loss\":"),
                     training_metric(path, "validation", updates[i], "loss"), "%s", checkpoints[i]);
    }
}

Test(ema, cannot_change_when_a_run_is_resumed)
{
    const char *folder = tiny_task("changed");
    run_ok("cd '%s' && qkv train c.yaml -q -s training.ema=0.9", folder);
    static const char *const others[] = {"0", "0.99"};
    for (int i = 0; i < 2; i++)
        cr_expect(refused(
            run("cd '%s' && qkv train c.yaml -q --resume -s training.updates=30 -s training.ema=%s", folder,
                others[i]),
            format("qkv: run/last.safetensors: was trained with training.ema 0.9, but the config has "
                   "%s: put it back, or train a new run, which --from can start with these parameters",
                   others[i])));
    run_ok("cd '%s' && qkv train c.yaml -q --resume -s training.updates=30 -s training.ema=0.9", folder);
}

Test(ema, an_old_run_has_none_to_go_on_with)
{
    const char *folder = scratch("old");
    run_ok("cp -r '%s/tests/fixtures/run-0.1/.' '%s'", QKV_SOURCE_DIR, folder);
    cr_expect(refused(
        run("cd '%s' && qkv train config.yaml -q --resume -s training.updates=310 -s training.ema=0.9",
            folder),
        "qkv: run/last.safetensors: holds no moving average of the parameters, because it was trained "
        "with training.ema 0: put it back, or train a new run"));
}
