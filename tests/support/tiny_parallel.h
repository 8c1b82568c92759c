/* Data parallelism over a small model with a team of threads. */
#pragma once

#include "support.h"

#include "tiny.h"

/* Sizes of vocabularies and of the usual batch. */
enum { SOURCE_SIZE = 11, TARGET_SIZE = 9, SENTENCES = 10 };

/* Lengths of the sentences of the usual batch. */
extern const int64_t SOURCE[SENTENCES], TARGET[SENTENCES];

/* One model on one team. */
struct bench {
    struct qkv_model *model;
    struct qkv_workers *workers;
    struct qkv_data_parallel *parallel;
    struct qkv_objective objective;
};

/* A model with this dropout everywhere. */
struct qkv_model *model_of(enum qkv_dtype dtype, double dropout);

/* Takes the model. bench_with minimises the cross entropy with label smoothing 0.1. */
struct bench bench_for(struct qkv_model *model, int threads, int shards, enum qkv_gradient_memory memory,
                       const struct qkv_objective *objective);
struct bench bench_with(struct qkv_model *model, int threads, int shards, enum qkv_gradient_memory memory);
void release(struct bench *b);

enum qkv_status try_step(struct bench *b, struct qkv_batch *batch, const struct qkv_random *random,
                         bool accumulate, struct qkv_shard_sums *sums, struct qkv_error *error);

/* A step, which must succeed. */
struct qkv_shard_sums step(struct bench *b, struct qkv_batch *batch, const struct qkv_random *random,
                           bool accumulate);

/* The gradient blocks, and their number. */
void *const *gradients_of(const struct bench *b);
int blocks_of(const struct bench *b);

/* The sum of the gradient blocks, as the optimizer adds them, of a model in float32. On the heap. */
float *total_of(const struct bench *b);
