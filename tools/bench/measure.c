/* Clocks and timing; the measurements of the loss alone and of translating. */
#include "bench.h"
#include "malloc_counter.h"

#include "qkv/translator.h"

#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <time.h>

enum { WARM_UP = 3, FEWEST_STEPS = 5 };

static double read_clock(clockid_t clock)
{
    struct timespec now;
    clock_gettime(clock, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

double bench_seconds(void)
{
    return read_clock(CLOCK_MONOTONIC);
}

double bench_thread_seconds(void)
{
    return read_clock(CLOCK_THREAD_CPUTIME_ID);
}

static int compare_numbers(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return x < y ? -1 : x > y;
}

double bench_median(double *numbers, int64_t count)
{
    qsort(numbers, (size_t)count, sizeof *numbers, compare_numbers);
    return (numbers[count / 2] + numbers[(count - 1) / 2]) / 2;
}

int64_t bench_warm_up(const struct bench_options *options)
{
    return options->steps < WARM_UP ? 1 : WARM_UP;
}

enum qkv_status bench_time(const struct bench_options *options, struct bench_result *result,
                           enum qkv_status (*step)(void *context, int64_t i, struct qkv_error *error),
                           void *context, struct qkv_error *error)
{
    double *seconds = malloc((size_t)options->steps * sizeof *seconds);
    if (!seconds) return qkv_error_set(error, "out of memory for %lld steps", (long long)options->steps);
    enum qkv_status status = QKV_OK;
    int64_t warm_up = bench_warm_up(options);
    for (int64_t i = 0; i < warm_up && !status; i++) status = step(context, i, error);
    double ends = bench_seconds() + options->seconds;
    long before = malloc_calls();
    double used = read_clock(CLOCK_PROCESS_CPUTIME_ID);
    int64_t count = 0;
    while (!status && count < options->steps && (count < FEWEST_STEPS || bench_seconds() < ends)) {
        double started = bench_seconds();
        status = step(context, warm_up + count, error);
        seconds[count++] = bench_seconds() - started;
    }
    used = read_clock(CLOCK_PROCESS_CPUTIME_ID) - used;
    long after = malloc_calls();
    if (!status) {
        double sum = 0;
        for (int64_t i = 0; i < count; i++) sum += seconds[i];
        result->steps = count;
        result->mean = 1e3 * sum / (double)count;
        result->median = 1e3 * bench_median(seconds, count);
        result->low = 1e3 * seconds[count / 10];
        result->high = 1e3 * seconds[(count - 1) * 9 / 10];
        result->processor = 1e3 * used / (double)count;
        struct rusage usage;
        getrusage(RUSAGE_SELF, &usage);
        result->peak = (double)usage.ru_maxrss / 1024;
        result->mallocs = before < 0 ? -1 : (double)(after - before) / (double)count;
    }
    free(seconds);
    return status;
}

/* ---- the loss alone ---- */

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
    qkv_graph_plan(graph, qkv_model_loss(evaluation->work->model, graph, &view, 0, 1, NULL));
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

/* ---- translating ---- */

enum { TRANSLATED_TOGETHER = 32 };

struct translation {
    struct qkv_search_options options;
    struct qkv_batch batch;
    struct qkv_ids *sources;
    struct qkv_workers *workers;
    struct qkv_translator *translator;
};

static enum qkv_status translate_step(void *context, int64_t i, struct qkv_error *error)
{
    struct translation *t = context;
    (void)i;
    return qkv_translator_run(t->translator, t->batch.count, t->sources, TRANSLATED_TOGETHER, &t->options,
                              error)
               ? QKV_OK
               : QKV_INVALID;
}

static void translation_release(struct translation *t)
{
    qkv_translator_free(t->translator);
    qkv_workers_free(t->workers);
    qkv_batch_release(&t->batch);
    free(t->sources);
}

static enum qkv_status translation_make(struct translation *t, const struct bench_work *work,
                                        int64_t sentences, int64_t beam, const struct bench_options *options,
                                        struct qkv_error *error)
{
    *t = (struct translation){.workers = qkv_workers_new((int)options->threads, error)};
    if (!t->workers || bench_random_batch(work, sentences, false, &t->batch, error)) return QKV_INVALID;
    t->translator = qkv_translator_new(work->model, t->workers, error);
    t->sources = calloc((size_t)sentences, sizeof *t->sources);
    if (!t->translator) return QKV_INVALID;
    if (!t->sources) return qkv_error_set(error, "out of memory for %lld sentences", (long long)sentences);
    for (int64_t i = 0; i < sentences; i++)
        t->sources[i] =
            (struct qkv_ids){t->batch.source_length[i] - 1, t->batch.source + t->batch.source_start[i]};
    /* Translations have as many tokens as the source: the bias makes the model never output
     * </s>. */
    int64_t tokens = t->batch.source_length[0];
    t->options = (struct qkv_search_options){beam, 0, 1, tokens > 1 ? tokens - 1 : 1, true};
    const struct qkv_parameters *parameters = &work->model->parameters;
    ((float *)parameters->values)[work->model->output_bias->offset + QKV_END] = -1e9f;
    return QKV_OK;
}

enum qkv_status bench_decode(struct bench_work *work, const struct bench_options *options,
                             const struct bench_sink *sink, struct qkv_error *error)
{
    static const struct {
        const char *name;
        int64_t beam, sentences;
    } kinds[] = {{"greedy 1", 1, 1}, {"greedy 64", 1, 64}, {"beam 1", 4, 1}, {"beam 64", 4, 64}};
    enum qkv_status status = QKV_OK;
    for (size_t i = 0; i < sizeof kinds / sizeof kinds[0] && !status; i++) {
        struct translation t;
        struct bench_result result = {0};
        snprintf(result.name, sizeof result.name, "%s", kinds[i].name);
        status = translation_make(&t, work, kinds[i].sentences, kinds[i].beam, options, error);
        if (!status) status = bench_time(options, &result, translate_step, &t, error);
        if (!status) {
            result.threads = qkv_workers_count(t.workers);
            result.tokens = (double)(kinds[i].sentences * (t.options.max_output_length + 1));
            sink->result(sink->context, &result);
        }
        translation_release(&t);
    }
    return status;
}
