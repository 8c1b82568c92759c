/* The gradient check: compares analytic gradients with finite differences, in float64.
 *
 * Example:
 *     struct qkv_check_report report = {0};
 *     struct qkv_check_options options = {.seed = 1};
 *     struct qkv_error error;
 *     if (!qkv_check_op(&report, QKV_OP_softmax, &options, &error))
 *         printf("%lld of %lld checks failed\n", (long long)report.failures, (long long)report.count);
 *     qkv_check_release(&report);
 *
 * To check your own network, record its loss in a float64 graph that is bound to initialized parameters with a block of
 * gradients, and call qkv_check_graph, which also runs the graph (examples/xor.c).
 *
 * For an output y and a random cotangent c, the checked function is L = sum(c * y). The check moves each element of
 * each variable and parameter by +-h and +-h/2. The five-point rule gives the numeric derivative; its difference
 * to the three-point rule is the truncation error. The rounding error follows from the size of the numbers (as in
 * GSL's gsl_deriv_central), or from the noise measured in y where that is larger: the loss of a trained model is a
 * small difference of large numbers. h shrinks until both rules agree, so that no kink of relu lies between the
 * points, and grows where rounding would hide a small derivative. An element passes when
 *
 *     |analytic - numeric| <= max(tolerance max(|analytic|, |numeric|), rounding)
 *
 * and NaN never passes. Where only a sample of a tensor's elements is checked, the whole tensor also moves along a
 * random direction. Further checks: all inputs together along a random direction; a second run gives the same bits;
 * a zero cotangent gives zero gradients. Memory that forward and backward must write is NaN before they run, so an
 * element that is never written, or read too early, fails.
 *
 * Where an op is linear in an input x, no step is needed: for any change d of x, the change J d of y is exact up to
 * its last digits, and the adjoint test compares both sides of <c, J d> = <J^T c, d>, with J^T c from backward.
 *
 * No function here prints or aborts. NULL for an argument that may not be NULL is refused with QKV_INVALID, and so is
 * what cannot be checked; each function says what. `error` may be NULL. */
#ifndef QKV_GRADCHECK_H
#define QKV_GRADCHECK_H

#include "qkv/layers.h"

/* Faults that can be planted into one op to test that the check finds them. */
enum qkv_fault {
    QKV_FAULT_NONE,
    /* Faults of backward, in what it adds to the gradients of the op's inputs. */
    QKV_FAULT_SIGN,      /* the wrong sign */
    QKV_FAULT_FACTOR,    /* 1.001 times too large */
    QKV_FAULT_MISSING,   /* the largest element is not added */
    QKV_FAULT_OVERWRITE, /* what other ops have added to the gradient is lost */
    QKV_FAULT_OFFSET,    /* shifted by one element */
    /* 1 + 1e-10 times too large: too small an error for finite differences. Only the adjoint test of qkv_check_op finds it,
     * in ops that are linear in an input, and it is planted only for that test. */
    QKV_FAULT_SLIGHT,
    /* Faults in the op's declarations about its memory. Only qkv_check_op plants and finds them. */
    QKV_FAULT_READS,       /* backward is declared to read no value */
    QKV_FAULT_ELEMENTWISE, /* the op is declared elementwise in input 1 */
    QKV_FAULT_ALIAS, /* the result is declared to be in the memory of input 1 if it is not, and vice versa */
    QKV_FAULT_COUNT
};

/* All zero: every element, with a tolerance of QKV_CHECK_TOLERANCE. */
struct qkv_check_options {
    double tolerance; /* largest relative error that passes; 0 means QKV_CHECK_TOLERANCE */
    int64_t sample;   /* elements to check of each tensor, evenly spread; 0: all */
    uint64_t seed;    /* of the cotangent, the directions, the sampled elements and the inputs of samples */
    enum qkv_fault fault;    /* fault to plant */
    enum qkv_op_id fault_op; /* op that gets the fault */
    /* qkv_check_op stops when the report has a failure, which is enough to see that a fault is caught. */
    bool first_failure;
    /* Called after every derivative, with the number of derivatives done and their total in this check. NULL: not
     * called. */
    void (*progress)(void *context, int64_t done, int64_t total);
    void *context; /* first argument of `progress` */
};

#define QKV_CHECK_TOLERANCE 1e-9

