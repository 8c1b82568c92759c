/* qkv-bench: measures the cost of training and translating. Each measurement runs in a child
 * process, so that its peak memory can be measured and the heap that one leaves behind does not
 * slow the next. */
#include "bench.h"
#include "precision_option.h"

#include "arguments.h"
#include "blas_core.h"
#include "error_messages.h"

#include "processes/launch.h"

#include "qkv/workers.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static const struct measure {
    const char *name;
    bool needs_work;
    const char *summary;
    enum qkv_status (*run)(struct bench_work *work, const struct bench_options *options,
                           const struct bench_sink *sink, struct qkv_error *error);
} MEASURES[] = {
#define MEASURE(name, needs_work, summary) {#name, needs_work, summary, bench_##name},
#include "measures.def"
#undef MEASURE
};

enum { MEASURE_COUNT = sizeof MEASURES / sizeof MEASURES[0] };

/* ---- messages from the measuring process to the parent ---- */

enum message_kind {
    MESSAGE_RESULT,
    MESSAGE_PROFILE,
    MESSAGE_POINT,
    MESSAGE_FORECAST,
    MESSAGE_EXCHANGE,
    MESSAGE_NETWORK,
    MESSAGE_ERROR
};

struct message {
    enum message_kind kind;
    union {
        struct bench_result result;
        struct bench_profile_row row;
        struct bench_point point;
        struct bench_forecast forecast;
        struct bench_exchange exchange;
        struct bench_network network;
        struct qkv_error error;
    } data;
};

static void send_message(int to, const struct message *message)
{
    const char *bytes = (const char *)message;
    for (size_t sent = 0; sent < sizeof *message;) {
        ssize_t count = write(to, bytes + sent, sizeof *message - sent);
        if (count < 0 && errno != EINTR) return; /* the parent has ended */
        if (count > 0) sent += (size_t)count;
    }
}

static void send_result(void *context, const struct bench_result *result)
{
    send_message(*(const int *)context, &(struct message){.kind = MESSAGE_RESULT, .data.result = *result});
}

static void send_profile(void *context, const struct bench_profile_row *row)
{
    send_message(*(const int *)context, &(struct message){.kind = MESSAGE_PROFILE, .data.row = *row});
}

static void send_point(void *context, const struct bench_point *point)
{
    send_message(*(const int *)context, &(struct message){.kind = MESSAGE_POINT, .data.point = *point});
}

static void send_forecast(void *context, const struct bench_forecast *forecast)
{
    send_message(*(const int *)context,
                 &(struct message){.kind = MESSAGE_FORECAST, .data.forecast = *forecast});
}

static void send_exchange(void *context, const struct bench_exchange *exchange)
{
    send_message(*(const int *)context,
                 &(struct message){.kind = MESSAGE_EXCHANGE, .data.exchange = *exchange});
}

static void send_network(void *context, const struct bench_network *network)
{
    send_message(*(const int *)context, &(struct message){.kind = MESSAGE_NETWORK, .data.network = *network});
}

static bool receive(int from, struct message *message)
{
    char *bytes = (char *)message;
    for (size_t got = 0; got < sizeof *message;) {
        ssize_t count = read(from, bytes + got, sizeof *message - got);
        if (count == 0 || (count < 0 && errno != EINTR)) return false;
        if (count > 0) got += (size_t)count;
    }
    return true;
}

/* ---- one measurement ---- */

static enum qkv_status run_measure(const struct measure *measure, const char *name,
                                   const struct bench_options *options, int to)
{
    struct bench_work work = {0};
    struct message failure = {.kind = MESSAGE_ERROR};
    const struct bench_sink sink = {send_result,   send_profile, send_point, send_forecast,
                                    send_exchange, send_network, &to};
    enum qkv_status status =
        measure->needs_work ? bench_work_make(&work, name, options->text, &failure.data.error) : QKV_OK;
    if (!status) status = measure->run(&work, options, &sink, &failure.data.error);
    if (status) send_message(to, &failure);
    bench_work_release(&work);
    return status;
}

static void show(struct bench_report *report, const char *name, const struct message *message)
{
    switch (message->kind) {
    case MESSAGE_RESULT:
        bench_report_result(report, name, &message->data.result);
        break;
    case MESSAGE_PROFILE:
        bench_report_profile(report, name, &message->data.row);
        break;
    case MESSAGE_POINT:
        bench_report_point(report, &message->data.point);
        break;
    case MESSAGE_FORECAST:
        bench_report_forecast(report, &message->data.forecast);
        break;
    case MESSAGE_EXCHANGE:
        bench_report_exchange(report, &message->data.exchange);
        break;
    case MESSAGE_NETWORK:
        bench_report_network(report, &message->data.network);
        break;
    case MESSAGE_ERROR:
        if (message->data.error.message[0]) print_error("%s", message->data.error.message);
        break;
    }
}

