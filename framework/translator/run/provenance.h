/* Records in a checkpoint what its model was trained with, and checks it on loading: the config keys that must
 * not change, the vocabularies, the merges of byte-pair encoding and the training text. Comparing shapes would not
 * suffice: another number of heads, or other words, can give tensors of the same shapes. */
#ifndef QKV_RUN_PROVENANCE_H
#define QKV_RUN_PROVENANCE_H

#include "qkv/checkpoint.h"
#include "qkv/config.h"
#include "qkv/corpus.h"
#include "qkv/token_links.h"
#include "qkv/vocabulary.h"

/* Adds the values of the config keys QKV_KEYS_FIXED_ON_RESUME and the checksums of the vocabularies and of the
 * merges of the config to the state. Out of memory, it sets state->failed. */
void qkv_provenance_save(struct qkv_state *state, const struct qkv_config *config,
                         const struct qkv_vocabulary *source, const struct qkv_vocabulary *target);

/* Adds the corpus that was read from `file`, the value of the config key `key` (data.train, data.dev), to the
 * state: file name, number of pairs and checksum. */
void qkv_provenance_save_text(struct qkv_state *state, const char *key, const char *file,
                              const struct qkv_corpus *corpus);

/* The same for the links of guided alignment (data.train_links). */
void qkv_provenance_save_links(struct qkv_state *state, const char *key, const char *file,
                               const struct qkv_token_links *links);

/* Compares the state of the checkpoint `path` with the config keys `when`, the vocabularies or a corpus. Fails
 * at the first difference, with a message that begins with `path`. Anything that the state does not record is
 * accepted, and so is a corpus with the same text but another file name. */
enum qkv_status qkv_provenance_check(const struct qkv_state *state, const struct qkv_config *config,
                                     enum qkv_config_selection when, const struct qkv_vocabulary *source,
                                     const struct qkv_vocabulary *target, const char *path,
                                     struct qkv_error *error);
enum qkv_status qkv_provenance_check_text(const struct qkv_state *state, const char *key, const char *file,
                                          const struct qkv_corpus *corpus, const char *path,
                                          struct qkv_error *error);
enum qkv_status qkv_provenance_check_links(const struct qkv_state *state, const char *key, const char *file,
                                           const struct qkv_token_links *links, const char *path,
                                           struct qkv_error *error);

#endif
