/* Several processes end together, with one sentence and an exit code that is not 0, when one of them cannot go on; and a
 * run that they leave is resumed by any number of processes to the bits of one that nothing disturbed. */
#include "mpirun.h"

#include "framework/engine/kernels/registry.h"

#include <signal.h>
#include <sys/stat.h>
#include <sys/wait.h>

static void expect_nothing_begun(const struct training *training)
{
    cr_expect(!training_has(training->run, "source.vocabulary"));
}

/* ---- refusals ---- */

Test(processes_failures, more_processes_than_shards_are_refused)
{
    const char *folder = scratch("shards");
    struct training training = training_in(folder, "updates=3");
    cr_expect(refused(run_several(4, train_arguments(&training)),
                      "qkv: training.shards is 3, but must be at least the number of processes (4): start at "
                      "most 3, or raise it, which changes the results"));
    expect_nothing_begun(&training);
}

/* A process that cannot join the others says why, although it can send them nothing. mpirun may end the other one before it
 * has. */
Test(processes_failures, a_process_that_cannot_join_says_why)
{
    const char *folder = scratch("join"), *message = "qkv: 3 processes were started, but ";
    struct training training = training_in(folder, "updates=3");
    struct outcome outcome = run("%s -n 2 sh -c \"OMPI_COMM_WORLD_SIZE=3 exec '%s' %s\"", mpirun(),
                                 QKV_BINARY, train_arguments(&training));
    cr_expect_eq(outcome.exit_code, 2);
    cr_expect(begins(outcome.error, message));
}

Test(processes_failures, processes_with_different_input_are_refused)
{
    const char *folder = scratch("input");
    struct training training = training_in(folder, "updates=3 data.dev= data.train=x.tsv");
    const char *arguments = train_arguments(&training);
    run_ok("cd '%s' && mkdir a b c && cp train.tsv a/x.tsv && head -n 59 train.tsv > b/x.tsv", folder);
    const char *a = format("-wdir '%s/a'", folder), *b = format("-wdir '%s/b'", folder),
               *c = format("-wdir '%s/c'", folder);
    cr_expect(differ(run_differing(a, arguments, b, arguments), "data.train", "60 pairs, checksum *",
                     "59 pairs, checksum *"));
    cr_expect(
        refused(run_differing(a, arguments, c, arguments),
                format("qkv: %s: x.tsv: there is no such text: set data.train to its path", process(1))));
    cr_expect(refused(run_differing(c, arguments, a, arguments),
                      "qkv: x.tsv: there is no such text: set data.train to its path"));
    struct qkv_kernel_names names;
    cr_assert_eq(qkv_kernels_in_use(&names, NULL), QKV_OK);
    const char *portable = format("%s -x QKV_KERNELS=portable", a);
    if (strcmp(names.float32, "portable") != 0)
        cr_expect(differ(run_differing(a, arguments, portable, arguments), "the kernels (QKV_KERNELS)",
                         names.float32, "portable"));
    expect_nothing_begun(&training);
}

/* A copy of qkv that says that it was made of other sources. */
Test(processes_failures, processes_of_different_builds_are_refused)
{
    if (is_emulated()) cr_skip_test("the program is started by a script, which has no checksum");
    const char *folder = scratch("builds");
    struct training training = training_in(folder, "updates=3 data.dev=");
    const char *arguments = train_arguments(&training), *command = mpirun();
    run_ok("cd '%s' && LC_ALL=C sed 's/source checksum [0-9a-f]\\{8\\}/source checksum 00000000/' '%s' > "
           "other && chmod +x other",
           folder, QKV_BINARY);
    struct outcome outcome =
        run("%s -n 2 '%s' %s : -n 1 '%s/other' %s", command, QKV_BINARY, arguments, folder, arguments);
    const char *message = "qkv: the version of qkv: ";
    cr_expect_eq(outcome.exit_code, 2);
    cr_expect(begins(outcome.error, message));
    cr_expect(
        shows(outcome.error,
              format("source checksum 00000000 on %s: it must be the same on all processes\n", process(2))));
    expect_nothing_begun(&training);
}

/* The message names the key that differs, also where it decides which other keys have an effect. */
Test(processes_failures, processes_with_different_configs_are_refused)
{
    struct training training = training_in(scratch("configs"), "updates=3 data.dev=");
    const char *first = train_arguments(&training);
    cr_expect(differ(run_two(first, format("%s -s training.batch_size=5", first)), "training.batch_size", "8",
                     "5"));
    cr_expect(
        differ(run_two(first, format("%s -s training.clip_grad_norm=2 -s training.optimizer=sgd", first)),
               "training.optimizer", "adam", "sgd"));
    cr_expect(refused(run_two(first, format("%s -s training.no_key=5", first)),
                      format("%s: -s training.no_key=5: unknown key training.no_key", process(1))));
    expect_nothing_begun(&training);
}

