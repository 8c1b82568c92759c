/* Private: weights between tokens become weights between words. Attention maps (words.c), explanations and word
 * alignment use it. */
#ifndef QKV_REPORT_WORDS_H
#define QKV_REPORT_WORDS_H

#include "qkv/attention_map.h"

/* Which word each of some tokens belongs to. */
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

/* Groups tokens of which one word each follows another: a token begins a new word where its word is another than that
 * of the token before it, or -1. word: [count]; tokens: [count]. False when memory is out. */
bool qkv_group_words(const char *const *tokens, const int64_t *word, int64_t count, struct qkv_arena *arena,
                     struct named_words *grouped);

/* The words of the rows (columns) of maps of a kind, in which <s>, </s> and each token of no word are words of their
 * own. Of a sentence that was cut, the last token is one, too: the decoder does not read it, and so the words that it
 * reads and those that it predicts have the same number. False when memory is out. */
bool qkv_report_row_words(const struct qkv_attention_report *report, struct qkv_attention_words words,
                          enum qkv_attention_kind kind, struct qkv_arena *arena, struct named_words *grouped);
bool qkv_report_column_words(const struct qkv_attention_report *report, struct qkv_attention_words words,
                             enum qkv_attention_kind kind, struct qkv_arena *arena,
                             struct named_words *grouped);

/* How many of `tokens` there are without a </s> at their end. */
int64_t qkv_tokens_without_end(const char *const *tokens, int64_t count);

#endif
