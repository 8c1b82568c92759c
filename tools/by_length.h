/* The scores of a run by the length of the source, for `qkv evaluate --by-length`. */
#ifndef QKV_TOOLS_BY_LENGTH_H
#define QKV_TOOLS_BY_LENGTH_H

#include "qkv/evaluate.h"
#include "score_options.h"

/* Caller's storage, all zero at first. */
struct by_length {
    int64_t step, count;      /* source tokens of a class of lengths; number of classes */
    struct qkv_scorer *class; /* [count]: sources of i * step + 1 to (i + 1) * step tokens */
};

/* Makes classes of `step` lengths each for sources of up to `longest` tokens. Fails when memory runs out. */
enum qkv_status by_length_init(struct by_length *table, int64_t step, int64_t longest,
                               const struct qkv_text_options *options, struct qkv_error *error);

/* Adds a sentence: its counts, its translation and its reference. */
enum qkv_status by_length_add(struct by_length *table, const struct qkv_sentence_score *score,
                              const char *translation, const char *reference, struct qkv_error *error);

/* Prints the table. Leaves out classes without sentences. */
void by_length_print(const struct by_length *table);
/* Makes an array of objects with from, to (source tokens), sentences, tokens, and the metrics that have a column. Leaves out
 * classes without sentences. */
struct cJSON *by_length_json(const struct by_length *table);

void by_length_release(struct by_length *table);

#endif
