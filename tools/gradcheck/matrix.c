/* qkv gradcheck --plant all: plants every fault into every op, one at a time, and prints which ones the check has found. */
#include "gradcheck.h"

#include "print.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <cjson/cJSON.h>

enum verdict { CAUGHT, NOT_APPLICABLE, MISSED, VERDICTS };

static const char *const NAMES[VERDICTS] = {"caught", "not applicable", "MISSED"};
static const char *const CELLS[VERDICTS] = {"caught", "-", "MISSED"};

/* The verdicts on the faults of one op, by enum qkv_fault. */
struct row {
    enum qkv_op_id op;
    enum verdict verdict[QKV_FAULT_COUNT];
};

static void show_progress(const struct row *row, enum qkv_fault fault)
{
    if (isatty(STDERR_FILENO))
        fprintf(stderr, "\r%-60s\r%s: %s", "", qkv_op_name(row->op), qkv_fault_name(fault));
}

/* Checks the op with one fault, or none. A fault that has changed nothing is not applicable to the op. */
static enum qkv_status check(struct row *row, enum qkv_fault fault, const struct qkv_check_options *options,
                             struct qkv_error *error)
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

static enum qkv_status check_faults(struct row *row, const struct qkv_check_options *options,
                                    struct qkv_error *error)
{
    enum qkv_status status = check(row, QKV_FAULT_NONE, options, error);
    if (!status && row->verdict[QKV_FAULT_NONE] == CAUGHT)
        return qkv_error_set(error,
                             "op %s already fails without a planted fault; see `qkv gradcheck --op %s`",
                             qkv_op_name(row->op), qkv_op_name(row->op));
    for (int fault = QKV_FAULT_NONE + 1; !status && fault < QKV_FAULT_COUNT; fault++) {
        show_progress(row, (enum qkv_fault)fault);
        status = check(row, (enum qkv_fault)fault, options, error);
    }
    if (isatty(STDERR_FILENO)) fprintf(stderr, "\r%-60s\r", "");
    return status;
}

/* The last column is not padded, so that no line ends with a space. */
static int column_width(enum qkv_fault fault)
{
    if (fault == QKV_FAULT_COUNT - 1) return 0;
    int name = (int)strlen(qkv_fault_name(fault)), cell = (int)strlen(CELLS[MISSED]);
    return name > cell ? name : cell;
}

static void print_head(void)
{
    printf("%-20s", "op");
    for (int fault = QKV_FAULT_NONE + 1; fault < QKV_FAULT_COUNT; fault++)
        printf(" %-*s", column_width((enum qkv_fault)fault), qkv_fault_name((enum qkv_fault)fault));
    putchar('\n');
}

static void print_row(const struct row *row)
{
    printf("%-20s", qkv_op_name(row->op));
    for (int fault = QKV_FAULT_NONE + 1; fault < QKV_FAULT_COUNT; fault++)
        printf(" %-*s", column_width((enum qkv_fault)fault), CELLS[row->verdict[fault]]);
    putchar('\n');
}

static cJSON *row_object(const struct row *row)
{
    cJSON *object = cJSON_CreateObject();
    cJSON_AddStringToObject(object, "op", qkv_op_name(row->op));
    for (int fault = QKV_FAULT_NONE + 1; fault < QKV_FAULT_COUNT; fault++)
        cJSON_AddStringToObject(object, qkv_fault_name((enum qkv_fault)fault), NAMES[row->verdict[fault]]);
    return object;
}

int gradcheck_matrix(enum qkv_op_id only, const struct qkv_check_options *options, bool json)
{
    enum qkv_op_id first = only == QKV_OP_leaf ? QKV_OP_leaf + 1 : only,
                   last = only == QKV_OP_leaf ? QKV_OP_COUNT - 1 : only;
    int64_t counts[VERDICTS] = {0};
    struct qkv_error error = {""};
    cJSON *rows = cJSON_CreateArray();
    enum qkv_status status = QKV_OK;
    if (!json) print_head();
    for (int op = (int)first; !status && op <= (int)last; op++) {
        struct row row = {.op = (enum qkv_op_id)op};
        status = check_faults(&row, options, &error);
        if (status) break;
        for (int fault = QKV_FAULT_NONE + 1; fault < QKV_FAULT_COUNT; fault++) counts[row.verdict[fault]]++;
        if (json)
            cJSON_AddItemToArray(rows, row_object(&row));
        else
            print_row(&row);
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
        int code = conclude(json_print(root, &error), &error);
        if (code) return code;
    } else {
        cJSON_Delete(rows);
        printf("%lld faults are caught, %lld are missed; %lld are not applicable (-): they change nothing\n",
               (long long)counts[CAUGHT], (long long)counts[MISSED], (long long)counts[NOT_APPLICABLE]);
    }
    return counts[MISSED] ? QKV_FAILED : QKV_OK;
}
