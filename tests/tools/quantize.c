/* qkv quantize and --precision, through the command line. */
#include "support.h"
#include "tiny_run.h"

#include <criterion/criterion.h>
#include <string.h>
#include <sys/stat.h>

static const char LINES[] = "printf 'one two\\nthree\\n\\nfour five one two\\nfive two\\n'";

static const char *trained(void)
{
    return tiny_folder("quantize");
}

static long size_of(const char *folder, const char *name)
{
    struct stat status;
    cr_assert_eq(stat(format("%s/%s", folder, name), &status), 0, "%s/%s", folder, name);
    return (long)status.st_size;
}

Test(quantize, int8_is_the_same_with_every_kernel_and_number_of_threads)
{
    enter(trained());
    const char *expected = run_ok("%s | qkv translate run --scores --precision int8", LINES);
    static const char *const kernels[] = {"portable", "avx2", "avx512"};
    for (size_t i = 0; i < sizeof kernels / sizeof kernels[0]; i++)
        cr_expect_str_eq(
            run_ok("%s | QKV_KERNELS=%s qkv translate run --scores --precision int8", LINES, kernels[i]),
            expected, "%s", kernels[i]);
    for (int threads = 1; threads <= 4; threads++)
        cr_expect_str_eq(run_ok("%s | qkv translate run --scores --precision int8 -j %d", LINES, threads),
                         expected, "%d threads", threads);
    const char *exact = run_ok("%s | qkv translate run --scores", LINES);
    cr_expect_str_neq(exact, expected, "scores of int8 are rounded");
    cr_expect_str_eq(run_ok("%s | qkv translate run --scores --precision float32", LINES), exact);
    cr_expect_str_eq(run_ok("%s | qkv translate run --precision int8", LINES),
                     run_ok("%s | qkv translate run", LINES));
}

/* The log of the folder is that of the run that was quantised, so its scores are left out. */
Test(quantize, compare_does_not_show_scores_of_another_run)
{
    enter(scratch("compare"));
    run_ok("cp -r '%s/run' '%s/train.tsv' . && qkv quantize run -o small", trained(), trained());
    struct outcome outcome = run("qkv compare run small -o t.tsv");
    cr_expect_eq(outcome.exit_code, 0);
    cr_expect_str_eq(outcome.error, "qkv: note: small is quantised, and has no scores of its own: compare "
                                    "the output of `qkv evaluate small --json`\n");
    const char *table = read_file("t.tsv", NULL);
    long parameters = 0, of_small = 0;
    double loss;
    char rest[512] = "";
    cr_assert_eq(sscanf(strstr(table, "\nrun\t"), "\nrun\t%ld\t%*d\t%lf", &parameters, &loss), 2, "%s",
                 table);
    cr_assert_eq(sscanf(strstr(table, "\nsmall\t"), "\nsmall\t%ld\t%*d%511[^\n]", &of_small, rest), 2, "%s",
                 table);
    cr_expect_eq(of_small, parameters);
    cr_expect_eq(strspn(rest, "\t"), strlen(rest), "%s", table);
    run_ok("qkv evaluate small train.tsv --json >small.json && qkv compare small.json");
}

/* The products inside a GRU stay float32; embeddings, inputs and outputs of layers are rounded. */
Test(quantize, a_recurrent_run)
{
    const char *folder = enter(scratch("recurrent"));
    tiny_data(folder);
    write_text(folder, "recurrent.yaml",
               "name: recurrent\n"
               "data: {train: train.tsv, src: {lang: en}, trg: {lang: es}}\n"
               "model:\n"
               "  encoder: {type: recurrent, hidden_size: 16}\n"
               "  decoder: {type: recurrent, hidden_size: 16, attention: {score: additive}}\n"
               "training: {model_dir: run, learning_rate: 0.01, batch_size: 20, updates: 200}\n");
    run_ok("qkv train recurrent.yaml -q");
    const char *expected =
        run_ok("%s | QKV_KERNELS=portable qkv translate run --scores --precision int8", LINES);
    static const char *const kernels[] = {"avx2", "avx512"};
    for (size_t i = 0; i < sizeof kernels / sizeof kernels[0]; i++)
        cr_expect_str_eq(
            run_ok("%s | QKV_KERNELS=%s qkv translate run --scores --precision int8 -j 3", LINES, kernels[i]),
            expected, "%s", kernels[i]);
    run_ok("qkv quantize run -o small");
    cr_expect_str_eq(run_ok("%s | qkv translate small --scores", LINES), expected);
    cr_expect_str_neq(run_ok("%s | qkv translate run --scores", LINES), expected,
                      "scores of int8 are rounded");
    cr_expect_str_eq(run_ok("%s | qkv translate run", LINES), run_ok("%s | qkv translate small", LINES));
}

