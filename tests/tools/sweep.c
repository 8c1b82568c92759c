/* qkv sweep: which runs it trains, how it goes on after an interruption, and what it refuses. */
#include "pseudo_terminal.h"

TestSuite(sweep, .init = enter_tiny_task);

static bool has(const char *name)
{
    return access(name, F_OK) == 0;
}

Test(sweep, trains_every_combination_and_compares_the_runs)
{
    static const char *const names[] = {
        "learning_rate=1e-3,adam_betas=0.9,0.98", "learning_rate=1e-3,adam_betas=0.8,0.9",
        "learning_rate=3e-3,adam_betas=0.9,0.98", "learning_rate=3e-3,adam_betas=0.8,0.9"};
    const char *command = "qkv sweep c.yaml -o s -j 2 -g training.learning_rate=1e-3,3e-3 -g "
                          "'training.adam_betas=[0.9,0.98],[0.8,0.9]' -s training.updates=10 2>said --seeds";
    const char *table = run_ok("%s 1", command);
    for (int i = 0; i < 4; i++) {
        cr_expect(has(format("s/%s,seed=42/best.safetensors", names[i])), "%s", names[i]);
        cr_expect(shows(table, format("\n%s ", names[i])));
    }
    cr_expect(shows(read_file("said", NULL), "s: 4 runs; 2 at the same time, with 1 thread each\n"));
    const char *config = read_file(format("s/%s,seed=42/config.yaml", names[3]), NULL);
    cr_expect(shows(config, "learning_rate: 0.003\n") && shows(config, "adam_betas: [0.8, 0.9]\n") &&
              shows(config, "updates: 10\n"));
    cr_expect(has("s/curves.svg") && has("s/comparison.md"));
    run_ok("cd s && rm comparison.md curves.svg && find . -exec touch -d 2000-01-01 {} +");
    cr_expect(shows(run_ok("%s 2", command), format("\n%s (mean of 2 seeds) ", names[3])));
    cr_expect(shows(read_file("said", NULL), "s: 8 runs, 4 finished before; 2 at"));
    cr_expect_str_empty(run_ok("find s/?*seed=42 -type f -newermt 2001-01-01"), "finished runs are kept");
    /* A finished run whose config says more goes on. */
    run_ok("%s 1 -s training.updates=12 -q", command);
    cr_expect(shows(read_file(format("s/%s,seed=42.log", names[0]), NULL), "resuming after update 10\n"));
}

Test(sweep, says_on_a_terminal_how_far_it_is)
{
    const char *command = format("qkv sweep c.yaml -j 1 --seeds 2 -o s");
    struct pseudo_terminal *terminal = pseudo_terminal_start(100, 40, "%s -s training.updates=10", command);
    pseudo_terminal_wait(terminal, "  0 % [");
    pseudo_terminal_wait(terminal, "] 0 of 2 runs done, 1 in training");
    pseudo_terminal_wait(terminal, "seed=42: done after ");
    pseudo_terminal_wait(terminal, "] 1 of 2 runs done, 1 in training, left ");
    cr_expect_eq(pseudo_terminal_end(terminal), 0);
    char *text = pseudo_terminal_text(terminal);
    cr_expect(lacks(text, "runs done"), "it goes when it is not needed: %s", text);
    cr_expect(shows(text, "\nseed=43: done after "));
    /* A run that trains counts by the updates in its log, or no time would be left before the first one ends. */
    terminal =
        pseudo_terminal_start(100, 40, "%s -s training.updates=1000000 -s training.logging_freq=1", command);
    pseudo_terminal_wait(terminal, "] 0 of 2 runs done, 1 in training, left ");
    cr_expect_eq(pseudo_terminal_leave(terminal, "\003"), 130);
    text = pseudo_terminal_text(terminal);
    cr_expect(lacks(text, "runs done"));
}

Test(sweep, trains_several_configs)
{
    const char *table = run_ok("sed 's/^name: .*/name: other/' c.yaml >other.yaml && qkv sweep c.yaml "
                               "other.yaml -s training.updates=2 -g training.learning_rate=1e-3,3e-3");
    static const char *const configs[] = {"tiny", "other"};
    for (int i = 0; i < 4; i++) {
        int rate = i % 2 ? 3 : 1;
        const char *name = format("%s,learning_rate=%de-3", configs[i / 2], rate);
        cr_expect(has(format("runs/sweep/%s,seed=42/last.safetensors", name)), "%s", name);
        cr_expect(shows(table, format("\n%s ", name)));
        cr_expect(shows(read_file(format("runs/sweep/%s,seed=42/config.yaml", name), NULL),
                        format("name: %s_learning_rate-%de-3\n", configs[i / 2], rate)));
    }
}

/* A sweep of two long runs gets the signal when both train. */
Test(sweep, goes_on_after_an_interruption_as_if_there_had_been_none)
{
    const char *arguments =
        "c.yaml -g training.learning_rate=1e-3,3e-3,5e-3 -j 2 -q -s training.updates=3000 -s "
        "training.logging_freq=10 -s training.validation_freq=1000";
    struct outcome outcome = run("{ env --default-signal=INT '%s' sweep %s -o s & pid=$!; until grep -q "
                                 "train s/learning_rate=1e-3,seed=42/metrics.jsonl && grep -q train "
                                 "s/learning_rate=3e-3,seed=42/metrics.jsonl || ! kill -0 $pid; do :; done "
                                 "2>/dev/null; kill -INT $pid; wait $pid; }",
                                 QKV_BINARY, arguments);
    cr_assert_eq(outcome.exit_code, 130, "%d %s", outcome.exit_code, outcome.error);
    cr_expect(!has("s/learning_rate=5e-3,seed=42") && !has("s/finished.txt"), "no run starts or has ended");
    cr_expect_str_empty(run_ok("for run in s/*=42; do flock -n $run true || echo $run; done"),
                        "a process still trains");
    for (int i = 1; i <= 3; i += 2)
        cr_expect(shows(read_file(format("s/learning_rate=%de-3,seed=42.log", i), NULL),
                        "\nsaved; continue with: "));
    run_ok("qkv sweep %s -o s && qkv sweep %s -o without", arguments, arguments);
    for (int i = 1; i <= 5; i += 2) {
        const char *name = format("learning_rate=%de-3,seed=42", i);
        cr_expect_str_eq(run_ok("sed 's/,\"seconds.*//' 's/%s/metrics.jsonl'", name),
                         run_ok("sed 's/,\"seconds.*//' 'without/%s/metrics.jsonl'", name));
        run_ok("cmp 's/%s/last.safetensors' 'without/%s/last.safetensors'", name, name);
    }
}

