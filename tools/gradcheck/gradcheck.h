/* The parts of `qkv gradcheck`: printing results, and planting every fault. */
#ifndef QKV_TOOLS_GRADCHECK_H
#define QKV_TOOLS_GRADCHECK_H

#include "qkv/gradcheck.h"

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

/* Prints the last lines: the number of elements checked, the seconds, and whether the check has passed. */
void gradcheck_print_total(const struct qkv_check_report *report, const struct qkv_check_options *options,
                           double seconds);

/* Prints all results as one JSON object. */
void gradcheck_print_json(const struct qkv_check_report *report, const struct gradcheck_subject *subjects,
                          int count, const struct qkv_check_options *options);

#endif
