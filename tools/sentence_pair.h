/* A run, a sentence and its translation, given or the run's own: what attention is looked at with. */
#ifndef QKV_TOOLS_SENTENCE_PAIR_H
#define QKV_TOOLS_SENTENCE_PAIR_H

#include "qkv/attention_collect.h"
#include "qkv/run.h"
#include "qkv/search.h"

struct sentence_pair {
    struct qkv_run run;
    struct qkv_sentence source, target; /* target: only where it is given */
    struct qkv_decoding *decoding;
    struct qkv_batch batch;
    struct qkv_translations translations;
    struct qkv_attention_pair pair;
    const char *source_text, *target_text;
    struct qkv_arena arena;
    bool quiet; /* do not print the translation, nor tell of unknown words */
};

/* Opens the run; close it whatever comes of that. `checkpoint` as for qkv_run_open. */
enum qkv_status sentence_pair_open(struct sentence_pair *v, const char *run, const char *checkpoint,
                                   enum qkv_dtype dtype, bool quiet, struct qkv_error *error);
void sentence_pair_close(struct sentence_pair *v);

/* Fills v->pair: the source from `operand`, a sentence or "-" for a line of standard input; the target from
 * `target`, or, where that is NULL, from the run's own translation, which is printed to stderr. `beam` 0: as
 * the config says. */
enum qkv_status sentence_pair_make(struct sentence_pair *v, const char *operand, const char *target,
                                   int64_t beam, struct qkv_error *error);

/* "the cat → el gato"; NULL when memory is out. */
const char *sentence_pair_title(struct sentence_pair *v);

/* The model of the run as it was before its first update, to be freed by the caller. NULL with a sentence. */
struct qkv_model *sentence_pair_untrained(const struct sentence_pair *v, struct qkv_error *error);

#endif
