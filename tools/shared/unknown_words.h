/* Warnings about words of sentences that a run does not know, and about sentences of the wrong language. */
#ifndef QKV_TOOLS_UNKNOWN_WORDS_H
#define QKV_TOOLS_UNKNOWN_WORDS_H

#include "qkv/corpus.h"
#include "qkv/run.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* ---- one sentence ---- */

/* Warns on stderr about words of a sentence that are not in the vocabulary of its side of the run: each only once, and at most
 * eight. Says so if the sentence seems to be of the other side. */
void warn_of_unknown_words(const char *place, const struct qkv_sentence *sentence, const struct qkv_run *run,
                           bool is_target);

/* ---- the lines of a text ---- */

/* How many lines have unknown words; all zero at first. */
struct unknown_words {
    int64_t lines;
    int64_t line; /* the last one of them */
};

/* Warns as warn_of_unknown_words does, but only about the first ten lines; the others are counted. A line may have sentences of
 * both sides. */
void unknown_words_note(struct unknown_words *notes, const char *place, const struct qkv_sentence *sentence,
                        const struct qkv_run *run, bool is_target, int64_t line);

/* Says how many lines were not named. */
void unknown_words_end(const struct unknown_words *notes);

/* ---- parallel text ---- */

/* Warns if the source sides of a text, source(context, 0) .. source(context, count - 1), seem to be of the target language. */
void warn_of_swapped_sides(const char *place, const char *(*source)(const void *context, int64_t index),
                           const void *context, int64_t count, const struct qkv_run *run);

/* The same for an encoded corpus that was read with keep_raw. */
void warn_of_swapped_corpus(const char *place, const struct qkv_corpus *corpus, const struct qkv_run *run);

#endif
