/* What a training step costs in several processes. It is measured with a few of them, on this machine or wherever --launcher
 * starts them; a model is fitted to that, and says what many would take on networks. The batch grows with the processes. With n
 * processes and P MB of parameters:
 *
 *     step = computing + updating + (1 - overlap) messages
 *     messages = broadcast + sums + (n - 1) latency
 *     sums = levels (pieces(P) latency + P / rate + P adding)
 *
 * - broadcast: 2 (n - 1) messages and 2 (n - 1) / n P / rate for each round; with two processes, one message a piece, and P / rate
 * - levels: of the tree of sums, log2(n) rounded up; process 0 receives and adds a gradient on each
 * - (n - 1) latency: process 0 receives the losses of the others
 * - latency, rate: of messages between two processes; adding: what remains of the messages of two processes, for each MB
 * - overlap: the share of the messages during which processes compute: of the sums, as much as a step of two processes does not
 *   take longer for, but never more than backward takes, BACKWARD of computing
 *
 * On a network, the rate is that of the link, unless copying is slower, and the latency is NETWORK_LATENCY more. */
#include "bench.h"

#include "core/processors.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>

static const int MEASURED[] = {2, 3, 4};
static const double GIGABITS[] = {10, 100};
enum { MEASURED_COUNT = sizeof MEASURED / sizeof MEASURED[0], FORECAST_PROCESSES = 1024 };

static const double PIECE = 4.194304; /* MB of a message at most */
static const double BACKWARD = 2.0 / 3;
static const double NETWORK_LATENCY = 0.02; /* ms: assumed for switches and the stack of the kernel */

struct model {
    double latency, rate; /* ms; MB per ms */
    double adding;        /* ms per MB */
    double overlap;       /* share of the sums */
};

static int levels_of(int64_t processes)
{
    int levels = 0;
    while ((int64_t)1 << levels < processes) levels++;
    return levels;
}

static double broadcast_ms(const struct model *model, int64_t processes, double megabytes)
{
    double n = (double)processes;
    if (processes == 2) return ceil(megabytes / PIECE) * model->latency + megabytes / model->rate;
    double rounds = ceil(megabytes / (n * PIECE));
    return rounds * 2 * (n - 1) * model->latency + 2 * (n - 1) / n * megabytes / model->rate;
}

static double sums_ms(const struct model *model, int64_t processes, double megabytes)
{
    return levels_of(processes) *
           (ceil(megabytes / PIECE) * model->latency + megabytes / model->rate + megabytes * model->adding);
}

static double messages_ms(const struct model *model, int64_t processes, double megabytes)
{
    if (processes == 1) return 0;
    return broadcast_ms(model, processes, megabytes) + sums_ms(model, processes, megabytes) +
           (double)(processes - 1) * model->latency;
}

/* The share of the messages during which processes compute. */
static double overlap_of(const struct model *model, int64_t processes, double megabytes, double computing)
{
    if (processes == 1) return 0;
    return fmin(model->overlap * sums_ms(model, processes, megabytes), BACKWARD * computing) /
           messages_ms(model, processes, megabytes);
}

/* ---- measuring ---- */

static double number(const cJSON *object, const char *name)
{
    const cJSON *item = cJSON_GetObjectItemCaseSensitive(object, name);
    return cJSON_IsNumber(item) ? item->valuedouble : 0;
}

/* Reads the exchange that a group of processes has printed. */
static bool read_exchange(const char *text, struct bench_exchange *exchange)
{
    cJSON *json = cJSON_Parse(text);
    const cJSON *object = cJSON_GetArrayItem(cJSON_GetObjectItemCaseSensitive(json, "exchange"), 0);
    bool is_found = object != NULL;
    exchange->processes = (int64_t)number(object, "processes");
    exchange->parameters = number(object, "parameters_mb");
    exchange->processor = number(object, "cpu_ms");
    exchange->step = number(object, "ms");
    exchange->messages = number(object, "messages_ms");
    exchange->sent = number(object, "sent_mb");
    exchange->sent_by_others = number(object, "sent_by_others_mb");
    exchange->latency = number(object, "latency_ms");
    exchange->rate = number(object, "mb_per_ms");
    cJSON_Delete(json);
    return is_found;
}

