/* Scores a model on a corpus: the loss of the references, and the quality of the model's own translations.
 *
 * Example:
 *     struct qkv_error error = {""};
 *     struct qkv_model *model = NULL;         // of qkv_model_new or qkv_run_open
 *     struct qkv_corpus corpus = {0};         // encoded, read with keep_raw
 *     struct qkv_text_config text = {0};      // data.trg of the config
 *     struct qkv_vocabulary vocabulary = {0}; // of the target
 *     struct qkv_testing_config testing = {.batch_size = 32, .beam_size = 1};
 *     struct qkv_workers *workers = qkv_workers_new(0, &error);
 *     struct qkv_evaluator *evaluator =
 *         qkv_evaluator_new(model, &corpus, &text, &vocabulary, workers, &testing, &error);
 *     struct qkv_scores scores;
 *     if (evaluator && !qkv_evaluator_run(evaluator, &scores, &error))
 *         printf("BLEU %.2f\n", scores.value[QKV_METRIC_BLEU]);
 *     qkv_evaluator_free(evaluator);
 */
#ifndef QKV_EVALUATE_H
#define QKV_EVALUATE_H

#include "qkv/base.h"
#include "qkv/config.h"
#include "qkv/corpus.h"
#include "qkv/metrics.h"
#include "qkv/model.h"
#include "qkv/processes.h"
#include "qkv/search.h"

/* Fails unless the model has a position for every token of a corpus, </s> included; the message names the line of the first
 * sentence that is too long. Fails for a corpus of types only; otherwise always succeeds for models without a table of
 * positions. `path`: of the corpus, for the message. */
QKV_API enum qkv_status qkv_corpus_fits(const struct qkv_corpus *corpus, const char *path,
                                        const struct qkv_model_config *model, struct qkv_error *error);

struct qkv_evaluator;

/* Prepares to score `model` on an encoded corpus that kept its raw lines. All arguments must outlive the
 * evaluator. workers NULL: the calling thread computes alone. Returns NULL, with a message, when memory is
 * out, when the corpus is not encoded, has no raw lines, or was read with options.bpe_dropout for a side with BPE dropout,
 * when the target vocabulary is not of the model's size, and when a field of `testing` is out of range. */
QKV_API struct qkv_evaluator *
qkv_evaluator_new(const struct qkv_model *model, const struct qkv_corpus *corpus,
                  const struct qkv_text_config *target_text, const struct qkv_vocabulary *target,
                  struct qkv_workers *workers, const struct qkv_testing_config *testing,
                  struct qkv_error *error);

/* Prepares to score an ensemble (qkv_decoding_new_ensemble in model.h), whose models also score the references together.
 * Also returns NULL where qkv_decoding_new_ensemble does. */
QKV_API struct qkv_evaluator *
qkv_evaluator_new_ensemble(struct qkv_ensemble ensemble, const struct qkv_corpus *corpus,
                           const struct qkv_text_config *target_text, const struct qkv_vocabulary *target,
                           struct qkv_workers *workers, const struct qkv_testing_config *testing,
                           struct qkv_error *error);

/* Divides the batches of a run among processes, which must all score the same models on the same corpus with the same
 * options. Only process 0 gets scores, translations and log-probabilities, which have the same bits as with one process;
 * the other processes get only the status. Processes must outlive the evaluator. */
QKV_API void qkv_evaluator_divide(struct qkv_evaluator *evaluator, struct qkv_processes *processes);

/* Scores the model with its current parameters. QKV_FAILED: the scores are not finite; QKV_INVALID: a sentence is longer
 * than its positions, or memory runs out. The result is the same bits for any number of threads. */
QKV_API enum qkv_status qkv_evaluator_run(struct qkv_evaluator *evaluator, struct qkv_scores *scores,
                                          struct qkv_error *error);

/* The same without translations: only loss, perplexity and token accuracy; sequence accuracy is NaN, and the metrics of texts
 * are 0. */
QKV_API enum qkv_status qkv_evaluator_run_references(struct qkv_evaluator *evaluator,
                                                     struct qkv_scores *scores, struct qkv_error *error);

/* The model's translation of sentence i, as text, from the last run. Valid until the next run. NULL before the first
 * run, after a run that failed or was one of references, and for a sentence that does not exist. */
QKV_API const char *qkv_evaluator_translation(const struct qkv_evaluator *evaluator, int64_t i);

/* The counts of one sentence in the last run; all 0 before the first run, after a run that failed, and for a sentence that does
 * not exist. */
struct qkv_sentence_score {
    int64_t source_tokens;          /* without </s> */
    int64_t tokens;                 /* target tokens, </s> counted */
    double negative_log_likelihood; /* of the reference, nats */
    double correct;                 /* reference tokens to which the model gives the highest probability */
    bool is_exact_match;            /* the translation equals the reference, token for token */
};
QKV_API struct qkv_sentence_score qkv_evaluator_sentence(const struct qkv_evaluator *evaluator, int64_t i);

/* The log-probabilities (natural logarithm), from the last run, of the target tokens of sentence i of the corpus, </s>
 * included, each given the reference tokens before it: as many as `tokens` of qkv_evaluator_sentence. Their sum is
 * -negative_log_likelihood. Valid until the next run. NULL where there is no such sentence or no run. */
QKV_API const double *qkv_evaluator_log_probabilities(const struct qkv_evaluator *evaluator, int64_t i);

QKV_API void qkv_evaluator_free(struct qkv_evaluator *evaluator);

#endif
