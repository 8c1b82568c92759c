/* The parts of `qkv gradcheck`: checking a model, printing results, and planting every fault. */
#ifndef QKV_TOOLS_GRADCHECK_H
#define QKV_TOOLS_GRADCHECK_H

#include "qkv/config.h"
#include "qkv/gradcheck.h"
#include "qkv/run.h"

#include <stdio.h>

/* One op, layer or model that was checked, and its rows in the report. */
struct gradcheck_subject {
    const char *kind, *name; /* "op", "softmax"; "config" or "run" with its path */
    int64_t first, end;      /* rows first .. end - 1 */
};

/* How much is printed of a subject: only failed rows, one line of the summary, or all rows. */
enum gradcheck_detail { GRADCHECK_FAILURES, GRADCHECK_SUMMARY, GRADCHECK_ROWS };

/* Prints the rows of a subject, or its line of the summary. Failed rows are printed at every level of detail. */
void gradcheck_print_subject(const struct qkv_check_report *report, const struct gradcheck_subject *subject,
                             enum gradcheck_detail detail);

/* Prints the column names of the summary. */
void gradcheck_print_head(void);

/* Prints the last lines: how much was checked, in how many seconds, and whether it passed. */
void gradcheck_print_total(const struct qkv_check_report *report, const struct qkv_check_options *options,
                           double seconds);

/* Prints all results as one JSON object. */
enum qkv_status gradcheck_print_json(const struct qkv_check_report *report,
                                     const struct gradcheck_subject *subjects, int count,
                                     const struct qkv_check_options *options, struct qkv_error *error);

/* A model to check. */
struct gradcheck_model {
    const char *subject; /* its name in the report: a path */
    const struct qkv_config *config;
    const struct qkv_run *run; /* values as trained; NULL: as training would start with them */
    int64_t sentences;         /* number of pairs from the beginning of data.train */
    FILE *about;               /* gets two lines about the model; NULL: none */
};

/* Checks a model with the vocabularies, dropout, label smoothing and loss scale of training: the gradient of every
 * parameter, and float32 against float64. */
enum qkv_status gradcheck_model(struct qkv_check_report *report, const struct gradcheck_model *model,
                                const struct qkv_check_options *options, struct qkv_error *error);

/* The largest difference allowed between float32 and float64 for loss and gradients of a model;
 * qkv_check_precision says what the difference is relative to. */
#define GRADCHECK_FLOAT32_BOUND 2e-5

/* Plants every fault into op `only` (QKV_OP_leaf: into every op), one at a time, and prints a table of those that the
 * check has caught or missed. Returns the exit code: 1 if one is missed. */
int gradcheck_matrix(enum qkv_op_id only, const struct qkv_check_options *options, bool json);

#endif
