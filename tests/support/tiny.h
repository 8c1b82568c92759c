/* Models and batches small enough to be compared with an independent calculation. */
#ifndef QKV_TESTS_TINY_H
#define QKV_TESTS_TINY_H

#include "qkv/batch.h"
#include "qkv/model.h"

/* Two layers, two heads, width 8, no dropout, positions for 24 tokens; to be varied by the test. */
struct qkv_model_config tiny_config(void);

/* A model whose every parameter has moved away from its initial value, so that no bias is 0 and no two tokens
 * are alike; what it predicts is far from uniform. */
struct qkv_model *tiny_model(const struct qkv_model_config *config, int32_t source_size, int32_t target_size,
                             enum qkv_dtype dtype, uint64_t seed);

/* Fills a batch with random words; lengths without </s>. `target_length` NULL: no target side. */
void tiny_batch(struct qkv_batch *batch, const struct qkv_model *model, int64_t count,
                const int64_t *source_length, const int64_t *target_length, uint64_t seed);

/* A batch as a single shard. */
struct qkv_batch_view tiny_whole(struct qkv_batch *batch);

/* Log-probabilities [target_tokens, C] that a forced pass gives to every token behind every prefix of the
 * targets, on the heap. */
double *tiny_log_probabilities(const struct qkv_model *model, const struct qkv_batch_view *batch);

/* Feeds the targets of a batch, of 8 sentences at most, token by token, and compares every distribution with
 * that of the forced pass: with rows that stay where they are, and with rows that change places before each
 * step, so that what a row carries must move with it. */
void tiny_expect_forced(struct qkv_decoding *decoding, const struct qkv_model *model, const char *name,
                        const struct qkv_batch_view *batch, double tolerance);

#endif
