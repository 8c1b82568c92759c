/* Detects text that is already tokenized, because the usual tokenizers of BLEU are made for plain text. */
#ifndef QKV_TOOLS_TOKENIZED_TEXT_H
#define QKV_TOOLS_TOKENIZED_TEXT_H

#include "qkv/metrics.h"

/* Counts lines. Caller's storage, all zero at first. */
struct tokenized_text {
    int64_t lines, tokenized;
};

/* Counts a line (qkv_looks_tokenized). */
void tokenized_text_add(struct tokenized_text *text, const char *line);

/* Prints a note on standard error if at least half of the references are tokenized already, and if `joined` or the scorer's
 * BLEU tokenizes them again. joined: the translations were joined to plain text (data.trg.split_punctuation), so that only chrF
 * and BLEU with 13a or intl compare them correctly with such references. */
void tokenized_text_note(const struct tokenized_text *references, const struct qkv_scorer *scorer,
                         bool joined);

#endif
