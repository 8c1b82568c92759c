/* A run, a source sentence and its translation: what `qkv attention` and `qkv explain` show the attention of. */
#pragma once

#include "attention_options.h"

#include "data/lines.h"

/* The options as they are given; all zero at first. */
struct sentence_pair_options {
    const char *target, *checkpoint, *versus, *precision;
    int64_t beam;
    bool quiet;
    struct option_list without; /* heads */
};

/* The rows of an options table. The help of each begins with the string `prefix`, that of --versus ends with
 * `formats`. */
/* clang-format off */
#define COMMAND_OPTIONS_SENTENCE_PAIR(o, prefix, formats)                                                    \
    {"target", 't', "TEXT", OPTION_TEXT, &(o)->target,                                                       \
     prefix "take this translation instead of the run's own"},                                             \
    COMMAND_OPTION_BEAM(&(o)->beam),                                                                         \
    COMMAND_OPTION_CHECKPOINT(&(o)->checkpoint),                                                             \
    {"versus", 0, "random", OPTION_CHOICE, &(o)->versus,                                                     \
     prefix "also show the same model before training" formats, .choices = versus_name},                                                                                \
    {"quiet", 'q', NULL, OPTION_FLAG, &(o)->quiet,                                                           \
     prefix "do not print the translation, nor warn about unknown words"}
/* clang-format on */

/* The choices of --versus; the context is not used. */
const char *versus_name(const void *context, int64_t index);

struct sentence_pair {
    const struct sentence_pair_options *options;
    struct qkv_run run;
    struct qkv_sentence source, target;           /* target: empty without --target */
    struct qkv_translator *translator;            /* NULL with --target */
    struct qkv_model *untrained;                  /* NULL until it is asked for, as these collectors: */
    struct qkv_attention_collector *collector[2]; /* of the run, and of the untrained model */
    /* Results of sentence_pair_next */
    struct qkv_attention_pair pair;
    struct qkv_attention_words words;
    const char *source_text, *target_text;
    struct qkv_arena arena; /* owns the texts */
    int64_t number;         /* of the line of standard input, from 1; 0: the only sentence */
    struct qkv_lines lines; /* standard input, at the line after that, */
    bool has_next;          /* if there is one */
    struct qkv_error late;  /* why that line cannot be read; "" if it can */
};

/* Opens the run. Close the pair even when that fails. Texts of a language model become pairs without a source. */
enum qkv_status sentence_pair_open(struct sentence_pair *v, const char *run,
                                   const struct sentence_pair_options *options, enum qkv_dtype dtype,
                                   struct qkv_error *error);
void sentence_pair_close(struct sentence_pair *v);

/* Fills v->pair and v->words, and releases what was in v->arena. The source is `sentence`, or for "-" the next line of standard
 * input that is not blank. The target is --target, or else the translation by the run, which is printed to stderr.
 * Sets *found to false if there is no other sentence. */
enum qkv_status sentence_pair_next(struct sentence_pair *v, const char *sentence, bool *found,
                                   struct qkv_error *error);

/* "the cat → el gato", the silent heads, and a narrow precision; NULL when memory runs out. */
const char *sentence_pair_title(struct sentence_pair *v);

/* The model as it was before its first update; NULL with an error. */
const struct qkv_model *sentence_pair_untrained(struct sentence_pair *v, struct qkv_error *error);

/* The collector of the run, or of the untrained model, whose maps hold weights, or norms; NULL with an error. */
struct qkv_attention_collector *sentence_pair_collector(struct sentence_pair *v, bool untrained, bool norms,
                                                        struct qkv_error *error);
