/* The scores of a model for the next token, for reference searches in tests. */
#pragma once

#include "support.h"

/* Makes a model of random weights, of the tiny config: a transformer, or a recurrent network with attention. */
struct qkv_model *tiny_model_of_type(enum qkv_network type, int32_t source_size, int32_t target_size,
                                     enum qkv_dtype dtype, uint64_t seed);

/* Writes the logits [C] of the tokens that may follow these `length` tokens of the translation of a source. */
void next_logits(const struct qkv_model *model, struct qkv_ids source, int64_t length, const int32_t *ids,
                 double *logits);

/* Turns logits into log-probabilities, with the functions of the C library. */
void log_softmax(int64_t count, double *logits);
