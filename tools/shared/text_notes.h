/* Notes about texts whose scores would mislead: text that is already tokenized, because the usual tokenizers of BLEU are made
 * for plain text; text without spaces between words, which they take for single words; and translations without capitals. And
 * warnings about words of sentences that a run does not know, and about sentences of the wrong language. */
#pragma once

#include "command.h"
#include "data/tokenizer.h"
#include "metrics/metric.h"

/* Counts of lines. Caller's storage, all zero at first. */
struct text_notes {
    int64_t references, tokenized; /* tokenized: references that look so (qkv_looks_tokenized) */
    struct qkv_cuts cuts;          /* references that are cut into pieces */
    struct qkv_writing writing;    /* of references */
    int64_t decomposed[2];         /* references, translations: not in Unicode's normal form C */
    int64_t translations;          /* that are not empty */
    int64_t tokenized_translations;
    int64_t cased_references, cased_translations; /* with capitals */
};

/* Count a line. */
void text_notes_add_reference(struct text_notes *notes, const char *line);
void text_notes_add_translation(struct text_notes *notes, const char *line);

/* Prints notes on standard error:
 * - if at least half of the references are tokenized already, and if `joined` or the scorer's BLEU tokenizes them again.
 *   joined: the translations were joined to text (data.trg.split_punctuation); if most of them do not look tokenized, only
 *   chrF and BLEU with 13a or intl compare them correctly with such references;
 * - if the references are cut into pieces, as by subword-nmt;
 * - if at least half of the references have no spaces between words, and BLEU needs them;
 * - if references are decomposed and translations are not, or the reverse;
 * - if at least half of ten references or more have capitals and no translation has, at least half are not empty, and BLEU
 *   or chrF count case. */
void text_notes_print(const struct text_notes *notes, const struct qkv_scorer *scorer, bool joined);

/* ---- characters that a picture cannot show ---- */

/* Prints on stderr, if there are any from place `first` of the list on, how many characters of a picture have no font, some of
 * them, and the Debian packages that have them. Returns the count of the list. */
int64_t note_missing_characters(const char *path, const struct qkv_missing_characters *missing,
                                int64_t first);

/* ---- words that a run does not know, and sentences of the wrong language ---- */

/* ---- one sentence ---- */

/* Warns on stderr about words of a sentence that are not in the vocabulary of its side of the run: each only once, and at most
 * eight. Says so if the sentence seems to be of the other side; otherwise, with `as_trained`, that --as-trained would read the
 * sentence as this one. */
void warn_of_unknown_words(const char *place, const struct qkv_sentence *sentence, const struct qkv_run *run,
                           bool is_target, const char *as_trained);

/* Prints a sentence that the run knows, if it has stored one, and the command that lists its words. */
void note_known_words(const struct qkv_run *run);

/* ---- the lines of a text ---- */

/* How many lines have unknown words; all zero at first. */
struct unknown_words {
    bool shows_all; /* for one who types the lines: all are named, and none is counted */
    int64_t lines;
    int64_t line; /* the last one of them */
};

/* Warns as warn_of_unknown_words does, but unless `shows_all` only about the first ten lines; the others are counted. A line
 * may have sentences of both sides. */
void unknown_words_note(struct unknown_words *notes, const char *place, const struct qkv_sentence *sentence,
                        const struct qkv_run *run, bool is_target, const char *as_trained, int64_t line);

/* Whether the next line that has unknown words is named. */
bool unknown_words_are_named(const struct unknown_words *notes);

/* Says how many lines were not named. */
void unknown_words_end(const struct unknown_words *notes);

/* ---- parallel text ---- */

/* Warns if the source sides of a text, source(context, 0) .. source(context, count - 1), seem to be of the target language. */
void warn_of_swapped_sides(const char *place, const char *(*source)(const void *context, int64_t index),
                           const void *context, int64_t count, const struct qkv_run *run);

/* The same for an encoded corpus that was read with keep_raw. */
void warn_of_swapped_corpus(const char *place, const struct qkv_corpus *corpus, const struct qkv_run *run);
