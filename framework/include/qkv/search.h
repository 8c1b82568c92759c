/* Greedy and beam search over the decoding of any model, for the sentences of one batch on one
 * thread. qkv/translator.h searches many batches on many threads.
 *
 * Example:
 *     struct qkv_arena arena = {0};
 *     struct qkv_config config;
 *     struct qkv_error error;
 *     struct qkv_batch batch = {0};
 *     struct qkv_batch_view view;
 *     struct qkv_translations translations = {0};
 *     const int32_t words[] = {7, 8, 9};
 *     const struct qkv_ids source = {3, words};
 *     const struct qkv_search_options options = {.beam_size = 4, .length_penalty = 1, .n_best = 1};
 *     struct qkv_model *model = NULL;
 *     if (!qkv_config_default(&config, &arena, "example"))
 *         model = qkv_model_new(&config.model, 100, 120, QKV_FLOAT32, &error);
 *     struct qkv_decoding *decoding = model ? qkv_decoding_new(model) : NULL;
 *     if (decoding && !qkv_batch_make(&batch, 1, &source, NULL, &error)) {
 *         qkv_batch_shard(&batch, 0, 1, &view);
 *         if (!qkv_search(decoding, &view, &options, &translations, &error))
 *             printf("%d tokens\n", (int)translations.best[0].length);
 *     }
 *     qkv_translations_release(&translations);
 *     qkv_batch_release(&batch);
 *     qkv_decoding_free(decoding);
 *     qkv_model_free(model);
 *     qkv_arena_release(&arena);
 */
#ifndef QKV_SEARCH_H
#define QKV_SEARCH_H

#include "qkv/arena.h"
#include "qkv/batch.h"
#include "qkv/model.h"

enum { QKV_BEAM_MOST = 1000 };

struct qkv_search_options {
    int64_t beam_size;     /* hypotheses kept per sentence, 1 .. QKV_BEAM_MOST; 1: greedy search */
    double length_penalty; /* alpha of the penalty ((5 + length) / 6)^alpha that divides the log-probability
                                  (Wu et al. 2016, section 7); length includes </s>; 0: no penalty */
    int64_t n_best;        /* translations returned per sentence, 1 .. beam_size */
    int64_t
        max_output_length; /* tokens without </s>; 0: twice the source tokens (without </s>) plus 10. Never
                                  more than the model has positions for */
    bool unscored;         /* greedy search: leave log_probability and score 0, which is faster */
};

struct qkv_hypothesis {
    int64_t length;         /* tokens */
    const int32_t *ids;     /* [length], without <s> and </s>; NULL: the sentence has fewer translations */
    double log_probability; /* nats; includes </s> if finished */
    double score;           /* log_probability divided by the length penalty */
    bool finished;          /* false: cut at the greatest length */
};

/* The translations of a batch; caller's storage, all zero at first. Searching again reuses the
 * memory and overwrites the translations. */
struct qkv_translations {
    int64_t count;               /* sentences */
    struct qkv_hypothesis *best; /* [count * n_best]: those of sentence s from s * n_best, best first */
    struct qkv_arena arena;
};

/* Translates the sources of a batch. Deterministic: of equal candidates, that of the better
 * hypothesis comes first, then the lower token id. The other sentences of the batch affect the
 * result of a sentence only by rounding. Fails where qkv_decoding_start fails, when an option is out of range, and
 * when memory is out. QKV_FAILED: the scores of the model are not finite. */
QKV_API enum qkv_status qkv_search(struct qkv_decoding *decoding, const struct qkv_batch_view *batch,
                                   const struct qkv_search_options *options,
                                   struct qkv_translations *translations, struct qkv_error *error);

/* Fails when an option is out of range. */
QKV_API enum qkv_status qkv_search_options_check(const struct qkv_search_options *options,
                                                 struct qkv_error *error);

QKV_API void qkv_translations_release(struct qkv_translations *translations);

#endif
