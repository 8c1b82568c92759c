/* The scripts that compare qkv with other programs: their arguments, what they say where a program is absent, and, with
 * a script that stands in for Python with PyTorch, which settings count and how ratios follow. Skipped without Python. */
#include "support.h"

#include <cjson/cJSON.h>
#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define SCRIPTS "export PYTHONDONTWRITEBYTECODE=1; '" QKV_SOURCE_DIR "/tools/bench/"
#define COMPARE SCRIPTS "compare.py' --bench '" QKV_BENCH "' "

static void skip_without_python(void)
{
    if (access("/usr/bin/python3", X_OK)) cr_skip_test("/usr/bin/python3 is not installed");
}

TestSuite(bench_scripts, .init = skip_without_python);

Test(bench_scripts, help)
{
    static const char *const scripts[] = {"compare.py", "compare_joeynmt.py", "ctranslate2_step.py",
                                          "torch_step.py"};
    for (size_t i = 0; i < sizeof scripts / sizeof scripts[0]; i++) {
        struct outcome outcome = run(SCRIPTS "%s' --help", scripts[i]);
        cr_expect_eq(outcome.exit_code, 0, "%s: %s", scripts[i], outcome.error);
        cr_expect_not_null(strstr(outcome.output, "usage: "), "%s", scripts[i]);
    }
}

Test(bench_scripts, refusals)
{
    static const struct {
        const char *command, *message;
    } cases[] = {
        {"compare.py' --workloads tiny",
         "argument --workloads: there is no tiny; there are toy, small, base"},
        {"compare.py' --what text", "--what text and --text FILE need each other"},
        {"compare.py' --what train --text x.tsv", "--what text and --text FILE need each other"},
        {"compare_joeynmt.py' --updates 5", "--updates is 5, but must be at least 20"},
        {"torch_step.py' toy --what speed", "argument --what: invalid choice: 'speed'"},
        {"ctranslate2_step.py' toy --what train", "argument --what: invalid choice: 'train'"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct outcome outcome = run(SCRIPTS "%s", cases[i].command);
        cr_expect_eq(outcome.exit_code, 2, "%s", cases[i].command);
        cr_expect_not_null(strstr(outcome.error, cases[i].message), "%s", outcome.error);
    }
}

Test(bench_scripts, absent_peers)
{
    struct outcome outcome = run(
        COMPARE "--python /nowhere/python --workloads toy --what decode --rounds 1 --seconds 0 --markdown");
    cr_assert_eq(outcome.exit_code, 0, "%s", outcome.error);
    cr_expect_not_null(
        strstr(outcome.error,
               "compare.py: PyTorch is not compared; /nowhere/python cannot import torch (see --python)\n"
               "compare.py: CTranslate2 is not compared; /nowhere/python cannot import ctranslate2 (see "
               "--python)\n"));
    cr_expect_not_null(strstr(outcome.output, "\n| toy, greedy 64 | qkv "), "%s", outcome.output);
    cr_expect_null(strstr(outcome.output, "PyTorch"));
    cr_expect_null(strstr(outcome.error, "left out"), "an absent program must not be run: %s", outcome.error);
    outcome = run(SCRIPTS "compare_joeynmt.py' --python /nowhere/python");
    cr_expect_eq(outcome.exit_code, 0);
    cr_expect_str_empty(outcome.output);
    cr_expect_str_eq(outcome.error,
                     "compare_joeynmt.py: Joey NMT is not compared; /nowhere/python cannot import joeynmt "
                     "(see --python)\n");
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
        run(COMPARE "--python '%s' --workloads toy --what train --threads 2 --rounds 2 --seconds 0 --json",
            python);
    cr_assert_eq(outcome.exit_code, 0, "%s", outcome.error);
    cr_expect_not_null(strstr(outcome.error, "compare.py: PyTorch, compiled: left out: "), "%s",
                       outcome.error);
    cr_expect_not_null(strstr(outcome.error, "no compiler"));
    cJSON *json = cJSON_Parse(outcome.output);
    cr_assert_not_null(json, "%s", outcome.output);
    cr_expect_str_eq(cJSON_GetArrayItem(cJSON_GetObjectItem(json, "versions"), 1)->valuestring,
                     "PyTorch 9.0");
    cr_expect_eq(cJSON_GetArraySize(cJSON_GetObjectItem(json, "peak_gflops")), 2);
    const cJSON *row;
    int rows = 0;
    cJSON_ArrayForEach(row, cJSON_GetObjectItem(json, "rows"))
    {
        if (strcmp(cJSON_GetObjectItem(row, "program")->valuestring, "PyTorch") != 0) continue;
        const cJSON *results = cJSON_GetObjectItem(row, "results");
        cr_assert_eq(cJSON_GetArraySize(results), 2);
        for (int i = 0; i < 2; i++) {
            const cJSON *result = cJSON_GetArrayItem(results, i);
            cr_expect_str_eq(cJSON_GetObjectItem(result, "setting")->valuestring, "1 thread, sdpa");
            cr_expect_eq(cJSON_GetObjectItem(result, "ms")->valueint, 2000000 / (i + 2),
                         "the call after the trial's");
        }
        rows++;
    }
    cr_expect_eq(rows, 1);
    cJSON_Delete(json);
    /* Five settings in the trial; in each of two rounds the fastest and the one that is nearly as fast. */
    int calls = 0;
    for (const char *at = read_file(format("%s.calls", python), NULL); (at = strchr(at, '\n')); at++) calls++;
    cr_expect_eq(calls, 5 + 2 * 2);
}

/* Trains its rows on any text in the place of Multi30k, and goes on where it stopped. */
Test(bench_scripts, rows_of_multi30k)
{
    const char *folder = scratch("rows");
    const char *script = "'" QKV_SOURCE_DIR "/tools/bench/multi30k_rows.sh'";
    struct outcome absent = run("cd '%s' && QKV='%s' %s .", folder, QKV_BINARY, script);
    cr_expect_eq(absent.exit_code, 0);
    cr_expect_str_eq(
        absent.output,
        "skipped: ./train.lc.norm.tok.en is absent; configs/multi30k_en_de.yaml says how to get it\n");
    cr_expect_eq(run("%s", script).exit_code, 2);
    run_ok("cd '%s' && mkdir text && for part in train val; do for side in 1:en 2:de; do "
           "head -n 24 '" QKV_SOURCE_DIR "/datasets/en_es/dev.tsv' | cut -f${side%%:*} "
           ">text/$part.lc.norm.tok.${side#*:}; done; done",
           folder);
    const char *command =
        format("cd '%s' && QKV='%s' ROWS='words simcut_of_words' UPDATES=2 PAIRS=20 SEEDS=%%d OUT=out "
               "THREADS=1 %s text 2>&1",
               folder, QKV_BINARY, script);
    cr_expect_neq(run(command, 1).exit_code, 0, "there is no such row");
    command =
        format("cd '%s' && QKV='%s' ROWS=words UPDATES=2 PAIRS=20 SEEDS=%%d OUT=out THREADS=1 %s text 2>&1",
               folder, QKV_BINARY, script);
    run_ok(command, 1);
    const char *table = run_ok(command, 2);
    cr_expect_not_null(strstr(table, "runs (mean of 2 seeds)"), "%s", table);
    cr_expect_eq(atoi(run_ok("wc -l <'%s/out/rows/train.en'", folder)), 20);
}
