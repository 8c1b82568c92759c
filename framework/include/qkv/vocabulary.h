/* Token types with their frequencies, and the vocabulary that is built from them. */
#ifndef QKV_VOCABULARY_H
#define QKV_VOCABULARY_H

#include "qkv/config.h"
#include "qkv/error.h"

#include <stdint.h>

/* ---- Types: the different tokens of a text ---- */

/* Different strings, numbered in the order in which they came, with a frequency each. Caller's storage; all
 * zero is valid and empty. */
struct qkv_types {
    int64_t size;
    int64_t *frequency; /* [size] */
    /* private */
    int64_t *start; /* of each string in text */
    uint32_t *hash;
    int32_t *slots; /* open addressing, a power of two; -1: free */
    char *text;
    int64_t capacity, start_capacity, hash_capacity, slot_count, text_capacity, text_size;
};

/* Adds `frequency` to a string, which is copied when it is new. Returns its number, or -1 when there is no
 * memory. */
QKV_API int32_t qkv_types_add(struct qkv_types *types, const char *token, int64_t frequency);

/* Returns the number of a string, or -1 when it never came. */
QKV_API int32_t qkv_types_find(const struct qkv_types *types, const char *token);

/* The string of a number, 0 <= type < size; valid until the next string is added. */
QKV_API const char *qkv_types_token(const struct qkv_types *types, int64_t type);

QKV_API void qkv_types_release(struct qkv_types *types);

/* ---- Vocabulary: token <-> id ---- */

/* The ids of the special tokens, the same in every vocabulary. */
enum {
    QKV_UNKNOWN = 0,  /* <unk>: stands for every token that is not in the vocabulary */
    QKV_BEGIN = 1,    /* <s>: what the decoder reads first */
    QKV_END = 2,      /* </s>: ends every source sentence and every target sentence */
    QKV_SPECIALS = 3, /* the first id of an ordinary token */
};

/* Caller's storage; after qkv_vocabulary_build or _load it is read-only and may be shared between threads. */
struct qkv_vocabulary {
    int32_t size; /* C: ids are 0 .. size-1, special tokens counted */
    struct qkv_types types;
};

/* Builds the vocabulary of `count` texts together (two of them: a joint vocabulary): the special tokens, then
 * the types, most frequent first, equally frequent ones in the order of their bytes, so that the order of the
 * text does not matter. Types rarer than `minimum` are left out, and so is all beyond `limit` types (special
 * tokens not counted; 0: no limit). A type that is spelled like a special token is left out: in text "</s>"
 * is an unknown word. Fails when there is no memory. */
QKV_API enum qkv_status qkv_vocabulary_build(struct qkv_vocabulary *vocabulary, int64_t count,
                                             const struct qkv_types *const *texts, int64_t limit,
                                             int64_t minimum, struct qkv_error *error);

/* The id of a token of text: QKV_UNKNOWN when the vocabulary lacks it or it is spelled like a special token.
 */
QKV_API int32_t qkv_vocabulary_id(const struct qkv_vocabulary *vocabulary, const char *token);

/* The token of an id, 0 <= id < size; lives as long as the vocabulary. */
QKV_API const char *qkv_vocabulary_token(const struct qkv_vocabulary *vocabulary, int32_t id);

/* Writes one token a line, in the order of the ids. The file appears whole or not at all. */
QKV_API enum qkv_status qkv_vocabulary_save(const struct qkv_vocabulary *vocabulary, const char *path,
                                            struct qkv_error *error);

/* Reads what qkv_vocabulary_save wrote. Refuses, with `path:line: ...`, a file that does not begin with the
 * special tokens, an empty line, white space in a token, a token that came before, invalid UTF-8, a NUL byte
 * and a last line without a newline (the file was cut off). After a failure the vocabulary is empty. */
QKV_API enum qkv_status qkv_vocabulary_load(struct qkv_vocabulary *vocabulary, const char *path,
                                            struct qkv_error *error);

/* The CRC-32 of the file that qkv_vocabulary_save writes; tells whether a checkpoint and a vocabulary belong
 * together. */
QKV_API uint32_t qkv_vocabulary_checksum(const struct qkv_vocabulary *vocabulary);

QKV_API void qkv_vocabulary_release(struct qkv_vocabulary *vocabulary);

#endif
