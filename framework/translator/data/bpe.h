/* Symbols, pairs of symbols, and merges, for learning and encoding; BPE dropout. */
#ifndef QKV_DATA_BPE_H
#define QKV_DATA_BPE_H

#include "qkv/base.h"
#include "qkv/bpe.h"
#include "qkv/corpus.h"

#include <stdbool.h>

/* The end of a word as part of its last symbol. */
#define QKV_BPE_WORD_END "</w>"

/* A set of pairs of symbols, numbered in the order in which they were added. All zero is valid and empty. */
struct qkv_symbol_pairs {
    int64_t size;
    int32_t *left, *right; /* [size] */
    int32_t *slots; /* [slot_count, a power of two]: hash table with open addressing of pairs; -1: free */
    int64_t slot_count, left_capacity, right_capacity;
};

/* Returns the number of a pair, which is added if it is new; -1 when there is no memory. */
int32_t qkv_symbol_pairs_add(struct qkv_symbol_pairs *pairs, int32_t left, int32_t right);

/* Returns the number of a pair, or -1 when it was not added. */
int32_t qkv_symbol_pairs_find(const struct qkv_symbol_pairs *pairs, int32_t left, int32_t right);

void qkv_symbol_pairs_release(struct qkv_symbol_pairs *pairs);

struct qkv_bpe {
    struct qkv_types symbols;
    struct qkv_symbol_pairs pairs; /* the different merges; the number of a merge is also its rank */
    int32_t *joined;               /* [pairs.size]: the symbol that each merge makes */
    int32_t *order;                /* [count]: the lines of the codes file, as numbers of pairs */
    int64_t count;
    struct qkv_types kept; /* pieces that may result from cutting, with their frequencies; empty: all */
    int32_t *undone;       /* [symbols.size]: the merge to undo if cutting gives this symbol, not kept;
                              -1: none. NULL: all pieces are kept */
    /* private */
    int64_t joined_capacity, order_capacity;
};

/* Adds a merge after all others. False when there is no memory. */
bool qkv_bpe_add(struct qkv_bpe *bpe, const char *left, const char *right);

/* Size in bytes that is enough for the token of any symbol of a table, with continuation mark and NUL. */
size_t qkv_bpe_longest_piece(const struct qkv_types *symbols);

/* Whether a symbol ends with the end mark of a word. */
bool qkv_bpe_ends_word(const char *symbol);

/* Writes the piece of a symbol to `token`, which has room for qkv_bpe_longest_piece bytes, and returns it. */
const char *qkv_bpe_piece_of(const char *symbol, bool is_last, char *token);

/* Bytes for the symbol of one character, with NUL. */
enum { QKV_BPE_CHARACTER_SIZE = 4 + sizeof QKV_BPE_WORD_END };

/* Writes the symbol of one character, which has `size` bytes, to `text` and returns it. `last`: it ends a word. */
char *qkv_bpe_character_text(char text[static QKV_BPE_CHARACTER_SIZE], const char *character, int size,
                             bool last);

/* ---- BPE dropout ---- */

/* The words of one side of a corpus, which each epoch cuts into different pieces. */
struct qkv_bpe_dropout;

/* Returns NULL when there is no memory. The caller frees the result with qkv_bpe_dropout_free. Copies `text`,
 * whose merges must outlive it. */
struct qkv_bpe_dropout *qkv_bpe_dropout_new(const struct qkv_text_config *text);

/* Adds the words of sentence `index`, one after another from 0. False when there is no memory. */
bool qkv_bpe_dropout_add(struct qkv_bpe_dropout *dropout, int64_t index, const char *line, size_t size);

/* Adds every piece that merges can make to `types`. One that has not occurred gets the lowest frequency that still enters the
 * vocabulary. False when there is no memory. */
bool qkv_bpe_dropout_add_types(const struct qkv_bpe_dropout *dropout, struct qkv_types *types);

/* Looks up the ids of all symbols and reserves side->ids for the maximal number of pieces of an epoch. False when there is
 * no memory. */
bool qkv_bpe_dropout_encode(struct qkv_bpe_dropout *dropout, struct qkv_corpus_side *side, int64_t count,
                            const struct qkv_vocabulary *vocabulary);

/* Maximal number of tokens of sentence i in any epoch. */
int64_t qkv_bpe_dropout_max_tokens(const struct qkv_bpe_dropout *dropout, int64_t i);

/* Cuts all sentences again, with the random numbers of `random`. Its sub-stream must differ between the sides. */
void qkv_bpe_dropout_draw(struct qkv_bpe_dropout *dropout, struct qkv_corpus_side *side, int64_t count,
                          struct qkv_random random);

/* NULL: does nothing. */
void qkv_bpe_dropout_free(struct qkv_bpe_dropout *dropout);

#endif
