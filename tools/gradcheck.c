/* qkv gradcheck: compares analytic gradients with finite differences. */
#include "config.h"
#include "open_run.h"

#include "check/check.h"
#include "core/choices.h"
#include "core/system.h"

#include <ctype.h>

/* ---- the results, as tables of 80 columns for people and as JSON for programs ---- */

/* One op, layer or model that was checked, and its rows in the report. */
struct subject {
    const char *kind, *name; /* "op", "softmax"; "config" or "run" with its path */
    int64_t first, end;      /* rows first .. end - 1 */
};

/* How much is printed of a subject: only failed rows, one line of the summary, or all rows. */
enum detail { DETAIL_FAILURES, DETAIL_SUMMARY, DETAIL_ROWS };

/* ---- rows ---- */

/* Writes the index of the worst element by its axes, "[3,17]"; "(all)" when all elements moved together. */
static void format_index(const struct qkv_check_row *row, char *text, size_t size)
{
    if (row->worst < 0 || !row->shape.rank) {
        snprintf(text, size, "%s", row->checked ? "(all)" : "");
        return;
    }
    int64_t rest = row->worst, index[QKV_MAX_RANK];
    for (int i = row->shape.rank - 1; i >= 0; i--) {
        index[i] = rest % row->shape.size[i];
        rest /= row->shape.size[i];
    }
    size_t used = 0;
    for (int i = 0; i < row->shape.rank && used < size; i++)
        used += (size_t)snprintf(text + used, size - used, "%s%lld", i ? "," : "[", (long long)index[i]);
    if (used < size) snprintf(text + used, size - used, "]");
}

/* The gradient is below the noise of finite differences, and its relative error means nothing. */
static bool is_noise(const struct qkv_check_row *row)
{
    return row->excess <= 0 && row->error > 0 &&
           row->rounding > 1e-3 * fmax(fabs(row->analytic), fabs(row->numeric));
}

/* The widths of the columns of names and of counts, which make 80 columns unless an index is long. */
enum { NAME_WIDTH = 22, CHECKED_WIDTH = 6 };

/* The width of the column of indices. */
static int index_width(const struct qkv_check_report *report, const struct subject *subject)
{
    int width = (int)strlen("worst at") + 1;
    for (int64_t i = subject->first; i < subject->end; i++) {
        char where[64];
        format_index(&report->rows[i], where, sizeof where);
        if ((int)strlen(where) > width) width = (int)strlen(where);
    }
    return width;
}

/* Prints the first three columns. What is wider than its column takes room from the next one. */
static void print_place(const char *name, const char *checked, const char *where, int where_width)
{
    int left = 2 + NAME_WIDTH + 1 + CHECKED_WIDTH + 1 + where_width, excess = (int)strlen(name) - NAME_WIDTH;
    int used = printf("  %-*s %*s ", NAME_WIDTH, name, CHECKED_WIDTH - (excess > 0 ? excess : 0), checked);
    printf("%*s", left - used, where);
}

static void print_row(const struct qkv_check_row *row, const char *name, int where_width)
{
    char where[64], checked[32], error[32] = "", bound[32] = "", analytic[32] = "", numeric[32] = "";
    format_index(row, where, sizeof where);
    snprintf(checked, sizeof checked, "%lld", (long long)row->checked);
    if (row->error > 0 || fabs(row->analytic) > 0 || fabs(row->numeric) > 0 ||
        row->shape.rank) { /* compares numbers */
        snprintf(analytic, sizeof analytic, "%.2e", row->analytic);
        snprintf(numeric, sizeof numeric, "%.2e", row->numeric);
        if (row->bound > 0) snprintf(bound, sizeof bound, "%.1e", row->bound);
        if (is_noise(row))
            snprintf(error, sizeof error, "noise");
        else
            snprintf(error, sizeof error, "%.1e", row->error);
    }
    print_place(name, checked, where, where_width);
    printf(" %9s %9s %7s %7s %s\n", analytic, numeric, error, bound, row->failure ? "FAIL" : "ok");
    if (row->failure) printf("      %s\n", row->failure);
}

/* The length of the prefix that is printed once above a group of parameters: "encoder.1." of
 * "encoder.1.self.query.weight", "output." of "output.bias". */
