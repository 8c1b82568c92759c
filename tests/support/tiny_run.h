/* A tiny run that a test program trains once, before its tests: 20 pairs, two encoder layers, one
 * decoder layer, two heads. Include it in one file of the program. */
#pragma once

#include "support.h"

#include <criterion/hooks.h>
#include <sys/wait.h>

static const char TINY_CONFIG[] =
    "name: tiny\n"
    "data:\n"
    "  train: train.tsv\n"
    "  dev: train.tsv\n"
    "  src: {lang: en}\n"
    "  trg: {lang: es}\n"
    "model:\n"
    "  encoder: {num_layers: 2, num_heads: 2, hidden_size: 16, ff_size: 32, positions: {max_length: 12}}\n"
    "  decoder: {num_layers: 1, num_heads: 2, hidden_size: 16, ff_size: 32, positions: {max_length: 12}}\n"
    "training:\n"
    "  model_dir: run\n"
    "  learning_rate: 0.01\n"
    "  batch_size: 20\n"
    "  updates: 60\n"
    "  validation_freq: 60\n";

static void tiny_train(void)
{
    const char *folder = scratch("trained");
    write_text(folder, "train.tsv", word_pairs(20, ONE_TO_FIVE[0], ONE_TO_FIVE[1]));
    write_text(folder, "tiny.yaml", TINY_CONFIG);
    struct outcome outcome = run("cd '%s' && qkv train tiny.yaml --threads 1 --quiet", folder);
    fprintf(stderr, "%s", outcome.error);
    _exit(outcome.exit_code);
}

/* Enters a copy of the folder that holds train.tsv, tiny.yaml and the run folder `run`. */
static inline void enter_tiny(void)
{
    enter(scratch("copy"));
    run_ok("cp -R '%s'/. .", scratch_before_tests("trained"));
}

/* Trains before all tests, in a child process. */
ReportHook(PRE_ALL)(struct criterion_test_set *tests)
{
    (void)tests;
    int status = 0;
    pid_t child = fork();
    if (child == 0) tiny_train();
    if (child > 0 && waitpid(child, &status, 0) == child && status == 0) return;
    fputs("the tiny run could not be trained\n", stderr);
    exit(1);
}