static enum qkv_status measure_in_child(const struct measure *measure, const char *name,
                                        const struct bench_options *options, struct bench_report *report)
{
    int ends[2], result = 0;
    if (pipe(ends)) return (enum qkv_status)print_error("cannot make a pipe: %s", strerror(errno));
    fflush(stdout);
    pid_t child = fork();
    if (child < 0) return (enum qkv_status)print_error("cannot start a process: %s", strerror(errno));
    if (child == 0) {
        close(ends[0]);
        _exit((int)run_measure(measure, name, options, ends[1]));
    }
    close(ends[1]);
    struct message message;
    bool has_error = false;
    while (receive(ends[0], &message)) {
        show(report, name, &message);
        has_error = has_error || message.kind == MESSAGE_ERROR;
    }
    close(ends[0]);
    while (waitpid(child, &result, 0) < 0 && errno == EINTR) continue;
    bench_report_end(report, name);
    if (WIFEXITED(result)) return (enum qkv_status)WEXITSTATUS(result);
    if (!has_error)
        print_error("%s: the measurement `%s` was killed by signal %d", name, measure->name,
                    WTERMSIG(result));
    return QKV_INVALID;
}

/* ---- the command line ---- */

static bool is_wanted(const struct option_list *wanted, const char *name)
{
    static const char *const DEFAULTS[] = {"train", "forward", "decode"};
    for (int i = 0; i < wanted->count; i++)
        if (!strcmp(wanted->value[i], name)) return true;
    for (size_t i = 0; !wanted->count && i < sizeof DEFAULTS / sizeof DEFAULTS[0]; i++)
        if (!strcmp(DEFAULTS[i], name)) return true;
    return false;
}

static const char *measure_name(const void *context, int64_t i)
{
    (void)context;
    return i < MEASURE_COUNT ? MEASURES[i].name : NULL;
}

/* Checks before measuring that --output can be drawn. */
static bool picture_is_possible(const struct option_list *wanted, const char *path)
{
    const char *dot = path ? strrchr(path, '.') : NULL;
    if (!path) return true;
    if (!is_wanted(wanted, "scaling") && !is_wanted(wanted, "threads") && !is_wanted(wanted, "processes"))
        print_error("--output draws scaling, threads and processes: add -m scaling");
    else if (is_wanted(wanted, "processes") && (is_wanted(wanted, "scaling") || is_wanted(wanted, "threads")))
        print_error("--output draws processes into a picture of their own: leave out scaling and threads");
    else if (!dot || (strcmp(dot, ".svg") && strcmp(dot, ".png")))
        print_error("%s: a chart is written as .svg or .png", path);
    else
        return true;
    return false;
}

static enum qkv_status measure_all(const struct option_list *wanted, int count, const char *const *names,
                                   const struct bench_options *options, struct bench_report *report)
{
    enum qkv_status status = QKV_OK;
    for (int m = 0; m < MEASURE_COUNT && !status; m++) {
        if (!is_wanted(wanted, MEASURES[m].name)) continue;
        if (!MEASURES[m].needs_work)
            status = measure_in_child(&MEASURES[m], MEASURES[m].name, options, report);
        for (int i = 0; MEASURES[m].needs_work && i < count && !status; i++)
            status = measure_in_child(&MEASURES[m], names[i], options, report);
    }
    return status;
}

/* Returns the path of `qkv` in the folder of this program, or "qkv" (found through PATH) if it is
 * not there. */
static const char *binary_beside(const char *self, char path[4096])
{
    const char *slash = strrchr(self, '/');
    int length = slash ? (int)(slash - self) + 1 : 0;
    snprintf(path, 4096, "%.*sqkv", length, self);
    return access(path, X_OK) ? "qkv" : path;
}

/* main() appends the list of measurements. */
static char description[3072] = "Measures what training and translating cost. Times are medians; `cpu ms` is "
                                "processor time of all threads "
                                "together.\n\n"
                                "What can be measured (-m; train, forward and decode by default):\n";
static struct bench_options options = {
    .steps = 200, .seconds = 3, .launcher = "mpirun --oversubscribe --bind-to none -q"};
