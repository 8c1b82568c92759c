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
#include "qkv/batch.h"
#include "qkv/config.h"
#include "qkv/model.h"
#include "qkv/processes.h"

/* ---- search in one batch ----
 * Greedy search, beam search and sampling over the decoding of any model or ensemble, for the sentences of one batch on
 * one thread. qkv/translator.h searches many batches on many threads.
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
 *     const struct qkv_search_options options = {.beam_size = 4, .beam_alpha = 1, .n_best = 1};
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

enum { QKV_BEAM_MAX = 1000, QKV_REPETITION_PENALTY_MAX = 1000 };

/* Sampling: each token is drawn from the probabilities of the model instead of searched for. */
struct qkv_sampling_options {
    bool enabled; /* false: the others are ignored, search is greedy or by beam */
    /* Divisor of the logits: below 1 it sharpens the distribution, above 1 it flattens it. Must be above 0. */
    double temperature;
    int64_t top_k; /* draw from the top_k most probable tokens; 0: from all */
    /* Nucleus sampling (Holtzman et al. 2020): draw from the smallest set of most probable tokens whose probabilities,
     * after temperature and top_k, sum to at least top_p; 1: from all. Above 0, at most 1. */
    double top_p;
    uint64_t seed;
};

/* All fields except beam_size and n_best may be zero. An array of [sentences] has an element for each sentence of the
 * batch, or of qkv_translator_run. */
struct qkv_search_options {
    int64_t beam_size; /* hypotheses kept per sentence, 1 .. QKV_BEAM_MAX; 1: greedy search, samples */
    double beam_alpha; /* alpha of QKV_LENGTH_PENALTY_WU; 0: no penalty */
    int64_t n_best;    /* translations returned per sentence, 1 .. beam_size; samples: 1 .. QKV_BEAM_MAX */
    /* Tokens without </s>; 0: twice the source tokens (without </s>) plus 10, plus the tokens of the prefix. Limited to the
     * positions of the model. */
    int64_t max_output_length;
    bool skip_scores; /* greedy search, samples: leave log_probability and score 0, which is faster */

    /* The divisor of a translation's log-probability. The length counts </s>. WU: ((5 + length) / 6)^alpha (Wu et al. 2016,
     * section 7); AVERAGE: the length; NONE: 1. */
    enum qkv_length_penalty length_penalty;
    int64_t min_output_length; /* tokens without </s>; cut to max_output_length; 0: no minimum */
    /* No n-gram of this many tokens occurs twice in a translation; the translation ends when every other token would repeat
     * one. 0: off. */
    int64_t no_repeat_ngram;
    /* Makes tokens that the translation already contains less likely: a logit x > 0 becomes x / repetition_penalty, other
     * logits become x * repetition_penalty (Keskar et al. 2019). At most QKV_REPETITION_PENALTY_MAX; 0 or 1: off. */
    double repetition_penalty;
    bool allow_unknown; /* false: no <unk> in translations, except in the prefix */
    struct qkv_sampling_options sampling;

    const struct qkv_ids *prefixes; /* [sentences]: tokens that the translations begin with; NULL: none */
    /* [sentences]: a number for each sentence, from 0 to 2^44 - 1. Samples are a function of scores, seed, this number, the
     * index of the sample and the position; messages name sentences by it. NULL: 0, 1, 2, ... */
    const int64_t *numbers;
};

struct qkv_hypothesis {
    int64_t length;     /* tokens */
    const int32_t *ids; /* [length], without <s> and </s>; NULL: the sentence has fewer translations */
    /* Nats; includes the prefix, and </s> if finished. A repetition penalty changes it; temperature, top_k, top_p and
     * excluded tokens do not: it is the model's own log-probability. */
    double log_probability;
    double score;  /* log_probability divided by the length penalty */
    bool finished; /* false: cut at the maximum length */
};

/* The translations of a batch; caller's storage, all zero at first. Searching again reuses the
 * memory and overwrites the translations. */
struct qkv_translations {
    int64_t count; /* sentences */
    /* [count * n_best]: those of sentence s from s * n_best, best first. Samples are in the order in which they were
     * drawn; the first ones do not depend on n_best. */
    struct qkv_hypothesis *best;
    struct qkv_arena arena;
};

/* Translates the sources of a batch. Deterministic: equal candidates are ordered by their hypothesis (better first), then
 * by token id (lower first). The other sentences of the batch affect the result of a sentence only by rounding. Samples are
 * equal if the sentence number, the seed and the scores are equal. Fails where qkv_decoding_start fails, when an option is
 * out of range, for a prefix that is too long or holds other ids than those of words, and when memory runs out. QKV_FAILED:
 * the scores of the model are not finite. */
QKV_API enum qkv_status qkv_search(struct qkv_decoding *decoding, const struct qkv_batch_view *batch,
                                   const struct qkv_search_options *options,
                                   struct qkv_translations *translations, struct qkv_error *error);

/* The search options of a config: greedy or beam search, with `skip_scores` set. */
QKV_API struct qkv_search_options qkv_search_options_from_config(const struct qkv_testing_config *testing);

QKV_API void qkv_translations_release(struct qkv_translations *translations);

/* ---- many batches on many threads ---- */

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
