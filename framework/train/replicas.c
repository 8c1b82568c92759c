#include "qkv/replicas.h"

#include "qkv/ops.h"
#include "train/gradient_tree.h"

#include <math.h>
#include <stdlib.h>

/* One shard of a batch. */
struct replica {
    struct qkv_batch_view view;
    struct qkv_step_sums sums;
    enum qkv_status status;
    struct qkv_error error;
};

struct qkv_replicas {
    const struct qkv_model *model;
    struct qkv_workers *workers;
    int shards, graphs;
    struct replica *replica;  /* [shards] */
    bool *is_empty;           /* [shards] */
    struct qkv_graph **graph; /* [graphs]: one for each shard that runs at the same time */
    struct qkv_gradient_tree *tree;
    struct qkv_objective objective;

    const struct qkv_random *random; /* of the step that is being run */
};

static bool make_graphs(struct qkv_replicas *replicas)
{
    for (int i = 0; i < replicas->graphs; i++) {
        struct qkv_graph *graph = replicas->graph[i] = qkv_graph_new(replicas->model->parameters.dtype);
        if (!graph) return false;
        qkv_graph_share_memory(graph, true);
    }
    return true;
}

struct qkv_replicas *qkv_replicas_new(const struct qkv_model *model, struct qkv_workers *workers, int shards,
                                      enum qkv_gradient_memory memory, const struct qkv_objective *objective,
                                      struct qkv_error *error)
{
    if (shards < 1 || shards > QKV_SHARDS_MOST || memory < QKV_GRADIENTS_BY_SIZE ||
        memory > QKV_GRADIENTS_PAIRED || !model->parameters.values) {
        qkv_error_set(error,
                      "%d shards of %s parameters, with memory for gradients of kind %d: shards must lie in "
                      "1 to %d, the "
                      "kind must be one of enum qkv_gradient_memory, and parameters must be allocated",
                      shards, model->parameters.values ? "allocated" : "unallocated", (int)memory,
                      QKV_SHARDS_MOST);
        return NULL;
    }
    int threads = qkv_workers_count(workers);
    struct qkv_replicas *replicas = calloc(1, sizeof *replicas);
    if (!replicas) goto no_memory;
    *replicas = (struct qkv_replicas){
        .model = model,
        .workers = workers,
        .shards = shards,
        .graphs = threads < shards ? threads : shards,
        .objective = objective ? *objective : (struct qkv_objective){0},
    };
    replicas->replica = calloc((size_t)shards, sizeof *replicas->replica);
    replicas->is_empty = calloc((size_t)shards, sizeof *replicas->is_empty);
    replicas->graph = calloc((size_t)replicas->graphs, sizeof(struct qkv_graph *));
    replicas->tree = qkv_gradient_tree_new(&model->parameters, replicas->graphs, shards, memory);
    if (replicas->replica && replicas->is_empty && replicas->graph && replicas->tree && make_graphs(replicas))
        return replicas;
no_memory:
    qkv_error_set(error, "out of memory for %d shards", shards);
    qkv_replicas_free(replicas);
    return NULL;
}

void qkv_replicas_free(struct qkv_replicas *replicas)
{
    if (!replicas) return;
    for (int i = 0; replicas->graph && i < replicas->graphs; i++) qkv_graph_free(replicas->graph[i]);
    qkv_gradient_tree_free(replicas->tree);
    free(replicas->replica);
    free(replicas->is_empty);
    free(replicas->graph);
    free(replicas);
}

/* Builds the graph of a shard: the forward pass and the loss of `view`, which is returned. NULL where the graph
 * cannot be built. */
static struct qkv_tensor *build(const struct qkv_replicas *replicas, const struct qkv_gradient_leaf *leaf,
                                const struct qkv_batch_view *view, const struct qkv_random *random)
{
    struct qkv_graph *graph = replicas->graph[leaf->worker];
    qkv_graph_reset(graph);
    qkv_graph_set_pair(graph, leaf->pair, leaf->is_second);
    qkv_graph_bind(graph, &replicas->model->parameters, leaf->gradients, leaf->is_second);
    qkv_graph_set_dropout(graph, random);
    struct qkv_tensor *loss = qkv_model_loss(replicas->model, graph, view, &replicas->objective, 1.0, NULL);
    qkv_graph_plan(graph, loss);
    return loss;
}

/* Builds the same graph without sharing memory between tensors: every result stays readable, which takes more
 * memory. */
static void build_apart(const struct qkv_replicas *replicas, const struct qkv_gradient_leaf *leaf,
                        const struct qkv_batch_view *view, const struct qkv_random *random)
{
    struct qkv_graph *graph = replicas->graph[leaf->worker];
    qkv_graph_reset(graph);
    qkv_graph_share_memory(graph, false);
    build(replicas, leaf, view, random);
}

static void share_again(struct qkv_graph *graph)
{
    qkv_graph_reset(graph);
    qkv_graph_share_memory(graph, true);
}

/* Repeats the forward pass and names the first tensor, in the order of computation, that is not finite. */
static enum qkv_status diverged(struct qkv_replicas *replicas, const struct qkv_gradient_leaf *leaf,
                                const struct qkv_random *random)
{
    struct qkv_graph *graph = replicas->graph[leaf->worker];
    struct replica *replica = &replicas->replica[leaf->shard];
    build_apart(replicas, leaf, &replica->view, random);
    qkv_forward(graph);
    const struct qkv_tensor *tensor = qkv_graph_find_not_finite(graph);
    const char *name = tensor ? qkv_tensor_name(tensor) : "the sum of the loss";
    qkv_error_set(&replica->error, "the loss is not finite; the first tensor that is not is %s (%s)", name,
                  tensor ? qkv_tensor_op(tensor) : "sum");
    share_again(graph);
    return QKV_FAILED;
}

