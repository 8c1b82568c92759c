/* Numeric derivatives: L = sum(cotangent * y) of a graph, along one element or many. */
#ifndef QKV_CHECK_DIFFERENCES_H
#define QKV_CHECK_DIFFERENCES_H

#include "graph/graph.h"

enum { QKV_NOISE_POINTS = 24 };

/* L as a function of the leaves, and room for its values at the points of the stencil. */
struct qkv_probe {
    struct qkv_graph *graph;
    struct qkv_tensor *y;
    double *cotangent, *plus, *minus; /* [y->count] */
    double *base;                     /* [y->count]: y where nothing has moved */
    double *noise;            /* [y->count]: what rounding does to y, measured; behind it the points of the
                                 measurement, [QKV_NOISE_POINTS, y->count] */
    struct qkv_tensor **path; /* room for all nodes: those that the moved leaf reaches, in order */
    int64_t path_count;
    bool *positive; /* room for all numbers that relu reads: on which side of 0 they were at the last point */
};

/* What moves: one element of a leaf; or (element -1) a leaf along `along`; or (leaf NULL) all leaves along
 * it. */
struct qkv_direction {
    struct qkv_tensor *leaf;
    int64_t element;
    const double *origin, *along; /* one element: origin is the value, along is NULL */
};

/* A derivative with the error that rounding may have caused, and the one that the step may have. */
struct qkv_derivative {
    double value, rounding, truncation;
    double kink;  /* the error if the function has a kink between the innermost points; rounding where it has
                     none */
    bool crossed; /* something that relu reads has another sign at one end than at the other: a kink lies
                     within */
};

/* A leaf whose gradient is checked: a variable or a bound parameter. */
bool qkv_is_variable(const struct qkv_tensor *x);

/* Computes the whole graph; what an op leaves unwritten is NaN afterwards. */
void qkv_probe_evaluate(struct qkv_probe *probe);

/* Measures how far rounding makes each number of y jump where it should move smoothly (standard deviation),
 * by third differences between points that are very close (Hamming 1973, chapter 6; Moré and Wild 2011).
 * Numbers that cancel inside the graph, as those of a loss near 0 do, jump by far more than their own last
 * place; the points move apart until that shows. `direction` must be one of all leaves. */
void qkv_probe_measure_noise(struct qkv_probe *probe, const struct qkv_direction *direction);

/* Says which leaf (NULL: all) moves next; all others must stand at their origin. */
void qkv_probe_follow(struct qkv_probe *probe, const struct qkv_tensor *leaf);

/* Computes what the leaf reaches, to leave the graph as it was found. */
void qkv_probe_restore(struct qkv_probe *probe);

/* The derivative at step 0, for numbers of size `scale`. The step is the largest of 1e-3 .. 1e-6 times the
 * scale whose two rules agree; where rounding would hide the derivative it grows to 0.1. */
struct qkv_derivative qkv_differentiate(struct qkv_probe *probe, const struct qkv_direction *direction,
                                        double scale);

/* The same with every step, for what seems wrong: it may be a kink that the rules did not see. Steps that
 * cross one do not count, as long as there are others. How much the steps disagree, and the kink that they
 * would not see, is part of the rounding error. */
struct qkv_derivative qkv_differentiate_again(struct qkv_probe *probe, const struct qkv_direction *direction,
                                              double scale);

#endif
