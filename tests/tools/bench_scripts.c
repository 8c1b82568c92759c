/* The scripts that compare qkv with other programs, skipped without Python: their arguments, what they say where a program is
 * absent, and, with a script that stands in for Python with PyTorch, which settings count and how ratios follow. And the
 * scripts that compare two builds and train the rows of Multi30k. */
#include "support.h"

#include <sys/stat.h>

#define SCRIPTS "export PYTHONDONTWRITEBYTECODE=1; '" QKV_SOURCE_DIR "/tools/bench/"
#define COMPARE SCRIPTS "compare.py' --bench '" QKV_BENCH "' "

static void skip_without_python(void)
{
    if (access("/usr/bin/python3", X_OK)) cr_skip_test("/usr/bin/python3 is not installed");
}

TestSuite(bench_scripts, .init = skip_without_python);

Test(bench_scripts, help)
{
    static const char *const scripts[] = {"compare.py", "ctranslate2_step.py", "torch_step.py"};
    for (size_t i = 0; i < sizeof scripts / sizeof scripts[0]; i++)
        cr_expect(shows(run_ok(SCRIPTS "%s' --help", scripts[i]), "usage: "), "%s", scripts[i]);
}

Test(bench_scripts, refusals)
{
    static const char *const cases[][2] = {
        {"compare.py' --workloads tiny",
         "argument --workloads: there is no tiny; there are toy, small, base"},
        {"compare.py' --what text", "--what text and --text FILE need each other"},
        {"compare.py' --what train --text x.tsv", "--what text and --text FILE need each other"},
        {"torch_step.py' toy --what speed", "argument --what: invalid choice: 'speed'"},
        {"ctranslate2_step.py' toy --what train", "argument --what: invalid choice: 'train'"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++)
        cr_expect(fails(run(SCRIPTS "%s", cases[i][0]), 2, cases[i][1]), "%s", cases[i][0]);
}

Test(bench_scripts, absent_peers)
{
    struct outcome outcome =
        run(COMPARE "--python /nowhere/python --workloads toy --what decode --rounds 1 --seconds 0");
    cr_assert_eq(outcome.exit_code, 0, "%s", outcome.error);
    cr_expect(
        shows(outcome.error,
              "compare.py: PyTorch is not compared; /nowhere/python cannot import torch (see --python)\n"
              "compare.py: CTranslate2 is not compared; /nowhere/python cannot import ctranslate2 (see "
              "--python)\n"));
    cr_expect(shows(outcome.output, "\n| toy, greedy 64 | qkv     | ") && lacks(outcome.output, "PyTorch"));
    cr_expect(lacks(outcome.error, "left out"), "an absent program must not be run: %s", outcome.error);
}

/* A program that answers as Python with PyTorch 9 would. Two settings are fast, and one of them is faster with each
 * call. It has no CTranslate2 and cannot compile. */
static const char *false_python(void)
{
    static const char text[] = "#!/bin/sh\n"
                               "answer() { echo \"{\\\"ms\\\": $1, \\\"ms_mean\\\": $1, \\\"cpu_ms\\\": $1, "
                               "\\\"peak_mb\\\": 5}\"; }\n"
                               "case \"$*\" in\n"
                               "*ctranslate2*) exit 1 ;;\n"
                               "-c*) echo 9.0; exit ;;\n"
                               "esac\n"
                               "echo \"$*\" >>\"$0.calls\"\n"
                               "case \"$*\" in\n"
                               "*--compile*) echo 'no compiler' >&2; exit 1 ;;\n"
                               "*'--threads 1 --attention sdpa'*) answer $((2000000 / $(grep -c '1 "
                               "--attention sdpa' \"$0.calls\"))) ;;\n"
                               "*'--threads 2 --attention sdpa'*) answer 1900000 ;;\n"
                               "*) answer 3000000 ;;\n"
                               "esac\n";
    const char *path = write_text(scratch("tools_bench_scripts_python"), "python", text);
    cr_assert_eq(chmod(path, 0700), 0);
    return path;
}

Test(bench_scripts, fastest_setting)
{
    const char *python = false_python();
    struct outcome outcome =
        run(COMPARE "--python '%s' --workloads toy --what train --threads 2 --rounds 2 --seconds 0", python);
    cr_assert_eq(outcome.exit_code, 0, "%s", outcome.error);
    cr_expect(shows(outcome.error, "compare.py: PyTorch, compiled: left out: "));
    cr_expect(shows(outcome.error, "no compiler"));
    cr_expect(shows(outcome.output, "; PyTorch 9.0\n2 rounds; qkv on 2 threads\n\n| workload "));
    /* The calls after the trial's took 2,000,000 / 2 and 2,000,000 / 3. */
    const char *row = strstr(outcome.output, "\n| toy, train | PyTorch | 1 thread, sdpa  | "
                                             "8.33e+05 (6.67e+05\xe2\x80\x93"
                                             "1e+06) | ");
    cr_assert_not_null(row, "%s", outcome.output);
    cr_expect(lacks(row + 1, "\n| "), "there is one row of PyTorch");
    /* The ratios are the times, divided by those of qkv. */
    const char *ours = strstr(outcome.output, "\n| toy, train | qkv     | 2 threads ");
    cr_assert_not_null(ours, "%s", outcome.output);
    double low = number_after(ours, "("), high = number_after(ours, "\xe2\x80\x93");
    cr_expect(low > 0 && low <= high);
    double ratio = number_after(row, "1e+06) | ");
    cr_expect(ratio > 0.98 * 666666 / high && ratio < 1.02 * 1000000 / low, "%g", ratio);
    /* Five settings in the trial; in each of two rounds the fastest and the one that is nearly as fast. */
    int calls = 0;
    for (const char *at = read_file(format("%s.calls", python), NULL); (at = strchr(at, '\n')); at++) calls++;
    cr_expect_eq(calls, 5 + 2 * 2);
}

/* Trains its rows on any text in the place of Multi30k, and goes on where it stopped. */
Test(bench_scripts, rows_of_multi30k)
{
    static const char script[] =
        "export QKV='" QKV_BINARY "'; rows() { UPDATES=2 PAIRS=20 OUT=out THREADS=1 '" QKV_SOURCE_DIR
        "/tools/bench/multi30k_rows.sh' \"$@\"; };";
    enter(scratch("rows"));
    cr_expect_str_eq(
        run_ok("%s rows .", script),
        "skipped: ./train.lc.norm.tok.en is absent; configs/multi30k_en_de.yaml says how to get it\n");
    cr_expect_eq(run("%s rows", script).exit_code, 2);
    run_ok("mkdir text && for part in train val; do for side in 1:en 2:de; do head -n 24 '" QKV_SOURCE_DIR
           "/datasets/en_es/dev.tsv' | cut -f${side%%:*} >text/$part.lc.norm.tok.${side#*:}; done; done");
    cr_expect_neq(run("%s ROWS='words simcut_of_words' SEEDS=1 rows text", script).exit_code, 0,
                  "there is no such row");
    run_ok("%s ROWS=words SEEDS=1 rows text", script);
    cr_expect(shows(run_ok("%s ROWS=words SEEDS=2 rows text 2>&1", script), "runs (mean of 2 seeds)"));
    cr_expect_eq(atoi(run_ok("wc -l <out/rows/train.en")), 20);
}

#define BUILDS "'" QKV_SOURCE_DIR "/tools/bench/compare_builds.sh' "

/* Writes a program that prints the table of a qkv-bench whose greedy search takes `ms`, and 20 ms of processor time. */
static void write_false_bench(const char *name, const char *ms)
{
    const char *text = format("#!/bin/sh\n"
                              "echo %s $* >>calls\n"
                              "echo 'workload             what       threads  steps        ms      10 %%'\n"
                              "echo 'toy                  greedy 64        1      9 %9s     1.000     "
                              "99.00     20.00   64000        -'\n",
                              name, ms);
    cr_assert_eq(chmod(write_text(".", name, text), 0700), 0);
}

/* Which build is slower, by which clock, and in which order both run. */
Test(compare_builds, ratios)
{
    enter(scratch("tools_bench_builds"));
    write_false_bench("old", "10.00");
    write_false_bench("new", "12.00");
    struct outcome outcome = run("PAIRS=3 OPTIONS='toy -t 1' " BUILDS "./old ./new");
    cr_expect_eq(outcome.exit_code, 1, "%s", outcome.error);
    cr_expect_str_eq(outcome.output, "new / old                median ratio (range)\n"
                                     "toy greedy 64            1.200 (1.200 to 1.200, 3 pairs)  slower than "
                                     "the limit\n");
    static const char order[] =
        "old toy -t 1\nnew toy -t 1\nnew toy -t 1\nold toy -t 1\nold toy -t 1\nnew toy -t 1\n";
    cr_expect_str_eq(read_file("calls", NULL), order);
    cr_expect(shows(run_ok("PAIRS=2 CLOCK=cpu " BUILDS "./old ./new"),
                    "\ntoy greedy 64            1.000 (1.000 to 1.000, 2 pairs)\n"));
    cr_expect_eq(run(BUILDS "./old").exit_code, 2, "two programs are needed");
    cr_expect_eq(run(BUILDS "./old /nowhere").exit_code, 2);
}

/* The table of qkv-bench has the columns that the script reads. */
Test(compare_builds, columns)
{
    const char *output = run_ok("PAIRS=1 LIMIT=1000 OPTIONS='toy -m train -m decode -t 1 --steps 1' " BUILDS
                                "'" QKV_BENCH "' '" QKV_BENCH "'");
    static const char *const rows[] = {"toy beam 1", "toy beam 64", "toy greedy 1", "toy greedy 64",
                                       "toy train"};
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++)
        cr_expect_gt(number_after(output, format("\n%-24s ", rows[i])), 0);
}
