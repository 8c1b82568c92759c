/* Source sentences for a run, read from a file or standard input and encoded as token ids. */
#ifndef QKV_TOOLS_INPUT_LINES_H
#define QKV_TOOLS_INPUT_LINES_H

#include "qkv/batch.h"
#include "qkv/corpus.h"
#include "qkv/run.h"

#include <stdbool.h>

struct input_line {
    int64_t number;     /* counted from 1 */
    struct qkv_ids ids; /* length 0: an empty line */
};

struct input_lines {
    struct qkv_sentence_reader reader;
    int64_t longest;  /* most tokens that the model has positions for, without </s> */
    bool interactive; /* the input is a terminal */
    bool quiet;
};

/* Opens a file, or standard input for "-". */
enum qkv_status input_lines_open(struct input_lines *input, const struct qkv_run *run, const char *path,
                                 bool quiet, struct qkv_error *error);

/* Reads the next line; its ids live in the arena. Sets *found to false at the end. Warns on stderr about unknown
 * words, unless quiet, and about a line that is cut because the model has no more positions. */
enum qkv_status input_lines_next(struct input_lines *input, struct qkv_arena *arena, struct input_line *line,
                                 bool *found, struct qkv_error *error);

void input_lines_close(struct input_lines *input);

/* Warns on stderr about the words of a sentence that the vocabulary lacks: each once, and at most eight. */
void warn_of_unknown_words(const char *place, const struct qkv_sentence *sentence);

#endif
