/* What the files of `qkv gradcheck` share. */
#ifndef QKV_TOOLS_GRADCHECK_H
#define QKV_TOOLS_GRADCHECK_H

#include "qkv/config.h"
#include "qkv/gradcheck.h"
#include "qkv/run.h"

#include <stdio.h>

/* One op, layer or config of a run: a stretch of the rows of the report. */
struct gradcheck_subject {
    const char *kind, *name; /* "op", "softmax" */
    int64_t first, end;      /* rows */
};

enum gradcheck_detail { GRADCHECK_FAILURES, GRADCHECK_SUMMARY, GRADCHECK_ROWS };

/* Prints the rows of a subject, or its line of the summary. Failed rows are printed in full at every detail.
 */
void gradcheck_print_subject(const struct qkv_check_report *report, const struct gradcheck_subject *subject,
                             enum gradcheck_detail detail);

/* The head of the summary's table. */
void gradcheck_print_head(void);

/* The last lines: how much was checked and whether it passed. `seconds` it took. */
void gradcheck_print_total(const struct qkv_check_report *report, const struct qkv_check_options *options,
                           double seconds);

/* Everything as JSON. */
enum qkv_status gradcheck_print_json(const struct qkv_check_report *report,
                                     const struct gradcheck_subject *subjects, int count,
                                     const struct qkv_check_options *options, struct qkv_error *error);

/* Checks the model of a config on the first `sentences` pairs of its training data: every parameter's
 * gradient, and float32 against float64. The vocabularies, dropout, label smoothing and the scale of the loss
 * are those of training; the values too, at its start or, with a run (else NULL), as they are in its
 * checkpoint. A line about the model is printed to `about` unless that is NULL. */
enum qkv_status gradcheck_model(struct qkv_check_report *report, const char *subject,
                                const struct qkv_config *config, const struct qkv_run *run, int64_t sentences,
                                const struct qkv_check_options *options, FILE *about,
                                struct qkv_error *error);

/* How far a whole model's loss and gradients in float32 may be from those in float64; see qkv_check_precision
 * for what the difference is relative to. */
#define GRADCHECK_FLOAT32_BOUND 2e-5

#endif
