/* training.precision and --precision bfloat16, through the command line. */
#include "support.h"
#include "tiny_run.h"

#include <criterion/criterion.h>
#include <string.h>

static const char LINES[] = "printf 'one two\nthree\nfour five one two\n'";

static const char *const KERNELS[] = {"portable", "avx2", "avx512"};
enum { KERNEL_COUNT = sizeof KERNELS / sizeof KERNELS[0] };

/* Trains in a new folder; returns the folder. */
static const char *trained_with(const char *name, const char *variables, const char *options)
{
    const char *folder = scratch(name);
    run_ok("cd '%s' && cp '%s/tiny.yaml' '%s/train.tsv' . && %s qkv train tiny.yaml --quiet -s "
           "training.precision=bfloat16 %s",
           folder, tiny_folder("bfloat16"), tiny_folder("bfloat16"), variables, options);
    return folder;
}

/* The end of a checkpoint: parameters and moments. Its start says which validations there were. */
static const char *numbers_of(const char *folder)
{
    return run_ok("tail -c 20000 '%s/run/last.safetensors' | cksum", folder);
}

Test(bfloat16, training_has_the_same_bits_with_every_kernel_thread_and_after_a_stop)
{
    const char *expected = numbers_of(trained_with("one", "", "-j 1"));
    cr_expect_str_eq(numbers_of(trained_with("three", "", "-j 3")), expected, "3 threads");
    for (int i = 0; i < KERNEL_COUNT; i++)
        cr_expect_str_eq(numbers_of(trained_with(KERNELS[i], format("QKV_KERNELS=%s", KERNELS[i]), "-j 2")),
                         expected, "%s", KERNELS[i]);
    const char *stopped = trained_with("stopped", "", "-s training.updates=23");
    run_ok("cd '%s' && qkv train tiny.yaml --quiet --resume -s training.precision=bfloat16 -s "
           "training.updates=60",
           stopped);
    cr_expect_str_eq(numbers_of(stopped), expected, "resumed");
    cr_expect_str_neq(numbers_of(tiny_folder("bfloat16")), expected, "float32 gives other numbers");
}

Test(bfloat16, a_run_is_resumed_in_its_own_precision)
{
    enter(trained_with("own", "", "-s training.updates=5"));
    cr_expect(fails(run("qkv train tiny.yaml --resume"), 2, "training.precision"));
}

/* What training says of a run is what `qkv evaluate` says of it. */
Test(bfloat16, validations_are_float32)
{
    enter(trained_with("validated", "", ""));
    double losses[2];
    const char *log = run_ok("grep validation run/metrics.jsonl"),
               *report = run_ok("qkv evaluate run train.tsv --json");
    const char *texts[] = {log, report};
    for (int i = 0; i < 2; i++) {
        const char *loss = strstr(texts[i], "\"loss\":");
        cr_assert_not_null(loss, "%s", texts[i]);
        losses[i] = strtod(loss + strlen("\"loss\":"), NULL);
    }
    cr_expect_float_eq(losses[0], losses[1], 1e-6);
}

Test(bfloat16, decoding_is_the_same_with_every_kernel_and_number_of_threads)
{
    enter(tiny_folder("bfloat16"));
    const char *expected = run_ok("%s | qkv translate run --scores --precision bfloat16", LINES);
    for (int i = 0; i < KERNEL_COUNT; i++)
        cr_expect_str_eq(run_ok("%s | QKV_KERNELS=%s qkv translate run --scores --precision bfloat16 -j %d",
                                LINES, KERNELS[i], i + 1),
                         expected, "%s", KERNELS[i]);
    cr_expect_str_neq(run_ok("%s | qkv translate run --scores", LINES), expected);
    cr_expect_str_eq(run_ok("%s | qkv translate run --precision bfloat16", LINES),
                     run_ok("%s | qkv translate run", LINES));
    const char *json = run_ok("qkv attention run 'one two' --format json --precision bfloat16 -q");
    cr_expect(shows(json, "\"precision\":\t\"bfloat16\""), "%.300s", json);
}

Test(bfloat16, the_gradient_check_says_what_it_checks)
{
    enter(trained_with("checked", "", "-s training.updates=1"));
    const char *printed = run_ok("qkv gradcheck tiny.yaml -s training.precision=bfloat16 --sample 1");
    cr_expect(shows(printed, "training.precision is bfloat16"));
    cr_expect(lacks(run_ok("qkv gradcheck tiny.yaml --sample 1"), "training.precision"));
}

Test(bfloat16, int8_is_not_for_training)
{
    struct outcome outcome =
        run("cd '%s' && qkv train tiny.yaml -s training.precision=int8", tiny_folder("bfloat16"));
    cr_expect(fails(outcome, 2, "float32"));
}
