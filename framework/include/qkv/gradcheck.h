/* The gradient check: analytic gradients against central differences, in float64.
 *
 * For an output y and a random cotangent c, the function that is checked is L = sum(c * y). Each element of
 * each variable and parameter is moved by +-h and +-h/2; the five-point rule gives the numeric derivative,
 * the difference to the three-point rule its truncation error, and the size of the numbers involved its
 * rounding error (as GSL's gsl_deriv_central does), or the noise that is measured in y where that is more:
 * the loss of a trained model is the small difference of large numbers, and rounds as they do. h shrinks
 * until the two rules agree, so that a kink of relu between the points is stepped around, and grows where
 * rounding would hide a small derivative. An element passes when
 *
 *     |analytic - numeric| <= tolerance max(|analytic|, |numeric|) + rounding
 *
 * and NaN counts as infinitely wrong. Where only a sample of a tensor's elements is checked, the whole tensor
 * is also moved along a random direction. Beside the elements it is checked that all inputs moved together
 * along a random direction give the directional derivative, that a second run gives the same bits, and that a
 * zero cotangent gives zero gradients. All memory that forward and backward must write is NaN before, so that
 * nothing is read or left unwritten. */
#ifndef QKV_GRADCHECK_H
#define QKV_GRADCHECK_H

#include "qkv/arena.h"
#include "qkv/graph.h"
#include "qkv/layers.h"
#include "qkv/ops.h"

/* Faults to plant into one op, to see the check fail. */
enum qkv_fault {
    QKV_FAULT_NONE,
    QKV_FAULT_SIGN,      /* what the op adds to a gradient has the wrong sign */
    QKV_FAULT_FACTOR,    /* is 1.001 times too large */
    QKV_FAULT_MISSING,   /* lacks its largest element */
    QKV_FAULT_OVERWRITE, /* replaces what other ops added before */
    QKV_FAULT_OFFSET,    /* lands one element further */
    /* in what the op declares: checked by qkv_check_op only */
    QKV_FAULT_READS,       /* declares that backward reads no value */
    QKV_FAULT_ELEMENTWISE, /* declares that the op is elementwise in input 1 */
    QKV_FAULT_ALIAS,       /* declares the opposite of what is true: result in the memory of input 1 or not */
    QKV_FAULT_COUNT
};

/* "sign", "factor", "missing", "overwrite", "offset", "reads", "elementwise", "alias"; NULL for NONE. And back; NONE for an unknown name. */
QKV_API const char *qkv_fault_name(enum qkv_fault fault);
QKV_API enum qkv_fault qkv_fault_find(const char *name);

/* Whether the fault is in what an op declares (READS and those after it) and not in its backward function. */
QKV_API bool qkv_fault_is_declaration(enum qkv_fault fault);

struct qkv_check_options {
    double tolerance; /* largest relative error that passes; 0 stands for 1e-7 */
    int64_t sample;   /* elements checked of each tensor, spread evenly; 0: every element */
    uint64_t seed;
    enum qkv_fault fault;
    enum qkv_op_id fault_op; /* where the fault is planted */
    void (*progress)(void *context, int64_t done,
                     int64_t total); /* NULL, or told of every derivative taken */
    void *context;
};

/* One tensor of one check. */
struct qkv_check_row {
    const char *subject;    /* "op softmax (matrix)" */
    const char *tensor;     /* "input 1", "encoder.1.self.query.weight", "all inputs together" */
    struct qkv_shape shape; /* rank 0 where the row is not about one tensor */
    int64_t elements, checked;
    int64_t below_noise; /* of those checked: rounding is above 1e-3 of the gradient, which is too small to be
                        judged */
    int64_t worst;       /* index of the worst element; -1 for a direction, and where there is none */
    double analytic, numeric;
    double rounding;     /* what is allowed for in the numeric one */
    double error;        /* |analytic - numeric| / max(|analytic|, |numeric|) */
    double excess;       /* the same beyond the rounding error: what is compared with the tolerance */
    const char *failure; /* NULL: passed; else what is wrong */
};

/* All rows of a run; caller's storage, all zero at first. */
struct qkv_check_report {
    struct qkv_check_row *rows;
    int64_t count, capacity, failures;
    int64_t
        fault_calls; /* how often the op with the planted fault ran: with 0 the fault was not in the graph */
    struct qkv_arena arena;
};

/* Checks the gradients of y with respect to every variable and bound parameter of a float64 graph, as its
 * tensors stand. The values of the graph are restored. QKV_INVALID only when the graph has failed, is
 * float32, or memory is out; failed gradients are rows of the report. */
QKV_API enum qkv_status qkv_check_graph(struct qkv_check_report *report, const char *subject,
                                        struct qkv_graph *graph, struct qkv_tensor *y,
                                        const struct qkv_check_options *options, struct qkv_error *error);

/* Holds the float32 graph of `single` against the float64 graph of `whole`, which must be built alike: values
 * of the two tensors, and gradients of all variables and parameters for the same random cotangent. One row:
 * the worst difference, relative to the largest number of the tensor that it is in, or to 1/100 of the
 * largest of all gradients where that is more.
 *
 * Where the numbers of `whole` are small because larger ones cancel, as the gradients of a trained model do,
 * `reference` is a float64 graph like it in which they do not (else NULL): its result and its gradients
 * count as well when the largest is looked for, because rounding is in proportion to them. */
QKV_API enum qkv_status qkv_check_precision(struct qkv_check_report *report, const char *subject,
                                            struct qkv_tensor *single, struct qkv_tensor *whole,
                                            struct qkv_tensor *reference, double bound, uint64_t seed,
                                            struct qkv_error *error);

/* Checks every good sample of an op: all inputs with gradient while something else uses them too, each of
 * them alone, and pairs of them as one tensor; float32 against float64; and that every bad sample is refused
 * with its message. An op without samples fails. */
QKV_API enum qkv_status qkv_check_op(struct qkv_check_report *report, enum qkv_op_id op,
                                     const struct qkv_check_options *options, struct qkv_error *error);

/* Checks every sample of a layer: its parameters and its inputs. A layer without samples fails. */
QKV_API enum qkv_status qkv_check_layer(struct qkv_check_report *report, enum qkv_layer_id layer,
                                        const struct qkv_check_options *options, struct qkv_error *error);

/* The op or layer of that name, or QKV_OP_COUNT, QKV_LAYER_COUNT. */
QKV_API enum qkv_op_id qkv_op_find(const char *name);
QKV_API enum qkv_layer_id qkv_layer_find(const char *name);

QKV_API void qkv_check_release(struct qkv_check_report *report);

/* Largest difference between float32 and float64 that qkv_check_op and qkv_check_layer let pass. */
#define QKV_FLOAT32_BOUND 1e-5

#endif
