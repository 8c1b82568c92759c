/* Byte-pair encoding: rare words as sequences of frequent pieces (Sennrich, Haddow and Birch 2016, "Neural Machine
 * Translation of Rare Words with Subword Units"). Files, merges and pieces are those of the authors' program subword-nmt
 * 0.3.8, bit for bit.
 *
 * Example:
 *     struct qkv_types words = {0}; // the words of a text with their frequencies
 *     struct qkv_error error;
 *     qkv_types_add(&words, "lower", 2);
 *     qkv_types_add(&words, "low", 5);
 *     struct qkv_bpe *bpe = qkv_bpe_learn(1, (const struct qkv_types *const[]){&words}, 2, &error);
 *     if (!bpe || qkv_bpe_save(bpe, "source.codes", &error)) fprintf(stderr, "%s\n", error.message);
 *     qkv_bpe_free(bpe);
 *     qkv_types_release(&words);
 *
 * A word begins as its code points, the last one with the end mark `</w>`. A merge joins two neighbouring symbols to one.
 * Learning repeats these steps: find the pair of neighbours with the highest count, make it a merge, apply it to all words.
 * Counts are those of subword-nmt, which are approximate for rare pairs. Of pairs with equal counts, the greatest by code
 * points is taken (compared by the first symbol, then by the second). Encoding a word repeats these steps: find the
 * earliest merge that applies somewhere in the word, and apply it everywhere, from left to right. Every symbol that remains
 * is a piece; all but the last of a word are followed by `@@`: "low@@ er".
 *
 * A model learns little about a piece that occurs rarely. qkv_bpe_restrict makes cutting keep only frequent pieces: it undoes
 * the merges of every other piece until each part is a kept piece or one character (`--vocabulary-threshold` of
 * subword-nmt).
 *
 * To tokenise with merges, let `bpe` of struct qkv_text_config point to them (qkv/tokenizer.h). */
#ifndef QKV_BPE_H
#define QKV_BPE_H

#include "qkv/base.h"
#include "qkv/vocabulary.h"

#include <stdint.h>

/* The end of a piece that another piece of the same word follows. */
#define QKV_BPE_CONTINUES "@@"

/* Merges in the order in which they were learned. They do not change and may be shared between threads. */
struct qkv_bpe;

/* Learns `merges` merges, at least 1, from the words of `count` texts together; two texts: joint merges. Time grows with
 * the number of different words, not with the length of the text; memory is some 100 bytes per letter of the different
 * words. NULL when memory runs out, when a word contains white space or is not valid UTF-8, and when fewer merges can be learned
 * because no other pair occurs twice; the message then gives the number of merges that can be learned. A word whose frequency
 * is below 0 counts as one that does not occur. The caller frees the result. */
QKV_API struct qkv_bpe *qkv_bpe_learn(int64_t count, const struct qkv_types *const *texts, int64_t merges,
                                      struct qkv_error *error);

/* Copies the merges, without the restriction of qkv_bpe_restrict; the caller frees the copy. NULL when memory runs out. */
QKV_API struct qkv_bpe *qkv_bpe_copy(const struct qkv_bpe *bpe);

/* Reads a codes file of subword-nmt: `#version: 0.2`, then one merge per line, two symbols with a space between. Fails
 * with `path:line: ...` for a file of another version, a line that is no merge, invalid UTF-8, a NUL byte, and a last
 * line without a newline, as in a truncated file; with `path: ...` for one that cannot be read or holds no merges. A merge
 * that repeats an earlier one has no effect. The caller frees the result; NULL on failure. */
QKV_API struct qkv_bpe *qkv_bpe_load(const char *path, struct qkv_error *error);

/* Writes a codes file that qkv_bpe_load and subword-nmt read. On failure the file is left as it was. */
QKV_API enum qkv_status qkv_bpe_save(const struct qkv_bpe *bpe, const char *path, struct qkv_error *error);

/* Makes cutting keep only the pieces that occur at least `minimum` times in `pieces`, the tokens of a text that these
 * merges have cut. Must be called before the merges are shared between threads; of several calls, the last successful one
 * counts. Fails when there is no such piece and when there is no memory; cutting then keeps what it kept before. */
QKV_API enum qkv_status qkv_bpe_restrict(struct qkv_bpe *bpe, const struct qkv_types *pieces, int64_t minimum,
                                         struct qkv_error *error);

/* Calls qkv_bpe_restrict with all pieces of a vocabulary file of subword-nmt: lines with a piece, a space and its
 * frequency. Fails with `path:line: ...` for another line, a repeated piece, and a last line without a newline, as in a
 * truncated file. */
QKV_API enum qkv_status qkv_bpe_load_pieces(struct qkv_bpe *bpe, const char *path, struct qkv_error *error);

/* Writes the pieces that cutting keeps to a file that qkv_bpe_load_pieces and subword-nmt read. On failure the file is left
 * as it was. */
QKV_API enum qkv_status qkv_bpe_save_pieces(const struct qkv_bpe *bpe, const char *path,
                                            struct qkv_error *error);

/* The number of merges, repeated ones included. */
QKV_API int64_t qkv_bpe_count(const struct qkv_bpe *bpe);

/* The CRC-32 of the file that qkv_bpe_save writes, followed by the pieces of qkv_bpe_restrict, one per line. A checkpoint
 * stores it and refuses other merges. */
QKV_API uint32_t qkv_bpe_checksum(const struct qkv_bpe *bpe);

/* NULL is allowed. */
QKV_API void qkv_bpe_free(struct qkv_bpe *bpe);

#endif