Test(quantize, makes_a_run_that_translates_as_int8_does)
{
    const char *folder = enter(trained()), *made = scratch("made");
    cr_expect_str_eq(run_ok("cd '%s' && qkv quantize '%s/run' -o small", made, folder),
                     format("small: %s/run in int8\n", folder));
    cr_expect_str_eq(run_ok("cd '%s' && %s | qkv translate small --scores", made, LINES),
                     run_ok("%s | qkv translate run --scores --precision int8", LINES));
    /* Twice is once: the numbers are the same, and so are the bytes. */
    run_ok("cd '%s' && qkv quantize small -o again && cmp small/best.safetensors again/best.safetensors",
           made);
    const char *report = run_ok("cd '%s' && qkv evaluate small '%s/train.tsv'", made, folder);
    const char *rounded =
        run_ok("cd '%s' && qkv evaluate '%s/run' '%s/train.tsv' --precision int8", made, folder, folder);
    cr_expect(strstr(report, "\nprecision          int8\n") &&
              strstr(rounded, "\nprecision          int8\n"));
    cr_expect_str_eq(without_paths(rounded), without_paths(report));
    run_ok("cd '%s' && qkv heads small '%s/train.tsv' && qkv inspect small", made, folder);
    /* Products in float32 of the rounded weights. */
    const char *weights =
        run_ok("cd '%s' && %s | qkv translate small --scores --precision float32", made, LINES);
    cr_expect_str_neq(weights, run_ok("cd '%s' && %s | qkv translate small --scores", made, LINES));
    /* Tiny models have many biases and gains; matrices are a quarter, with their scales. */
    cr_expect_lt(size_of(made, "small/best.safetensors"), size_of(folder, "run/best.safetensors") * 2 / 3);
}

Test(quantize, marks_attention_maps)
{
    enter(trained());
    const char *json = run_ok("qkv attention run 'one two' --format json --precision int8 -q");
    cr_expect(shows(json, " → dos uno, in int8\""), "%.300s", json);
    cr_expect(shows(json, "\"precision\":\t\"int8\""), "%.300s", json);
    json = run_ok("qkv attention run 'one two' --format json -q");
    cr_expect(lacks(json, "int8"));
}

Test(quantize, leaves_no_folder_behind_when_it_fails)
{
    const char *made = scratch("fails");
    run_ok("cp -R '%s/run' '%s/run' && cd '%s/run' && mv metrics.jsonl .. && mkdir metrics.jsonl", trained(),
           made, made);
    cr_expect(refused(run("cd '%s' && qkv quantize run -o small", made),
                      "qkv: run/metrics.jsonl: cannot be read: it is a folder"));
    run_ok("cd '%s' && ! [ -e small ]", made);
    run_ok("cd '%s' && rmdir run/metrics.jsonl && mv metrics.jsonl run && qkv quantize run -o small", made);
}

Test(quantize, refuses_what_it_cannot_do)
{
    const char *folder = enter(trained()), *made = scratch("made");
    static const struct {
        const char *command, *sentence;
    } cases[] = {
        {"qkv quantize run", "give --output, the folder of the new run"},
        {"qkv quantize run -o run", "run: exists already: name a new folder"},
        {"qkv quantize none -o x", "none: there is no such run"},
        {"echo one | qkv translate run --precision int4",
         "--precision is 'int4', but must be one of float32, bfloat16, int8"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct outcome outcome = run("%s", cases[i].command);
        cr_expect(fails(outcome, 2, cases[i].sentence), "%s", cases[i].command);
    }
    /* The folder that training writes to is a quantised run. */
    run_ok("cd '%s' && qkv quantize '%s/run' -o run && cp '%s/tiny.yaml' '%s/train.tsv' .", made, folder,
           folder, folder);
    cr_expect(fails(run("cd '%s' && qkv train tiny.yaml --resume", made), 2,
                    "run: nothing to resume: there is no last.safetensors; start a run of another name from "
                    "its model with --from\n"));
    struct outcome outcome = run("cd '%s' && qkv train tiny.yaml", made);
    cr_expect(fails(outcome, 2, "run: holds a model, but no last.safetensors to continue from"));
    static const char *const sources[] = {"run", "run/best.safetensors"};
    for (int i = 0; i < 2; i++) {
        outcome =
            run("cd '%s' && qkv train tiny.yaml --from %s -s training.model_dir=next", made, sources[i]);
        cr_expect(fails(outcome, 2, "is quantised"));
    }
    outcome =
        run("cd '%s' && cp run/best.safetensors run/last.safetensors && qkv train tiny.yaml --resume", made);
    cr_expect(fails(outcome, 2, "so training cannot continue from it"));
}
