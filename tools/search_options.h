/* The options of searching for translations, which `qkv translate` and `qkv evaluate` share. */
#ifndef QKV_TOOLS_SEARCH_OPTIONS_H
#define QKV_TOOLS_SEARCH_OPTIONS_H

#include "command.h"
#include "precision_option.h"
#include "without.h"

#include "qkv/config.h"

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
     "longest translation in tokens (default: testing.max_output_length)", 1, 1e6,                           \
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
    {"with", 'w', "RUN", OPTION_LIST, &(o)->with,                                                            \
     "another run with the same vocabularies, whose probabilities are averaged with those of the first; may be "\
     "repeated", .completes = VALUE_RUN},                                                                    \
    COMMAND_OPTION_WITHOUT(&(o)->without),                                                                   \
    COMMAND_OPTION_PRECISION(&(o)->precision)
/* clang-format on */

/* The choices of --length-penalty; the context is not used. */
const char *length_penalty_name(const void *context, int64_t index);

/* Overrides the settings of a config by the options that are given. Fails when options contradict each other or the config. */
enum qkv_status search_options_apply(const struct search_options *options, struct qkv_testing_config *testing,
                                     struct qkv_error *error);

#endif
