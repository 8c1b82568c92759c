/* Training in several processes, which mpirun starts, is bit by bit the training of one process. */
#include "mpirun.h"

/* Trains in one process and in several, and compares all files. */
static void expect_same(const char *name, const char *settings, int processes)
{
    const char *folder = scratch(name);
    struct training training = training_as(folder, "1", settings);
    mpirun();
    training_run(training);
    training.run = format("%s/several", folder);
    training.threads = 1 + processes % 2;
    mpirun_training(is_slow_build() ? 2 : processes, &training);
    training_expect_same(format("%s/1", folder), training.run);
}

Test(processes, train_the_toy_config_to_the_bits_of_one)
{
    const char *folder = scratch("toy"), *config = QKV_SOURCE_DIR "/configs/toy_en_es.yaml";
    mpirun();
    run_ok("head -n 50 '%s/datasets/en_es/dev.tsv' > '%s/dev.tsv'", QKV_SOURCE_DIR, folder);
    const char *settings = format("updates=5 logging_freq=1 validation_freq=2 data.dev=%s/dev.tsv", folder);
    struct training training = {.config = config, .settings = settings, .run = format("%s/1", folder)};
    training_run(training);
    for (int processes = 2; processes <= (is_slow_build() ? 2 : 4); processes += 2) {
        training.run = format("%s/of_%d", folder, processes);
        training.threads = processes / 2;
        mpirun_training(processes, &training);
        training_expect_same(format("%s/1", folder), training.run);
    }
}

/* Sums over parts of an update, a list of best checkpoints, a rate that falls with the validations, an average of parameters, a
 * last shard that is empty in some batches. */
Test(processes, train_to_the_same_bits_with_all_settings)
{
    static const struct {
        const char *name, *settings;
        int processes;
    } cases[] = {
        {"multiplied",
         "updates=9 batch_multiplier=3 batch_type=token batch_size=40 validation_freq=4 shards=5 "
         "optimizer=adamw clip_grad_norm=1 precision=bfloat16 r_drop=1",
         5},
        {"validated",
         "updates=13 logging_freq=3 validation_freq=3 keep_best_ckpts=2 keep_last_ckpts=2 testing.average=2 "
         "ema=0.8 snapshots=4 scheduling=plateau learning_rate_patience=0 learning_rate=0.05 "
         "early_stopping_metric=token_accuracy",
         3},
        {"empty", "epochs=1 data.dev= batch_size=4 shards=7 batch_type=sentence", 7},
        /* So many parameters that two shards share a block of gradients. */
        {"paired",
         "updates=3 data.dev= shards=5 batch_multiplier=2 model.encoder.hidden_size=64 "
         "model.decoder.hidden_size=64 model.encoder.ff_size=9000",
         4},
        {"pieces",
         "epochs=2 batch_type=token batch_size=50 data.dev= data.joint_vocabulary=true data.src.level=bpe "
         "data.src.num_merges=8 data.src.bpe_dropout=0.3 data.trg.level=bpe data.trg.num_merges=8",
         3},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        if (!is_left_out((int64_t)i)) expect_same(cases[i].name, cases[i].settings, cases[i].processes);
}

/* The command line takes the learning rate of --set as a new one. */
Test(processes, go_on_with_another_learning_rate_to_the_bits_of_one)
{
    const char *folder = scratch("rate");
    mpirun();
    for (int processes = 1; processes <= 3; processes++) {
        struct training training =
            training_as(folder, format("%d", processes), "updates=4 logging_freq=1 learning_rate=0.02");
        training_run(training);
        training.resume = true;
        training.settings = "updates=9 logging_freq=1 learning_rate=0.005";
        mpirun_training(processes, &training);
        cr_expect_eq(training_metric(training.run, "train", 9, "learning_rate"), 0.005);
        training_expect_same(format("%s/1", folder), training.run);
    }
}

/* Trains in three processes and returns what it says of itself: megabytes of the parameters, of those that process 0 sends
 * for each update, and of those that another process sends at most. */
static void read_sent(const struct training *training, double *megabytes, double *first, double *others)
{
    const char *text = run_several(3, train_arguments(training)).error;
    const char *name = format("%s: ", training->run), *start = strstr(text, name),
               *sent = strstr(text, "sent for each update: ");
    cr_assert(start && sent, "%s", text);
    *megabytes = 4e-6 * atof(start + strlen(name));
    cr_assert_eq(sscanf(sent, "sent for each update: %lf MB by process 0, at most %lf MB", first, others), 2);
}

/* Of n processes, each sends 2 (n - 1) / n of the parameters: process 0 their values, the others a gradient and the rest of the
 * values. */
Test(processes, say_how_much_they_send)
{
    const char *folder = scratch("sent");
    struct training training = training_in(folder, "updates=4 data.dev= model.encoder.hidden_size=64 "
                                                   "model.decoder.hidden_size=64 model.encoder.ff_size=9000");
    double megabytes, first, others;
    read_sent(&training, &megabytes, &first, &others);
    cr_expect_float_eq(first, 4.0 / 3 * megabytes, 0.02 * megabytes, "%g MB", first);
    cr_expect_float_eq(others, 4.0 / 3 * megabytes, 0.02 * megabytes, "%g MB", others);
}

/* Of the gradients of large tables, only the rows of words that a shard has are sent, to the same bits. */
Test(processes, send_the_rows_of_embeddings_that_have_gradients)
{
    enum { WORDS = 3000, WIDTH = 64 };
    const char *folder = scratch("tables");
    struct training training =
        training_in(folder, format("updates=4 data.dev= data.train=%s/words.tsv model.encoder.hidden_size=64 "
                                   "model.decoder.hidden_size=64",
                                   folder));
    mpirun();
    training.run = format("%s/of_1", folder);
    run_ok("seq %d | awk '{ printf \"w%%d%%s\", $1, $1 %% 5 ? \" \" : \"\\tv v v\\n\" }' > '%s/words.tsv'",
           WORDS, folder);
    training_run(training);
    training.run = format("%s/of_3", folder);
    double megabytes, first, others, table = 4e-6 * WORDS * WIDTH;
    read_sent(&training, &megabytes, &first, &others);
    training_expect_same(format("%s/of_1", folder), training.run);
    cr_expect_lt(others, 4.0 / 3 * megabytes - 0.98 * table, "%g of %g MB", others, megabytes);
}

/* Processes of one machine divide its processors, but those of two machines of one name, which share no ids of processes,
 * do not: here the second machine is another namespace of ids, such as that of a container. */
Test(processes, know_which_others_run_on_their_machine)
{
    const char *folder = scratch("machines"), *config = training_config(folder);
    const char *arguments =
        format("train '%s' -s training.model_dir='%s/run' -s training.updates=1 -s data.dev= --overwrite",
               config, folder);
    long processors = sysconf(_SC_NPROCESSORS_ONLN), half = processors > 1 ? processors / 2 : 1;
    long available = atol(run_ok("nproc")); /* under taskset, fewer */
    if (half > available) half = available;
    mpirun();
    const char *apart = "unshare --fork --pid --mount-proc";
    if (run("%s true", apart).exit_code) cr_skip_test("this system permits no other namespace of ids");
    for (int i = 0; i < 2; i++) {
        struct outcome outcome =
            run_differing("--mca btl_vader_single_copy_mechanism none", arguments, i ? apart : "", arguments);
        cr_expect_eq(outcome.exit_code, 0);
        cr_expect(shows(outcome.error, format(" 2 processes with %ld thread", i ? available : half)));
    }
}
