/* The measurement of the loss alone: forward without gradients. */
#include "bench.h"

#include <stdlib.h>

struct evaluation {
    struct bench_work *work;
    struct qkv_workers *workers;
    struct qkv_graph **graph; /* [parts] */
    int parts;
    double tokens;
    int64_t steps;
};

static void evaluate_part(void *context, int part)
{
    const struct evaluation *evaluation = context;
    struct qkv_graph *graph = evaluation->graph[part];
    struct qkv_batch_view view;
    qkv_batch_shard(&evaluation->work->batch, part, evaluation->parts, &view);
    if (!view.count) return;
    qkv_graph_reset(graph);
    qkv_graph_plan(graph, qkv_model_loss(evaluation->work->model, graph, &view, NULL, 1, NULL));
    qkv_forward(graph);
}

static enum qkv_status evaluate_step(void *context, int64_t i, struct qkv_error *error)
{
    struct evaluation *evaluation = context;
    struct bench_work *work = evaluation->work;
    if (bench_work_batch(work, i, error)) return QKV_INVALID;
    qkv_workers_run(evaluation->workers, evaluation->parts, evaluate_part, evaluation);
    for (int part = 0; part < evaluation->parts; part++)
        if (qkv_graph_check(evaluation->graph[part], error)) return QKV_INVALID;
    evaluation->tokens += (double)(work->batch.source_tokens + work->batch.target_tokens);
    evaluation->steps++;
    return QKV_OK;
}

enum qkv_status bench_forward(struct bench_work *work, const struct bench_options *options,
                              const struct bench_sink *sink, struct qkv_error *error)
{
    struct evaluation evaluation = {.work = work, .workers = qkv_workers_new((int)options->threads, error)};
    struct bench_result result = {.name = "forward"};
    if (!evaluation.workers) return QKV_INVALID;
    int parts = qkv_workers_count(evaluation.workers);
    enum qkv_status status = QKV_OK;
    evaluation.graph = calloc((size_t)parts, sizeof *evaluation.graph);
    for (; evaluation.graph && evaluation.parts < parts; evaluation.parts++) {
        struct qkv_graph *graph = evaluation.graph[evaluation.parts] = qkv_graph_new(QKV_FLOAT32);
        if (!graph) break;
        qkv_graph_set_gradients(graph, false);
        qkv_graph_share_memory(graph, true);
        qkv_graph_bind(graph, &work->model->parameters, NULL, false);
    }
    if (evaluation.parts < parts) status = qkv_error_set(error, "out of memory for %d graphs", parts);
    if (!status) status = bench_time(options, &result, evaluate_step, &evaluation, error);
    if (!status) {
        result.threads = parts;
        result.tokens = evaluation.tokens / (double)evaluation.steps;
        result.operations = bench_step_operations(work, false);
        sink->result(sink->context, &result);
    }
    for (int i = 0; i < evaluation.parts; i++) qkv_graph_free(evaluation.graph[i]);
    free(evaluation.graph);
    qkv_workers_free(evaluation.workers);
    return status;
}
