/* Replaces <unk> in a translation by the source word that it is aligned with (--replace-unk). */
#pragma once

#include "input_lines.h"

/* Caller's storage; all zero at first. */
struct unknown_replacer {
    struct qkv_attention_collector *collector;
    struct qkv_arena arena; /* of one translation */
    bool has_subwords;      /* the tokens of the translation are subwords */
    bool has_replaced;      /* there was an <unk> */
};

/* Fails for a run whose model has no cross attention. */
enum qkv_status unknown_replacer_open(struct unknown_replacer *replacer, const struct qkv_run *run,
                                      struct qkv_error *error);
void unknown_replacer_close(struct unknown_replacer *replacer);

/* Replaces each <unk> among the tokens [length] of the hypothesis, except in the prefix, by the word of the source token with
 * the largest cross attention, averaged over all heads of all layers; of equal ones, the first. Several <unk> in a row become
 * one word if they attend to different subwords of it or, where the translation has subwords, to the same; the word then also
 * replaces the subwords of its word before the <unk>. *count is the number of tokens afterwards. The line needs words
 * (input_lines.needs_words). */
enum qkv_status replace_unknown(struct unknown_replacer *replacer, const struct input_line *line,
                                const struct qkv_hypothesis *hypothesis, const char **tokens, int64_t *count,
                                struct qkv_error *error);
