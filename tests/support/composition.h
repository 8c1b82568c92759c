/* Compares an op with a composition of simpler ops: values and gradients, in both precisions, with
 * the kernels of every instruction set. The composition always runs in float64. */
#ifndef QKV_TESTS_COMPOSITION_H
#define QKV_TESTS_COMPOSITION_H

#include "numbers.h"

#include "qkv/ops.h"

enum { ROW_COUNT = 4, MAX_INPUTS = 4 };

/* Numbers of rows that are not multiples of a vector. */
extern const int64_t ROWS[ROW_COUNT];

/* One case: the inputs and options of both the fused op and its composition. */
struct composition_case {
    const char *name;
    struct qkv_shape shape[MAX_INPUTS]; /* of the inputs; rank 0: no input */
    const int32_t *labels;
    bool transposed;
    double smoothing, consistency, factor;
    bool one_sided;
    struct qkv_segments queries, keys; /* of attention */
    int64_t
        window; /* of local attention, whose input 1 holds centers, fractions between 0.125 and 0.875; or 0 */
};

typedef struct qkv_tensor *builder(struct qkv_graph *graph, struct qkv_tensor *const *x,
                                   const struct composition_case *test);

/* Fails where the result, or the gradient of an input for a random cotangent, differs between the
 * two. */
void expect_composition(const struct composition_case *test, builder *fused, builder *composed);

#endif
