/* An op against a composition of simple ones: values and gradients, in both precisions, with the kernels of
 * every instruction set. The composition always runs in float64. */
#ifndef QKV_TESTS_COMPOSITION_H
#define QKV_TESTS_COMPOSITION_H

#include "numbers.h"

#include "qkv/ops.h"

enum { ROW_COUNT = 4 };

/* Sizes that are no multiple of a vector. */
extern const int64_t ROWS[ROW_COUNT];

/* What is computed: by the fused op and by its composition. */
struct scene {
    const char *name;
    struct qkv_shape shape[4]; /* of the inputs; rank 0: none */
    bool one_tensor;           /* inputs 1 to 3 are the same tensor */
    struct qkv_attention attention;
    const double *mask; /* values of input 4, which then is a constant */
    bool drops;
    const int32_t *labels;
    bool transposed;
    double smoothing, factor, epsilon;
};

typedef struct qkv_tensor *builder(struct qkv_graph *graph, struct qkv_tensor *const *x,
                                   const struct scene *scene);

/* Fills input k of a scene. */
void fill_input(struct qkv_tensor *x, const struct scene *scene, int k);

/* Holds the one against the other: the result, and the gradients of all inputs for a random cotangent. */
void hold(const struct scene *scene, builder *fused, builder *composed);

#endif