static size_t prefix_length(const char *name)
{
    const char *dot = strchr(name, '.');
    if (!dot) return 0;
    if (isdigit((unsigned char)dot[1])) {
        const char *second = strchr(dot + 1, '.');
        if (second) dot = second;
    }
    return (size_t)(dot + 1 - name);
}

/* Prints the rows of a subject, each group of parameters below its common prefix. */
static void print_rows(const struct qkv_check_report *report, const struct subject *subject,
                       bool failures_only)
{
    const char *above = "", *shown = "";
    int where_width = index_width(report, subject);
    bool model = !strcmp(subject->kind, "config") || !strcmp(subject->kind, "run"),
         quiet_head = model && !failures_only; /* describe() has printed the path */
    for (int64_t i = subject->first; i < subject->end; i++) {
        const struct qkv_check_row *row = &report->rows[i];
        if (failures_only && !row->failure) continue;
        if (strcmp(row->subject, shown) != 0) {
            if (!quiet_head) {
                fputs(*shown ? "\n" : "", stdout);
                say(stdout, "%s\n", row->subject);
            }
            if (!*shown && !failures_only) {
                print_place("tensor", "checked", "worst at", where_width);
                printf(" %9s %9s %7s %7s\n", "analytic", "numeric", "error", "bound");
            }
            shown = row->subject;
            above = "";
        }
        size_t length = strlen(row->tensor) > NAME_WIDTH + 3 ? prefix_length(row->tensor) : 0;
        if (model) length = prefix_length(row->tensor);
        if (length && (prefix_length(above) != length || strncmp(above, row->tensor, length) != 0))
            printf(" %.*s\n", (int)length - 1, row->tensor);
        above = row->tensor;
        print_row(row, row->tensor + length, where_width);
    }
}

/* ---- the summary ---- */

struct totals {
    int64_t checks, elements, held, below_noise, failures;
    double worst; /* largest relative error of gradients above the noise */
};

static struct totals total_of(const struct qkv_check_report *report, int64_t first, int64_t end)
{
    struct totals totals = {0};
    for (int64_t i = first; i < end; i++) {
        const struct qkv_check_row *row = &report->rows[i];
        totals.checks++;
        totals.failures += row->failure != NULL;
        if (!row->shape.rank) continue;
        totals.elements += row->checked;
        totals.held += row->held;
        totals.below_noise += row->below_noise;
        if (!is_noise(row)) totals.worst = fmax(totals.worst, row->error);
    }
    return totals;
}

static void print_summary(const struct subject *subject, struct totals totals)
{
    int width = 33 - (int)strlen(subject->kind) - (int)strlen(subject->name);
    say(stdout, "%s %s%*s %8lld %10lld ", subject->kind, subject->name, width > 0 ? width : 0, "",
        (long long)totals.checks, (long long)totals.elements);
    if (totals.elements)
        printf("%12.1e", totals.worst);
    else
        printf("%12s", "none");
    if (totals.failures)
        printf("  FAIL (%lld)\n", (long long)totals.failures);
    else
        printf("  ok\n");
}

/* Prints the rows of a subject, or its line of the summary. Failed rows are printed at every level of detail. */
static void print_subject(const struct qkv_check_report *report, const struct subject *subject,
                          enum detail detail)
{
    struct totals totals = total_of(report, subject->first, subject->end);
    if (detail == DETAIL_SUMMARY) print_summary(subject, totals);
    if (detail == DETAIL_ROWS || totals.failures) print_rows(report, subject, detail != DETAIL_ROWS);
    if (detail == DETAIL_ROWS || totals.failures) putchar('\n');
}

/* Prints the last lines: the number of elements checked, the seconds, and whether the check has passed. */
static void print_total(const struct qkv_check_report *report, const struct qkv_check_options *options,
                        double seconds)
{
    struct totals totals = total_of(report, 0, report->count);
    printf("%lld checks of %lld gradients in float64, tolerance %g, seed %llu, %.1f s\n",
           (long long)totals.checks, (long long)totals.elements, options->tolerance,
           (unsigned long long)options->seed, seconds);
    printf("tolerance: %g for %lld gradients", options->tolerance, (long long)totals.held);
    if (totals.held < totals.elements)
        printf(", the rounding of differences for %lld", (long long)(totals.elements - totals.held));
    putchar('\n');
    if (totals.below_noise)
        printf("%lld of these are below the noise of differences and were not judged\n",
               (long long)totals.below_noise);
    if (totals.failures)
        printf("FAILED: %lld of %lld checks\n", (long long)totals.failures, (long long)totals.checks);
    else
        printf("passed\n");
}

