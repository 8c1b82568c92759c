/* The measurement of where a training step spends its time: each op, forward and backward. */
#include "bench.h"

#include "graph/internal.h"
#include "models/network.h"
#include "qkv/optimizer.h"

#include <stdlib.h>
#include <string.h>

/* Rows of what is not an op. */
enum { OPTIMIZER = QKV_OP_COUNT, BUILDING, REST, ROWS };

/* What steps on one thread need, and the sums over steps. The time of a node is the time since the node before it ended. */
struct profiler {
    struct bench_work *work;
    struct qkv_workers *workers;
    struct qkv_graph *graph;
    void *gradients;
    struct qkv_optimizer optimizer;
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

static enum qkv_status profiler_make(struct profiler *m, struct bench_work *work, int64_t shards,
                                     struct qkv_error *error)
{
    const struct qkv_parameters *parameters = &work->model->parameters;
    *m = (struct profiler){.work = work, .workers = qkv_workers_new(1, error), .shards = shards};
    if (!m->workers) return QKV_INVALID;
    m->graph = qkv_graph_new(QKV_FLOAT32);
    m->gradients = calloc((size_t)parameters->elements, sizeof(float));
    if (!m->graph || !m->gradients) return qkv_error_set(error, "out of memory for gradients");
    qkv_graph_observe(m->graph, &(struct qkv_observer){record_node, m});
    const struct qkv_optimizer_options options = qkv_optimizer_options_from_config(&work->config.training);
    return qkv_optimizer_init(&m->optimizer, &options, parameters, error);
}

static void profiler_release(struct profiler *m)
{
    if (m->optimizer.state.elements) qkv_optimizer_release(&m->optimizer);
    qkv_graph_free(m->graph);
    free(m->gradients);
    qkv_workers_free(m->workers);
}

static enum qkv_status profile_step(struct profiler *m, int64_t i, struct qkv_error *error)
{
    const struct qkv_objective objective = qkv_objective_from_config(&m->work->config.training);
    double started = bench_thread_seconds(), began;
    if (bench_work_batch(m->work, i, error)) return QKV_INVALID;
    for (int64_t shard = 0; shard < m->shards; shard++) {
        struct qkv_batch_view view;
        const struct qkv_random random = {.seed = (uint64_t)shard + 1, .step = (uint32_t)i};
        qkv_batch_shard(&m->work->batch, shard, m->shards, &view);
        if (!view.count) continue;
        began = bench_thread_seconds();
        qkv_graph_reset(m->graph);
        qkv_graph_bind(m->graph, &m->work->model->parameters, m->gradients, shard > 0);
        qkv_graph_set_dropout(m->graph, &random);
        struct qkv_tensor *loss = qkv_model_loss(m->work->model, m->graph, &view, &objective, 1, NULL);
        if (qkv_graph_check(m->graph, error)) return QKV_INVALID;
        m->previous = bench_thread_seconds();
        m->row[BUILDING].seconds[0] += m->previous - began;
        qkv_forward(m->graph);
        m->previous = bench_thread_seconds();
        qkv_backward(m->graph, loss, NULL);
    }
    began = bench_thread_seconds();
    qkv_optimizer_step(&m->optimizer, &m->work->model->parameters, m->workers, 1, &m->gradients, 1e-3, 1e-4);
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
        9.0 * sizeof(float) * (double)m->work->model->parameters.elements * (double)steps;
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
    struct profiler m;
    int64_t steps = 0;
    enum qkv_status status = profiler_make(&m, work, options->shards ? options->shards : 2, error);
    if (!status) status = bench_work_narrow(work, options, error);
    for (int64_t i = 0; i < 2 && !status; i++) status = profile_step(&m, i, error);
    memset(m.row, 0, sizeof m.row);
    double ends = bench_seconds() + options->seconds;
    while (!status && steps < options->steps && (steps < 3 || bench_seconds() < ends))
        status = profile_step(&m, steps++, error);
    if (!status) bench_report_profile(report, work, m.row, finish_rows(&m, steps));
    profiler_release(&m);
    return status;
}

double bench_step_operations(struct bench_work *work)
{
    struct profiler m;
    struct qkv_error error;
    double operations = 0;
    if (!profiler_make(&m, work, 1, &error) && !profile_step(&m, 0, &error))
        for (int op = 0; op < QKV_OP_COUNT; op++)
            operations += m.row[op].operations[0] + m.row[op].operations[1];
    profiler_release(&m);
    return operations;
}