/* One tensor of one check. */
struct qkv_check_row {
    const char *subject;       /* "op softmax (matrix)" */
    const char *tensor;        /* "input 1", "encoder.1.self.query.weight", "all inputs together" */
    struct qkv_shape shape;    /* rank 0 where the row is not about one tensor */
    int64_t elements, checked; /* of the tensor, and how many of them were checked */
    /* Checked elements whose error must be within the tolerance, because the rounding error of the finite differences is
     * smaller than it. The other elements may differ by their rounding error. */
    int64_t held;
    /* Checked elements whose rounding error is above 1e-3 of the gradient: finite differences cannot tell whether such a
     * gradient is right. */
    int64_t below_noise;
    int64_t worst;            /* index of the worst element; -1: a direction, or none */
    double analytic, numeric; /* gradients of the worst element */
    double rounding;          /* its rounding error, absolute */
    double error;             /* |analytic - numeric| / max(|analytic|, |numeric|) */
    double excess;       /* the error if it is above the rounding error, else 0; fails above the tolerance */
    const char *failure; /* NULL: passed; else what is wrong */
    double
        bound; /* what the error had to be at most: the tolerance or, if it is larger, the relative rounding error */
};

/* All rows of one or several checks. Caller's storage, all zero at first; every check adds rows. The rows and their
 * texts are valid until qkv_check_release. */
struct qkv_check_report {
    struct qkv_check_row *rows;
    int64_t count, capacity, failures; /* rows, rows that fit, rows that failed */
    /* How often the op with the planted fault has run. 0: the fault changed nothing, because the graph does not use the op,
     * the op has no gradient, or the op's declaration is already the faulty one. */
    int64_t fault_calls;
    struct qkv_arena arena;
};

/* Checks the gradients of y with respect to every variable and bound parameter of a float64 graph, at the current values,
 * which are restored afterwards. It runs the graph itself, and overwrites gradients: call qkv_backward if you need them
 * afterwards. Rows name a variable by the scope in which it was created (qkv_graph_scope), or without one by its number:
 * "input 1". Wrong gradients become failed rows of the report; the status is still QKV_OK. Finite differences do not stop at
 * qkv_detach: the gradient of a variable that affects y through a detach is reported as wrong.
 * QKV_INVALID when the graph has failed, is float32, shares memory between tensors (qkv_graph_share_memory), or adds to
 * gradients (qkv_graph_bind with `accumulate`); when y is of another graph or depends on no variable and no bound
 * parameter; when an option is out of range; or when memory runs out. */
QKV_API enum qkv_status qkv_check_graph(struct qkv_check_report *report, const char *subject,
                                        struct qkv_graph *graph, struct qkv_tensor *y,
                                        const struct qkv_check_options *options, struct qkv_error *error);

/* Checks an op on all its samples. For good samples it checks the op's declarations about its memory; float32 against
 * float64; the adjoint test of the inputs in which the op is linear; and the gradients of all inputs together while other
 * ops use them too; then, on at most eight elements of each tensor and on the whole tensor, the gradients of each input
 * alone and of pairs of inputs that are the same tensor. Bad samples must be refused with their message. An op without
 * samples fails. QKV_INVALID when there is no such op, or memory runs out. */
QKV_API enum qkv_status qkv_check_op(struct qkv_check_report *report, enum qkv_op_id op,
                                     const struct qkv_check_options *options, struct qkv_error *error);

/* Checks the gradients of a layer's parameters and inputs on all its samples. A layer without samples fails.
 * QKV_INVALID when there is no such layer, or memory runs out. */
QKV_API enum qkv_status qkv_check_layer(struct qkv_check_report *report, enum qkv_layer_id layer,
                                        const struct qkv_check_options *options, struct qkv_error *error);

/* The op or layer of that name; QKV_OP_COUNT or QKV_LAYER_COUNT for an unknown name and for NULL. */
QKV_API enum qkv_op_id qkv_op_find(const char *name);
QKV_API enum qkv_layer_id qkv_layer_find(const char *name);

/* Frees the rows and makes the report empty again. NULL is allowed. */
QKV_API void qkv_check_release(struct qkv_check_report *report);

/* Largest difference between float32 and float64 that qkv_check_op and qkv_check_layer accept. */
#define QKV_FLOAT32_BOUND 1e-5

#endif