/* ---- JSON ---- */

static cJSON *row_object(const struct qkv_check_row *row)
{
    cJSON *object = cJSON_CreateObject();
    JSON_TEXTS(object, {"subject", row->subject}, {"tensor", row->tensor});
    cJSON *shape = cJSON_AddArrayToObject(object, "shape");
    for (int i = 0; i < row->shape.rank; i++)
        cJSON_AddItemToArray(shape, cJSON_CreateNumber((double)row->shape.size[i]));
    JSON_NUMBERS(object, {"elements", (double)row->elements}, {"checked", (double)row->checked},
                 {"held", (double)row->held}, {"below_noise", (double)row->below_noise});
    if (row->worst < 0)
        cJSON_AddNullToObject(object, "worst");
    else
        cJSON_AddNumberToObject(object, "worst", (double)row->worst);
    /* cJSON writes NaN as null. */
    JSON_NUMBERS(object, {"analytic", row->analytic}, {"numeric", row->numeric}, {"rounding", row->rounding},
                 {"error", row->error}, {"excess", row->excess}, {"bound", row->bound});
    cJSON_AddBoolToObject(object, "passed", row->failure == NULL);
    if (row->failure) cJSON_AddStringToObject(object, "failure", row->failure);
    return object;
}

static cJSON *subject_object(const struct qkv_check_report *report, const struct subject *subject)
{
    struct totals totals = total_of(report, subject->first, subject->end);
    cJSON *object = cJSON_CreateObject();
    JSON_TEXTS(object, {"kind", subject->kind}, {"name", subject->name});
    cJSON_AddBoolToObject(object, "passed", totals.failures == 0);
    JSON_NUMBERS(object, {"gradients", (double)totals.elements}, {"worst_error", totals.worst});
    cJSON *checks = cJSON_AddArrayToObject(object, "checks");
    for (int64_t i = subject->first; i < subject->end; i++)
        cJSON_AddItemToArray(checks, row_object(&report->rows[i]));
    return object;
}

/* Prints all results as one JSON object. */
static void print_report_json(const struct qkv_check_report *report, const struct subject *subjects,
                              int count, const struct qkv_check_options *options)
{
    struct totals totals = total_of(report, 0, report->count);
    cJSON *root = cJSON_CreateObject();
    cJSON_AddBoolToObject(root, "passed", totals.failures == 0);
    JSON_NUMBERS(root, {"checks", (double)totals.checks}, {"failures", (double)totals.failures},
                 {"gradients", (double)totals.elements}, {"held", (double)totals.held},
                 {"below_noise", (double)totals.below_noise}, {"tolerance", options->tolerance},
                 {"seed", (double)options->seed});
    cJSON_AddStringToObject(root, "dtype", "float64");
    if (options->fault) {
        JSON_TEXTS(root, {"fault", qkv_fault_name(options->fault)},
                   {"fault_op", qkv_op_name(options->fault_op)});
    }
    cJSON *list = cJSON_AddArrayToObject(root, "subjects");
    for (int i = 0; i < count; i++) cJSON_AddItemToArray(list, subject_object(report, &subjects[i]));
    json_print(root);
}

/* ---- --plant all ---- */

enum verdict { CAUGHT, NOT_APPLICABLE, MISSED, VERDICTS };

static const char *const VERDICT_NAMES[VERDICTS] = {"caught", "not applicable", "MISSED"};
static const char *const VERDICT_CELLS[VERDICTS] = {"caught", "-", "MISSED"};

/* The verdicts on the faults of one op, by enum qkv_fault. */
struct fault_row {
    enum qkv_op_id op;
    enum verdict verdict[QKV_FAULT_COUNT];
};

