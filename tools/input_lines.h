/* Source sentences for a run, from a file or standard input, ready to be translated. */
#ifndef QKV_TOOLS_SOURCE_H
#define QKV_TOOLS_SOURCE_H

#include "qkv/batch.h"
#include "qkv/corpus.h"
#include "qkv/run.h"

#include <stdbool.h>

struct source_line {
    int64_t number;     /* from 1 */
    struct qkv_ids ids; /* length 0: an empty line */
};

struct source {
    struct qkv_sentence_reader reader;
    int64_t longest;  /* tokens that the model has positions for, without </s> */
    bool interactive; /* someone types */
    bool quiet;
};

/* Opens a file, or standard input for "-". */
enum qkv_status source_open(struct source *source, const struct qkv_run *run, const char *path, bool quiet,
                            struct qkv_error *error);

/* Reads the next line, ids in the arena. Says on stderr, unless quiet, which words are unknown; says always
 * when a line is cut because the model has no positions for more. */
enum qkv_status source_next(struct source *source, struct qkv_arena *arena, struct source_line *line,
                            bool *found, struct qkv_error *error);

void source_close(struct source *source);

/* Says on stderr which words of a sentence the vocabulary lacks, each once, and at most a few of them. */
void tell_unknown(const char *place, const struct qkv_sentence *sentence);

#endif
