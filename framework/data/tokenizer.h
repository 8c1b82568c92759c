/* What a tokenizer implements, and what all of them share. */
#ifndef QKV_DATA_TOKENIZER_H
#define QKV_DATA_TOKENIZER_H

#include "qkv/tokenizer.h"

#include <stdbool.h>

struct qkv_tokenizer {
    /* Adds the tokens of a line, tokens->points[0 .. count-1], which is valid, in normal form C and in the wanted case;
     * sets tokens->words. False when there is no memory. */
    bool (*split)(struct qkv_tokens *tokens, const struct qkv_text_config *text, int64_t count);
    /* Writes the text of a line of tokens, NUL included, to `line`, which has room for every token and two bytes before
     * each of them. */
    void (*join)(const struct qkv_text_config *text, int64_t count, const char *const *tokens, char *line);
};

#define TOKENIZER(id, name, help) extern const struct qkv_tokenizer qkv_tokenizer_##name;
#include "qkv/tokenizers.def"
#undef TOKENIZER

/* Finds the next word at or behind *end: points[*first .. *end-1] without white space. False when there is none. */
bool qkv_tokens_next_word(const struct qkv_tokens *tokens, int64_t count, int64_t *first, int64_t *end);

/* Adds points[first .. end-1] as one token of the current word, number tokens->words. False when there is no memory. */
bool qkv_tokens_add(struct qkv_tokens *tokens, int64_t first, int64_t end);

/* Adds a token that belongs to no word. False when there is no memory. */
bool qkv_tokens_add_text(struct qkv_tokens *tokens, const char *text);

/* Appends a text and its NUL at `end`; returns where the NUL is. */
char *qkv_append(char *end, const char *text);

#endif
