/* qkv-bench: measures the cost of training and translating. Each measurement runs in a child
 * process, so that its peak memory can be measured and the heap that one leaves behind does not
 * slow the next. */
#include "bench.h"
#include "search_options.h"

#include "program.h"

#include <sys/wait.h>

static const struct measure {
    const char *name;
    enum qkv_status (*run)(struct bench_work *work, const struct bench_options *options,
                           struct bench_report *report, struct qkv_error *error);
} MEASURES[] = {
#define MEASURE(name, summary) {#name, bench_##name},
#include "measures.def"
#undef MEASURE
};

enum { MEASURE_COUNT = sizeof MEASURES / sizeof MEASURES[0] };

static enum qkv_status run_measure(const struct measure *measure, const char *name,
                                   const struct bench_options *options, struct bench_report *report)
{
    struct bench_work work = {.name = name};
    struct qkv_error error = {""};
    enum qkv_status status = bench_work_make(&work, options, &error);
    if (!status) status = measure->run(&work, options, report, &error);
    if (status) print_error("%s", error.message);
    bench_work_release(&work);
    return status;
}

static int measure_in_child(const struct measure *measure, const char *name,
                            const struct bench_options *options, struct bench_report *report)
{
    int result = 0;
    fflush(stdout);
    pid_t child = fork();
    if (child < 0) return print_error("cannot start a process: %s", strerror(errno));
    if (child == 0) {
        enum qkv_status status = run_measure(measure, name, options, report);
        _exit(ferror(stdout) ? QKV_INVALID : (int)status);
    }
    while (waitpid(child, &result, 0) < 0 && errno == EINTR) continue;
    report->has_output = true;
    if (WIFEXITED(result)) return WEXITSTATUS(result);
    return print_error("%s: the measurement `%s` was killed by signal %d", name, measure->name,
                       WTERMSIG(result));
}

/* ---- the command line ---- */

static bool is_wanted(const struct option_list *wanted, const char *name)
{
    for (int i = 0; i < wanted->count; i++)
        if (!strcmp(wanted->value[i], name)) return true;
    return !wanted->count && (!strcmp(name, "train") || !strcmp(name, "decode"));
}

static NAME_LISTER(bench_measure_name, index < MEASURE_COUNT ? MEASURES[index].name : NULL);

static struct bench_options options = {.steps = 200, .seconds = 3};
static struct option_list wanted;
static bool json;

static int bench(int operands, char **operand)
{
    static const char *const ALL[] = {"toy", "small", "base"};
    const char *const *names = operands ? (const char *const *)operand : ALL;
    struct bench_report report = {0};
    int status = QKV_OK;
    if (options.batches && (operands != 1 || !is_wanted(&wanted, "train")))
        return print_error(
            "--batches writes the batches of one training: name one workload, and add -m train");
    if (json && (!(report.results = tmpfile()) || !(report.profiles = tmpfile())))
        return print_error("cannot make a temporary file: %s", strerror(errno));
    for (const struct measure *m = MEASURES; m < MEASURES + MEASURE_COUNT && !status; m++) {
        if (!is_wanted(&wanted, m->name)) continue;
        for (int i = 0; i < (operands ? operands : 3) && !status; i++)
            status = measure_in_child(m, names[i], &options, &report);
    }
    if (json && !status) bench_report_print_json(&report);
    return status || (!fflush(stdout) && !ferror(stdout)) ? status : QKV_INVALID;
}

static const struct command command_bench = {
    .name = "qkv-bench",
    .standalone = true,
    .description =
        "Measures what training and translating cost. Times are medians; `cpu ms` is processor time of "
        "all threads together.\n\n"
        "What can be measured (-m; train and decode by default):\n"
#define MEASURE(name, summary) "  " #name ": " summary "\n"
#include "measures.def"
#undef MEASURE
    ,
    .examples = "  qkv-bench toy -m train -t 2\n"
                "  qkv-bench small -m profile --json\n",
    .operands = OPERANDS(
        {"WORKLOAD", VALUE_OTHER,
         "toy, small, base (default: these three), large, or the path of a config, which is measured on "
         "its training text unless there is a --text",
         .optional = true, .repeated = true}),
    .options = OPTIONS(
        {"measure", 'm', "WHAT", OPTION_LIST, &wanted, "measure this; may be repeated",
         .choices = bench_measure_name},
        {"threads", 't', "N", OPTION_INTEGER, &options.threads,
         "number of threads; 0: one per processor (default)", 0, 1024},
        {"shards", 0, "N", OPTION_INTEGER, &options.shards,
         "parts of a batch; 0: one per thread, or as the config says (default)", 0, 1024},
        {"steps", 0, "N", OPTION_INTEGER, &options.steps, "most steps to time (default: 200)", 1, 1e6},
        {"seconds", 0, "S", OPTION_NUMBER, &options.seconds, "seconds to spend on each number (default: 3)",
         0, 1e6},
        {"text", 0, "FILE", OPTION_TEXT, &options.text,
         "train on the pairs of FILE (.tsv, .tsv.gz), a new batch at each step", .completes = VALUE_FILE},
        {"batches", 0, "FILE", OPTION_TEXT, &options.batches,
         "write the token ids of the batches of train to FILE, one JSON object a batch",
         .completes = VALUE_FILE},
        {"precision", 0, "TYPE", OPTION_CHOICE, &options.precision,
         "type of the numbers that linear layers multiply: {choices} (default: float32), of which int8 "
         "changes decode only, bfloat16 train and profile, too",
         .choices = precision_name},
        {"json", 0, NULL, OPTION_FLAG, &json, "print JSON"}),
    .run = bench,
};

int main(int argc, char **argv)
{
    choose_blas_core(argv);
    qkv_end_openblas_threads();
    return parse_and_run(&command_bench, argc, argv);
}
