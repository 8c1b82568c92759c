/* training.parameter_rates and training.nesterov, through the command line. */
#include "support.h"
#include "tiny_run.h"

#include <criterion/criterion.h>
#include <string.h>

/* Trains in a new folder; returns the folder. */
static const char *trained_with(const char *name, const char *options)
{
    const char *folder = scratch(name);
    run_ok("cd '%s' && cp '%s/tiny.yaml' '%s/train.tsv' . && qkv train tiny.yaml --quiet %s", folder,
           tiny_folder("rates"), tiny_folder("rates"), options);
    return folder;
}

/* What `qkv inspect` prints of the parameters that the pattern names: size and root mean square. */
static const char *inspected(const char *folder, const char *pattern)
{
    return run_ok("cd '%s' && qkv inspect run | grep -E '%s'", folder, pattern);
}

/* The end of a checkpoint: parameters and moments. */
static const char *numbers_of(const char *folder)
{
    return run_ok("tail -c 20000 '%s/run/last.safetensors' | cksum", folder);
}

Test(rates, the_encoder_of_another_run_is_frozen_while_the_decoder_learns)
{
    const char *old = tiny_folder("rates");
    const char *options =
        format("--from '%s/run' -s 'training.parameter_rates=encoder.*=0' -s training.updates=20", old);
    const char *folder = trained_with("one", format("%s -j 1", options));
    cr_expect_str_eq(inspected(folder, "^  encoder"), inspected(old, "^  encoder"));
    cr_expect_str_neq(inspected(folder, "^  decoder"), inspected(old, "^  decoder"));
    cr_expect_str_eq(numbers_of(trained_with("three", format("%s -j 3", options))), numbers_of(folder),
                     "3 threads");
    const char *stopped = trained_with("stopped", format("%s -s training.updates=7", options));
    run_ok("cd '%s' && qkv train tiny.yaml --quiet --resume -s 'training.parameter_rates=encoder.*=0' -s "
           "training.updates=20",
           stopped);
    cr_expect_str_eq(numbers_of(stopped), numbers_of(folder), "resumed");
}

Test(rates, training_says_how_many_parameters_are_frozen)
{
    enter(scratch("said"));
    const char *printed = run_ok("cp '%s/tiny.yaml' '%s/train.tsv' . && qkv train tiny.yaml -s "
                                 "'training.parameter_rates=encoder.*=0' -s training.updates=1 2>&1",
                                 tiny_folder("rates"), tiny_folder("rates"));
    cr_expect(shows(printed, " frozen"));
}

static const char RECURRENT[] =
    "name: recurrent\ndata: {train: train.tsv, src: {lang: en}, trg: {lang: es}}\n"
    "model:\n  encoder: {type: recurrent, rnn_type: lstm, hidden_size: 8}\n"
    "  decoder: {type: recurrent, rnn_type: lstm, hidden_size: 8}\n"
    "training: {model_dir: run, learning_rate: 0.01, shards: 2}\n";

Test(rates, recurrent_networks_freeze_as_well)
{
    static const char *const parts[] = {"encoder", "decoder"};
    const char *folder = enter(scratch("recurrent"));
    run_ok("cp '%s/train.tsv' '%s'", tiny_folder("rates"), folder);
    write_text(folder, "c.yaml", RECURRENT);
    for (int part = 0; part < 2; part++) {
        const char *kept[2], *learned[2];
        for (int i = 0; i < 2; i++) {
            run_ok("qkv train c.yaml --quiet -j 2 --overwrite -s 'training.parameter_rates=%s.*=0' -s "
                   "training.updates=%d",
                   parts[part], i ? 8 : 1);
            kept[i] = inspected(folder, format("^  %s", parts[part]));
            learned[i] = inspected(folder, format("^  %s", parts[1 - part]));
        }
        cr_expect_str_eq(kept[0], kept[1]);
        cr_expect_str_neq(learned[0], learned[1]);
    }
}

Test(rates, a_bad_pattern_is_refused)
{
    struct outcome outcome = run(
        "cd '%s' && qkv train tiny.yaml -s training.model_dir=none -s 'training.parameter_rates=encodr.*=0'",
        tiny_folder("rates"));
    cr_expect(fails(outcome, 2, "training.parameter_rates: no parameter is named encodr.*"));
    cr_expect(fails(run("cd '%s' && qkv train tiny.yaml --resume -s 'training.parameter_rates=encoder.*=0'",
                        tiny_folder("rates")),
                    2, "training.parameter_rates"));
}

Test(rates, nesterov_is_for_sgd)
{
    const char *sgd = "-s training.optimizer=sgd -s training.learning_rate=0.1 -s training.updates=5";
    cr_expect_str_neq(numbers_of(trained_with("with", format("%s -s training.nesterov=true", sgd))),
                      numbers_of(trained_with("without", sgd)));
}
