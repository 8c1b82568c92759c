/* Several processes add the gradients of shards in the tree of one process, whichever shards are empty: qkv/trainer.h and
 * qkv/optimizer.h, without a trainer. mpirun starts this program itself. */
#include "mpirun.h"

#include "framework/engine/graph/internal.h"
#include "framework/translator/processes/processes.h"

enum { SHARDS = 9, WIDTH = 5, PATTERNS = 1 << SHARDS, ROWS = 2048, COLUMNS = 8, LOOKED_UP = 3 };
enum { NUMBERS = 16 + ROWS * COLUMNS }; /* of a block of gradients; slices are aligned to 16 numbers */

/* Shard s, unless it is empty, has the loss sum((w * x[s])^2) + sum(t^2) over some rows t of a table, so large that its
 * other rows are not sent. */
struct task {
    struct qkv_parameters parameters;
    const struct qkv_parameter *weight; /* [WIDTH] */
    const struct qkv_parameter *table;  /* [ROWS, COLUMNS] */
    float x[SHARDS * WIDTH];
    int32_t row[SHARDS * LOOKED_UP];
    unsigned present; /* bit s: shard s is not empty */
};

static int64_t begin(void *context, int shard, int shards)
{
    const struct task *task = context;
    (void)shards;
    return task->present >> shard & 1;
}

static struct qkv_tensor *build(void *context, struct qkv_shard *shard)
{
    struct task *task = context;
    struct qkv_graph *graph = shard->graph;
    struct qkv_tensor *x = qkv_wrap(graph, QKV_SHAPE(WIDTH), task->x + (ptrdiff_t)shard->index * WIDTH);
    struct qkv_tensor *product = qkv_multiply(graph, x, qkv_graph_parameter(graph, task->weight));
    struct qkv_tensor *rows = qkv_gather_rows(graph, qkv_graph_parameter(graph, task->table),
                                              task->row + (ptrdiff_t)shard->index * LOOKED_UP, LOOKED_UP);
    return qkv_add(graph, qkv_sum(graph, qkv_multiply(graph, product, product), QKV_ALL),
                   qkv_sum(graph, qkv_multiply(graph, rows, rows), QKV_ALL));
}

static bool task_init(struct task *task)
{
    *task = (struct task){0};
    task->weight = qkv_parameters_add(&task->parameters, QKV_SHAPE(WIDTH),
                                      (struct qkv_initial){QKV_INITIALIZER_NORMAL, 1}, "weight");
    task->table = qkv_parameters_add(&task->parameters, QKV_SHAPE(ROWS, COLUMNS),
                                     (struct qkv_initial){QKV_INITIALIZER_NORMAL, 1}, "table");
    qkv_parameters_mark_table(&task->parameters, task->table);
    if (qkv_parameters_allocate(&task->parameters, QKV_FLOAT32, NULL)) return false;
    qkv_parameters_initialize(&task->parameters, 5);
    for (int i = 0; i < SHARDS * WIDTH; i++) task->x[i] = (float)((i * 37 + 11) % 23) / 7;
    for (int i = 0; i < SHARDS * LOOKED_UP; i++) task->row[i] = i * i % 11 * (ROWS / 11) + i % 2;
    return true;
}

/* The sum of the blocks of gradients, in their tree, and the loss, after two steps of which the second accumulates. */
static enum qkv_status two_steps(struct qkv_data_parallel *parallel, struct task *task, unsigned pattern,
                                 float result[static NUMBERS + 1])
{
    const struct qkv_shard_loss loss = {.context = task, .begin = begin, .build = build};
    struct qkv_shard_sums sums = {0};
    int count;
    for (int i = 0; i < 2; i++) {
        task->present = i ? PATTERNS - pattern : pattern;
        if (!qkv_data_parallel_step(parallel, &loss, NULL, i > 0, &sums, &error)) continue;
        fprintf(stderr, "%s\n", error.message);
        return QKV_INVALID;
    }
    void *const *blocks = qkv_data_parallel_gradients(parallel, &count);
    for (int step = 1; step < count; step *= 2)
        for (int b = 0; b + step < count; b += 2 * step)
            for (int i = 0; i < NUMBERS; i++) ((float *)blocks[b])[i] += ((const float *)blocks[b + step])[i];
    if (count) memcpy(result, blocks[0], NUMBERS * sizeof *result);
    result[NUMBERS] = (float)sums.loss;
    return QKV_OK;
}

/* Compares the steps of several processes with those of process 0 alone, for all patterns of empty shards. */
static int compare(struct qkv_processes *processes, int threads, enum qkv_gradient_memory memory)
{
    struct task task;
    struct qkv_workers *workers = qkv_workers_new(threads, NULL);
    if (!workers || !task_init(&task) || task.parameters.elements != NUMBERS) return 1;
    struct qkv_data_parallel *alone = qkv_data_parallel_new(&task.parameters, workers, SHARDS, memory, NULL),
                             *divided =
                                 qkv_data_parallel_new(&task.parameters, workers, SHARDS, memory, NULL);
    bool differs = !alone || !divided || qkv_data_parallel_divide(divided, processes, NULL) != QKV_OK;
    for (unsigned pattern = 1; !differs && pattern < PATTERNS; pattern++) {
        static float expected[NUMBERS + 1], found[NUMBERS + 1];
        if (two_steps(divided, &task, pattern, found)) differs = true;
        if (qkv_processes_rank(processes) > 0) continue;
        if (two_steps(alone, &task, pattern, expected)) differs = true;
        differs = differs || memcmp(expected, found, sizeof found) != 0;
        if (differs) fprintf(stderr, "shards %#x: other gradients than alone\n", pattern);
    }
    if (differs) qkv_processes_abort(processes); /* the others wait */
    qkv_data_parallel_free(alone);
    qkv_data_parallel_free(divided);
    qkv_workers_free(workers);
    qkv_parameters_release(&task.parameters);
    return differs;
}

/* What mpirun starts, before the tests begin. */
__attribute__((constructor)) static void run_as_one_of_several(void)
{
    struct qkv_processes *processes;
    if (!getenv("QKV_TEST_SHARDS")) return;
    if (qkv_processes_join(&processes, &error)) {
        fprintf(stderr, "%s\n", error.message);
        exit(2);
    }
    int failed = 0;
    for (int threads = 1; !failed && threads < 4; threads += 2)
        for (int memory = QKV_GRADIENTS_SEPARATE; !failed && memory <= QKV_GRADIENTS_PAIRED; memory++)
            failed = compare(processes, threads, (enum qkv_gradient_memory)memory);
    qkv_processes_leave(processes);
    exit(failed);
}

Test(processes_shards, are_added_in_the_same_tree)
{
    for (int processes = 2; processes <= (is_slow_build() ? 2 : 5); processes += 3)
        run_ok("%s -n %d -x QKV_TEST_SHARDS=1 %s '%s/tests/train_processes_shards'", mpirun(), processes,
               QKV_EMULATOR, QKV_BUILD_DIR);
}
