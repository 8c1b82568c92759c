#include "qkv/batch_loss.h"

#include "qkv/ops.h"

/* The parts that `done` reads. */
enum { CROSS_ENTROPY, ALIGNMENT, PASSES = 2 };

static int64_t begin(void *context, int shard, int shards)
{
    struct qkv_batch_loss *loss = context;
    struct qkv_batch_view view;
    loss->shards = shards;
    qkv_batch_shard(loss->batch, shard, shards, &view);
    return view.target_tokens; /* 0: fewer sentences than shards */
}

static struct qkv_tensor *build(void *context, struct qkv_shard *shard)
{
    const struct qkv_batch_loss *loss = context;
    struct qkv_batch_view view;
    struct qkv_trace trace;
    qkv_batch_shard(loss->batch, shard->index, loss->shards, &view);
    struct qkv_tensor *sum = qkv_model_loss(loss->model, shard->graph, &view, &loss->objective, 1.0, &trace);
    shard->part[CROSS_ENTROPY] = trace.cross_entropy;
    for (int pass = 0; pass < PASSES; pass++) shard->part[ALIGNMENT + pass] = trace.alignment[pass];
    return sum;
}

static void done(void *context, const struct qkv_shard *shard, const struct qkv_tensor *loss, double *further)
{
    const struct qkv_tensor *const *alignment = shard->part + ALIGNMENT;
    (void)context, (void)loss;
    qkv_cross_entropy_sums(shard->part[CROSS_ENTROPY], &further[QKV_BATCH_NEGATIVE_LOG_LIKELIHOOD],
                           &further[QKV_BATCH_CORRECT]);
    for (int pass = 0; pass < PASSES && alignment[pass]; pass++) {
        double nats, unused;
        qkv_cross_entropy_sums(alignment[pass], &nats, &unused);
        further[QKV_BATCH_ALIGNMENT] += alignment[1] ? nats / 2 : nats;
    }
}

struct qkv_shard_loss qkv_batch_loss(struct qkv_batch_loss *loss)
{
    return (struct qkv_shard_loss){.context = loss, .begin = begin, .build = build, .done = done};
}

enum qkv_status qkv_batch_loss_reserve(const struct qkv_batch_loss *loss, struct qkv_data_parallel *parallel,
                                       const struct qkv_batches *batches, struct qkv_error *error)
{
    struct qkv_batch batch = {0};
    struct qkv_batch_loss largest = {loss->model, &batch, loss->objective, .shards = 1};
    const struct qkv_shard_loss shards = qkv_batch_loss(&largest);
    enum qkv_status status = qkv_batches_largest(batches, qkv_data_parallel_shards(parallel), &batch, error);
    if (!status) status = qkv_data_parallel_reserve(parallel, &shards, error);
    qkv_batch_release(&batch);
    return status;
}