static struct option_list wanted;
static bool json, profile;

static int bench(int operands, char **operand)
{
    static const char *const ALL[] = {"toy", "small", "base"};
    if (profile && wanted.count < 64) wanted.value[wanted.count++] = "profile";
    if (!picture_is_possible(&wanted, options.output)) return QKV_INVALID;
    if (options.batches && (operands != 1 || !is_wanted(&wanted, "train")))
        return print_error(
            "--batches writes the batches of one training: name one workload, and add -m train");
    bool speaks = qkv_launched_rank() == 0; /* of several processes, which measure together */
    struct bench_report *report = bench_report_new(json && speaks, speaks ? options.output : NULL);
    if (!report) return print_error("out of memory");
    enum qkv_status status =
        operands ? measure_all(&wanted, operands, (const char *const *)operand, &options, report)
                 : measure_all(&wanted, 3, ALL, &options, report);
    int printed = bench_report_finish(report, status != QKV_OK);
    return status ? (int)status : printed;
}

static const struct command command_bench = {
    .name = "qkv-bench",
    .standalone = true,
    .description = description,
    .examples = "  qkv-bench toy -m train -m floor -t 2\n"
                "  qkv-bench small --profile --json\n"
                "  qkv-bench -m scaling -o scaling.svg\n"
                "  qkv-bench toy small base large -m processes -o processes.svg\n",
    .operands =
        (const struct command_operand[]){
            {"WORKLOAD", VALUE_OTHER,
             "toy, small, base (default: these three), large, or the path of a config, which is measured on "
             "its training text unless there is a --text",
             .optional = true, .repeated = true},
            {0},
        },
    .options =
        (const struct command_option[]){
            {"measure", 'm', "WHAT", OPTION_LIST, &wanted, "measure this; may be repeated",
             .choices = measure_name},
            {"profile", 0, NULL, OPTION_FLAG, &profile, "the same as -m profile"},
            {"threads", 't', "N", OPTION_INTEGER, &options.threads,
             "number of threads; 0: one per processor (default)", 0, 1024},
            {"shards", 0, "N", OPTION_INTEGER, &options.shards,
             "parts of a batch; 0: one per thread, or as the config says (default)", 0, 1024},
            {"steps", 0, "N", OPTION_INTEGER, &options.steps, "most steps to time (default: 200)", 1, 1e6},
            {"seconds", 0, "S", OPTION_NUMBER, &options.seconds,
             "seconds to spend on each number (default: 3)", 0, 1e6},
            {"text", 0, "FILE", OPTION_TEXT, &options.text,
             "train on the pairs of FILE (.tsv, .tsv.gz), a new batch at each step", .completes = VALUE_FILE},
            {"batches", 0, "FILE", OPTION_TEXT, &options.batches,
             "write the token ids of the batches of train to FILE, one JSON object a batch",
             .completes = VALUE_FILE},
            {"axis", 0, "AXIS", OPTION_LIST, &options.axes, "axis of scaling; may be repeated (default: all)",
             .choices = bench_axis_name},
            {"output", 'o', "FILE", OPTION_TEXT, &options.output,
             "draw scaling and threads, or processes, into FILE (.svg, .png)", .completes = VALUE_FILE},
            {"launcher", 0, "COMMAND", OPTION_TEXT, &options.launcher,
             "processes: what starts N processes when `-n N` and a program follow (default: mpirun "
             "--oversubscribe --bind-to none -q)"},
            {"precision", 0, "TYPE", OPTION_CHOICE, &options.precision,
             "type of the numbers that linear layers multiply: {choices} (default: float32), of which int8 "
             "changes decode only, bfloat16 train and profile, too",
             .choices = precision_name},
            {"run", 0, "DIR", OPTION_TEXT, &options.run, "the run folder of startup", .completes = VALUE_RUN},
            {"json", 0, NULL, OPTION_FLAG, &json, "print JSON"},
            {0},
        },
    .run = bench,
};

int main(int argc, char **argv)
{
    char beside[4096];
    choose_blas_core(argv);
    qkv_end_openblas_threads();
    for (int m = 0; m < MEASURE_COUNT; m++) {
        size_t used = strlen(description);
        snprintf(description + used, sizeof description - used, "  %-9s %s\n", MEASURES[m].name,
                 MEASURES[m].summary);
    }
    options.qkv = binary_beside(argv[0], beside);
    options.self = argv[0];
    return parse_and_run(&command_bench, argc, argv);
}
