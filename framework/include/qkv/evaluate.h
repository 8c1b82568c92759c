/* Scoring a model on a corpus: loss of the given translations, and quality of its own. */
#ifndef QKV_EVALUATE_H
#define QKV_EVALUATE_H

#include "qkv/config.h"
#include "qkv/corpus.h"
#include "qkv/metrics.h"
#include "qkv/model.h"
#include "qkv/search.h"
#include "qkv/workers.h"

/* Whether the model has positions for every sentence of a corpus; else a sentence with the line of the first
 * that is too long. `path` is that of the corpus. */
QKV_API enum qkv_status qkv_corpus_fits(const struct qkv_corpus *corpus, const char *path,
                                        const struct qkv_model_config *model, struct qkv_error *error);

struct qkv_evaluator;

/* Prepares to score `model` on an encoded corpus that kept its raw lines. All arguments must outlive it. NULL
 * with a sentence when memory is out. */
QKV_API struct qkv_evaluator *
qkv_evaluator_new(const struct qkv_model *model, const struct qkv_corpus *corpus,
                  const struct qkv_text_config *target_text, const struct qkv_vocabulary *target,
                  struct qkv_workers *workers, const struct qkv_testing_config *testing,
                  struct qkv_error *error);

/* Scores the model as its parameters stand now. The same bits with any number of threads. */
QKV_API enum qkv_status qkv_evaluator_run(struct qkv_evaluator *evaluator, struct qkv_scores *scores,
                                          struct qkv_error *error);

/* The model's translation of sentence i, as text, from the last run. */
QKV_API const char *qkv_evaluator_translation(const struct qkv_evaluator *evaluator, int64_t i);

/* What the last run made of one sentence. */
struct qkv_sentence_score {
    int64_t source_tokens;          /* without </s> */
    int64_t tokens;                 /* target tokens, </s> counted */
    double negative_log_likelihood; /* of the given translation, nats */
    double correct;                 /* its tokens that were the most probable ones */
    bool right;                     /* the own translation equals it, token for token */
};
QKV_API struct qkv_sentence_score qkv_evaluator_sentence(const struct qkv_evaluator *evaluator, int64_t i);

QKV_API void qkv_evaluator_free(struct qkv_evaluator *evaluator);

#endif
