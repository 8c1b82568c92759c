/* The interface of a tokenizer, and functions that tokenizers share. */
#ifndef QKV_DATA_TOKENIZER_H
#define QKV_DATA_TOKENIZER_H

#include "qkv/corpus.h"

#include <stdbool.h>

struct qkv_tokenizer {
    /* Splits a line and adds its tokens. The line is the code points tokens->points[0 .. count-1],
     * in normal form C and, if the config says so, in lower case. Sets tokens->words. False when
     * there is no memory. */
    bool (*split)(struct qkv_tokens *tokens, const struct qkv_text_config *text, int64_t count);
    /* Joins tokens to the text of a line and writes it with a NUL to `line`, which has the capacity for all tokens, a
     * no-break space (2 bytes) after each, and the NUL. `word`: [count], becomes the word of each token in that line, as
     * in struct qkv_tokens. False when there is no memory in the arena. */
    bool (*join)(const struct qkv_text_config *text, int64_t count, const char *const *tokens, char *line,
                 int64_t *word, struct qkv_arena *arena);
};

#define TOKENIZER(id, name, help) extern const struct qkv_tokenizer qkv_tokenizer_##name;
#include "qkv/tokenizers.def"
#undef TOKENIZER

/* Adds points[first .. end-1] as one token of the current word, whose number is tokens->words until the word is complete.
 * False when there is no memory. */
bool qkv_tokens_add(struct qkv_tokens *tokens, int64_t first, int64_t end);

/* Appends a text to the token that was added last. False when there is no memory. */
bool qkv_tokens_end_with(struct qkv_tokens *tokens, const char *end);

/* Adds the tokens of a level for points[first .. end-1], a token of level word; false when there is no memory. */
typedef bool qkv_add_word(struct qkv_tokens *tokens, const struct qkv_text_config *text, int64_t first,
                          int64_t end);

/* Splits a line into the tokens of level word and passes each of them to `add`. Sets tokens->words. */
bool qkv_tokens_split_words(struct qkv_tokens *tokens, const struct qkv_text_config *text, int64_t count,
                            qkv_add_word *add);

/* Whether a line looks already tokenized, for example by the tokenizer of Moses: it ends in a full stop after a space, or
 * contains one of the marks of Moses, @-@ or an entity such as &apos;. */
bool qkv_looks_tokenized(const char *line);

/* Whether a line of valid UTF-8 has a capital letter: one that `lowercase` would change. */
bool qkv_has_capitals(const char *line);

#endif
