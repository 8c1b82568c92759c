/* Translates any number of sentences, given as token ids, on several threads (qkv/base.h).
 *
 * Example:
 *     struct qkv_arena arena = {0};
 *     struct qkv_config config;
 *     struct qkv_error error;
 *     const int32_t words[] = {7, 8, 9};
 *     const struct qkv_ids sources[] = {{3, words}, {2, words}};
 *     const struct qkv_search_options options = {.beam_size = 1, .n_best = 1};
 *     struct qkv_workers *workers = qkv_workers_new(2, &error);
 *     struct qkv_model *model = NULL;
 *     if (!qkv_config_default(&config, &arena, "example"))
 *         model = qkv_model_new(&config.model, 100, 120, QKV_FLOAT32, &error);
 *     struct qkv_translator *translator = model ? qkv_translator_new(model, workers, &error) : NULL;
 *     const struct qkv_hypothesis *best;
 *     if (translator && !qkv_translator_run(translator, 2, sources, 32, &options, &best, &error))
 *         for (int i = 0; i < 2; i++) printf("%d tokens\n", (int)best[i].length);
 *     qkv_translator_free(translator);
 *     qkv_model_free(model);
 *     qkv_workers_free(workers);
 *     qkv_arena_release(&arena);
 */
#ifndef QKV_TRANSLATOR_H
#define QKV_TRANSLATOR_H

#include "qkv/base.h"
#include "qkv/processes.h"
#include "qkv/search.h"

struct qkv_translator;

/* Model and workers must outlive the translator; without workers (NULL) the calling thread computes
 * alone. Returns NULL, with a message, when memory runs out. */
QKV_API struct qkv_translator *qkv_translator_new(const struct qkv_model *model, struct qkv_workers *workers,
                                                  struct qkv_error *error);

/* Makes a translator for an ensemble (qkv_decoding_new_ensemble in model.h). Also returns NULL where
 * qkv_decoding_new_ensemble does. */
QKV_API struct qkv_translator *qkv_translator_new_ensemble(struct qkv_ensemble ensemble,
                                                           struct qkv_workers *workers,
                                                           struct qkv_error *error);

/* Divides the batches of qkv_translator_run among processes, which must all call it for the same sentences and options,
 * with the same models. Only process 0 gets the translations, which have the same bits as with one process; the other
 * processes get only the status. Processes must outlive the translator. */
QKV_API void qkv_translator_divide(struct qkv_translator *translator, struct qkv_processes *processes);

/* Translates `count` sentences. Sentences are sorted by length, longest first, and divided into batches of `batch_size` >
 * 0; in int8, large batches are divided further, because smaller ones are faster. Each batch is searched by one thread; a
 * single batch uses all threads for its large products. Sets *best to [count * options->n_best] translations, those of
 * sentence s from s * n_best, best first, valid until the next call, whose sources and prefixes must not point into them.
 * options->prefixes and options->numbers, unless NULL, have an element for each source. The results are the same bits for any
 * number of threads; batch_size and the other sentences affect them only by rounding. Fails where qkv_search fails, when
 * memory runs out, and for a negative `count` or a `batch_size` below 1; *best is then NULL. */
QKV_API enum qkv_status qkv_translator_run(struct qkv_translator *translator, int64_t count,
                                           const struct qkv_ids *sources, int64_t batch_size,
                                           const struct qkv_search_options *options,
                                           const struct qkv_hypothesis **best, struct qkv_error *error);

QKV_API void qkv_translator_free(struct qkv_translator *translator); /* NULL: does nothing */

#endif
