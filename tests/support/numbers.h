/* Values of inputs and comparison of results, for tests that compare ops with independent
 * calculations, with the kernels of every instruction set. */
#pragma once

#include "support.h"

enum { VARIANT_COUNT = 3 };

/* The values of the environment variable QKV_KERNELS. */
extern const char *const VARIANTS[VARIANT_COUNT];

/* The largest relative_difference of a result, by dtype. */
extern const double BOUND[2];

/* Returns number i of a random family, between -1 and 1. float32 holds it exactly, so both
 * precisions start with equal values. */
double number(uint32_t family, int64_t i);

/* Writes the numbers of a family to a tensor, which it returns. */
struct qkv_tensor *fill(struct qkv_tensor *x, uint32_t family);

/* The numbers of a result (part 0) and of the gradient of input k (part k + 1), and what a test adds behind them; a count of
 * 0: no such part. */
enum { PARTS = 8 };
struct computed {
    int64_t count[PARTS];
    double *part[PARTS];
};

/* Runs a graph forward and backward. cotangent NULL: the numbers of family 9. An input may be NULL or have no gradient. The test
 * ends if the graph fails. */
struct computed compute_in(struct qkv_graph *graph, struct qkv_tensor *y, int inputs,
                           struct qkv_tensor *const *input, const double *cotangent, const char *name);
void computed_release(struct computed *computed);

/* Expects that each part of `expected` that `got` has, too, differs by at most `bound`. */
void expect_close(const struct computed *got, const struct computed *expected, double bound,
                  const char *name);

/* Returns the largest difference, relative to the largest number of b; INFINITY if a number is not
 * finite. */
double relative_difference(int64_t count, const double *a, const double *b);
