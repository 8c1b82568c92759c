/* Translating any number of sentences on a team of threads. */
#ifndef QKV_TRANSLATOR_H
#define QKV_TRANSLATOR_H

#include "qkv/search.h"
#include "qkv/workers.h"

struct qkv_translator;

/* Model and workers must outlive it; workers NULL: the caller alone. NULL with a sentence when memory is out.
 */
QKV_API struct qkv_translator *qkv_translator_new(const struct qkv_model *model, struct qkv_workers *workers,
                                                  struct qkv_error *error);

/* Translates `count` sentences, given by their ids; the longest first and `batch_size` > 0 of like length
 * together, each such batch on one thread; a single batch has all threads for its large products. Returns
 * [count * options->n_best] translations, of sentence s from s * n_best, as qkv_translations.best has them,
 * good until the next call; or NULL with a sentence. The same bits with any number of threads; which
 * sentences are given together makes a difference in rounding only. */
QKV_API const struct qkv_hypothesis *qkv_translator_run(struct qkv_translator *translator, int64_t count,
                                                        const struct qkv_ids *sources, int64_t batch_size,
                                                        const struct qkv_search_options *options,
                                                        struct qkv_error *error);

QKV_API void qkv_translator_free(struct qkv_translator *translator);

#endif
