/* Internal functions of the gradient check: rows of the report, planted faults, samples, and the checks of one op
 * other than finite differences. */
#pragma once

#include "graph/graph.h"

#include "qkv/gradcheck.h"

struct qkv_op_samples;
struct qkv_sample;

/* Adds a row to the report; NULL when memory runs out. Copies `subject` and `tensor`. */
struct qkv_check_row *qkv_check_add(struct qkv_check_report *report, const char *subject, const char *tensor);

/* Marks a row as failed; the text is formatted into the report. */
void qkv_check_fail(struct qkv_check_report *report, struct qkv_check_row *row, const char *format, ...)
    QKV_PRINTF(3, 4);

/* ---- samples.c: arguments that every public check refuses with QKV_INVALID and an error ---- */

/* Refuses a missing report, missing options and options out of range; `function` is the caller's name. */
enum qkv_status qkv_check_arguments(const struct qkv_check_report *report,
                                    const struct qkv_check_options *options, const char *function,
                                    struct qkv_error *error);

/* Refuses a tensor that is NULL, a graph that has failed, one of another precision, one whose tensors share memory, and one
 * that accumulates the gradients of parameters. */
enum qkv_status qkv_check_tensor(const struct qkv_tensor *y, enum qkv_dtype dtype, const char *subject,
                                 struct qkv_error *error);

/* ---- plant.c ---- */

/* Plants a fault into an op of this graph, in the graph's memory, until qkv_unplant or until the graph is freed: replaces its
 * backward function by a faulty one, or a declaration, for which the graph must have no tensors yet. False, and nothing is
 * planted, if the fault would change nothing, or memory runs out, which makes the graph fail. */
bool qkv_plant(struct qkv_graph *graph, enum qkv_op_id op, enum qkv_fault fault);
/* Restores the op that was planted last. Returns the number of calls of the faulty backward function. */
int64_t qkv_unplant(struct qkv_graph *graph, enum qkv_op_id op);

/* ---- samples.c: graphs of samples ---- */

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
 * NULL where the sample has none. Turns dropout on. */
void qkv_sample_inputs(struct qkv_graph *graph, const struct qkv_sample_setting *setting,
                       struct qkv_tensor *input[QKV_MAX_INPUTS]);

/* Records the op with these inputs and the options of the sample. Returns its node; NULL when the graph fails. */
struct qkv_tensor *qkv_sample_node(struct qkv_graph *graph, const struct qkv_sample_setting *setting,
                                   struct qkv_tensor *input[QKV_MAX_INPUTS]);

/* ---- declarations.c ---- */

/* Tests the declarations of the op (struct qkv_op) on one sample. Adds one row for each precision. */
enum qkv_status qkv_check_declarations(struct qkv_check_report *report, const char *subject,
                                       const struct qkv_sample_setting *setting,
                                       const struct qkv_check_options *options, struct qkv_error *error);

/* Sets `cotangent` to random numbers with absolute values of 0.5 .. 1.5 and random signs. */
void qkv_check_cotangent(uint64_t seed, int64_t count, double *cotangent);

/* Options of a layer, and the shapes of up to two random inputs to apply it to (rank 0: no input). */
struct qkv_layer_sample {
    const char *name;
    const void *options;
    struct qkv_shape input[2];
};

struct qkv_layer_interface {
    const char *name;
    size_t size; /* bytes of the layer's struct, which `layer` points to */
    void (*init)(void *layer, struct qkv_parameters *parameters, const void *options, const char *name);
    struct qkv_tensor *(*apply)(const void *layer, struct qkv_graph *graph, struct qkv_tensor *const *input,
                                const void *options);
    const struct qkv_layer_sample *samples; /* the last has no name */
};

/* How the check creates and applies a layer, and its samples; NULL for an unknown layer. */
const struct qkv_layer_interface *qkv_layer_interface(enum qkv_layer_id layer);

/* ---- faults ---- */

/* The name in lower case: "sign". NULL for NONE and for an unknown value. */
const char *qkv_fault_name(enum qkv_fault fault);

/* The fault of that name; NONE for an unknown name and for NULL. */
enum qkv_fault qkv_fault_find(const char *name);

/* Whether the fault is in the declarations of an op (READS and the faults after it) and not in its backward function. */
bool qkv_fault_is_declaration(enum qkv_fault fault);

/* ---- float32 against float64 ---- */

/* The same result in two graphs with the same nodes, one in each precision. */
struct qkv_precision_pair {
    struct qkv_tensor *float32, *float64;
    /* NULL, or the float64 result of a graph with the same shapes in which large numbers do not cancel, such as that of an
     * untrained model. If large numbers cancel in `float64`, as in a trained model, rounding errors are proportional to the
     * large numbers, not to the result; differences are therefore measured relative to the numbers of `reference`. */
    struct qkv_tensor *reference;
    double bound; /* largest relative difference that passes */
};

/* Compares values of both results, and gradients of all variables and parameters for the same random cotangent. Adds one
 * row: the largest difference, relative to the largest number of its tensor or to 1/100 of the largest gradient of all
 * tensors, whichever is more. A difference above the bound still passes if rounding to float32 explains it. QKV_INVALID
 * when a graph has failed, when the graphs do not have the same nodes or not these precisions, or when memory runs out. */
enum qkv_status qkv_check_precision(struct qkv_check_report *report, const char *subject,
                                    const struct qkv_precision_pair *pair, uint64_t seed,
                                    struct qkv_error *error);
