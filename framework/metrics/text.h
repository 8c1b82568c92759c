/* Private to the metrics: texts as code points, their words, and the n-grams that two texts share. Everything
 * lives in the caller's arena. A function that finds no memory gives NULL, and functions take NULL and pass
 * it on, so that a chain is checked once. */
#ifndef QKV_METRICS_TEXT_H
#define QKV_METRICS_TEXT_H

#include "qkv/arena.h"
#include "qkv/metrics.h"

#include <stdbool.h>
#include <stdint.h>

/* A sequence of symbols: code points, or words that were given numbers. */
struct qkv_symbols {
    uint32_t *items;
    int64_t count;
};

/* The words of a text: slices of its code points. */
struct qkv_word {
    const uint32_t *items;
    int64_t count;
};

struct qkv_words {
    struct qkv_word *items;
    int64_t count;
};

/* Decodes UTF-8, in lower case if asked for. */
struct qkv_symbols *qkv_text_decode(struct qkv_arena *arena, const char *text, bool lowercase);

/* The code points that are not white space. */
struct qkv_symbols *qkv_text_without_space(struct qkv_arena *arena, const struct qkv_symbols *text);

/* The words between white space. */
struct qkv_words *qkv_text_words(struct qkv_arena *arena, const struct qkv_symbols *text);

/* The words that the tokenizer finds. */
struct qkv_words *qkv_text_tokenize(struct qkv_arena *arena, enum qkv_bleu_tokenizer tokenizer,
                                    const struct qkv_symbols *text);

/* The words between white space, an ASCII mark at the end, or else at the start, of a word cut off (chrF++).
 */
struct qkv_words *qkv_text_words_and_marks(struct qkv_arena *arena, const struct qkv_symbols *text);

/* Gives equal words of all `count` texts the same number. Returns `count` sequences. */
struct qkv_symbols *qkv_text_number_words(struct qkv_arena *arena, struct qkv_words *const *texts,
                                          int64_t count);

/* The n-grams of a sequence, sorted: its suffixes in the order of their first `order` symbols. */
struct qkv_suffix {
    const uint32_t *items;
    int64_t count; /* symbols up to the end of the text, at most 6 */
};

struct qkv_ngrams {
    struct qkv_suffix *suffixes;
    int64_t count;
};

struct qkv_ngrams *qkv_ngrams_sort(struct qkv_arena *arena, const struct qkv_symbols *text);

/* How many n-grams of the given order there are. */
int64_t qkv_ngrams_total(const struct qkv_ngrams *ngrams, int order);

/* How many n-grams of the given order are also in a reference, each clipped at its highest count in any
 * reference. `cursors` is room for `count` numbers. */
int64_t qkv_ngrams_matches(const struct qkv_ngrams *hypothesis, struct qkv_ngrams *const *references,
                           int64_t count, int order, int64_t *cursors);

/* Adds one segment's number of references to the range. */
void qkv_reference_count_add(struct qkv_reference_count *range, int64_t count);

/* Writes `nrefs:1|case:mixed|<middle>|version:qkv-0.1.0`. */
void qkv_metrics_signature(const struct qkv_reference_count *range, bool lowercase, const char *middle,
                           char *text, size_t size);

/* Fails for a segment without a reference; otherwise gives the references that are not NULL. */
enum qkv_status qkv_metrics_references(struct qkv_arena *arena, const char *const *references, int64_t count,
                                       const char ***present, int64_t *present_count,
                                       struct qkv_error *error);

#endif