static void show_fault(const struct fault_row *row, enum qkv_fault fault)
{
    if (isatty(STDERR_FILENO))
        fprintf(stderr, "\r%-60s\r%s: %s", "", qkv_op_name(row->op), qkv_fault_name(fault));
}

/* Checks the op with one fault, or none. A fault that has changed nothing is not applicable to the op. */
static enum qkv_status check_fault(struct fault_row *row, enum qkv_fault fault,
                                   const struct qkv_check_options *options, struct qkv_error *error)
{
    struct qkv_check_report report = {0};
    struct qkv_check_options used = *options;
    used.fault = fault;
    used.fault_op = row->op;
    used.progress = NULL;
    used.first_failure = true;
    if (qkv_fault_is_declaration(fault)) used.sample = 1; /* derivatives do not reveal faulty declarations */
    enum qkv_status status = qkv_check_op(&report, row->op, &used, error);
    row->verdict[fault] = report.failures ? CAUGHT : report.fault_calls ? MISSED : NOT_APPLICABLE;
    qkv_check_release(&report);
    return status;
}

static enum qkv_status check_faults(struct fault_row *row, const struct qkv_check_options *options,
                                    struct qkv_error *error)
{
    enum qkv_status status = check_fault(row, QKV_FAULT_NONE, options, error);
    if (!status && row->verdict[QKV_FAULT_NONE] == CAUGHT)
        return qkv_error_set(error,
                             "op %s already fails without a planted fault; see `qkv gradcheck --op %s`",
                             qkv_op_name(row->op), qkv_op_name(row->op));
    for (int fault = QKV_FAULT_NONE + 1; !status && fault < QKV_FAULT_COUNT; fault++) {
        show_fault(row, (enum qkv_fault)fault);
        status = check_fault(row, (enum qkv_fault)fault, options, error);
    }
    if (isatty(STDERR_FILENO)) fprintf(stderr, "\r%-60s\r", "");
    return status;
}

/* The last column is not padded, so that no line ends with a space. */
static int column_width(enum qkv_fault fault)
{
    if (fault == QKV_FAULT_COUNT - 1) return 0;
    int name = (int)strlen(qkv_fault_name(fault)), cell = (int)strlen(VERDICT_CELLS[MISSED]);
    return name > cell ? name : cell;
}

/* Prints the verdicts on an op; NULL: the names of the faults. */
static void print_faults(const struct fault_row *row)
{
    printf("%-20s", row ? qkv_op_name(row->op) : "op");
    for (int fault = QKV_FAULT_NONE + 1; fault < QKV_FAULT_COUNT; fault++)
        printf(" %-*s", column_width((enum qkv_fault)fault),
               row ? VERDICT_CELLS[row->verdict[fault]] : qkv_fault_name((enum qkv_fault)fault));
    putchar('\n');
}

static cJSON *fault_object(const struct fault_row *row)
{
    cJSON *object = cJSON_CreateObject();
    cJSON_AddStringToObject(object, "op", qkv_op_name(row->op));
    for (int fault = QKV_FAULT_NONE + 1; fault < QKV_FAULT_COUNT; fault++)
        cJSON_AddStringToObject(object, qkv_fault_name((enum qkv_fault)fault),
                                VERDICT_NAMES[row->verdict[fault]]);
    return object;
}

/* Plants every fault into op `only` (QKV_OP_leaf: into every op), one at a time, and prints a table of the faults that the
 * check has caught or missed. Returns the exit code: 1 if it has missed one. */
