#include "qkv/replicas.h"

#include "qkv/arena.h"
#include "qkv/ops.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* What computes one shard of a batch. */
struct replica {
    struct qkv_graph *graph;
    int block; /* index of the block that its gradients are added to */
    int turn;  /* its turn among the shards of the block, from 0 */
    struct qkv_batch_view view;
    struct qkv_step_sums sums;
    enum qkv_status status;
    struct qkv_error error;
};

struct qkv_replicas {
    const struct qkv_model *model;
    struct qkv_workers *workers;
    int shards, blocks;
    struct replica *replica;  /* [shards] */
    void **gradients;         /* [blocks]: each laid out as the values of the parameters */
    struct qkv_turns **turns; /* [blocks]: the order in which the shards of a block add to it */

    /* The step that is being run. */
    struct qkv_batch *batch;
    double smoothing;
    const struct qkv_random *random;
    bool accumulate;
};

static size_t block_bytes(const struct qkv_model *model)
{
    const struct qkv_parameters *parameters = &model->parameters;
    return (size_t)parameters->elements * qkv_dtype_size(parameters->dtype);
}

/* Number of gradient blocks when the caller gives none. A small model gets one block for each shard: memory is
 * cheap, and no shard waits for its turn. In a large model up to CHAIN shards share a block, which needs less
 * memory; in longer chains the last shard would wait too long. */
static int default_blocks(const struct qkv_model *model, int shards)
{
    enum { SMALL = 1 << 20, CHAIN = 8 };
    return model->parameters.elements < SMALL ? shards : (shards + CHAIN - 1) / CHAIN;
}

struct qkv_replicas *qkv_replicas_new(const struct qkv_model *model, struct qkv_workers *workers, int shards,
                                      int blocks, struct qkv_error *error)
{
    if (shards < 1 || shards > QKV_SHARDS_MOST || blocks < 0 || blocks > shards ||
        !model->parameters.values) {
        qkv_error_set(
            error,
            "%d shards with %d gradient blocks of %s parameters: shards must lie in 1 to %d, blocks in 0 "
            "to the number of shards, and parameters must be allocated",
            shards, blocks, model->parameters.values ? "allocated" : "unallocated", QKV_SHARDS_MOST);
        return NULL;
    }
    struct qkv_replicas *replicas = calloc(1, sizeof *replicas);
    if (!replicas) goto no_memory;
    *replicas = (struct qkv_replicas){.model = model, .workers = workers};
    replicas->replica = calloc((size_t)shards, sizeof *replicas->replica);
    if (!blocks) blocks = default_blocks(model, shards);
    int block_shards = (shards + blocks - 1) / blocks; /* shards that share a block */
    blocks = (shards + block_shards - 1) / block_shards;
    replicas->gradients = calloc((size_t)blocks, sizeof *replicas->gradients);
    replicas->turns = calloc((size_t)blocks, sizeof(struct qkv_turns *));
    if (!replicas->replica || !replicas->gradients || !replicas->turns) goto no_memory;
    for (; replicas->blocks < blocks; replicas->blocks++) {
        size_t bytes = block_bytes(model);
        void *block = replicas->gradients[replicas->blocks] = qkv_block_new(bytes, bytes);
        struct qkv_turns *turns = replicas->turns[replicas->blocks] = qkv_turns_new(&model->parameters);
        if (!block || !turns) {
            replicas->blocks++;
            goto no_memory;
        }
        memset(block, 0, bytes);
    }
    for (; replicas->shards < shards; replicas->shards++) {
        struct replica *replica = &replicas->replica[replicas->shards];
        replica->graph = qkv_graph_new(model->parameters.dtype);
        if (!replica->graph) goto no_memory;
        replica->block = replicas->shards / block_shards;
        replica->turn = replicas->shards % block_shards;
        qkv_graph_share_memory(replica->graph, true);
        qkv_graph_set_turn(replica->graph, replicas->turns[replica->block], replica->turn);
    }
    return replicas;
no_memory:
    qkv_error_set(error, "out of memory for %d shards", shards);
    qkv_replicas_free(replicas);
    return NULL;
}

void qkv_replicas_free(struct qkv_replicas *replicas)
{
    if (!replicas) return;
    for (int i = 0; i < replicas->shards; i++) qkv_graph_free(replicas->replica[i].graph);
    for (int i = 0; i < replicas->blocks; i++) {
        qkv_block_free(replicas->gradients[i], block_bytes(replicas->model));
        qkv_turns_free(replicas->turns[i]);
    }
    free(replicas->replica);
    free(replicas->gradients);
    free(replicas->turns);
    free(replicas);
}

/* Builds the graph of a shard: the forward pass and the loss of replica->view, which is returned. NULL where the
 * graph cannot be built. */
static struct qkv_tensor *build(struct qkv_replicas *replicas, int shard, const struct qkv_random *random)
{
    struct replica *replica = &replicas->replica[shard];
    struct qkv_graph *graph = replica->graph;
    qkv_graph_reset(graph);
    qkv_graph_bind(graph, &replicas->model->parameters, replicas->gradients[replica->block],
                   replicas->accumulate || replica->turn > 0);
    qkv_graph_set_dropout(graph, random);
    struct qkv_tensor *loss =
        qkv_model_loss(replicas->model, graph, &replica->view, replicas->smoothing, 1.0, NULL);
    qkv_graph_plan(graph, loss);
    return loss;
}

/* Builds the same graph without sharing memory between tensors: every result stays readable, which takes more
 * memory. */
