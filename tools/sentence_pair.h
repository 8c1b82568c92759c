/* A run, a source sentence and its translation: what `qkv attention` and `qkv explain` show the attention of. */
#ifndef QKV_TOOLS_SENTENCE_PAIR_H
#define QKV_TOOLS_SENTENCE_PAIR_H

#include "command.h"

#include "qkv/attention_collect.h"
#include "qkv/run.h"
#include "qkv/search.h"

/* The options as they are given; all zero at first. */
struct sentence_pair_options {
    const char *target, *checkpoint, *versus;
    int64_t beam;
    bool quiet;
};

/* The rows of an options table; the help of each begins with the string `prefix`. */
/* clang-format off */
#define COMMAND_OPTIONS_SENTENCE_PAIR(o, prefix)                                                             \
    {"target", 't', "TEXT", OPTION_TEXT, &(o)->target,                                                       \
     prefix "show the attention for this translation instead of the run's own"},                             \
    COMMAND_OPTION_BEAM(&(o)->beam),                                                                         \
    COMMAND_OPTION_CHECKPOINT(&(o)->checkpoint),                                                             \
    {"versus", 0, "random", OPTION_CHOICE, &(o)->versus, prefix "also show the same model before training",  \
     .choices = versus_name},                                                                                \
    {"quiet", 'q', NULL, OPTION_FLAG, &(o)->quiet,                                                           \
     prefix "do not print the translation, nor warn about unknown words"}
/* clang-format on */

/* The choices of --versus; the context is not used. */
const char *versus_name(const void *context, int64_t index);

struct sentence_pair {
    const struct sentence_pair_options *options;
    struct qkv_run run;
    struct qkv_sentence source, target; /* target: empty without --target */
    /* The search for a translation; empty with --target */
    struct qkv_decoding *decoding;
    struct qkv_batch batch;
    struct qkv_translations translations;
    /* Results of sentence_pair_make */
    struct qkv_attention_pair pair;
    const char *source_text, *target_text;
    struct qkv_arena arena; /* owns the texts */
};

/* Opens the run. Close the pair even when that fails. */
enum qkv_status sentence_pair_open(struct sentence_pair *v, const char *run,
                                   const struct sentence_pair_options *options, enum qkv_dtype dtype,
                                   struct qkv_error *error);
void sentence_pair_close(struct sentence_pair *v);

/* Fills v->pair. The source is `sentence`, or a line of standard input for "-". The target is --target, or else
 * the translation by the run, which is printed to stderr. */
enum qkv_status sentence_pair_make(struct sentence_pair *v, const char *sentence, struct qkv_error *error);

/* "the cat → el gato"; NULL when memory is out. */
const char *sentence_pair_title(struct sentence_pair *v);

/* Returns the model as it was before its first update, which the caller frees; NULL with an error. */
struct qkv_model *sentence_pair_untrained(const struct sentence_pair *v, struct qkv_error *error);

#endif
