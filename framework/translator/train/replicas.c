#include "qkv/replicas.h"

#include "core/exchange.h"
#include "qkv/ops.h"

#include <stdlib.h>

/* One shard of a batch. */
struct replica {
    struct qkv_batch_view view;
    struct qkv_trace trace; /* of its loss, while the graph exists */
};

struct qkv_replicas {
    const struct qkv_model *model;
    struct qkv_objective objective;
    struct qkv_data_parallel *parallel;
    int shards;
    struct qkv_processes *processes;
    struct replica *replica;    /* [shards] */
    struct qkv_step_sums *sums; /* [shards] */
    struct qkv_batch *batch;    /* of the step that is being run */
};

struct qkv_replicas *qkv_replicas_new(const struct qkv_model *model, struct qkv_workers *workers, int shards,
                                      enum qkv_gradient_memory memory, const struct qkv_objective *objective,
                                      struct qkv_error *error)
{
    struct qkv_data_parallel *parallel =
        qkv_data_parallel_new(&model->parameters, workers, shards, memory, error);
    if (!parallel) return NULL;
    struct qkv_replicas *replicas = calloc(1, sizeof *replicas);
    struct replica *replica = calloc((size_t)shards, sizeof *replica);
    struct qkv_step_sums *sums = calloc((size_t)shards, sizeof *sums);
    if (!replicas || !replica || !sums) {
        qkv_error_set(error, "out of memory for %d shards", shards);
        free(replicas);
        free(replica);
        free(sums);
        qkv_data_parallel_free(parallel);
        return NULL;
    }
    *replicas = (struct qkv_replicas){
        .model = model,
        .objective = objective ? *objective : (struct qkv_objective){0},
        .parallel = parallel,
        .shards = shards,
        .replica = replica,
        .sums = sums,
    };
    return replicas;
}

enum qkv_status qkv_replicas_divide(struct qkv_replicas *replicas, struct qkv_processes *processes,
                                    enum qkv_gradient_memory memory, struct qkv_error *error)
{
    replicas->processes = processes;
    return qkv_data_parallel_divide(replicas->parallel, processes, memory, error);
}

void qkv_replicas_free(struct qkv_replicas *replicas)
{
    if (!replicas) return;
    qkv_data_parallel_free(replicas->parallel);
    free(replicas->replica);
    free(replicas->sums);
    free(replicas);
}

/* ---- the loss of a shard: struct qkv_shard_loss ---- */

static int64_t begin(void *context, int shard, int shards)
{
    struct qkv_replicas *replicas = context;
    struct replica *replica = &replicas->replica[shard];
    qkv_batch_shard(replicas->batch, shard, shards, &replica->view);
    replicas->sums[shard] = (struct qkv_step_sums){.tokens = replica->view.target_tokens};
    return replica->view.target_tokens; /* 0: fewer sentences than shards */
}

static struct qkv_tensor *build(void *context, struct qkv_graph *graph, int shard)
{
    const struct qkv_replicas *replicas = context;
    struct replica *replica = &replicas->replica[shard];
    return qkv_model_loss(replicas->model, graph, &replica->view, &replicas->objective, 1.0, &replica->trace);
}

static void done(void *context, int shard, const struct qkv_tensor *loss)
{
    struct qkv_replicas *replicas = context;
    const struct qkv_trace *trace = &replicas->replica[shard].trace;
    struct qkv_step_sums *sums = &replicas->sums[shard];
    sums->loss = qkv_tensor_scalar(loss);
    qkv_cross_entropy_sums(trace->cross_entropy, &sums->negative_log_likelihood, &sums->correct);
    for (int pass = 0; pass < 2 && trace->alignment[pass]; pass++) {
        double alignment, unused;
        qkv_cross_entropy_sums(trace->alignment[pass], &alignment, &unused);
        sums->alignment += trace->alignment[1] ? alignment / 2 : alignment;
    }
}

/* ---- steps ---- */

enum qkv_status qkv_replicas_reserve(struct qkv_replicas *replicas, const struct qkv_batches *batches,
                                     struct qkv_error *error)
{
    struct qkv_batch batch = {0};
    enum qkv_status status = qkv_batches_largest(batches, replicas->shards, &batch, error);
    if (!status) {
        qkv_batch_shard(&batch, 0, 1, &replicas->replica[0].view);
        const struct qkv_shard_loss largest = {.context = replicas, .build = build};
        status = qkv_data_parallel_reserve(replicas->parallel, &largest, error);
    }
    qkv_batch_release(&batch);
    return status;
}

static void add_sums(struct qkv_step_sums *to, const struct qkv_step_sums *from)
{
    to->loss += from->loss;
    to->negative_log_likelihood += from->negative_log_likelihood;
    to->correct += from->correct;
    to->alignment += from->alignment;
    to->tokens += from->tokens;
}

enum qkv_status qkv_replicas_step(struct qkv_replicas *replicas, struct qkv_batch *batch,
                                  const struct qkv_random *random, bool accumulate,
                                  struct qkv_step_sums *sums, struct qkv_error *error)
{
    const struct qkv_shard_loss loss = {.context = replicas, .begin = begin, .build = build, .done = done};
    struct qkv_shard_sums total;
    replicas->batch = batch;
    enum qkv_status status =
        qkv_data_parallel_step(replicas->parallel, &loss, random, accumulate, &total, error);
    struct qkv_step_sums *of_shard = replicas->sums;
    /* Collect even after a failure: it may be known to process 0 only, and the other processes collect in any case. */
    enum qkv_status collected = qkv_exchange_collect(replicas->processes, of_shard, sizeof *of_shard,
                                                     replicas->shards, status ? NULL : error);
    if (status || collected) return status ? status : collected;
    for (int step = 1; step < replicas->shards; step *= 2) /* in the same tree as the gradients */
        for (int i = 0; i + step < replicas->shards; i += 2 * step)
            add_sums(&of_shard[i], &of_shard[i + step]);
    *sums = of_shard[0];
    return QKV_OK;
}

void *const *qkv_replicas_gradients(const struct qkv_replicas *replicas)
{
    int count;
    return qkv_data_parallel_gradients(replicas->parallel, &count);
}

int qkv_replicas_blocks(const struct qkv_replicas *replicas)
{
    int count;
    qkv_data_parallel_gradients(replicas->parallel, &count);
    return count;
}

int qkv_replicas_shards(const struct qkv_replicas *replicas)
{
    return replicas->shards;
}