Test(processes_failures, what_all_processes_refuse_is_said_once)
{
    const char *folder = scratch("once");
    struct training training = training_in(folder, "updates=3 data.dev=");
    const char *arguments = train_arguments(&training);
    const char *const cases[][2] = {
        {format("%s --resume", arguments),
         format("qkv: %s: nothing to resume: there is no last.safetensors; start without --resume",
                training.run)},
        {format("%s --resume --overwrite", arguments), "qkv: --resume and --overwrite exclude each other"},
        {format("train - < '%s'", training.config),
         "qkv: CONFIG is standard input, which only one of several processes can read: name a file"},
        {format("train '%s/none.yaml'", folder),
         format("%s/none.yaml: cannot be read: No such file or directory", folder)},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        cr_expect(refused(run_several(3, cases[i][0]), cases[i][1]), "%s", cases[i][0]);
    mpirun_training(3, &training);
    cr_expect(refused(run_several(3, arguments),
                      format("qkv: %s: holds a run already; continue it with --resume or replace "
                             "it with --overwrite",
                             training.run)));
}

/* One message, as of one process, behind the lines of progress. */
static void expect_as_one(struct outcome several, struct outcome one)
{
    cr_expect_eq(several.exit_code, one.exit_code);
    const char *message = strstr(several.error, "qkv: "), *expected = strstr(one.error, "qkv: ");
    cr_assert(message && expected, "%s%s", several.error, one.error);
    cr_expect_str_eq(message, expected);
}

Test(processes_failures, a_loss_that_is_not_finite_ends_all)
{
    const char *folder = scratch("infinite");
    struct training training = training_in(folder, "updates=9 logging_freq=1 learning_rate=1e30 data.dev=");
    const char *arguments = format("%s --overwrite", train_arguments(&training));
    expect_as_one(run_several(3, arguments), run("qkv %s", arguments));
}

/* Shells count the limit in blocks of 512 bytes. The memory that processes share through files must fit, and a checkpoint must
 * not. */
Test(processes_failures, a_disk_that_is_full_for_process_0_ends_all)
{
    const char *folder = scratch("full");
    struct training training = training_in(folder, "updates=3 data.dev= model.encoder.hidden_size=64 "
                                                   "model.decoder.hidden_size=64 model.encoder.ff_size=9000");
    const char *arguments = train_arguments(&training);
    expect_as_one(
        run("%s -n 1 sh -c \"ulimit -f 24000; exec '%s' %s --overwrite\" : -n 2 '%s' %s --overwrite",
            mpirun(), QKV_BINARY, arguments, QKV_BINARY, arguments),
        run("ulimit -f 24000; qkv %s --overwrite", arguments));
}

/* ---- signals ---- */

/* A training in several processes that gets a signal while it trains. */
struct interruption {
    struct training training;
    int processes;
    int lines;  /* of progress before the signal */
    int target; /* the process that gets it; -1: mpirun */
    int signal;
};

/* Starts mpirun, whose standard error is a pipe. The target writes its id into the FIFO and waits until it is read. */
static pid_t start(const struct interruption *interruption, const char *fifo, FILE **progress)
{
    const char *command = format(
        "exec %s -n %d sh -c \"[ \\$OMPI_COMM_WORLD_RANK -ne %d ] || echo \\$\\$ > '%s'; exec '%s' %s\"",
        mpirun(), interruption->processes, interruption->target, fifo, QKV_BINARY,
        train_arguments(&interruption->training));
    int ends[2];
    cr_assert_eq(pipe(ends), 0);
    pid_t child = fork();
    cr_assert_geq(child, 0);
    if (child == 0) {
        dup2(ends[1], STDERR_FILENO);
        close(ends[0]);
        close(ends[1]);
        execl("/bin/sh", "sh", "-c", command, (char *)NULL);
        _exit(127);
    }
    close(ends[1]);
    *progress = fdopen(ends[0], "r");
    return child;
}

/* Sends the signal after the lines; returns the exit code of mpirun and what was printed. */
static struct outcome interrupt(const struct interruption *interruption, const char *folder)
{
    FILE *progress;
    char *text = NULL, *line = NULL;
    size_t size = 0, capacity = 0;
    int status, lines = 0;
    const char *fifo = format("%s/process", folder);
    unlink(fifo);
    cr_assert_eq(mkfifo(fifo, 0600), 0);
    pid_t child = start(interruption, fifo, &progress), target = child;
    if (interruption->target >= 0) target = (pid_t)atol(read_file(fifo, NULL));
    FILE *copy = open_memstream(&text, &size);
    while (getline(&line, &capacity, progress) > 0) {
        fputs(line, copy);
        lines += lines ||
                 strstr(line, " parameters, "); /* the first line of qkv; hwloc warns of valgrind before it */
        if (lines == interruption->lines) kill(target, interruption->signal);
    }
    fclose(progress);
    fclose(copy);
    free(line);
    cr_assert_eq(waitpid(child, &status, 0), child);
    return (struct outcome){
        .exit_code = WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status),
        .error = remember(text),
    };
}

