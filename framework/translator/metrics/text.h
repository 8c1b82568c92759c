/* Private to the metrics: texts as code points, their words, and the n-grams that two texts share. All
 * results live in the caller's arena. A function returns NULL when memory runs out or its argument is NULL,
 * so that a chain of calls needs one check at its end. */
#ifndef QKV_METRICS_TEXT_H
#define QKV_METRICS_TEXT_H

#include "qkv/arena.h"
#include "qkv/metrics.h"

#include <stdbool.h>
#include <stdint.h>

/* A sequence of symbols: code points, or the numbers of words (qkv_text_number_words). */
struct qkv_symbols {
    uint32_t *items; /* [count] */
    int64_t count;
};

/* A word of a text: a slice of its code points, which the text owns. */
struct qkv_word {
    const uint32_t *items;
    int64_t count;
};

struct qkv_words {
    struct qkv_word *items;
    int64_t count;
};

/* The white space of Python's str.split(), at which sacreBLEU splits words. */
bool qkv_text_is_space(uint32_t point);

/* Makes an empty sequence with space for `capacity` symbols; appends a symbol. The caller must not exceed the capacity. */
struct qkv_symbols *qkv_text_symbols(struct qkv_arena *arena, int64_t capacity);
void qkv_text_append(struct qkv_symbols *symbols, uint32_t point);

/* The same for words. */
struct qkv_words *qkv_text_words_new(struct qkv_arena *arena, int64_t capacity);
void qkv_text_append_word(struct qkv_words *words, const uint32_t *items, int64_t count);

/* Decodes UTF-8, in lower case if asked for. */
struct qkv_symbols *qkv_text_decode(struct qkv_arena *arena, const char *text, bool lowercase);

/* The code points that are not white space. */
struct qkv_symbols *qkv_text_without_space(struct qkv_arena *arena, const struct qkv_symbols *text);

/* The words between white space. */
struct qkv_words *qkv_text_words(struct qkv_arena *arena, const struct qkv_symbols *text);

/* The words that the tokenizer of BLEU finds (metrics/tokenize.c). */
struct qkv_words *qkv_text_tokenize(struct qkv_arena *arena, enum qkv_bleu_tokenizer tokenizer,
                                    const struct qkv_symbols *text);

/* The words, joined by spaces. */
struct qkv_symbols *qkv_text_join(struct qkv_arena *arena, const struct qkv_words *words);

/* The words of TER: normalised as tercom does and without punctuation, if asked for (metrics/tokenize.c). */
struct qkv_words *qkv_text_tercom(struct qkv_arena *arena, bool normalized, bool no_punctuation,
                                  const struct qkv_symbols *text);

/* The words between white space, for the word n-grams of chrF++. An ASCII punctuation mark at the end of a
 * word, or else at its start, becomes a word of its own. */
struct qkv_words *qkv_text_words_and_marks(struct qkv_arena *arena, const struct qkv_symbols *text);

/* Replaces words by numbers: equal words get the same number in all `count` texts. Returns an array of
 * `count` sequences, one for each text. */
struct qkv_symbols *qkv_text_number_words(struct qkv_arena *arena, struct qkv_words *const *texts,
                                          int64_t count);

/* The start of a suffix of a sequence: the symbols from one position on. Its first n symbols are the n-gram
 * at that position. */
struct qkv_suffix {
    const uint32_t *items;
    int64_t count; /* symbols up to the end of the text, at most QKV_CHRF_LONGEST */
};

/* The n-grams of a sequence, of every order up to QKV_CHRF_LONGEST: its sorted suffixes. */
struct qkv_ngrams {
    struct qkv_suffix *suffixes; /* [count], one for each position */
    int64_t count;
};

struct qkv_ngrams *qkv_ngrams_sort(struct qkv_arena *arena, const struct qkv_symbols *text);

/* The number of n-grams of the given order. */
int64_t qkv_ngrams_total(const struct qkv_ngrams *ngrams, int order);

/* The number of n-grams of the given order that also occur in a reference: each n-gram counts at most as often as it
 * occurs in that one of the `count` references in which it is most frequent. cursors: workspace for `count` numbers. */
int64_t qkv_ngrams_matches(const struct qkv_ngrams *hypothesis, struct qkv_ngrams *const *references,
                           int64_t count, int order, int64_t *cursors);

#endif
