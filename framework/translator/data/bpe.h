/* Byte-pair encoding: rare words as sequences of frequent pieces (Sennrich, Haddow and Birch 2016, "Neural Machine
 * Translation of Rare Words with Subword Units"). Files, merges and pieces are those of the authors' program subword-nmt
 * 0.3.8, bit for bit.
 *
 * A word begins as its code points, the last one with the end mark `</w>`. A merge joins two neighbouring symbols to one.
 * Learning repeats these steps: find the pair of neighbours with the highest count, make it a merge, apply it to all words.
 * Counts are those of subword-nmt, which are approximate for rare pairs. Of pairs with equal counts, the greatest by code
 * points is taken (compared by the first symbol, then by the second). Encoding a word repeats these steps: find the
 * earliest merge that applies somewhere in the word, and apply it everywhere, from left to right. Every symbol that remains
 * is a piece; all but the last of a word are followed by `@@`: "low@@ er". A last piece that ends in @@ itself (foo@@) is
 * followed by U+FE0E; the joiners of a word (qkv/corpus.h) are on its first and its last piece.
 *
 * A model learns little about a piece that occurs rarely. qkv_bpe_restrict makes cutting keep only frequent pieces: it undoes
 * the merges of every other piece until each part is a kept piece or one character (`--vocabulary-threshold` of
 * subword-nmt).
 *
 * To tokenise with merges, let `bpe` of struct qkv_text_config point to them (qkv/corpus.h). */
#pragma once

#include "qkv/corpus.h"

/* ---- learning, files ---- */

/* The end of a piece that another piece of the same word follows. */
#define QKV_BPE_CONTINUES "@@"

/* The length of a token without QKV_BPE_CONTINUES, if it ends in that. */
size_t qkv_length_in_word(const char *token);

/* Learns `merges` merges, at least 1, from the words of `count` texts together; two texts: joint merges. Time grows with
 * the number of different words, not with the length of the text; memory is some 100 bytes per letter of the different
 * words. NULL when memory runs out, when a word contains white space or is not valid UTF-8, and when fewer merges can be
 * learned because no other pair occurs twice; the message then gives the number of merges that can be learned. A word whose
 * frequency is below 0 counts as one that does not occur. The caller frees the result. */
struct qkv_bpe *qkv_bpe_learn(int64_t count, const struct qkv_types *const *texts, int64_t merges,
                              struct qkv_error *error);

/* Copies the merges, without the restriction of qkv_bpe_restrict; the caller frees the copy. NULL when memory runs out. */
struct qkv_bpe *qkv_bpe_copy(const struct qkv_bpe *bpe);

/* Reads a codes file of subword-nmt: `#version: 0.2`, then one merge per line, two symbols with a space between. Fails
 * with `path:line: ...` for a file of another version, a line that is no merge, invalid UTF-8, a NUL byte, and a last
 * line without a newline, as in a truncated file; with `path: ...` for one that cannot be read or holds no merges. A merge
 * that repeats an earlier one has no effect. The caller frees the result; NULL on failure. */
struct qkv_bpe *qkv_bpe_load(const char *path, struct qkv_error *error);

/* Writes a codes file that qkv_bpe_load and subword-nmt read. On failure the file is left as it was. */
enum qkv_status qkv_bpe_save(const struct qkv_bpe *bpe, const char *path, struct qkv_error *error);

/* Makes cutting keep only the pieces that occur at least `minimum` times in `pieces`, the tokens of a text that these
 * merges have cut. Must be called before the merges are shared between threads; of several calls, the last successful one
 * counts. Fails when there is no such piece and when there is no memory; cutting then keeps what it kept before. */
enum qkv_status qkv_bpe_restrict(struct qkv_bpe *bpe, const struct qkv_types *pieces, int64_t minimum,
                                 struct qkv_error *error);

/* Calls qkv_bpe_restrict with all pieces of a vocabulary file of subword-nmt: lines with a piece, a space and its
 * frequency. Fails with `path:line: ...` for another line, a repeated piece, and a last line without a newline, as in a
 * truncated file. */
enum qkv_status qkv_bpe_load_pieces(struct qkv_bpe *bpe, const char *path, struct qkv_error *error);

/* Writes the pieces that cutting keeps to a file that qkv_bpe_load_pieces and subword-nmt read. On failure the file is left
 * as it was. */
enum qkv_status qkv_bpe_save_pieces(const struct qkv_bpe *bpe, const char *path, struct qkv_error *error);

/* The CRC-32 of the file that qkv_bpe_save writes, followed by the pieces of qkv_bpe_restrict, one per line. A checkpoint
 * stores it and refuses other merges. */
uint32_t qkv_bpe_checksum(const struct qkv_bpe *bpe);

/* ---- symbols, pairs of symbols, merges ---- */

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
    int64_t count;                 /* of merges, repeated ones included */
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

/* ---- cutting a word ---- */

/* Which merges BPE dropout leaves out: a sequence of random 32-bit words. */
struct qkv_bpe_draws {
    struct qkv_random random;
    uint64_t index;
    uint32_t block[4];
    int used;
    uint64_t threshold; /* rate * 2^32: a merge is left out if its word is below this; 0: none is */
    bool *kept;         /* [pieces]: working memory */
};

/* Merges `count` pieces, symbols at first, or numbers below 0 that no merge has. Returns the number of those that remain.
 * ranks [count]: working memory. draws NULL: leaves none out. */
int32_t qkv_bpe_merge(const struct qkv_bpe *bpe, int32_t *pieces, int32_t *ranks, int32_t count,
                      struct qkv_bpe_draws *draws);

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
