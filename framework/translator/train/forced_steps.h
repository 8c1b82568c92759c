/* Computes the probabilities of given translations by decoding step by step. For ensembles, which have no graph for a forced
 * pass. */
#ifndef QKV_TRAIN_FORCED_STEPS_H
#define QKV_TRAIN_FORCED_STEPS_H

#include "qkv/arena.h"
#include "qkv/model.h"

/* Writes for each target token of a batch, </s> included, its negative log-likelihood in nats, and 1 if no other token
 * is more probable (of equally probable tokens, the lowest id counts), else 0: both [target_tokens]. Uses the arena. Fails when
 * qkv_decoding_start or a step fails, and when memory runs out. */
enum qkv_status qkv_forced_steps(struct qkv_decoding *decoding, const struct qkv_batch_view *batch,
                                 struct qkv_arena *arena, double *negative_log_likelihood, double *correct,
                                 struct qkv_error *error);

#endif
