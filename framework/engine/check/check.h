/* Internal functions of the gradient check: rows of the report, planted faults, samples, and the checks of one op
 * other than finite differences. */
#ifndef QKV_CHECK_CHECK_H
#define QKV_CHECK_CHECK_H

#include "check/op_samples/op_samples.h"
#include "graph/graph.h"

#include "qkv/gradcheck.h"

/* Adds a row to the report; NULL when memory runs out. Copies `subject` and `tensor`. */
struct qkv_check_row *qkv_check_add(struct qkv_check_report *report, const char *subject, const char *tensor);

/* Marks a row as failed; the text is formatted into the report. */
void qkv_check_fail(struct qkv_check_report *report, struct qkv_check_row *row, const char *format, ...)
    QKV_PRINTF(3, 4);

/* ---- arguments.c: arguments that every public check refuses with QKV_INVALID and an error ---- */

/* Refuses a missing report, missing options and options out of range; `function` is the caller's name. */
enum qkv_status qkv_check_arguments(const struct qkv_check_report *report,
                                    const struct qkv_check_options *options, const char *function,
                                    struct qkv_error *error);

/* Refuses a tensor that is NULL, a graph that has failed, one of another precision, one whose tensors share memory, and one
 * that accumulates the gradients of parameters. */
enum qkv_status qkv_check_tensor(const struct qkv_tensor *y, enum qkv_dtype dtype, const char *subject,
                                 struct qkv_error *error);

/* ---- plant.c ---- */

/* Replaces the backward function of an op of this graph by a faulty one, until qkv_unplant. One
 * graph at a time on a thread. */
void qkv_plant(struct qkv_graph *graph, enum qkv_op_id op, enum qkv_fault fault);
/* Restores the op, and adds the number of calls of the faulty function to *fault_calls. False when memory was out. */
bool qkv_unplant(struct qkv_graph *graph, int64_t *fault_calls);

/* Plants a faulty declaration into an op of this graph, which must have no tensors yet. Returns
 * false, and plants nothing, if the fault would not change the declaration. Lasts until the graph
 * is freed or this thread plants another fault. */
bool qkv_plant_declaration(struct qkv_graph *graph, enum qkv_op_id op, enum qkv_fault fault);

/* ---- samples.c ---- */

/* The samples of an op. */
const struct qkv_op_samples *qkv_samples_of(enum qkv_op_id op);

/* How a graph is built from a sample of an op. */
struct qkv_sample_setting {
    enum qkv_op_id op;
    const struct qkv_sample *sample;
    unsigned varied; /* bit i: input i gets a gradient */
    bool used_again; /* a second op uses each varied input, and its backward runs first */
    int alias[2];    /* indices of two inputs that are the same tensor; both 0: none */
    uint64_t seed;
};

/* Creates the inputs of the sample, filled with random numbers that float32 represents exactly;
 * NULL where the sample has none. */
void qkv_sample_inputs(struct qkv_graph *graph, const struct qkv_sample_setting *setting,
                       struct qkv_tensor *input[QKV_MAX_INPUTS]);

struct qkv_options qkv_sample_options_of(const struct qkv_sample *sample);

/* Records the op of the sample and its inputs in a graph. Returns the node of the op; NULL when the graph fails. */
struct qkv_tensor *qkv_sample_apply(struct qkv_graph *graph, const struct qkv_sample_setting *setting,
                                    struct qkv_tensor *input[QKV_MAX_INPUTS]);

/* ---- adjoint.c ---- */

/* Runs the adjoint test for each varied input in which the op is linear. Adds one row for each of them. */
enum qkv_status qkv_check_adjoint(struct qkv_check_report *report, const char *subject,
                                  const struct qkv_sample_setting *setting,
                                  const struct qkv_check_options *options, struct qkv_error *error);

/* ---- declarations.c ---- */

/* Tests the declarations of the op (struct qkv_op) on one sample. Adds one row for each precision. */
enum qkv_status qkv_check_declarations(struct qkv_check_report *report, const char *subject,
                                       const struct qkv_sample_setting *setting,
                                       const struct qkv_check_options *options, struct qkv_error *error);

/* Sets `cotangent` to random numbers with absolute values of 0.5 .. 1.5 and random signs. */
void qkv_check_cotangent(uint64_t seed, int64_t count, double *cotangent);

#endif