static int check_all_faults(enum qkv_op_id only, const struct qkv_check_options *options, bool json)
{
    enum qkv_op_id first = only == QKV_OP_leaf ? QKV_OP_leaf + 1 : only,
                   last = only == QKV_OP_leaf ? QKV_OP_COUNT - 1 : only;
    int64_t counts[VERDICTS] = {0};
    struct qkv_error error = {""};
    cJSON *rows = cJSON_CreateArray();
    enum qkv_status status = QKV_OK;
    if (!json) print_faults(NULL);
    for (int op = (int)first; !status && op <= (int)last; op++) {
        struct fault_row row = {.op = (enum qkv_op_id)op};
        status = check_faults(&row, options, &error);
        if (status) break;
        for (int fault = QKV_FAULT_NONE + 1; fault < QKV_FAULT_COUNT; fault++) counts[row.verdict[fault]]++;
        if (json)
            cJSON_AddItemToArray(rows, fault_object(&row));
        else
            print_faults(&row);
        fflush(stdout);
    }
    if (status) {
        cJSON_Delete(rows);
        return print_error("%s", error.message);
    }
    if (json) {
        cJSON *root = cJSON_CreateObject();
        cJSON_AddBoolToObject(root, "passed", !counts[MISSED]);
        cJSON_AddItemToObject(root, "ops", rows);
        json_print(root);
    } else {
        cJSON_Delete(rows);
        printf("%lld faults are caught, %lld are missed; %lld are not applicable (-): they change nothing\n",
               (long long)counts[CAUGHT], (long long)counts[MISSED], (long long)counts[NOT_APPLICABLE]);
    }
    return counts[MISSED] ? QKV_FAILED : QKV_OK;
}

enum { MAX_CONFIGS = 32, MAX_SUBJECTS = QKV_OP_COUNT + QKV_LAYER_COUNT + MAX_CONFIGS };

/* The options as they are given, and the parsed value of --plant. */
static struct {
    struct option_list settings;
    const char *op, *layer, *plant, *checkpoint;
    bool all, verbose, quiet, json;
    int64_t sample, seed, sentences;
    double tolerance;
    bool every_fault; /* --plant all */
    enum qkv_fault fault;
    enum qkv_op_id fault_op; /* QKV_OP_leaf, which has no backward: --plant names no op */
} request = {.sample = -1, .seed = 1, .sentences = 4, .tolerance = QKV_CHECK_TOLERANCE};

struct check_run {
    struct qkv_check_report report;
    struct qkv_check_options options;
    struct subject subject[MAX_SUBJECTS];
    int count;
    enum detail detail;
    bool progress; /* stderr is a terminal */
};

/* ---- names ---- */

/* Choices of options; the context is not used. */
static const char *op_name(const void *context, int64_t index)
{
    (void)context;
    int op = QKV_OP_leaf + 1 + (int)index;
    return op < QKV_OP_COUNT ? qkv_op_name((enum qkv_op_id)op) : NULL;
}

static NAME_LISTER(layer_name,
                   index < QKV_LAYER_COUNT ? qkv_layer_interface((enum qkv_layer_id)index)->name : NULL);

static const char ALL[] = "all";

/* The names of the faults, and then "all". */
static const char *fault_name(const void *context, int64_t index)
{
    (void)context;
    int fault = QKV_FAULT_NONE + 1 + (int)index;
    if (fault == QKV_FAULT_COUNT) return ALL;
    return fault < QKV_FAULT_COUNT ? qkv_fault_name((enum qkv_fault)fault) : NULL;
}

/* Reads --plant: FAULT, FAULT:OP or all. Returns 0, or the exit code after an error message. */
static int parse_plant(void)
{
    char fault[64] = "";
    request.every_fault = !strcmp(request.plant, ALL);
    if (request.every_fault) return 0;
    const char *colon = strchr(request.plant, ':');
    size_t length = colon ? (size_t)(colon - request.plant) : strlen(request.plant);
    snprintf(fault, sizeof fault, "%.*s", length < sizeof fault ? (int)length : (int)sizeof fault - 1,
             request.plant);
    request.fault = qkv_fault_find(fault);
    if (!request.fault) return print_unknown_name("--plant", fault, fault_name, NULL);
    if (!colon) return 0;
    request.fault_op = qkv_op_find(colon + 1);
    if (request.fault_op == QKV_OP_COUNT)
        return print_unknown_name("the op of --plant", colon + 1, op_name, NULL);
    return 0;
}

/* ---- running ---- */

static void show_progress(void *context, int64_t done, int64_t total)
{
    const struct check_run *run = context;
    if (!run->progress || (done % 64 != 0 && done != total)) return;
    fputc('\r', stderr);
    say(stderr, "%s: %lld of %lld derivatives", run->subject[run->count].name, (long long)done,
        (long long)total);
    if (done == total) fprintf(stderr, "\r%70s\r", "");
    fflush(stderr);
}

/* Begins the next subject and returns the options of its check. The fault is planted into `op` if
 * --plant names no op. */