static void build_apart(struct qkv_replicas *replicas, int shard, const struct qkv_random *random)
{
    struct qkv_graph *graph = replicas->replica[shard].graph;
    qkv_graph_reset(graph);
    qkv_graph_share_memory(graph, false);
    build(replicas, shard, random);
}

static void share_again(struct qkv_replicas *replicas, int shard)
{
    struct qkv_graph *graph = replicas->replica[shard].graph;
    qkv_graph_reset(graph);
    qkv_graph_share_memory(graph, true);
}

/* Repeats the forward pass and names the first tensor, in the order of computation, that is not finite. */
static enum qkv_status diverged(struct qkv_replicas *replicas, int shard, const struct qkv_random *random)
{
    struct replica *replica = &replicas->replica[shard];
    build_apart(replicas, shard, random);
    qkv_forward(replica->graph);
    const struct qkv_tensor *tensor = qkv_graph_find_not_finite(replica->graph);
    const char *name = tensor ? qkv_tensor_name(tensor) : "the sum of the loss";
    qkv_error_set(&replica->error, "the loss is not finite; the first tensor that is not is %s (%s)", name,
                  tensor ? qkv_tensor_op(tensor) : "sum");
    share_again(replicas, shard);
    return QKV_FAILED;
}

enum qkv_status qkv_replicas_reserve(struct qkv_replicas *replicas, const struct qkv_batches *batches,
                                     struct qkv_error *error)
{
    const struct qkv_random random = {0};
    struct qkv_batch batch = {0};
    enum qkv_status status = qkv_batches_largest(batches, replicas->shards, &batch, error);
    for (int i = 0; !status && i < replicas->shards; i++) {
        qkv_batch_shard(&batch, 0, 1, &replicas->replica[i].view);
        /* Dropout needs memory of its own, and how much memory sharing saves depends on the batch: the graph with
         * dropout and without sharing is the largest that a step builds. */
        build_apart(replicas, i, &random);
        status = qkv_graph_check(replicas->replica[i].graph, error);
        share_again(replicas, i);
    }
    qkv_batch_release(&batch);
    return status;
}

static enum qkv_status run_replica(struct qkv_replicas *replicas, int shard)
{
    struct replica *replica = &replicas->replica[shard];
    struct qkv_graph *graph = replica->graph;
    replica->sums = (struct qkv_step_sums){0};
    qkv_batch_shard(replicas->batch, shard, replicas->shards, &replica->view);
    if (replica->view.count == 0) { /* fewer sentences than shards */
        if (!replicas->accumulate && replica->turn == 0)
            memset(replicas->gradients[replica->block], 0, block_bytes(replicas->model));
        qkv_graph_reset(graph);
        return QKV_OK;
    }
    struct qkv_random random;
    if (replicas->random) {
        /* Every shard gets its own dropout seed: multiples of an odd constant (2^64 / golden ratio) are added. */
        random = *replicas->random;
        random.seed += (uint64_t)(shard + 1) * 0x9E3779B97F4A7C15u;
    }
    const struct qkv_random *shard_random = replicas->random ? &random : NULL;
    struct qkv_tensor *loss = build(replicas, shard, shard_random);
    if (qkv_graph_check(graph, &replica->error)) return QKV_INVALID;
    qkv_forward(graph);
    replica->sums.loss = qkv_tensor_scalar(loss);
    replica->sums.tokens = replica->view.target_tokens;
    qkv_cross_entropy_sums(loss, &replica->sums.negative_log_likelihood, &replica->sums.correct);
    if (!isfinite(replica->sums.loss)) return diverged(replicas, shard, shard_random);
    qkv_backward(graph, loss, NULL);
    return QKV_OK;
}

static void run_part(void *context, int part)
{
    struct qkv_replicas *replicas = context;
    replicas->replica[part].status = run_replica(replicas, part);
    /* Without this, the shards after one whose pass has ended early would wait for its turns for ever. */
    qkv_graph_finish_turns(replicas->replica[part].graph);
}

enum qkv_status qkv_replicas_step(struct qkv_replicas *replicas, struct qkv_batch *batch, double smoothing,
                                  const struct qkv_random *random, bool accumulate,
                                  struct qkv_step_sums *sums, struct qkv_error *error)
{
    replicas->batch = batch;
    replicas->smoothing = smoothing;
    replicas->random = random;
    replicas->accumulate = accumulate;
    for (int i = 0; i < replicas->blocks; i++) qkv_turns_reset(replicas->turns[i]);
    qkv_workers_run(replicas->workers, replicas->shards, run_part, replicas);
    *sums = (struct qkv_step_sums){0};
    for (int i = 0; i < replicas->shards; i++) {
        const struct replica *replica = &replicas->replica[i];
        if (replica->status) {
            qkv_error_set(error, "%s", replica->error.message);
            return replica->status;
        }
        sums->loss += replica->sums.loss;
        sums->negative_log_likelihood += replica->sums.negative_log_likelihood;
        sums->correct += replica->sums.correct;
        sums->tokens += replica->sums.tokens;
    }
    return QKV_OK;
}

void *const *qkv_replicas_gradients(const struct qkv_replicas *replicas)
{
    return replicas->gradients;
}

int qkv_replicas_blocks(const struct qkv_replicas *replicas)
{
    return replicas->blocks;
}

int qkv_replicas_shards(const struct qkv_replicas *replicas)
{
    return replicas->shards;
}

size_t qkv_replicas_peak_bytes(const struct qkv_replicas *replicas)
{
    size_t bytes = 0;
    for (int i = 0; i < replicas->shards; i++) bytes += qkv_graph_peak_bytes(replicas->replica[i].graph);
    return bytes;
}
