/* Training in several processes, which mpirun starts, is bit by bit the training of one process. */
#include "training.h"

#include "support.h"

#include <criterion/criterion.h>
#include <string.h>

/* "mpirun ... -n N", for shells and for root, and on machines with fewer processors. Skips the test where that cannot run. */
static const char *mpirun(int processes)
{
#ifndef QKV_MPI
    cr_skip_test("this build has no MPI");
#endif
    if (run("command -v mpirun").exit_code) cr_skip_test("mpirun is not installed");
    return format(
        "OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 mpirun --oversubscribe --bind-to none -q "
        "-n %d '%s'",
        processes, QKV_BINARY);
}

/* Settings of `qkv train`, those of training without their section. */
static const char *options_of(const char *settings)
{
    char *options = format("%s", ""), *copy = format("%s", settings);
    for (char *word = strtok(copy, " "); word; word = strtok(NULL, " "))
        options =
            format("%s -s %s%s", options, strcspn(word, ".") < strcspn(word, "=") ? "" : "training.", word);
    return options;
}

static const char *train(int processes, const struct training *training)
{
    return format("%s train %s -s training.model_dir=%s %s -j %d %s", mpirun(processes), training->config,
                  training->run, options_of(training->settings), training->threads,
                  training->resume ? "--resume" : "");
}

/* Trains in one process, and in 2, 3 and so on with other numbers of threads, and compares all files. */
static void expect_same(const char *name, const char *settings, int most)
{
    const char *folder = scratch(name);
    struct training training = {
        .config = training_config(folder), .settings = settings, .run = format("%s/1", folder)};
    mpirun(1);
    training_run(training);
    for (int processes = 2; processes <= most; processes++) {
        training.run = format("%s/%d", folder, processes);
        training.threads = 1 + processes % 2;
        run_ok("%s", train(processes, &training));
        training_expect_same(format("%s/1", folder), training.run);
    }
}

Test(processes, train_the_toy_config_to_the_bits_of_one)
{
    const char *folder = scratch("toy"), *config = QKV_SOURCE_DIR "/configs/toy_en_es.yaml";
    mpirun(1);
    run_ok("head -n 50 '%s/datasets/en_es/dev.tsv' > '%s/dev.tsv'", QKV_SOURCE_DIR, folder);
    const char *settings = format("updates=5 logging_freq=1 validation_freq=2 data.dev=%s/dev.tsv", folder);
    struct training training = {.config = config, .settings = settings, .run = format("%s/1", folder)};
    training_run(training);
    for (int processes = 1; processes <= 4; processes++) {
        training.run = format("%s/of_%d", folder, processes);
        training.threads = 1 + processes % 3;
        run_ok("%s", train(processes, &training));
        training_expect_same(format("%s/1", folder), training.run);
    }
}

/* Sums over parts of an update, a list of best checkpoints, a rate that falls with the validations, an average of parameters, a
 * last shard that is empty in some batches. */
Test(processes, train_to_the_same_bits_with_all_settings)
{
    expect_same("multiplied",
                "updates=9 batch_multiplier=3 batch_type=token batch_size=40 validation_freq=4 shards=5 "
                "optimizer=adamw clip_grad_norm=1 precision=bfloat16 r_drop=1",
                5);
    expect_same(
        "validated",
        "updates=13 logging_freq=3 validation_freq=3 keep_best_ckpts=2 keep_last_ckpts=2 testing.average=2 "
        "ema=0.8 snapshots=4 scheduling=plateau learning_rate_patience=0 learning_rate=0.05 "
        "early_stopping_metric=token_accuracy",
        3);
    expect_same("empty", "epochs=1 data.dev= batch_size=4 shards=7 batch_type=sentence", 7);
    /* So many parameters that two shards share a block of gradients. */
    expect_same("paired",
                "updates=3 data.dev= shards=5 batch_multiplier=2 model.encoder.hidden_size=64 "
                "model.decoder.hidden_size=64 model.encoder.ff_size=9000",
                4);
    expect_same(
        "pieces",
        "epochs=2 batch_type=token batch_size=50 data.dev= data.joint_vocabulary=true data.src.level=bpe "
        "data.src.num_merges=8 data.src.bpe_dropout=0.3 data.trg.level=bpe data.trg.num_merges=8",
        3);
}
