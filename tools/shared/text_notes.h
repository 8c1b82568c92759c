/* Notes about texts whose scores would mislead: text that is already tokenized, because the usual tokenizers of BLEU are made
 * for plain text; text without spaces between words, which they take for single words; and translations without capitals. */
#ifndef QKV_TOOLS_TEXT_NOTES_H
#define QKV_TOOLS_TEXT_NOTES_H

#include "qkv/trainer.h"

/* Counts of lines. Caller's storage, all zero at first. */
struct text_notes {
    int64_t references, tokenized; /* tokenized: references that look so (qkv_looks_tokenized) */
    int64_t without_spaces; /* references of several words without a space, as in Chinese, Japanese, Thai */
    int64_t translations;   /* that are not empty */
    int64_t cased_references, cased_translations; /* with capitals */
};

/* Count a line. */
void text_notes_add_reference(struct text_notes *notes, const char *line);
void text_notes_add_translation(struct text_notes *notes, const char *line);

/* Prints notes on standard error:
 * - if at least half of the references are tokenized already, and if `joined` or the scorer's BLEU tokenizes them again.
 *   joined: the translations were joined to plain text (data.trg.split_punctuation), so that only chrF and BLEU with 13a or
 *   intl compare them correctly with such references;
 * - if at least half of the references have no spaces between words, and BLEU needs them;
 * - if at least half of ten references or more have capitals and no translation has, at least half are not empty, and BLEU
 *   or chrF count case. */
void text_notes_print(const struct text_notes *notes, const struct qkv_scorer *scorer, bool joined);

#endif
