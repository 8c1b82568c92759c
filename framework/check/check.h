/* What the files of the gradient check share. */
#ifndef QKV_CHECK_CHECK_H
#define QKV_CHECK_CHECK_H

#include "qkv/gradcheck.h"

/* Adds a row; NULL when memory is out. Texts are copied. */
struct qkv_check_row *qkv_check_add(struct qkv_check_report *report, const char *subject, const char *tensor);

/* Marks a row as failed; the text is formatted into the report. */
void qkv_check_fail(struct qkv_check_report *report, struct qkv_check_row *row, const char *format, ...)
    QKV_PRINTF(3, 4);

/* Makes the backward function of an op of this graph wrong, until qkv_unplant. One graph at a time on a
 * thread. */
void qkv_plant(struct qkv_graph *graph, enum qkv_op_id op, enum qkv_fault fault);
/* Back to what it was; returns how often the faulty function ran. */
int64_t qkv_unplant(struct qkv_graph *graph);

/* Random numbers of both signs that stay clear of 0. */
void qkv_check_cotangent(uint64_t seed, int64_t count, double *cotangent);

#endif
