/* Data parallelism: a step computes shards of a batch in graphs on several threads. */
#include "optimize/optimize.h"

#include "core/exchange.h"
#include "core/system.h"
#include "graph/graph.h"

#include <math.h>
#include <stdlib.h>

struct shard_result {
    struct qkv_shard_sums sums;
    enum qkv_status status;
    struct qkv_error error;
};

struct qkv_data_parallel {
    const struct qkv_parameters *parameters;
    struct qkv_workers *workers;
    struct qkv_processes *processes;
    enum qkv_gradient_memory memory;
    int shards, threads;        /* threads: as many as run shards at the same time */
    struct shard_result *shard; /* [shards] */
    bool *is_empty;             /* [shards] */
    struct qkv_shard *running;  /* [threads]: graphs, and the shards in them */
    struct qkv_gradient_tree *tree;

    /* Of the step that is being run: */
    struct qkv_shard_loss loss;
    const struct qkv_random *random;
};

static bool make_graphs(struct qkv_data_parallel *parallel)
{
    for (int i = 0; i < parallel->threads; i++)
        if (!(parallel->running[i].graph = qkv_graph_new(parallel->parameters->dtype))) return false;
    return true;
}

static enum qkv_status check(const struct qkv_parameters *parameters, int shards,
                             enum qkv_gradient_memory memory, struct qkv_error *error)
{
    if (shards < 1 || shards > QKV_SHARDS_MAX)
        return qkv_error_set(error, "%d shards, but there must be 1 to %d", shards, QKV_SHARDS_MAX);
    if (!parameters->values)
        return qkv_error_set(error, "the parameters are not allocated: call qkv_parameters_allocate");
    if ((int)memory < QKV_GRADIENTS_BY_SIZE || (int)memory > QKV_GRADIENTS_PAIRED)
        return qkv_error_set(error, "there is no memory for gradients of kind %d", (int)memory);
    return QKV_OK;
}

struct qkv_data_parallel *qkv_data_parallel_new(const struct qkv_parameters *parameters,
                                                struct qkv_workers *workers, int shards,
                                                enum qkv_gradient_memory memory, struct qkv_error *error)
{
    if (check(parameters, shards, memory, error)) return NULL;
    int threads = qkv_workers_count(workers);
    struct qkv_data_parallel *parallel = calloc(1, sizeof *parallel);
    if (!parallel) goto no_memory;
    *parallel = (struct qkv_data_parallel){
        .parameters = parameters,
        .workers = workers,
        .memory = memory,
        .shards = shards,
        .threads = threads < shards ? threads : shards,
    };
    parallel->shard = calloc((size_t)shards, sizeof *parallel->shard);
    parallel->is_empty = calloc((size_t)shards, sizeof *parallel->is_empty);
    parallel->running = calloc((size_t)parallel->threads, sizeof *parallel->running);
    parallel->tree = qkv_gradient_tree_new(parameters, parallel->threads, shards, memory, NULL);
    if (parallel->shard && parallel->is_empty && parallel->running && parallel->tree && make_graphs(parallel))
        return parallel;
no_memory:
    qkv_error_set(error, "out of memory for %d shards", shards);
    qkv_data_parallel_free(parallel);
    return NULL;
}

enum qkv_status qkv_data_parallel_divide(struct qkv_data_parallel *parallel, struct qkv_processes *processes,
                                         struct qkv_error *error)
{
    int shards = parallel->shards, count = qkv_processes_count(processes);
    if (count > shards) return qkv_error_set(error, "%d shards for %d processes", shards, count);
    struct qkv_gradient_tree *tree =
        qkv_gradient_tree_new(parallel->parameters, parallel->threads, shards, parallel->memory, processes);
    if (!tree) return qkv_error_set(error, "out of memory for %d shards", shards);
    qkv_gradient_tree_free(parallel->tree);
    parallel->tree = tree;
    parallel->processes = processes;
    return QKV_OK;
}

void qkv_data_parallel_free(struct qkv_data_parallel *parallel)
{
    if (!parallel) return;
    for (int i = 0; parallel->running && i < parallel->threads; i++)
        qkv_graph_free(parallel->running[i].graph);
    qkv_gradient_tree_free(parallel->tree);
    free(parallel->shard);
    free(parallel->is_empty);
    free(parallel->running);
    free(parallel);
}

int qkv_data_parallel_shards(const struct qkv_data_parallel *parallel)
{
    return parallel->shards;
}

/* Builds the graph of a shard and returns its loss. NULL when the graph cannot be built. If tensors do not share memory,
 * every result stays readable, which takes more memory. */
