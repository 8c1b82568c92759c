#include "tiny_parallel.h"
#include "framework/engine/optimize/optimize.h"

const int64_t SOURCE[SENTENCES] = {3, 1, 6, 0, 2, 9, 4, 4, 1, 7},
              TARGET[SENTENCES] = {4, 0, 2, 7, 1, 8, 8, 3, 2, 5};

struct qkv_model *model_of(enum qkv_dtype dtype, double dropout)
{
    struct qkv_model_config config = tiny_config();
    struct qkv_stack_config *stacks[] = {&config.encoder, &config.decoder};
    for (int i = 0; i < 2; i++)
        stacks[i]->dropout = stacks[i]->attention.dropout = stacks[i]->embeddings.dropout = dropout;
    return tiny_model(&config, SOURCE_SIZE, TARGET_SIZE, dtype, 4);
}

struct bench bench_for(struct qkv_model *model, int threads, int shards, enum qkv_gradient_memory memory,
                       const struct qkv_objective *objective)
{
    struct bench b = {.model = model, .workers = qkv_workers_new(threads, &error), .objective = *objective};
    cr_assert_not_null(b.workers, "%s", error.message);
    b.parallel = qkv_data_parallel_new(&model->parameters, b.workers, shards, memory, &error);
    cr_assert_not_null(b.parallel, "%s", error.message);
    cr_assert_eq(qkv_data_parallel_shards(b.parallel), shards);
    return b;
}

struct bench bench_with(struct qkv_model *model, int threads, int shards, enum qkv_gradient_memory memory)
{
    return bench_for(model, threads, shards, memory, &(struct qkv_objective){.smoothing = 0.1});
}

void release(struct bench *b)
{
    qkv_data_parallel_free(b->parallel);
    qkv_workers_free(b->workers);
    qkv_model_free(b->model);
}

enum qkv_status try_step(struct bench *b, struct qkv_batch *batch, const struct qkv_random *random,
                         bool accumulate, struct qkv_shard_sums *sums, struct qkv_error *refusal)
{
    struct qkv_batch_loss of_batch = {b->model, batch, b->objective, 0};
    const struct qkv_shard_loss loss = qkv_batch_loss(&of_batch);
    return qkv_data_parallel_step(b->parallel, &loss, random, accumulate, sums, refusal);
}

struct qkv_shard_sums step(struct bench *b, struct qkv_batch *batch, const struct qkv_random *random,
                           bool accumulate)
{
    struct qkv_shard_sums sums;
    expect_done(try_step(b, batch, random, accumulate, &sums, &error));
    return sums;
}

void *const *gradients_of(const struct bench *b)
{
    int count;
    return qkv_data_parallel_gradients(b->parallel, &count);
}

int blocks_of(const struct bench *b)
{
    int count;
    qkv_data_parallel_gradients(b->parallel, &count);
    return count;
}

float *total_of(const struct bench *b)
{
    int64_t elements = b->model->parameters.elements;
    int count = blocks_of(b);
    float *sum = malloc((size_t)(count * elements) * sizeof *sum);
    for (int s = 0; s < count; s++)
        memcpy(sum + s * elements, gradients_of(b)[s], (size_t)elements * sizeof *sum);
    for (int step = 1; step < count; step *= 2)
        for (int s = 0; s + step < count; s += 2 * step)
            for (int64_t i = 0; i < elements; i++) sum[s * elements + i] += sum[(s + step) * elements + i];
    return sum;
}