enum qkv_status qkv_replicas_reserve(struct qkv_replicas *replicas, const struct qkv_batches *batches,
                                     struct qkv_error *error)
{
    const struct qkv_random random = {0};
    struct qkv_gradient_leaf leaf = {.gradients = qkv_gradient_tree_any_block(replicas->tree)};
    struct qkv_batch batch = {0};
    struct qkv_batch_view view;
    enum qkv_status status = qkv_batches_largest(batches, replicas->shards, &batch, error);
    for (; !status && leaf.worker < replicas->graphs; leaf.worker++) {
        qkv_batch_shard(&batch, 0, 1, &view);
        /* Dropout needs memory of its own, and how much memory sharing saves depends on the batch: the graph with
         * dropout and without sharing is the largest that a step builds. */
        build_apart(replicas, &leaf, &view, &random);
        status = qkv_graph_check(replicas->graph[leaf.worker], error);
        share_again(replicas->graph[leaf.worker]);
    }
    qkv_batch_release(&batch);
    return status;
}

static enum qkv_status run_shard(struct qkv_replicas *replicas, const struct qkv_gradient_leaf *leaf)
{
    struct replica *replica = &replicas->replica[leaf->shard];
    struct qkv_graph *graph = replicas->graph[leaf->worker];
    struct qkv_random random;
    if (replicas->random) {
        /* Every shard gets its own dropout seed: multiples of an odd constant (2^64 / golden ratio) are added. */
        random = *replicas->random;
        random.seed += (uint64_t)(leaf->shard + 1) * 0x9E3779B97F4A7C15u;
    }
    const struct qkv_random *shard_random = replicas->random ? &random : NULL;
    struct qkv_tensor *loss = build(replicas, leaf, &replica->view, shard_random);
    if (qkv_graph_check(graph, &replica->error)) return QKV_INVALID;
    qkv_forward(graph);
    replica->sums.loss = qkv_tensor_scalar(loss);
    replica->sums.tokens = replica->view.target_tokens;
    qkv_cross_entropy_sums(loss, &replica->sums.negative_log_likelihood, &replica->sums.correct);
    if (!isfinite(replica->sums.loss)) return diverged(replicas, leaf, shard_random);
    qkv_backward(graph, loss, NULL);
    return QKV_OK;
}

/* Runs the next shard. The workers' numbers of parts say nothing about the order in which parts begin. */
static void run_next(void *context, int part)
{
    struct qkv_replicas *replicas = context;
    struct qkv_gradient_leaf leaf;
    (void)part;
    if (!qkv_gradient_tree_take(replicas->tree, &leaf)) return; /* the others are empty */
    replicas->replica[leaf.shard].status = run_shard(replicas, &leaf);
    /* Without this, the second of a pair would wait for ever for a first one whose pass has ended early. */
    qkv_graph_finish_pair(replicas->graph[leaf.worker]);
    qkv_gradient_tree_complete(replicas->tree, &leaf);
}

static void begin_shards(struct qkv_replicas *replicas, struct qkv_batch *batch)
{
    for (int i = 0; i < replicas->shards; i++) {
        struct replica *replica = &replicas->replica[i];
        replica->sums = (struct qkv_step_sums){0};
        replica->status = QKV_OK;
        qkv_batch_shard(batch, i, replicas->shards, &replica->view);
        replicas->is_empty[i] = replica->view.count == 0; /* fewer sentences than shards */
    }
}

static void add_sums(struct qkv_step_sums *to, const struct qkv_step_sums *from)
{
    to->loss += from->loss;
    to->negative_log_likelihood += from->negative_log_likelihood;
    to->correct += from->correct;
    to->tokens += from->tokens;
}

enum qkv_status qkv_replicas_step(struct qkv_replicas *replicas, struct qkv_batch *batch,
                                  const struct qkv_random *random, bool accumulate,
                                  struct qkv_step_sums *sums, struct qkv_error *error)
{
    struct replica *replica = replicas->replica;
    replicas->random = random;
    begin_shards(replicas, batch);
    qkv_gradient_tree_begin(replicas->tree, replicas->is_empty, accumulate, replicas->workers);
    qkv_workers_run(replicas->workers, replicas->shards, run_next, replicas);
    for (int i = 0; i < replicas->shards; i++)
        if (replica[i].status) {
            qkv_error_set(error, "%s", replica[i].error.message);
            return replica[i].status;
        }
    qkv_gradient_tree_end(replicas->tree, replicas->workers);
    for (int step = 1; step < replicas->shards; step *= 2) /* the same tree */
        for (int i = 0; i + step < replicas->shards; i += 2 * step)
            add_sums(&replica[i].sums, &replica[i + step].sums);
    *sums = replica[0].sums;
    return QKV_OK;
}

void *const *qkv_replicas_gradients(const struct qkv_replicas *replicas)
{
    int count;
    return qkv_gradient_tree_blocks(replicas->tree, &count);
}

int qkv_replicas_blocks(const struct qkv_replicas *replicas)
{
    int count;
    qkv_gradient_tree_blocks(replicas->tree, &count);
    return count;
}

int qkv_replicas_shards(const struct qkv_replicas *replicas)
{
    return replicas->shards;
}

size_t qkv_replicas_peak_bytes(const struct qkv_replicas *replicas)
{
    size_t bytes = 0;
    for (int i = 0; i < replicas->graphs; i++) bytes += qkv_graph_peak_bytes(replicas->graph[i]);
    return bytes;
}
