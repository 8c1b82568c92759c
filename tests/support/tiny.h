/* Small models and batches, for comparisons with an independent calculation. */
#pragma once

#include "support.h"

/* Returns a config with two layers, two heads, width 8, no dropout and positions for 24 tokens. */
struct qkv_model_config tiny_config(void);

/* The same of a recurrent network with GRUs, embeddings that are not scaled, and attention with a general score. */
struct qkv_model_config tiny_recurrent_config(void);

/* Makes a model and changes each parameter at random, so that no bias is 0, no two tokens are
 * equal, and predictions are far from uniform. */
struct qkv_model *tiny_model(const struct qkv_model_config *config, int32_t source_size, int32_t target_size,
                             enum qkv_dtype dtype, uint64_t seed);

/* Makes a token of the target more or less likely everywhere. */
void tiny_favour(struct qkv_model *model, int32_t token, double by);

/* Translates a batch, which must succeed. */
void tiny_search(const struct qkv_model *model, const struct qkv_batch_view *batch,
                 struct qkv_search_options options, struct qkv_translations *translations);

/* Fills a batch with random words. Lengths do not count </s>. `target_length` NULL: no targets. */
void tiny_batch(struct qkv_batch *batch, const struct qkv_model *model, int64_t count,
                const int64_t *source_length, const int64_t *target_length, uint64_t seed);

/* Returns all of a batch as one shard. */
struct qkv_batch_view tiny_view(struct qkv_batch *batch);

/* A model with a batch of random words, all of which is one shard. */
struct tiny {
    struct qkv_model *model;
    struct qkv_batch batch;
    struct qkv_batch_view view;
};

/* Takes the model. Lengths are those of tiny_batch. */
struct tiny tiny_with(struct qkv_model *model, int64_t count, const int64_t *source_length,
                      const int64_t *target_length, uint64_t seed);
void tiny_release(struct tiny *tiny);

/* Writes the words of each source, without </s>, to `ids`. */
void tiny_sources(const struct qkv_batch *batch, struct qkv_ids *ids);

/* Translates sentences, which must succeed. The result belongs to the translator. */
const struct qkv_hypothesis *tiny_translate(struct qkv_translator *translator, int64_t count,
                                            const struct qkv_ids *sources, int64_t batch_size,
                                            const struct qkv_search_options *options);

/* Whether two hypotheses have the same words, and both are finished or neither is. */
bool tiny_is_same(const struct qkv_hypothesis *a, const struct qkv_hypothesis *b);

/* A graph over the parameters of the model, without gradients, in which the loss of the batch has been computed; fills
 * the trace. */
struct qkv_graph *tiny_traced(const struct tiny *tiny, struct qkv_trace *trace);

/* Returns the log-probabilities [target_tokens, C] of every token after every prefix of the
 * targets, from one pass with teacher forcing. The caller frees them. */
double *tiny_log_probabilities(const struct qkv_model *model, const struct qkv_batch_view *batch);

/* Returns the greatest difference between the log-probabilities of two models and batches of the same targets; the test ends
 * where one is not finite. */
double tiny_difference(const struct qkv_model *model, const struct qkv_batch_view *batch,
                       const struct qkv_model *other, const struct qkv_batch_view *other_batch);

/* Decodes the targets of a batch of at most 8 sentences token by token, and compares every
 * distribution with that of teacher forcing: once with fixed rows, and once with rows that are
 * reordered before each step, so that the cached state of a row must move with it. */
void tiny_expect_forced(struct qkv_decoding *decoding, const struct qkv_model *model, const char *name,
                        const struct qkv_batch_view *batch, double tolerance);

/* Expects of the decodings of two batches, one after the other, the probabilities of the forced pass. */
void tiny_expect_decoding(struct qkv_model *model, const char *what);
