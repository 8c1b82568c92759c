/* Options of commands that compute with a run: precision, runs that translate together, and those of the search. */
#pragma once

#include "attention_options.h"

/* The row of an options table; `text` is a const char *, NULL if the option is not given. */
/* clang-format off */
#define COMMAND_OPTION_PRECISION(text)                                                                       \
    {"precision", 0, "TYPE", OPTION_CHOICE, text,                                                            \
     "type of the numbers that linear layers multiply: {choices} (default: int8 of a quantised run, else float32)",  \
     .choices = precision_name}
/* clang-format on */

/* The choices of --precision; the context is not used. */
const char *precision_name(const void *context, int64_t index);

/* Sets the precision of a model to the one that the option names; NULL: keeps the precision of the model. */
enum qkv_status set_precision(struct qkv_model *model, const char *name, struct qkv_error *error);

/* The name of a model's precision; NULL: float32. */
const char *narrow_precision(const struct qkv_model *model);

struct ensemble {
    struct qkv_run *others; /* [models.count - 1]: all but the first */
    const struct qkv_model **model;
    struct qkv_ensemble models;
    int64_t longest_source; /* number of tokens, with </s>, for which all models have positions */
    int64_t longest_target;
    const char *shortest_run; /* path of the run with the fewest positions for the source; NULL: the first */
};

/* Makes an ensemble of a run and the runs named in `with`, which may be empty, and opens the latter. Fails when one cannot be
 * opened or has other vocabularies than the first. Close it even after a failure. precision: the value of --precision, for the
 * runs in `with`; NULL: each keeps its own. */
enum qkv_status ensemble_open(struct ensemble *ensemble, const struct qkv_run *first,
                              const struct option_list *with, const char *precision, struct qkv_error *error);

void ensemble_close(struct ensemble *ensemble);

/* The options as they are given. */
struct search_options {
    int64_t beam, max_length;              /* 0: not given */
    int64_t min_length, no_repeat_ngram;   /* -1: not given */
    double beam_alpha, repetition_penalty; /* -1: not given */
    const char *length_penalty;            /* NULL: not given */
    const char *precision;                 /* NULL: not given */
    struct option_list with;               /* run folders */
    struct option_list without;            /* heads */
};

#define SEARCH_OPTIONS_DEFAULT                                                                               \
    {                                                                                                        \
        .min_length = -1, .no_repeat_ngram = -1, .beam_alpha = -1, .repetition_penalty = -1                  \
    }

/* The rows of an options table. */
/* clang-format off */
#define COMMAND_OPTION_WITH(with)                                                                            \
    {"with", 'w', "RUN", OPTION_LIST, with,                                                                  \
     "another run with the same vocabularies, whose probabilities are averaged with those of the first; may be "\
     "repeated", .completes = VALUE_RUN}

#define COMMAND_OPTIONS_SEARCH(o)                                                                            \
    COMMAND_OPTION_BEAM(&(o)->beam),                                                                         \
    {"beam-alpha", 'a', "ALPHA", OPTION_NUMBER, &(o)->beam_alpha,                                            \
     "exponent of the length penalty `wu` (default: testing.beam_alpha)", 0, 10,                             \
     .needs_translations = true},                                                                            \
    {"length-penalty", 0, "NAME", OPTION_CHOICE, &(o)->length_penalty,                                       \
     "what log-probabilities are divided by: {choices}, which are a power of the length (Wu et al. 2016), the "\
     "length, and 1 (default: testing.length_penalty)",                                                      \
     .choices = length_penalty_name, .needs_translations = true},                                            \
    {"max-length", 0, "N", OPTION_INTEGER, &(o)->max_length,                                                 \
     "longest translation in tokens (default: testing.max_output_length, or testing.length_limit)", 1, 1e6,                           \
     .needs_translations = true},                                                                            \
    {"min-length", 0, "N", OPTION_INTEGER, &(o)->min_length,                                                 \
     "shortest translation in tokens (default: testing.min_output_length)", 0, 1e6,                          \
     .needs_translations = true},                                                                            \
    {"no-repeat-ngram", 0, "N", OPTION_INTEGER, &(o)->no_repeat_ngram,                                       \
     "no N tokens in a row occur twice in a translation; 0: off (default: testing.no_repeat_ngram)", 0, 1e6, \
     .needs_translations = true},                                                                            \
    {"repetition-penalty", 0, "X", OPTION_NUMBER, &(o)->repetition_penalty,                                  \
     "above 1: tokens that the translation already has are less likely (default: testing.repetition_penalty)",\
     1, 1000, .needs_translations = true},                                                                   \
    COMMAND_OPTION_WITH(&(o)->with),                                                                         \
    COMMAND_OPTION_WITHOUT(&(o)->without),                                                                   \
    COMMAND_OPTION_PRECISION(&(o)->precision)
/* clang-format on */

/* The options of sampling as they are given. */
struct sampling_options {
    bool sample;
    double temperature, top_p; /* 0: not given */
    int64_t top_k, seed;       /* -1: not given */
};

#define SAMPLING_OPTIONS_DEFAULT                                                                             \
    {                                                                                                        \
        .top_k = -1, .seed = -1                                                                              \
    }

/* The rows of an options table; `instead`: of what the tokens are drawn. */
/* clang-format off */
#define COMMAND_OPTIONS_SAMPLING(o, instead)                                                                 \
    {"sample", 0, NULL, OPTION_FLAG, &(o)->sample,                                                           \
     "draw each token from the probabilities of the model instead of " instead},                             \
    {"temperature", 0, "T", OPTION_NUMBER, &(o)->temperature,                                                \
     "sampling: below 1 prefers probable tokens, above 1 improbable ones (default: 1)", 1e-6, 1e6},          \
    {"top-k", 0, "K", OPTION_INTEGER, &(o)->top_k,                                                           \
     "sampling: keep the K most probable tokens; 0: all (default)", 0, 1e9},                                 \
    {"top-p", 0, "P", OPTION_NUMBER, &(o)->top_p,                                                            \
     "sampling: then keep the smallest set of the most probable tokens with total probability P "            \
     "(default: 1)",                                                                                         \
     1e-6, 1},                                                                                               \
    {"seed", 0, "N", OPTION_INTEGER, &(o)->seed,                                                             \
     "sampling: another seed gives other samples (default: 42)", 0, 9e15}
/* clang-format on */

/* Refuses options of sampling without --sample. */
enum qkv_status sampling_options_apply(const struct sampling_options *options,
                                       struct qkv_sampling_options *sampling, struct qkv_error *error);

/* The choices of --length-penalty; the context is not used. */
const char *length_penalty_name(const void *context, int64_t index);

/* Says on standard error how many of so many translations ended at the limit of their length, if any did. */
void note_cut(int64_t cut, int64_t count);

/* Overrides the settings of a config by the options that are given. Fails when options contradict each other or the config. */
enum qkv_status search_options_apply(const struct search_options *options, struct qkv_testing_config *testing,
                                     struct qkv_error *error);
