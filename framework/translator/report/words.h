/* Private: merges weights between tokens into weights between words, for attention maps (words.c), explanations and word
 * alignment. */
#ifndef QKV_REPORT_WORDS_H
#define QKV_REPORT_WORDS_H

#include "qkv/attention_map.h"

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

#endif
