/* The measurements of training: steps as `qkv train` does them, and where one spends its time: each op, forward and backward. */
#include "bench.h"
#include "core/system.h"

#include "graph/internal.h"

/* Rows of what is not an op. */
enum { OPTIMIZER = QKV_OP_COUNT, BUILDING, REST, ROWS };

/* What steps on one thread need, and the sums over steps. The time of a node is the time since the node before it ended. */
struct profiler {
    struct training *training;
    struct qkv_graph *graph;
    void *gradients;
    int64_t shards;
    double previous; /* when the node before ended */
    struct bench_profile_row row[ROWS];
};

static enum qkv_op_id op_of(const struct qkv_tensor *tensor)
{
    for (int op = 0; op < QKV_OP_COUNT; op++)
        if (qkv_tensor_op(tensor) == qkv_op_name((enum qkv_op_id)op)) return (enum qkv_op_id)op;
    return QKV_OP_leaf;
}

static void record_node(void *context, const struct qkv_tensor *tensor, bool backward)
{
    struct profiler *m = context;
    double now = bench_thread_seconds();
    struct bench_profile_row *row = &m->row[op_of(tensor)];
    struct qkv_cost cost = qkv_tensor_cost(tensor, backward);
    row->calls += !backward;
    row->seconds[backward] += now - m->previous;
    row->operations[backward] += cost.operations;
    row->bytes[backward] += cost.bytes;
    m->previous = bench_thread_seconds();
}

static void profiler_make(struct profiler *m, struct bench_work *work, int64_t shards)
{
    *m = (struct profiler){.training = &work->training, .shards = shards};
    m->graph = required(qkv_graph_new(QKV_FLOAT32));
    m->gradients = required(calloc((size_t)m->training->model->parameters.elements, sizeof(float)));
    qkv_graph_observe(m->graph, &(struct qkv_observer){record_node, m});
}

static void profiler_release(struct profiler *m)
{
    qkv_graph_free(m->graph);
    free(m->gradients);
}

/* A step with the batch of the training. */
static enum qkv_status profile_step(struct profiler *m, int64_t i, struct qkv_error *error)
{
    struct training *training = m->training;
    struct qkv_parameters *parameters = &training->model->parameters;
    double started = bench_thread_seconds(), began;
    for (int64_t shard = 0; shard < m->shards; shard++) {
        struct qkv_batch_view view;
        const struct qkv_random random = {.seed = (uint64_t)shard + 1, .step = (uint32_t)i};
        qkv_batch_shard(&training->batch, shard, m->shards, &view);
        if (!view.count) continue;
        began = bench_thread_seconds();
        qkv_graph_reset(m->graph);
        qkv_graph_bind(m->graph, parameters, m->gradients, shard > 0);
        qkv_graph_set_dropout(m->graph, &random);
        struct qkv_tensor *loss =
            qkv_model_loss(training->model, m->graph, &view, &training->loss.objective, 1, NULL);
        if (qkv_graph_check(m->graph, error)) return QKV_INVALID;
        m->previous = bench_thread_seconds();
        m->row[BUILDING].seconds[0] += m->previous - began;
        qkv_forward(m->graph);
        m->previous = bench_thread_seconds();
        qkv_backward(m->graph, loss, NULL);
    }
    began = bench_thread_seconds();
    qkv_optimizer_step(&training->optimizer, parameters, training->workers, 1, &m->gradients, 1e-3, 1e-4);
    m->row[OPTIMIZER].seconds[0] += bench_thread_seconds() - began;
    m->row[REST].seconds[0] += bench_thread_seconds() - started;
    return QKV_OK;
}

/* Makes the sums over steps those of one, and moves rows without calls out. Returns the number of rows. */
static int finish_rows(struct profiler *m, int64_t steps)
{
    static const char *const others[] = {"(optimizer)", "(building the graph)", "(the rest)"};
    /* Adam reads values, gradients and two moments and writes all but the gradients. Before that,
     * the norm reads and writes the gradients. */
    m->row[OPTIMIZER].bytes[0] =
        9.0 * sizeof(float) * (double)m->training->model->parameters.elements * (double)steps;
    int rows = 0;
    for (int i = 0; i < ROWS; i++) {
        struct bench_profile_row row = m->row[i];
        row.name = i < QKV_OP_COUNT ? qkv_op_name((enum qkv_op_id)i) : others[i - QKV_OP_COUNT];
        row.calls = i < QKV_OP_COUNT ? row.calls / steps : 1;
        if (i != REST) m->row[REST].seconds[0] -= row.seconds[0] + row.seconds[1];
        for (int pass = 0; pass < 2; pass++) {
            row.seconds[pass] /= (double)steps;
            row.operations[pass] /= (double)steps;
            row.bytes[pass] /= (double)steps;
        }
        if (row.calls) m->row[rows++] = row;
    }
    return rows;
}

enum qkv_status bench_profile(struct bench_work *work, const struct bench_options *options,
                              struct bench_report *report, struct qkv_error *error)
{
    struct profiler m = {0};
    int64_t steps = -2; /* the first are not timed */
    double ends = INFINITY;
    enum qkv_status status = bench_work_train(work, 1, options->shards, error);
    if (!status) profiler_make(&m, work, options->shards ? options->shards : 2);
    if (!status)
        status = qkv_parameters_set_precision(&work->training.model->parameters,
                                              work->config.training.precision, error);
    while (!status && steps < options->steps && (steps < 3 || qkv_clock_seconds() < ends)) {
        status = bench_work_batch(work, steps + 2, error);
        if (!status) status = profile_step(&m, steps + 2, error);
        if (++steps) continue;
        memset(m.row, 0, sizeof m.row);
        ends = qkv_clock_seconds() + options->seconds;
    }
    if (!status) bench_report_profile(report, work, m.row, finish_rows(&m, steps));
    profiler_release(&m);
    return status;
}

/* ---- training ---- */

/* The multiplications and additions in the matrix products of a step with the last batch. */
static double count_operations(struct bench_work *work)
{
    struct profiler m;
    struct qkv_error error;
    double operations = 0;
    profiler_make(&m, work, 1);
    if (!profile_step(&m, 0, &error))
        for (int op = 0; op < QKV_OP_COUNT; op++)
            operations += m.row[op].operations[0] + m.row[op].operations[1];
    profiler_release(&m);
    return operations;
}

struct trained {
    struct training *training;
    double tokens, steps; /* so far */
};

static enum qkv_status train_step(void *context, int64_t i, struct qkv_error *error)
{
    struct trained *trained = context;
    struct update_sums sums;
    (void)i;
    enum qkv_status status = qkv_training_update(trained->training, &sums, error);
    trained->tokens += (double)sums.all_tokens;
    trained->steps++;
    return status;
}

enum qkv_status bench_train(struct bench_work *work, const struct bench_options *options,
                            struct bench_report *report, struct qkv_error *error)
{
    struct bench_result result = {.name = "train"};
    struct trained trained = {.training = &work->training};
    enum qkv_status status = bench_work_train(work, (int)options->threads, options->shards, error);
    if (!status && options->batches)
        status = bench_work_write(work, bench_warm_up(options) + options->steps, options->batches, error);
    if (!status) status = bench_time(options, &result, train_step, &trained, error);
    if (status) return status;
    result.threads = qkv_workers_count(work->training.workers);
    result.tokens = trained.tokens / trained.steps;
    result.operations = count_operations(work);
    bench_report_result(report, work, &result);
    return QKV_OK;
}