static struct qkv_check_options *prepare(struct check_run *run, const char *kind, const char *name,
                                         enum qkv_op_id op, int64_t default_sample)
{
    run->subject[run->count] = (struct subject){kind, name, run->report.count, run->report.count};
    run->options.sample = request.sample >= 0 ? request.sample : default_sample;
    run->options.fault_op = request.fault_op != QKV_OP_leaf ? request.fault_op : op;
    return &run->options;
}

static int finish(struct check_run *run, enum qkv_status status, const struct qkv_error *error)
{
    if (status) return print_error("%s", error->message);
    struct subject *subject = &run->subject[run->count++];
    subject->end = run->report.count;
    if (!request.json) print_subject(&run->report, subject, run->detail);
    return 0;
}

static int run_op(struct check_run *run, enum qkv_op_id op)
{
    struct qkv_error error = {""};
    struct qkv_check_options *options = prepare(run, "op", qkv_op_name(op), op, 0);
    return finish(run, qkv_check_op(&run->report, op, options, &error), &error);
}

static int run_layer(struct check_run *run, enum qkv_layer_id layer)
{
    struct qkv_error error = {""};
    struct qkv_check_options *options =
        prepare(run, "layer", qkv_layer_interface(layer)->name, QKV_OP_attention, 0);
    return finish(run, qkv_check_layer(&run->report, layer, options, &error), &error);
}

/* Number of elements of each tensor that are checked: for a model, and for an op with --plant all. */
enum { DEFAULT_SAMPLE = 16, SAMPLE_WITH_FAULTS = 4 };

/* A model whose check begins. */
struct checked {
    const char *path;
    const struct qkv_config *config;
    int64_t sample;
};

static void describe(void *context, const struct qkv_checked_sizes *sizes)
{
    const struct checked *checked = context;
    print_plain(stdout, checked->path);
    printf("\n  %lld parameters; %lld sentences of %lld source and %lld target tokens\n",
           (long long)sizes->parameters, (long long)sizes->sentences, (long long)sizes->source_tokens,
           (long long)sizes->target_tokens);
    if (checked->config->training.precision == QKV_PRECISION_BFLOAT16)
        printf("  training.precision is %s: checked are the derivatives in float64, and those in float32\n"
               "  against them; training rounds the same factors further\n",
               qkv_precision_name(checked->config->training.precision));
    if (checked->sample)
        printf("  %lld elements of each parameter and one direction in it; --sample 0: all\n\n",
               (long long)checked->sample);
}

/* Checks the model of the config in `file`, with the values of `trained` unless that is NULL. */
static int run_model(struct check_run *run, const char *path, const char *file, const struct qkv_run *trained)
{
    struct qkv_arena arena = {0};
    struct qkv_config config;
    struct qkv_error error = {""};
    int code = (int)read_config(&config, &arena, file, &request.settings);
    if (!code) {
        struct qkv_check_options *options =
            prepare(run, trained ? "run" : "config", path, QKV_OP_attention, DEFAULT_SAMPLE);
        struct checked checked = {path, &config, options->sample};
        const struct qkv_checked_model model = {.subject = path,
                                                .config = &config,
                                                .run = trained,
                                                .sentences = request.sentences,
                                                .begin = request.json || request.quiet ? NULL : describe,
                                                .context = &checked};
        code = finish(run, qkv_check_model(&run->report, &model, options, &error), &error);
    }
    qkv_arena_release(&arena);
    return code;
}

static int run_operand(struct check_run *run, const char *path)
{
    struct qkv_run trained;
    struct qkv_error error = {""};
    bool is_op = qkv_op_find(path) != QKV_OP_COUNT, is_layer = qkv_layer_find(path) != QKV_LAYER_COUNT;
    if (!qkv_path_exists(path) && (is_op || is_layer))
        return print_error("%s: there is no such CONFIG or RUN; it is %s: give --%s %s", path,
                           is_op ? "an op" : "a layer", is_op ? "op" : "layer", path);
    bool is_run;
    if (find_run_folder(path, &is_run)) return QKV_INVALID;
    if (!is_run) {
        if (request.checkpoint)
            return print_error("--checkpoint is for a RUN, but %s is not a run folder", path);
        return run_model(run, path, path, NULL);
    }
    enum qkv_status status = open_run(&trained, path, request.checkpoint, QKV_FLOAT64, NULL, &error);
    if (status) return conclude(status, &error);
    int code = run_model(run, path, TEXT_IN(&trained.arena, "%s/" QKV_RUN_CONFIG, path), &trained);
    qkv_run_release(&trained);
    return code;
}

