/* Writes the log-probabilities of the target tokens of a text, for `qkv evaluate --log-probs`. */
#ifndef QKV_TOOLS_LOG_PROBS_H
#define QKV_TOOLS_LOG_PROBS_H

#include "qkv/evaluate.h"
#include "qkv/run.h"

/* What was scored. */
struct log_probs {
    const struct qkv_run *run;
    const char *test; /* path of the text */
    const struct qkv_corpus *corpus;
    const struct qkv_evaluator *evaluator; /* has run */
};

/* Complains, and returns QKV_INVALID, unless the path ends in .tsv or .json. */
int log_probs_check(const char *path);

/* Writes the file: for each sentence, its line in the text, its tokens, the log-probability of each token, and their sum. */
enum qkv_status log_probs_write(const struct log_probs *log_probs, const char *path, struct qkv_error *error);

#endif
