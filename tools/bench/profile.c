/* The measurement of where a training step spends its time: each op, forward and backward. */
#include "bench.h"

#include "qkv/ops.h"

#include <stdio.h>
#include <stdlib.h>

/* Sums of the observer. The time of a node is the time since the node before it ended. */
struct op_times {
    double previous; /* when the node before ended */
    struct bench_profile_row row[QKV_OP_COUNT];
};

static enum qkv_op_id op_of(const struct qkv_tensor *tensor)
{
    for (int op = 0; op < QKV_OP_COUNT; op++)
        if (qkv_tensor_op(tensor) == qkv_op_name((enum qkv_op_id)op)) return (enum qkv_op_id)op;
    return QKV_OP_leaf;
}

static void record_node(void *context, const struct qkv_tensor *tensor, bool backward)
{
    struct op_times *times = context;
    double now = bench_thread_seconds();
    struct bench_profile_row *row = &times->row[op_of(tensor)];
    struct qkv_cost cost = qkv_tensor_cost(tensor, backward);
    row->calls += !backward;
    row->seconds[backward] += now - times->previous;
    row->operations[backward] += cost.operations;
    row->bytes[backward] += cost.bytes;
    times->previous = bench_thread_seconds();
}

/* What steps on one thread need, and the seconds that they spent. */
struct profiler {
    struct bench_work *work;
    struct qkv_workers *workers;
    struct qkv_graph *graph;
    void *gradients;
    struct qkv_optimizer optimizer;
    struct op_times times;
    double building, updating, total;
    int64_t shards, steps;
};

static enum qkv_status profiler_make(struct profiler *m, struct bench_work *work, int64_t shards,
                                     struct qkv_error *error)
{
    const struct qkv_parameters *parameters = &work->model->parameters;
    *m = (struct profiler){.work = work, .workers = qkv_workers_new(1, error), .shards = shards};
    if (!m->workers) return QKV_INVALID;
    m->graph = qkv_graph_new(QKV_FLOAT32);
    m->gradients = calloc((size_t)parameters->elements, sizeof(float));
    if (!m->graph || !m->gradients) return qkv_error_set(error, "out of memory for gradients");
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
    double started = bench_thread_seconds();
    if (bench_work_batch(m->work, i, error)) return QKV_INVALID;
    for (int64_t shard = 0; shard < m->shards; shard++) {
        struct qkv_batch_view view;
        const struct qkv_random random = {.seed = (uint64_t)shard + 1, .step = (uint32_t)i};
        qkv_batch_shard(&m->work->batch, shard, m->shards, &view);
        if (!view.count) continue;
        double began = bench_thread_seconds();
        qkv_graph_reset(m->graph);
        qkv_graph_bind(m->graph, &m->work->model->parameters, m->gradients, shard > 0);
        qkv_graph_set_dropout(m->graph, &random);
        const struct qkv_objective objective = qkv_objective_from_config(&m->work->config.training);
        struct qkv_tensor *loss = qkv_model_loss(m->work->model, m->graph, &view, &objective, 1, NULL);
        if (qkv_graph_check(m->graph, error)) return QKV_INVALID;
        m->times.previous = bench_thread_seconds();
        m->building += m->times.previous - began;
        qkv_forward(m->graph);
        m->times.previous = bench_thread_seconds();
        qkv_backward(m->graph, loss, NULL);
    }
    double began = bench_thread_seconds();
    qkv_optimizer_step(&m->optimizer, &m->work->model->parameters, m->workers, 1, &m->gradients, 1e-3, 1e-4);
    m->updating += bench_thread_seconds() - began;
    m->total += bench_thread_seconds() - started;
    m->steps++;
    return QKV_OK;
}

/* Reports a part of the step that is not an op and moves `bytes` in `seconds`. */
static void report_other(const struct bench_sink *sink, const char *name, double seconds, double bytes)
{
    struct bench_profile_row row = {.calls = 1, .seconds = {seconds, 0}, .bytes = {bytes, 0}};
    snprintf(row.name, sizeof row.name, "%s", name);
    sink->profile(sink->context, &row);
}

static void report_rows(const struct profiler *m, const struct bench_sink *sink)
{
    double steps = (double)m->steps, rest = m->total - m->building - m->updating;
    for (int op = 0; op < QKV_OP_COUNT; op++) {
        struct bench_profile_row row = m->times.row[op];
        rest -= row.seconds[0] + row.seconds[1];
        if (!row.calls) continue;
        snprintf(row.name, sizeof row.name, "%s", qkv_op_name((enum qkv_op_id)op));
        row.calls /= m->steps;
        for (int pass = 0; pass < 2; pass++) {
            row.seconds[pass] /= steps;
            row.operations[pass] /= steps;
            row.bytes[pass] /= steps;
        }
        sink->profile(sink->context, &row);
    }
    /* Adam reads values, gradients and two moments and writes all but the gradients. Before that,
     * the norm reads and writes the gradients. */
    report_other(sink, "(optimizer)", m->updating / steps,
                 9.0 * sizeof(float) * (double)m->work->model->parameters.elements);
    report_other(sink, "(building the graph)", m->building / steps, 0);
    report_other(sink, "(the rest)", rest / steps, 0);
}

enum qkv_status bench_profile(struct bench_work *work, const struct bench_options *options,
                              const struct bench_sink *sink, struct qkv_error *error)
{
    struct profiler m;
    const struct qkv_observer observer = {record_node, &m.times};
    enum qkv_status status = profiler_make(&m, work, options->shards ? options->shards : 2, error);
    if (!status) status = bench_work_narrow(work, options, error);
    for (int64_t i = 0; i < 2 && !status; i++) status = profile_step(&m, i, error);
    if (!status) {
        m.building = m.updating = m.total = 0;
        m.steps = 0;
        qkv_graph_observe(m.graph, &observer);
        double ends = bench_seconds() + options->seconds;
        while (!status && m.steps < options->steps && (m.steps < 3 || bench_seconds() < ends))
            status = profile_step(&m, m.steps, error);
    }
    if (!status) report_rows(&m, sink);
    profiler_release(&m);
    return status;
}

/* ---- operations of a step ---- */

static void count_operations(void *context, const struct qkv_tensor *tensor, bool backward)
{
    double *operations = context;
    *operations += qkv_tensor_cost(tensor, backward).operations;
}

double bench_step_operations(struct bench_work *work, bool training)
{
    struct qkv_graph *graph = qkv_graph_new(QKV_FLOAT32);
    struct qkv_batch_view view;
    double operations = 0;
    const struct qkv_observer observer = {count_operations, &operations};
    void *gradients = training ? malloc((size_t)work->model->parameters.elements * sizeof(float)) : NULL;
    if (graph && (gradients || !training)) {
        qkv_batch_shard(&work->batch, 0, 1, &view);
        qkv_graph_set_gradients(graph, training);
        qkv_graph_bind(graph, &work->model->parameters, gradients, false);
        qkv_graph_observe(graph, &observer);
        struct qkv_tensor *loss = qkv_model_loss(work->model, graph, &view, NULL, 1, NULL);
        qkv_forward(graph);
        if (training) qkv_backward(graph, loss, NULL);
    }
    qkv_graph_free(graph);
    free(gradients);
    return operations;
}