enum { UPDATES = 60 };

static const char *const SETTINGS =
    "updates=60 logging_freq=1 validation_freq=9 validation_samples=0 keep_best_ckpts=2 scheduling=plateau "
    "learning_rate_patience=0 learning_rate=0.05 early_stopping_metric=token_accuracy keep_last_ckpts=2 "
    "ema=0.8";

/* A training in `folder`, to be interrupted, and the run `uninterrupted` there, which it must equal in the end. */
static struct interruption interruption_in(const char *folder, const char *settings)
{
    struct interruption interruption = {.training = training_as(folder, "uninterrupted", settings),
                                        .signal = SIGKILL};
    mpirun();
    training_run(interruption.training);
    return interruption;
}

/* Interrupts the run of this name, and resumes it in so many processes (0: without mpirun), to the bits of the
 * uninterrupted run. Sets whether all of the training was done before the signal came. */
static struct outcome interrupt_and_resume(struct interruption *interruption, const char *folder,
                                           const char *name, int processes, bool *complete)
{
    struct training *training = &interruption->training;
    training->run = format("%s/%s", folder, name);
    training->resume = false;
    struct outcome outcome = interrupt(interruption, folder);
    *complete =
        training_has(training->run, "metrics.jsonl") && training_lines(training->run, "train") == UPDATES;
    training->resume = true;
    if (processes)
        mpirun_training(processes, training);
    else
        training_run(*training);
    training_expect_same(format("%s/uninterrupted", folder), training->run);
    return outcome;
}

Test(processes_failures, a_run_of_which_a_process_is_killed_is_resumed_by_any_number)
{
    const char *folder = scratch("killed");
    struct interruption killed = interruption_in(folder, SETTINGS);
    int kills = 0;
    for (int i = 0; i < (is_slow_build() ? 2 : 3); i++) {
        bool complete;
        killed.processes = 2 + i % 2;
        killed.target = i % 3 % killed.processes;
        killed.lines = 1 + 11 * i;
        struct outcome outcome = interrupt_and_resume(&killed, folder, format("%d", i), 1 + i % 3, &complete);
        if (complete) continue;
        cr_expect_neq(outcome.exit_code, 0);
        cr_expect_eq(occurrences(outcome.error, " has died\n"), 1, "%s", outcome.error);
        cr_expect(shows(outcome.error, format("qkv: %s has died\n", process(killed.target))));
        kills++;
    }
    cr_expect_gt(kills, 0);
}

/* Eight processes, of which one is killed; three go on. */
Test(processes_failures, a_run_of_eight_processes_is_resumed_by_three)
{
    const char *folder = scratch("eight");
    struct interruption killed = interruption_in(folder, format("%s shards=8", SETTINGS));
    killed.processes = 8, killed.target = 5, killed.lines = 12;
    struct outcome outcome = interrupt_and_resume(&killed, folder, "killed", 3, &(bool){false});
    cr_expect(shows(outcome.error, format("qkv: %s has died\n", process(killed.target))));
}

Test(processes_failures, a_signal_to_any_process_saves_and_ends_all)
{
    const char *folder = scratch("stopped");
    struct interruption stop = interruption_in(folder, SETTINGS);
    int stops = 0;
    stop.processes = stop.lines = 3;
    for (stop.target = -1; stop.target < 3; stop.target++) {
        bool complete;
        stop.signal = stop.target % 2 ? SIGTERM : SIGINT;
        struct outcome outcome = interrupt_and_resume(&stop, folder, format("%d", stop.target), 0, &complete);
        if (complete) continue;
        cr_expect_eq(outcome.exit_code, stop.target < 0 ? 1 : 128 + stop.signal, "%d", outcome.exit_code);
        cr_expect_eq(occurrences(outcome.error, "interrupted after "), 1, "%s", outcome.error);
        cr_expect_eq(occurrences(outcome.error, "saved; continue with: qkv train "), 1, "%s", outcome.error);
        stops++;
    }
    cr_expect_gt(stops, 2);
}
