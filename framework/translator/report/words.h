/* Private: what maps consist of; rows of weights as distributions; weights between tokens merged into weights between
 * words, for attention maps, explanations and word alignment. */
#pragma once

#include "metrics/links.h"
#include "qkv/attention_map.h"

/* ---- maps (attention_map.c, words.c) ---- */

/* Finds a kind by its name; false if there is none. */
bool qkv_attention_kind_find(const char *name, enum qkv_attention_kind *kind);

/* Returns the tokens of the rows (columns) of maps of a kind. */
const char *const *qkv_attention_row_tokens(const struct qkv_attention_report *report,
                                            enum qkv_attention_kind kind);
const char *const *qkv_attention_column_tokens(const struct qkv_attention_report *report,
                                               enum qkv_attention_kind kind);

/* The labels of the rows for people, and what they are: `query` unless the report knows better. */
const char *const *qkv_attention_row_labels(const struct qkv_attention_report *report,
                                            enum qkv_attention_kind kind);
const char *qkv_attention_row_axis(const struct qkv_attention_report *report, enum qkv_attention_kind kind,
                                   const char *query);

/* Divides each row of each map by its sum; a row of zeros stays as it is. For maps of norms (attention_map.h), which
 * then are shares. `normalized`, which may be `report`, lives in the arena. Fails when memory is out. */
enum qkv_status qkv_attention_normalize(const struct qkv_attention_report *report, struct qkv_arena *arena,
                                        struct qkv_attention_report *normalized, struct qkv_error *error);

/* ---- rows of weights ---- */

/* The sum of a row. */
double qkv_row_total(const double *row, int64_t count);

/* The entropy of a row divided by its sum `total`, which must be above 0; nats. */
double qkv_row_entropy(const double *row, int64_t count, double total);

/* Divides each row of a map by its sum, in the arena; a row of zeros stays as it is. False when memory runs out. */
bool qkv_map_normalize(struct qkv_attention_map *map, struct qkv_arena *arena);

/* ---- words ---- */

/* The word that each of a number of tokens belongs to. */
struct word_labels {
    const int64_t *word; /* [tokens]: 0 .. words - 1, or -1: none */
    int64_t tokens, words;
};

/* merged[i, j]: the sum over the columns of word j, and the mean over the rows of word i, of
 * weights [rows->tokens, columns->tokens]. A word without rows gets zeros. merged is [rows->words, columns->words]. */
void qkv_merge_weights(const double *weights, const struct word_labels *rows,
                       const struct word_labels *columns, double *merged);

/* Words with their names. */
struct named_words {
    struct word_labels labels;
    const char *const *names; /* [labels.words] */
};

/* Groups tokens into consecutive words: a token begins a new word if its word differs from that of the previous token, or is
 * -1. word: [count]; tokens: [count]. False when memory runs out. */
bool qkv_group_words(const char *const *tokens, const int64_t *word, int64_t count, struct qkv_arena *arena,
                     struct named_words *grouped);

/* The words of the rows (columns) of maps of a kind. <s>, </s> and each token that belongs to no word are words of their own.
 * So is the last token of a sentence that was cut: the decoder does not read it, and this way there are as many words that it
 * reads as words that it predicts. False when memory runs out. */
bool qkv_report_row_words(const struct qkv_attention_report *report, struct qkv_attention_words words,
                          enum qkv_attention_kind kind, struct qkv_arena *arena, struct named_words *grouped);
bool qkv_report_column_words(const struct qkv_attention_report *report, struct qkv_attention_words words,
                             enum qkv_attention_kind kind, struct qkv_arena *arena,
                             struct named_words *grouped);

/* The number of `tokens`, not counting a </s> at the end. */
int64_t qkv_tokens_without_end(const char *const *tokens, int64_t count);

/* ---- word maps (metrics/alignment.h) from the cross attention of a sentence pair ---- */

/* Merges a cross map of a report into a word map, in the arena. The column of </s> belongs to no word, nor does the step that
 * predicts </s> or the one that reads <s>. Fails when `words` do not fit the tokens, and when memory runs out. */
enum qkv_status qkv_word_map_make(const struct qkv_attention_report *report, struct qkv_attention_words words,
                                  const struct qkv_attention_map *map, enum qkv_alignment_reading reading,
                                  struct qkv_arena *arena, struct qkv_word_map *made,
                                  struct qkv_error *error);

/* Draws links from such a map, as result->reading and result->drawing say, and counts them in the result. Fails, too, for gold
 * links to words that the pair does not have. */
enum qkv_status qkv_count_map_links(const struct qkv_attention_report *report,
                                    struct qkv_attention_words words, const struct qkv_attention_map *map,
                                    const struct qkv_alignment *gold, struct qkv_arena *arena,
                                    struct qkv_alignment_result *result, struct qkv_error *error);
