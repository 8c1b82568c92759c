/* The interface of a tokenizer, and functions that tokenizers share. */
#pragma once

#include "qkv/corpus.h"

#include <string.h>

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

/* A punctuation mark that is split off records with these at its ends that no space was there; so does an elided word. */
#define QKV_JOINER "\uFFED" /* ￭ */

/* The token of white space between characters. */
#define QKV_SPACE "\u2581" /* ▁ */

/* Follows what stands in the text itself and would be read as one of these, or as an unfinished piece of a word: a variation
 * selector, which is not visible. */
#define QKV_ESCAPE "\uFE0E"

static inline bool qkv_is_escaped(const char *after)
{
    return !strncmp(after, QKV_ESCAPE, sizeof QKV_ESCAPE - 1);
}

enum { QKV_JOINS_LEFT = 1, QKV_JOINS_RIGHT = 2 };

/* A token of level word without its joiners. */
struct qkv_bare_token {
    const char *text; /* within the token; may be empty */
    size_t size;
    int joins;
};

struct qkv_bare_token qkv_token_bare(const char *token);

/* Adds points[first .. end-1], between two texts, as one token of the current word, whose number is tokens->words until the
 * word is complete. False when there is no memory. */
bool qkv_tokens_add(struct qkv_tokens *tokens, const char *before, int64_t first, int64_t end,
                    const char *after);

/* Adds the tokens of a line to `types`, and stores their numbers there in `numbers` [count], unless that is NULL. False when there
 * is no memory. */
bool qkv_tokens_count(const struct qkv_tokens *tokens, struct qkv_types *types, int32_t *numbers);

/* Adds the tokens of a level for points[first .. end-1], a token of level word that has the joiners `joins`; false when there
 * is no memory. */
typedef bool qkv_add_word(struct qkv_tokens *tokens, const struct qkv_text_config *text, int64_t first,
                          int64_t end, int joins);

/* Splits a line into the tokens of level word and passes each of them to `add`. Sets tokens->words. */
bool qkv_tokens_split_words(struct qkv_tokens *tokens, const struct qkv_text_config *text, int64_t count,
                            qkv_add_word *add);

/* Replaces the tokens by the pieces of one token of level word, which are in tokens->text. False when there is no memory. */
bool qkv_tokens_cut(struct qkv_tokens *tokens, const struct qkv_text_config *text, const char *word);

/* `join` of level word for tokens of plain marks (text->plain_marks). */
void qkv_join_by_rules(const struct qkv_text_config *text, int64_t count, const char *const *tokens,
                       char *line, int64_t *word);

/* The token as it is shown: without joiners; in the arena, unless it has none. NULL when memory runs out. */
const char *qkv_token_shown(const char *token, struct qkv_arena *arena);

/* Whether a line looks already tokenized, for example by the tokenizer of Moses: it ends in a full stop after a space, or
 * contains one of the marks of Moses, @-@ or an entity such as &apos;. */
bool qkv_looks_tokenized(const char *line);

/* ---- text that a program has cut into pieces ---- */

/* How pieces are marked by subword-nmt, WordPiece, SentencePiece or OpenNMT. */
struct qkv_cut_mark {
    const char *begin, *end; /* of a piece; one of them is "" */
    const char *example;     /* a piece */
    const char *joining;     /* the command that joins the pieces again */
};

/* Counts of lines. All zero at first. */
enum { QKV_CUT_MARKS = 5 };
struct qkv_cuts {
    int64_t lines, cut[QKV_CUT_MARKS];
};

void qkv_cuts_add(struct qkv_cuts *cuts, const char *line);

/* The mark of the pieces; NULL if the lines do not look cut. */
const struct qkv_cut_mark *qkv_cuts_usual(const struct qkv_cuts *cuts);
