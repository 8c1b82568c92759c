/* What a checkpoint says of the model it holds beside its numbers: the keys of the config that a run holds on
 * to, the vocabularies, and the text it was trained on. Many a tensor fits a model that it was not trained
 * for: with other heads, or other words, shapes stay the same. */
#ifndef QKV_RUN_PROVENANCE_H
#define QKV_RUN_PROVENANCE_H

#include "qkv/checkpoint.h"
#include "qkv/config.h"
#include "qkv/corpus.h"
#include "qkv/vocabulary.h"

void qkv_provenance_save(struct qkv_state *state, const struct qkv_config *config,
                         const struct qkv_vocabulary *source, const struct qkv_vocabulary *target);

/* Keeps which text was read from the file that the key `path` of the config names. The text counts, not the
 * name. */
void qkv_provenance_save_text(struct qkv_state *state, const char *key, const char *file,
                              const struct qkv_corpus *corpus);

/* Fails, with the path of the checkpoint before it, at the first thing that the state tells otherwise; what
 * it does not tell is taken as it is. */
enum qkv_status qkv_provenance_check(const struct qkv_state *state, const struct qkv_config *config,
                                     enum qkv_config_selection when, const struct qkv_vocabulary *source,
                                     const struct qkv_vocabulary *target, const char *path,
                                     struct qkv_error *error);
enum qkv_status qkv_provenance_check_text(const struct qkv_state *state, const char *key, const char *file,
                                          const struct qkv_corpus *corpus, const char *path,
                                          struct qkv_error *error);

#endif