static struct qkv_tensor *build(const struct qkv_data_parallel *parallel, const struct qkv_shard_loss *loss,
                                const struct qkv_gradient_leaf *leaf, const struct qkv_random *random,
                                bool share_memory)
{
    struct qkv_shard *shard = &parallel->running[leaf->worker];
    struct qkv_graph *graph = shard->graph;
    *shard = (struct qkv_shard){.index = leaf->shard, .graph = graph};
    qkv_graph_reset(graph);
    qkv_graph_share_memory(graph, share_memory);
    qkv_graph_set_pair(graph, leaf->pair, leaf->is_second);
    if (leaf->is_complete)
        qkv_graph_set_progress(graph, (struct qkv_progress){parallel->parameters, leaf->is_complete});
    qkv_graph_bind(graph, parallel->parameters, leaf->gradients, leaf->is_second);
    qkv_graph_reuse_gradients(graph, parallel->parameters);
    qkv_graph_set_dropout(graph, random);
    struct qkv_tensor *tensor = loss->build(loss->context, shard);
    if (!tensor || qkv_tensor_count(tensor) != 1)
        qkv_graph_fail(graph, "shard %d: build returned %s, but must return the loss as a scalar",
                       leaf->shard, tensor ? qkv_shape_text(qkv_tensor_shape(tensor)) : "NULL");
    qkv_graph_plan(graph, tensor);
    return tensor;
}

/* Repeats the forward pass and names the first tensor, in the order of computation, that is not finite. */
static enum qkv_status diverged(struct qkv_data_parallel *parallel, const struct qkv_gradient_leaf *leaf,
                                const struct qkv_random *random)
{
    struct qkv_graph *graph = parallel->running[leaf->worker].graph;
    build(parallel, &parallel->loss, leaf, random, false);
    qkv_forward(graph);
    const struct qkv_tensor *tensor = qkv_graph_find_not_finite(graph);
    const char *name = tensor ? qkv_tensor_name(tensor) : "the sum of the loss";
    qkv_error_set(&parallel->shard[leaf->shard].error,
                  "the loss is not finite; the first tensor that is not finite is %s (%s)", name,
                  tensor ? qkv_tensor_op(tensor) : "sum");
    return QKV_FAILED;
}

enum qkv_status qkv_data_parallel_reserve(struct qkv_data_parallel *parallel,
                                          const struct qkv_shard_loss *largest, struct qkv_error *error)
{
    const struct qkv_random random = {0};
    struct qkv_gradient_leaf leaf = {.gradients = qkv_gradient_tree_any_block(parallel->tree)};
    enum qkv_status status = QKV_OK;
    for (; !status && leaf.worker < parallel->threads; leaf.worker++) {
        /* Dropout needs memory of its own, and how much memory sharing saves depends on the batch: the graph with
         * dropout and without sharing is the largest that a step builds. */
        build(parallel, largest, &leaf, &random, false);
        status = qkv_graph_check(parallel->running[leaf.worker].graph, error);
        qkv_graph_reset(
            parallel->running[leaf.worker].graph); /* makes one block of memory, before the first step */
    }
    return status;
}

static enum qkv_status run_shard(struct qkv_data_parallel *parallel, const struct qkv_gradient_leaf *leaf)
{
    struct shard_result *shard = &parallel->shard[leaf->shard];
    const struct qkv_shard_loss *loss = &parallel->loss;
    const struct qkv_shard *running = &parallel->running[leaf->worker];
    struct qkv_graph *graph = running->graph;
    struct qkv_random random;
    if (parallel->random) {
        /* Every shard gets its own dropout seed: multiples of an odd constant (2^64 / golden ratio) are added. */
        random = *parallel->random;
        random.seed += (uint64_t)(leaf->shard + 1) * 0x9E3779B97F4A7C15u;
    }
    const struct qkv_random *shard_random = parallel->random ? &random : NULL;
    struct qkv_tensor *sum = build(parallel, loss, leaf, shard_random, true);
    if (qkv_graph_check(graph, &shard->error)) return QKV_INVALID;
    qkv_forward(graph);
    if (qkv_graph_check(graph, &shard->error)) return QKV_INVALID;
    shard->sums.loss = qkv_tensor_scalar(sum);
    if (!isfinite(shard->sums.loss)) return diverged(parallel, leaf, shard_random);
    if (loss->done) loss->done(loss->context, running, sum, shard->sums.further);
    qkv_backward(graph, sum, NULL);
    return qkv_graph_check(graph, &shard->error);
}

