/* Runs of older versions, in tests/fixtures, open as they did; runs of newer versions are refused. */
#include "training.h"

#define FIXTURE QKV_SOURCE_DIR "/tests/fixtures/run-0.1"

/* A copy of the fixture. */
static const char *copy(const char *name)
{
    const char *folder = scratch(name);
    run_ok("cp -r '%s/.' '%s'", FIXTURE, folder);
    return folder;
}

/* The texts agree but for numbers that differ by less than `bound`: rounding differs between processors. */
static void expect_close(const char *text, const char *expected, double bound)
{
    while (*text && *expected) {
        char *end, *expected_end;
        double number = strtod(text, &end), other = strtod(expected, &expected_end);
        if (end != text && expected_end != expected) {
            cr_assert_lt(fabs(number - other), bound, "%.40s: expected %.40s", text, expected);
            text = end;
            expected = expected_end;
        } else {
            cr_assert_eq(*text++, *expected++);
        }
    }
    cr_assert_eq(*text, *expected, "%s: expected %s", text, expected);
}

Test(old_runs, translates_as_it_did)
{
    char *expected = read_file(FIXTURE "/translations.trg", NULL);
    cr_assert_str_eq(run_ok("qkv translate '%s/run' < '%s/sentences.src'", FIXTURE, FIXTURE), expected);
}

Test(old_runs, has_the_attention_that_it_had)
{
    const char *folder = copy("attention");
    run_ok("cd '%s' && qkv attention run 'a b c' -o now.csv", folder);
    expect_close(read_file(format("%s/now.csv", folder), NULL), read_file(FIXTURE "/attention.csv", NULL),
                 1e-4);
}

Test(old_runs, is_inspected)
{
    const char *text = run_ok("qkv inspect '%s/run'", FIXTURE);
    cr_expect(strstr(text, "adam") && strstr(text, "update 300") && strstr(text, "best.safetensors"), "%s",
              text);
}

/* resumed.jsonl is of the version after 0.1: it goes on with the parameters and moments of the run, but 0.1 had another
 * order of the sentences of an epoch, and a loss of 1.076. */
Test(old_runs, resumes_where_it_stopped)
{
    const char *folder = copy("resume"), *trained = format("%s/run", folder);
    run_ok("cd '%s' && qkv train config.yaml -q --resume -s training.updates=310", folder);
    cr_expect_float_eq(training_metric(trained, "validation", 310, "loss"),
                       number_after(read_file(FIXTURE "/resumed.jsonl", NULL), "\"loss\":"), 1e-3);
    cr_expect_str_eq(read_file(format("%s/qkv.format", trained), NULL), "1\n");
}

/* Its tokens do not record where spaces were; they are joined by rules. */
Test(old_runs, joins_marks_as_it_did)
{
    static const char fixture[] = QKV_SOURCE_DIR "/tests/fixtures/run-format-1";
    const char *translations = read_file(format("%s/translations.trg", fixture), NULL);
    cr_expect_str_eq(run_ok("qkv translate '%s/run' <'%s/sentences.src'", fixture, fixture), translations);
    cr_expect_str_eq(run_ok("echo \"¿Qué? l'eau\" | qkv tokenize '%s/run' --side trg -q", fixture),
                     "¿ Qué ? l' eau\n");
    /* A run that goes on with its vocabulary has the same tokens, and says so; one with a new vocabulary has joiners. */
    const char *folder = scratch("marks");
    run_ok("cp -r '%s/.' '%s'", fixture, folder);
    static const char *const vocabulary[] = {"old", "new"}, *const tokens[] = {"¿ Qué ?\n", "¿￭ Qué ￭?\n"},
                             *const formats[] = {"1\n", "2\n"};
    for (int i = 0; i < 2; i++) {
        run_ok("cd '%s' && qkv train config.yaml -q -s training.updates=1 -s training.from=run -s "
               "training.from_vocabulary=%s -s training.model_dir=%s",
               folder, vocabulary[i], vocabulary[i]);
        cr_expect_str_eq(
            run_ok("cd '%s' && echo '¿Qué?' | qkv tokenize %s --side trg -q", folder, vocabulary[i]),
            tokens[i]);
        cr_expect_str_eq(read_file(format("%s/%s/qkv.format", folder, vocabulary[i]), NULL), formats[i]);
    }
}

Test(old_runs, refuses_a_newer_format)
{
    const char *folder = copy("newer");
    write_text(folder, "run/qkv.format", "3\n");
    /* What a newer version would write there must not be read first. */
    write_text(folder, "run/config.yaml", "unknown: 1\n");
    const char *sentence =
        "qkv: run: is a run of format 3, but this qkv reads formats up to 2: use a newer qkv";
    static const char *const commands[] = {"translate run </dev/null", "inspect run", "attention run a",
                                           "evaluate run dev.tsv", "train config.yaml --resume"};
    for (size_t i = 0; i < sizeof commands / sizeof *commands; i++)
        cr_expect(refused(run("cd '%s' && qkv %s", folder, commands[i]), sentence), "%s", commands[i]);
    write_text(folder, "run/qkv.format", "two\n");
    cr_expect(refused(run("cd '%s' && qkv inspect run", folder),
                      "qkv: run/qkv.format: must hold a number, the version of the run's format"));
}
