/* Notices text that is tokenized, for which the usual tokenizers of BLEU are not made. */
#ifndef QKV_TOOLS_TOKENIZED_TEXT_H
#define QKV_TOOLS_TOKENIZED_TEXT_H

#include "qkv/metrics.h"

/* Counts lines. Caller's storage, all zero at first. */
struct tokenized_text {
    int64_t lines, tokenized;
};

/* Counts a line (qkv_looks_tokenized). */
void tokenized_text_add(struct tokenized_text *text, const char *line);

/* Says on standard error, if half of the references or more are tokenized and the scorer's BLEU tokenizes them once more,
 * what that means. `joined`: the translations were joined to plain text (data.trg.split_punctuation), which then only chrF
 * and BLEU with 13a or intl compare rightly. */
void tokenized_text_note(const struct tokenized_text *references, const struct qkv_scorer *scorer,
                         bool joined);

#endif
