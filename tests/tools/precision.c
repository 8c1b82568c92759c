/* training.precision, --precision and qkv quantize, through the command line. */
#include "tiny_run.h"

#define LINES "printf 'one two\\nthree\\n\\nfour five one two\\nfive two\\n' | "

static const char *const KERNELS[] = {"portable", "avx2", "avx512"};
static const char *const PRECISIONS[] = {"int8", "bfloat16"};

TestSuite(precision, .init = enter_tiny);

/* The output with any kernels and number of threads, which must be the same, and other than in float32. */
static const char *translated(const char *run_name, const char *precision)
{
    const char *expected = run_ok(LINES "qkv translate %s --scores --precision %s -j 1", run_name, precision);
    for (int i = 0; i < 3; i++)
        cr_expect_str_eq(run_ok(LINES "QKV_KERNELS=%s qkv translate %s --scores --precision %s -j %d",
                                KERNELS[i], run_name, precision, i + 2),
                         expected, "%s", KERNELS[i]);
    const char *exact = run_ok(LINES "qkv translate %s --scores", run_name);
    cr_expect_str_neq(exact, expected, "scores are rounded");
    cr_expect_str_eq(run_ok(LINES "qkv translate %s --scores --precision float32", run_name), exact);
    cr_expect_str_eq(run_ok(LINES "qkv translate %s --precision %s", run_name, precision),
                     run_ok(LINES "qkv translate %s", run_name));
    return expected;
}

Test(precision, decoding_is_the_same_with_every_kernel_and_number_of_threads)
{
    for (int i = 0; i < 2; i++) {
        translated("run", PRECISIONS[i]);
        const char *json =
            run_ok("qkv attention run 'one two' --format json --precision %s -q", PRECISIONS[i]);
        cr_expect(shows(json, format(" → dos uno, in %s\"", PRECISIONS[i])) &&
                  shows(json, format("\"precision\":\t\"%s\"", PRECISIONS[i])));
        cr_expect(shows(run_ok("qkv evaluate run train.tsv --precision %s", PRECISIONS[i]),
                        format("\nprecision          %s\n", PRECISIONS[i])));
    }
    cr_expect(lacks(run_ok("qkv attention run 'one two' --format json -q"), "int8"));
}

/* ---- training ---- */

Test(precision, training_in_bfloat16_has_the_same_bits_with_every_kernel_thread_and_after_a_stop)
{
#define BFLOAT16 "-s training.precision=bfloat16"
    const char *expected = expect_equal_bits("tiny.yaml " BFLOAT16, "", 60);
    for (int i = 0; i < 3; i++) {
        run_ok("QKV_KERNELS=%s qkv train tiny.yaml -q -j 2 --overwrite " BFLOAT16
               " -s training.model_dir=kernels",
               KERNELS[i]);
        cr_expect_str_eq(checksum_of_run("kernels"), expected, "%s", KERNELS[i]);
    }
    cr_expect_str_neq(checksum_of_run("run"), expected, "float32 gives other numbers");
    /* What training says of a run is what `qkv evaluate` says of it: validations are float32. */
    const char *texts[] = {run_ok("grep validation one/metrics.jsonl"),
                           run_ok("qkv evaluate one train.tsv --json")};
    double losses[2];
    for (int i = 0; i < 2; i++)
        cr_assert_eq(sscanf(strstr(texts[i], "\"loss\":"), "\"loss\":%lf", &losses[i]), 1, "%s", texts[i]);
    cr_expect_float_eq(losses[0], losses[1], 1e-6);
    cr_expect(fails(run("qkv train tiny.yaml --resume -s training.model_dir=one"), 2, "training.precision"));
    cr_expect(fails(run("qkv train tiny.yaml -s training.precision=int8"), 2, "float32"));
    /* A gradient check says what it checks. */
    cr_expect(
        shows(run_ok("qkv gradcheck tiny.yaml --sample 1 " BFLOAT16), "training.precision is bfloat16"));
    cr_expect(lacks(run_ok("qkv gradcheck tiny.yaml --sample 1"), "training.precision"));
}

/* Which type is faster depends on the machine, but not that the portable kernels are slower in bfloat16. Whatever is chosen is
 * named by the config of the run, and computes what that type computes. */