static int run_all(struct check_run *run, int configs, char **paths)
{
    if (request.op) return run_op(run, qkv_op_find(request.op));
    if (request.layer) return run_layer(run, qkv_layer_find(request.layer));
    int code = 0;
    if (request.all && run->detail == DETAIL_SUMMARY && !request.json)
        printf("%-34s %8s %10s %12s\n", "", "checks", "gradients", "worst error");
    for (int op = QKV_OP_leaf + 1; request.all && !code && op < QKV_OP_COUNT; op++)
        code = run_op(run, (enum qkv_op_id)op);
    for (int layer = 0; request.all && !code && layer < QKV_LAYER_COUNT; layer++)
        code = run_layer(run, (enum qkv_layer_id)layer);
    for (int i = 0; !code && i < configs; i++) code = run_operand(run, paths[i]);
    return code;
}

/* Reports a planted fault whose op never runs: otherwise it would look as if the check had passed. */
static int print_unused_fault(const struct check_run *run)
{
    const char *op = qkv_op_name(run->options.fault_op), *fault = qkv_fault_name(request.fault);
    bool is_slight = request.fault == QKV_FAULT_SLIGHT,
         is_declaration = qkv_fault_is_declaration(request.fault);
    if ((is_slight || is_declaration) && !request.op)
        return print_error("fault %s shows only in the check of an op: use --op NAME", fault);
    if (is_slight)
        return print_error("fault %s shows in ops that are linear in an input, which op %s is not", fault,
                           op);
    if (is_declaration)
        return print_error("fault %s changes no declaration of op %s: choose another fault", fault, op);
    if (request.op && !strcmp(request.op, op))
        return print_error("op %s computes no gradient, so no fault can be planted in it", op);
    return print_error("the fault is planted in op %s, which %s %s does not use; name another: --plant %s:OP",
                       op, run->subject[0].kind, run->subject[0].name, fault);
}

static int execute(int configs, char **paths)
{
    double start = qkv_clock_seconds();
    struct check_run run = {
        .options = {.tolerance = request.tolerance, .seed = (uint64_t)request.seed, .fault = request.fault},
        .progress = isatty(STDERR_FILENO),
    };
    run.options.progress = show_progress;
    run.options.context = &run;
    run.detail = request.quiet                     ? DETAIL_FAILURES
                 : request.all && !request.verbose ? DETAIL_SUMMARY
                                                   : DETAIL_ROWS;
    if (request.every_fault) {
        run.options.sample = request.sample >= 0 ? request.sample : SAMPLE_WITH_FAULTS;
        return check_all_faults(request.op ? qkv_op_find(request.op) : QKV_OP_leaf, &run.options,
                                request.json);
    }
    int code = run_all(&run, configs, paths);
    if (!code && request.fault && !run.report.fault_calls) code = print_unused_fault(&run);
    if (!code && request.json) print_report_json(&run.report, run.subject, run.count, &run.options);
    if (!code && !request.json) {
        if (request.fault)
            printf("planted fault: %s, in the %s of %s\n", qkv_fault_name(request.fault),
                   qkv_fault_is_declaration(request.fault) ? "declarations" : "gradient",
                   request.all && request.fault_op == QKV_OP_leaf
                       ? "each op itself and of attention in the rest"
                       : qkv_op_name(run.options.fault_op));
        print_total(&run.report, &run.options, qkv_clock_seconds() - start);
    }
    if (!code && run.report.failures) code = QKV_FAILED;
    qkv_check_release(&run.report);
    return code;
}

/* ---- the command line ---- */

