/* What the files of the gradient check share. */
#ifndef QKV_CHECK_CHECK_H
#define QKV_CHECK_CHECK_H

#include "graph/graph.h"

#include "qkv/gradcheck.h"

/* Adds a row; NULL when memory is out. Texts are copied. */
struct qkv_check_row *qkv_check_add(struct qkv_check_report *report, const char *subject, const char *tensor);

/* Marks a row as failed; the text is formatted into the report. */
void qkv_check_fail(struct qkv_check_report *report, struct qkv_check_row *row, const char *format, ...)
    QKV_PRINTF(3, 4);

/* ---- plant.c ---- */

/* Replaces the backward function of an op of this graph by a faulty one, until qkv_unplant. One graph at a time
 * on a thread. */
void qkv_plant(struct qkv_graph *graph, enum qkv_op_id op, enum qkv_fault fault);
/* Restores the op; returns how often the faulty function has run. */
int64_t qkv_unplant(struct qkv_graph *graph);

/* Makes an op of this empty graph declare what is wrong; false where the fault would change nothing. Lasts for
 * the life of the graph, or until the thread plants another fault. */
bool qkv_plant_declaration(struct qkv_graph *graph, enum qkv_op_id op, enum qkv_fault fault);

/* ---- samples.c ---- */

/* How a sample of an op is built. */
struct qkv_sample_setting {
    enum qkv_op_id op;
    const struct qkv_sample *sample;
    unsigned varied; /* bit i: input i gets a gradient */
    bool used_again; /* each varied input has a second use, which backward reaches first */
    int alias[2];    /* two inputs that are one tensor; both 0: none */
    uint64_t seed;
};

/* Creates the inputs of the sample, filled with random numbers that float32 represents exactly; NULL where the
 * sample has none. */
void qkv_sample_inputs(struct qkv_graph *graph, const struct qkv_sample_setting *setting,
                       struct qkv_tensor *input[QKV_MAX_INPUTS]);

struct qkv_options qkv_sample_options_of(const struct qkv_sample *sample);

/* ---- declarations.c ---- */

/* Proves what the op declares (struct qkv_op) on one sample, in both precisions: one row each. */
enum qkv_status qkv_check_declarations(struct qkv_check_report *report, const char *subject,
                                       const struct qkv_sample_setting *setting,
                                       const struct qkv_check_options *options, struct qkv_error *error);

/* Random numbers of both signs that stay clear of 0. */
void qkv_check_cotangent(uint64_t seed, int64_t count, double *cotangent);

#endif