/* A run that fails does not end the others, and the sweep says why it failed: in the log, a line that says how to continue may
 * follow the message. */
Test(sweep, says_why_a_run_failed)
{
    struct outcome outcome = run("qkv sweep c.yaml -o s -q -j 1 -g training.learning_rate=1e30,1e-3");
    cr_expect_eq(outcome.exit_code, 1);
    cr_expect(shows(outcome.error, "learning_rate=1e30,seed=42: failed after ") &&
              shows(outcome.error, "s: qkv: update ") &&
              shows(outcome.error, "qkv: 1 of 2 runs failed; their logs are in s\n"));
    cr_expect(shows(outcome.output, "\nlearning_rate=1e-3"));
    cr_expect_str_eq(read_file("s/finished.txt", NULL), "learning_rate=1e-3,seed=42\n");
#define SWEEP "sweep c.yaml -o t -q -j 1 -g training.updates=1000000 -s training.logging_freq=1"
    outcome = run("ulimit -f 200 && qkv " SWEEP);
    cr_expect(fails(outcome, 1, ": qkv: t/updates=1000000,seed=42/metrics.jsonl: ") &&
              shows(outcome.error, "cannot be written: File too large\nqkv: 1 of 1 runs failed"));
    /* A log that cannot grow has only messages of earlier trainings. */
    run_ok("yes 'qkv: an old message' | head -n 10000 >t/updates=1000000,seed=42.log");
    cr_expect(
        fails(run("ulimit -f 200 && qkv " SWEEP), 1, ": t/updates=1000000,seed=42.log has no reason\n"));
    outcome =
        run("rm -r t; { '%s' " SWEEP " & } && pid=$!; until [ -e t/updates=1000000,seed=42/config.yaml ] || "
            "! kill -0 $pid; do :; done; kill -9 $(cat /proc/$pid/task/$pid/children); wait $pid",
            QKV_BINARY);
    cr_expect(fails(outcome, 1, ": ended by a signal (Killed)\nqkv: 1 of 1 runs failed; "));
}

Test(sweep, refuses)
{
    static const char *const cases[][2] = {
        {"-g training.learning_rate", "qkv: --grid training.learning_rate: must be KEY=VALUE,VALUE, such as "
                                      "training.learning_rate=1e-3,3e-3"},
        {"-g training.learning_rate=1,,2",
         "qkv: --grid training.learning_rate: a value is empty; write KEY=VALUE,VALUE"},
        {"-g training.learning_rate=1,1", "qkv: --grid training.learning_rate: the value 1 is named twice"},
        {"-g training.learning_rate=1 -g training.learning_rate=2",
         "qkv: --grid training.learning_rate: the key is named twice; name all its values at once"},
        {"-g training.random_seed=1,2", "qkv: --grid training.random_seed: several seeds are --seeds N"},
        {"-g training.model_dir=a,b", "qkv: --grid training.model_dir: the sweep names its runs itself"},
        {"-g training.learning_rate=1,2,3,4,5,6,7,8,9 --seeds 8",
         "qkv: the sweep has more than 64 runs: name fewer values or seeds"},
        {"-g data.src.lang=a/b,a_b", "qkv: two runs would have the folder s/lang=a_b,seed=42"},
        {"none.yaml", "none.yaml: cannot be read: No such file or directory"},
        {"c.yaml", "qkv: two runs would have the folder s/tiny,seed=42"},
    };
    EXPECT_REFUSALS("qkv sweep c.yaml -o s", cases);
    cr_expect(
        refused(run("qkv sweep - -o s <c.yaml"), "qkv: -: each run reads the config; write it to a file"));
    static const char *const wrong[][2] = {
        {"-g training.learning_rate=1e-3,-1",
         "-g training.learning_rate=-1: training.learning_rate is -1, but must be"},
        {"-g dropout=0.1,0.2 -s training.update=3", "-s training.update=3: unknown key"},
        {"-g dropout=0.1,0.2", "-g dropout=0.1: unknown key"}};
    EXPECT_FAILURES("qkv sweep c.yaml -o s", wrong);
    cr_expect(!has("s"), "the configs are checked before anything is written");
}

/* `qkv train --resume` would go on with the rate of --set; in a sweep all runs have one rate from their beginning. */
Test(sweep, never_changes_the_learning_rate_of_a_run)
{
    run_ok("qkv sweep c.yaml -o s -q -s training.updates=2");
    struct outcome outcome =
        run("qkv sweep c.yaml -o s -q -s training.updates=4 -s training.learning_rate=0.5");
    cr_expect_eq(outcome.exit_code, 1);
    cr_expect(shows(outcome.error, "was trained with training.learning_rate 0.01, but the config has 0.5"));
    run_ok("qkv sweep c.yaml -o s -q -s training.updates=4");
}