/* Returns a message when options contradict each other, else NULL. */
static const char *conflict(int configs)
{
    if (request.op && request.layer) return "--op and --layer exclude each other";
    if (request.all && (request.op || request.layer))
        return "--all includes every op and layer: leave out --op and --layer";
    if (configs && (request.op || request.layer))
        return "--op and --layer cannot be combined with a CONFIG or RUN";
    if (request.settings.count && !configs) return "--set overrides keys of a CONFIG, but none is given";
    if (request.quiet && request.verbose) return "--quiet and --verbose exclude each other";
    if (configs > MAX_CONFIGS) return "too many CONFIGs: at most 32";
    return NULL;
}

static int check_request(int configs)
{
    const char *sentence = conflict(configs);
    if (sentence) return print_error("%s", sentence);
    if (request.plant && parse_plant()) return QKV_INVALID;
    if (request.every_fault && (configs || request.layer || !(request.op || request.all)))
        return print_error(
            "--plant all checks ops, one fault at a time: give --all or --op NAME, and nothing else");
    return 0;
}

static int run_gradcheck(int operands, char **operand)
{
    int code = check_request(operands);
    if (code) return code;
    if (!request.op && !request.layer && !request.all && !operands)
        return print_usage_error(&command_gradcheck,
                                 "nothing to check: give a CONFIG, a RUN, --op, --layer or --all");
    return execute(operands, operand);
}

const struct command command_gradcheck = {
    .name = "gradcheck",
    .summary = "compare analytic gradients with finite differences",
    .synopsis = "gradcheck [CONFIG... | RUN... | --op NAME | --layer NAME | --all] [options]",
    .description =
        "Compares analytic gradients with finite differences in double precision. Exits with 0 when all "
        "checks pass, with 1 when one fails.\n\n"
        "A CONFIG checks the model as training would start with it: its sizes, vocabularies, dropout and "
        "loss, on the first pairs of its data. A RUN checks the trained model. By default 16 "
        "elements of each parameter are checked, and all its elements together along a random direction; "
        "--sample 0 checks every element.\n",
    .examples = "  qkv gradcheck --all\n"
                "  qkv gradcheck configs/toy_en_es.yaml\n"
                "  qkv gradcheck runs/toy_en_es\n"
                "  qkv gradcheck --op attention\n"
                "  qkv gradcheck --op softmax --plant sign\n"
                "  qkv gradcheck --layer multi_head --plant missing:linear\n"
                "  qkv gradcheck --all --plant all\n",
    .operands = OPERANDS({"CONFIG | RUN", VALUE_CONFIG_OR_RUN, "a YAML file, or a run folder",
                          .optional = true, .repeated = true}),
    .options = OPTIONS(
        {"op", 0, "NAME", OPTION_CHOICE, &request.op, "check one op, at all its sample shapes",
         .choices = op_name},
        {"layer", 0, "NAME", OPTION_CHOICE, &request.layer, "check one layer", .choices = layer_name},
        {"all", 'a', NULL, OPTION_FLAG, &request.all, "check all ops and layers, and CONFIG if given"},
        COMMAND_OPTION_SETTINGS(&request.settings), COMMAND_OPTION_CHECKPOINT(&request.checkpoint),
        {"sentences", 0, "N", OPTION_INTEGER, &request.sentences,
         "number of sentence pairs, the first of data.train (default: 4)", 1, 1000},
        {"sample", 'n', "N", OPTION_INTEGER, &request.sample,
         "elements to check of each tensor; 0: all (default: all; for a CONFIG or RUN 16)", 0, 1e12},
        {"tolerance", 't', "X", OPTION_NUMBER, &request.tolerance,
         "largest relative error that passes (default: 1e-9)", 1e-15, 1},
        {"seed", 0, "N", OPTION_INTEGER, &request.seed, "seed of values, samples and dropout (default: 1)", 0,
         9007199254740992.0},
        {"plant", 0, "FAULT[:OP]", OPTION_TEXT, &request.plant,
         "plant a fault in an op, to see the check fail: {choices}. reads, elementwise and alias are "
         "wrong declarations, which the check of the op finds; all: a table of every fault in every op",
         .choices = fault_name},
        COMMAND_OPTION_JSON(&request.json),
        {"quiet", 'q', NULL, OPTION_FLAG, &request.quiet, "print failures and the summary only"},
        {"verbose", 'v', NULL, OPTION_FLAG, &request.verbose, "with --all: print every check"}),
    .run = run_gradcheck,
};