/* Runs the next shard. Ignores `part`: workers may begin parts in any order, but shards must begin in their own order. */
static void run_next(void *context, int part)
{
    struct qkv_data_parallel *parallel = context;
    struct qkv_gradient_leaf leaf;
    (void)part;
    if (!qkv_gradient_tree_take(parallel->tree, &leaf)) return; /* no shard is left for this process */
    parallel->shard[leaf.shard].status = run_shard(parallel, &leaf);
    /* Without this, the second shard of a pair would wait for ever if the pass of the first has ended early. */
    qkv_graph_finish_pair(parallel->running[leaf.worker].graph);
    qkv_gradient_tree_complete(parallel->tree, &leaf);
}

/* Calls loss.begin for the number of items of each shard. Fails when no shard has any. */
static enum qkv_status begin_shards(struct qkv_data_parallel *parallel, struct qkv_error *error)
{
    int64_t total = 0;
    for (int i = 0; i < parallel->shards; i++) {
        int64_t items = parallel->loss.begin(parallel->loss.context, i, parallel->shards);
        if (items < 0 || items > INT64_MAX - total)
            return qkv_error_set(error, "shard %d of a step has %lld items, after %lld of earlier shards", i,
                                 (long long)items, (long long)total);
        parallel->shard[i] = (struct shard_result){.sums.items = items};
        parallel->is_empty[i] = items == 0;
        total += items;
    }
    return total > 0 ? QKV_OK : qkv_error_set(error, "a step in which no shard has items");
}

struct exchange {
    struct qkv_gradient_tree *tree;
    enum qkv_status status;
    struct qkv_error error;
};

static void *exchange_gradients(void *context)
{
    struct exchange *exchange = context;
    exchange->status = qkv_gradient_tree_exchange(exchange->tree, &exchange->error);
    return NULL;
}

/* Runs the shards, and brings the gradients and sums of all processes to process 0. If there are several buckets, another
 * thread sends gradients while backward continues. The status and error of each shard are collected with its sums. */
static enum qkv_status run_shards(struct qkv_data_parallel *parallel, struct qkv_error *error)
{
    struct exchange exchange = {.tree = parallel->tree};
    bool is_overlapped = qkv_gradient_tree_has_buckets(parallel->tree) &&
                         qkv_exchange_start(parallel->processes, exchange_gradients, &exchange);
    qkv_workers_run(parallel->workers, parallel->shards, run_next, parallel);
    if (is_overlapped) qkv_exchange_finish(parallel->processes);
    if (!parallel->processes) return QKV_OK;
    if (!is_overlapped) exchange_gradients(&exchange);
    if (exchange.status) return qkv_error_set(error, "%s", exchange.error.message);
    return qkv_exchange_collect(parallel->processes, parallel->shard, sizeof *parallel->shard,
                                parallel->shards, error);
}

static void add_sums(struct qkv_shard_sums *to, const struct qkv_shard_sums *from)
{
    to->loss += from->loss;
    to->items += from->items;
    for (int i = 0; i < QKV_FURTHER_SUMS; i++) to->further[i] += from->further[i];
}

enum qkv_status qkv_data_parallel_step(struct qkv_data_parallel *parallel, const struct qkv_shard_loss *loss,
                                       const struct qkv_random *random, bool accumulate,
                                       struct qkv_shard_sums *sums, struct qkv_error *error)
{
    struct shard_result *shard = parallel->shard;
    parallel->loss = *loss;
    parallel->random = random;
    if (begin_shards(parallel, error)) {
        qkv_gradient_tree_clear(parallel->tree); /* of earlier steps */
        return QKV_INVALID;
    }
    qkv_gradient_tree_begin(parallel->tree, parallel->is_empty, accumulate, parallel->workers);
    if (run_shards(parallel, error)) return QKV_INVALID;
    *sums = (struct qkv_shard_sums){0};
    if (qkv_processes_rank(parallel->processes) > 0) return QKV_OK; /* process 0 knows how it went */
    for (int i = 0; i < parallel->shards; i++)
        if (shard[i].status) {
            qkv_error_set(error, "%s", shard[i].error.message);
            return shard[i].status;
        }
    qkv_gradient_tree_end(parallel->tree, parallel->workers);
    for (struct qkv_addition a = {0}; qkv_sum_tree_next(&a, parallel->shards);)
        add_sums(&shard[a.to].sums, &shard[a.from].sums);
    *sums = shard[0].sums;
    return QKV_OK;
}

void *const *qkv_data_parallel_gradients(const struct qkv_data_parallel *parallel, int *count)
{
    return qkv_gradient_tree_blocks(parallel->tree, count);
}
