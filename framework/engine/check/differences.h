/* Numeric derivatives of L = sum(cotangent * y), where y is a tensor of a graph, by finite
 * differences: with respect to one element of a leaf, or along a direction in which many elements
 * move. */
#pragma once

#include "graph/graph.h"

enum { QKV_NOISE_POINTS = 24 }; /* evaluations of y from which its noise is measured */

/* L as a function of the leaves, and buffers for y at the points of the difference rules. The
 * caller allocates all arrays. */
struct qkv_probe {
    struct qkv_graph *graph;
    struct qkv_tensor *y;
    double *cotangent;
    double *plus, *minus; /* [y->count]: y at +step and at -step */
    double *base;         /* [y->count]: y at the origin */
    /* [1 + QKV_NOISE_POINTS, y->count]: the standard deviation of the rounding error of each number
     * of y, then workspace for the points of its measurement */
    double *noise;
    struct qkv_tensor **affected; /* nodes that depend on the selected leaf, in order; capacity: all nodes */
    int64_t affected_count;
    /* Wanted relative error of derivatives: if rounding is above it, larger steps are tried. */
    double precision;
    bool *positive; /* signs of all inputs of relu at the last point; capacity: all inputs of relu */
};

/* The elements that move: one element of a leaf, all elements of a leaf, or all elements of all
 * leaves. */
struct qkv_direction {
    struct qkv_tensor *leaf; /* NULL: all leaves */
    int64_t element;         /* index in the leaf; -1: all elements */
    const double *origin;    /* values at step 0 of the elements that move, one leaf after the other */
    const double *along;     /* their change per unit of step; NULL for one element, which changes by 1 */
};

/* A numeric derivative and bounds of its errors. */
struct qkv_derivative {
    double value;
    double rounding;   /* error that rounding may have caused */
    double truncation; /* difference between the best rule and the rule with two points fewer */
    double kink;       /* error if L has a kink between the innermost points; else only rounding noise */
    bool crossed;      /* an input of relu has different signs at the outermost points: a kink lies between */
};

/* A leaf whose gradient is checked: a variable or a bound parameter. */
bool qkv_is_variable(const struct qkv_tensor *x);

/* Numbers of all variables of a float64 graph. */
int64_t qkv_count_variables(const struct qkv_graph *graph);

/* Copies the values and the gradients of all variables, one variable after the other; either may be NULL. */
void qkv_read_variables(const struct qkv_graph *graph, double *values, double *gradients);

/* Runs forward on the whole graph. All memory that ops write is set to NaN first, so that an
 * unwritten element is NaN afterwards. */
void qkv_probe_evaluate(struct qkv_probe *probe);

/* Measures the rounding noise of each number of y into probe->noise: the standard deviation from a
 * smooth function, by third differences between very close points (Hamming 1973, chapter 6; Moré
 * and Wild 2011). Where large numbers cancel inside the graph, as in a loss near 0, the noise is
 * far above one unit in the last place of y. The distance of the points grows until the noise is
 * visible. `direction` must move all leaves. */
void qkv_probe_measure_noise(struct qkv_probe *probe, const struct qkv_direction *direction);

/* Selects the leaf (NULL: all leaves) that moves for the next derivatives. All leaves must hold
 * their origin. */
void qkv_probe_select(struct qkv_probe *probe, const struct qkv_tensor *leaf);

/* Runs forward on the nodes that depend on the selected leaf. Call it last, with the leaf at its
 * origin again, so that the graph holds the values that it had before. */
void qkv_probe_recompute(struct qkv_probe *probe);

/* The derivative at the origin. `scale` is the size of the elements that move: the step is the
 * largest of 1e-3 .. 1e-6 times the scale at which both rules agree, or up to 0.1 where the rounding
 * error would be above probe->precision. */
struct qkv_derivative qkv_differentiate(struct qkv_probe *probe, const struct qkv_direction *direction,
                                        double scale);

/* The same from six steps, 1e-2 .. 1e-7 times the scale: slower, for derivatives that seem wrong,
 * because both rules may have missed a kink. Ignores steps that cross a kink, unless all do.
 * `rounding` of the result also includes the disagreement of the steps and the possible error of a
 * kink at the origin. */
struct qkv_derivative qkv_differentiate_all_steps(struct qkv_probe *probe,
                                                  const struct qkv_direction *direction, double scale);