Test(precision, auto_is_a_type_that_the_run_keeps)
{
#define AUTO "tiny.yaml -s training.precision=auto"
    struct outcome slow = run("QKV_KERNELS=portable qkv train " AUTO " -s training.model_dir=slow");
    cr_expect(slow.exit_code == 0 && shows(slow.error, "training.precision is auto, which is float32 here"),
              "%s", slow.error);
    cr_expect_str_eq(checksum_of_run("slow"), checksum_of_run("run"));
    cr_expect(shows(run_ok("grep precision: slow/config.yaml"), "precision: float32"));
    run_ok("qkv train " AUTO " -q -s training.model_dir=kept -s training.updates=30");
    const char *chosen = run_ok("grep -o 'precision: .*' kept/config.yaml");
    cr_expect(!strcmp(chosen, "precision: float32\n") || !strcmp(chosen, "precision: bfloat16\n"));
    /* The other machine would choose float32; the run goes on as it began. */
    run_ok("QKV_KERNELS=portable qkv train " AUTO
           " -q --resume -s training.model_dir=kept -s training.updates=60");
    cr_expect_str_eq(run_ok("grep -o 'precision: .*' kept/config.yaml"), chosen);
    run_ok("qkv train tiny.yaml -q -s training.model_dir=named -s training.updates=60 -s training.%.*s",
           (int)strcspn(chosen, "\n"), format("precision=%s", chosen + strlen("precision: ")));
    cr_expect_str_eq(checksum_of_run("kept"), checksum_of_run("named"));
    struct outcome given = run("QKV_KERNELS=portable qkv train tiny.yaml -s training.precision=bfloat16 "
                               "-s training.model_dir=given");
    cr_expect(given.exit_code == 0 && shows(given.error, "bfloat16, which is slower than float32"), "%s",
              given.error);
}

/* ---- quantised runs ---- */

/* The log of the folder is that of the run that was quantised, so its scores are left out. */
Test(precision, compare_does_not_show_scores_of_another_run)
{
    run_ok("qkv quantize run -o small");
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
Test(precision, a_recurrent_run_is_quantised)
{
    train_recurrent("recurrent", "", ", attention: {score: additive}", 200);
    const char *expected = translated("recurrent", "int8");
    run_ok("qkv quantize recurrent -o small");
    cr_expect_str_eq(run_ok(LINES "qkv translate small --scores"), expected);
}

Test(precision, quantize_makes_a_run_that_translates_as_int8_does)
{
    cr_expect_str_eq(run_ok("qkv quantize run -o small"), "small: run in int8\n");
    const char *scores = run_ok(LINES "qkv translate small --scores");
    cr_expect_str_eq(scores, run_ok(LINES "qkv translate run --scores --precision int8"));
    /* Twice is once: the numbers are the same, and so are the bytes. */
    run_ok("qkv quantize small -o again && cmp small/best.safetensors again/best.safetensors");
    /* --overwrite replaces a quantised run, and nothing else. */
    run_ok("qkv quantize run -o again --overwrite && cmp small/best.safetensors again/best.safetensors");
    run_ok("qkv quantize run -o new --overwrite && touch new/notes");
    cr_expect(refused(run("qkv quantize run -o new --overwrite"),
                      "qkv: new: is not the folder of a quantised run: name another one"));
    cr_expect(refused(run("qkv quantize small -o run --overwrite"),
                      "qkv: run: is not the folder of a quantised run: name another one"));
    cr_expect(refused(run("qkv quantize small -o ./small --overwrite"),
                      "qkv: ./small: is the run itself: name another folder"));
    const char *report = run_ok("qkv evaluate small train.tsv");
    cr_expect(shows(report, "\nprecision          int8\n"));
    cr_expect_str_eq(without_paths(run_ok("qkv evaluate run train.tsv --precision int8")),
                     without_paths(report));
    run_ok("qkv heads small train.tsv && qkv inspect small");
    /* Products in float32 of the rounded weights. */
    cr_expect_str_neq(run_ok(LINES "qkv translate small --scores --precision float32"), scores);
    /* Tiny models have many biases and gains; matrices are a quarter, with their scales. */
    cr_expect_lt(atol(run_ok("wc -c <small/best.safetensors")),
                 atol(run_ok("wc -c <run/best.safetensors")) * 2 / 3);
}

Test(precision, quantize_leaves_no_folder_behind_when_it_fails)
{
    run_ok("mv run/metrics.jsonl . && mkdir run/metrics.jsonl");
    cr_expect(
        refused(run("qkv quantize run -o small"), "qkv: run/metrics.jsonl: cannot be read: it is a folder"));
    run_ok("! [ -e small ] && rmdir run/metrics.jsonl && mv metrics.jsonl run && qkv quantize run -o small");
}

Test(precision, quantize_refuses_what_it_cannot_do)
{
    static const char *const cases[][2] = {
        {"qkv quantize run", "give --output, the folder of the new run"},
        {"qkv quantize run -o run",
         "run: exists already: name a new folder, or give --overwrite for a quantised run"},
        {"qkv quantize none -o x", "none: there is no such run"},
        {"echo one | qkv translate run --precision int4",
         "--precision is 'int4', but must be one of float32, bfloat16, int8"},
        /* The folder that training writes to is a quantised run. */
        {"rm -r run && mv small run && qkv train tiny.yaml --resume",
         "run: nothing to resume: there is no last.safetensors; start a run of another name from its model "
         "with --from\n"},
        {"qkv train tiny.yaml", "run: holds a model, but no last.safetensors to continue from"},
        {"qkv train tiny.yaml --from run -s training.model_dir=next", "is quantised"},
        {"qkv train tiny.yaml --from run/best.safetensors -s training.model_dir=next", "is quantised"},
        {"cp run/best.safetensors run/last.safetensors && qkv train tiny.yaml --resume",
         "so training cannot continue from it"},
    };
    run_ok("qkv quantize run -o small");
    EXPECT_FAILURES("", cases);
}
