/* Vocabularies: the tokens that a model knows, with an id each; built from the token types of a text.
 *
 * Example:
 *     struct qkv_vocabulary vocabulary = {0};
 *     struct qkv_error error;
 *     if (!qkv_vocabulary_load(&vocabulary, "runs/x/source.vocabulary", &error)) {
 *         int32_t id = qkv_vocabulary_id(&vocabulary, "house"); // QKV_UNKNOWN if the model does not know it
 *         puts(qkv_vocabulary_token(&vocabulary, id));
 *     }
 *     qkv_vocabulary_release(&vocabulary);
 */
#ifndef QKV_VOCABULARY_H
#define QKV_VOCABULARY_H

#include "qkv/base.h"
#include "qkv/config.h"

#include <stdint.h>

/* The ids of the special tokens, the same in every vocabulary. */
enum {
    QKV_UNKNOWN = 0,  /* <unk>: every token that the vocabulary lacks */
    QKV_BEGIN = 1,    /* <s>: the first input of the decoder */
    QKV_END = 2,      /* </s>: the end of every source sentence and every target sentence */
    QKV_SPECIALS = 3, /* the number of special tokens and the id of the first ordinary one */
};

/* Caller's storage. Once built or loaded, it does not change and may be shared between threads. */
struct qkv_vocabulary {
    int32_t size; /* special tokens included: ids are 0 .. size-1 */
    /* The tokens, by id; frequencies are 0 for special tokens, and for all after a load */
    struct qkv_types types;
};

/* Builds one vocabulary for `count` texts (two texts: a joint vocabulary): the special tokens, then the types, the most
 * frequent first; types of equal frequency in the order of their bytes, so that the order of the text has no effect. It
 * leaves out types that occur less often than `minimum`, types beyond the first `limit` (special tokens not counted; 0: no
 * limit), and types that are spelled like a special token: "</s>" in a text is an unknown word. Fails when there is no
 * memory. */
QKV_API enum qkv_status qkv_vocabulary_build(struct qkv_vocabulary *vocabulary, int64_t count,
                                             const struct qkv_types *const *texts, int64_t limit,
                                             int64_t minimum, struct qkv_error *error);

/* The id of a token of a text; QKV_UNKNOWN when the vocabulary does not have the token or it is spelled like a special
 * token. */
QKV_API int32_t qkv_vocabulary_id(const struct qkv_vocabulary *vocabulary, const char *token);

/* The token of an id, 0 <= id < size, else NULL; lives as long as the vocabulary. */
QKV_API const char *qkv_vocabulary_token(const struct qkv_vocabulary *vocabulary, int32_t id);

/* The tokens of the ids of a sentence, as qkv_vocabulary_token: [count], in the arena; NULL when there is no memory. */
QKV_API const char **qkv_vocabulary_tokens(const struct qkv_vocabulary *vocabulary, int64_t count,
                                           const int32_t *ids, struct qkv_arena *arena);

/* The first id whose token differs, or that only one of the vocabularies has; -1: they are the same. */
QKV_API int32_t qkv_vocabulary_difference(const struct qkv_vocabulary *a, const struct qkv_vocabulary *b);

/* Writes one token per line, in the order of the ids. Fails for a token that qkv_vocabulary_load would refuse: one that is
 * empty, contains white space, or is not valid UTF-8. On failure the file is left as it was. */
QKV_API enum qkv_status qkv_vocabulary_save(const struct qkv_vocabulary *vocabulary, const char *path,
                                            struct qkv_error *error);

/* Reads a file of qkv_vocabulary_save. Fails with `path:line: ...` for a file that does not begin with the special tokens,
 * an empty line, white space in a token, a repeated token, invalid UTF-8, a NUL byte, and a last line without a newline,
 * as in a truncated file. After a failure the vocabulary is empty. */
QKV_API enum qkv_status qkv_vocabulary_load(struct qkv_vocabulary *vocabulary, const char *path,
                                            struct qkv_error *error);

/* The CRC-32 of the file that qkv_vocabulary_save writes. A checkpoint stores it and refuses another vocabulary. */
QKV_API uint32_t qkv_vocabulary_checksum(const struct qkv_vocabulary *vocabulary);

QKV_API void qkv_vocabulary_release(struct qkv_vocabulary *vocabulary);

#endif