/* Starts the processes, which measure the exchange. */
static enum qkv_status measure(const struct bench_work *work, const struct bench_options *options,
                               int processes, struct bench_exchange *exchange, struct qkv_error *error)
{
    char command[4096], text[8192];
    snprintf(command, sizeof command, "%s -n %d '%s' %s -m exchange --json --steps %lld --seconds %g",
             options->launcher, processes, options->self, work->name, (long long)options->steps,
             options->seconds);
    FILE *output = popen(command, "r");
    if (!output) return qkv_error_set(error, "%s: cannot be started", command);
    size_t size = fread(text, 1, sizeof text - 1, output);
    text[size] = '\0';
    int code = pclose(output);
    *exchange = (struct bench_exchange){.processes = processes};
    snprintf(exchange->work, sizeof exchange->work, "%s", work->name);
    if (code == 0 && read_exchange(text, exchange)) return QKV_OK;
    return qkv_error_set(
        error,
        "`%s` ended with status %d: processes needs qkv with Open MPI, and mpirun or another "
        "--launcher",
        command, WIFEXITED(code) ? WEXITSTATUS(code) : code);
}

/* ---- the model ---- */

/* Fits the model to two processes. computing: what each of them does besides, ms. */
static struct model fit(const struct bench_exchange *two, double computing)
{
    struct model model = {.latency = two->latency, .rate = two->rate};
    model.adding = fmax(0, two->messages - messages_ms(&model, 2, two->parameters)) / two->parameters;
    bool is_parallel = qkv_processors_available() > 1;
    if (is_parallel)
        model.overlap = (computing + two->messages - two->step) / sums_ms(&model, 2, two->parameters);
    model.overlap = fmin(fmax(model.overlap, 0), 1);
    return model;
}

static void forecast(const struct bench_exchange *two, const struct bench_costs *costs,
                     const struct bench_sink *sink)
{
    const struct model here = fit(two, costs->filling + costs->computing + costs->updating);
    for (size_t k = 0; k < sizeof GIGABITS / sizeof GIGABITS[0]; k++)
        for (int64_t n = 1; n <= FORECAST_PROCESSES; n *= 2) {
            struct model model = here;
            model.latency += NETWORK_LATENCY;
            model.rate = fmin(model.rate, GIGABITS[k] / 8);
            struct bench_network network = {
                .processes = n,
                .gigabits = GIGABITS[k],
                .computing = costs->filling + costs->computing,
                .updating = costs->updating,
                .messages = messages_ms(&model, n, two->parameters),
                .overlap = overlap_of(&model, n, two->parameters, costs->filling + costs->computing),
            };
            memcpy(network.work, two->work, sizeof network.work);
            network.step = network.computing + network.updating + (1 - network.overlap) * network.messages;
            sink->network(sink->context, &network);
        }
}

enum qkv_status bench_processes(struct bench_work *work, const struct bench_options *options,
                                const struct bench_sink *sink, struct qkv_error *error)
{
    struct bench_exchange measured[MEASURED_COUNT];
    struct bench_costs costs;
    if (!work->shape.name)
        return qkv_error_set(error, "%s: exchange and processes measure built-in workloads", work->name);
    if (bench_measure_costs(work, 1, 1, options, &costs, error)) return QKV_INVALID;
    for (int i = 0; i < MEASURED_COUNT; i++)
        if (measure(work, options, MEASURED[i], &measured[i], error)) return QKV_INVALID;
    const struct model model = fit(&measured[0], 0);
    for (int i = 0; i < MEASURED_COUNT; i++) {
        measured[i].modelled = messages_ms(&model, MEASURED[i], measured[i].parameters);
        sink->exchange(sink->context, &measured[i]);
    }
    forecast(&measured[0], &costs, sink);
    return QKV_OK;
}
