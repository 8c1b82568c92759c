/* Every kernel file includes this file. Kernel files are compiled once per row of variants.def: a
 * precision (float32 or float64) and an instruction set. `real` is the number type. Functions and
 * tables that other files use have the variant in their name: VARIANT(qkv_op_, relu) is
 * qkv_op_relu_float32_avx2.
 *
 * An op is one block:
 *
 *     static bool relu_shape(struct qkv_tensor *y)    sets y->shape, y->saved_count, y->scratch; or refuses
 *     static void relu_forward(struct qkv_tensor *y)  reads y->input[i]->value, writes y->value
 *     static void relu_backward(struct qkv_tensor *y) reads y->gradient, adds to gradients of the inputs
 *     OP(relu, .inputs = 1, .shape = RULE(relu_shape), ...)
 *
 * and one row in qkv/ops.def. The inputs on which the gradient check runs it are in check/op_samples/. The declarations in
 * OP(...) (backward_reads, elementwise, alias, recompute) are explained at struct qkv_op. An op that is `elementwise` in an
 * input also works in place: its loops go element by element, marked `#pragma omp simd`.
 *
 * Every variant computes the same bits in float32. Loops are plain C for the compiler to vectorise, which changes no result
 * as long as it may not reorder a sum: sums of floating-point numbers use vectors.h, and never `omp simd reduction(+)`;
 * multiplying and adding rounds once with `fused` (vectors.h), and otherwise twice. Only vectors.h, dropout.c and the files
 * of narrow types, int8.c and bfloat16.c, use intrinsics. */
#pragma once

#include "graph/graph.h"

#include <math.h>
#include <string.h>

#define QKV_PASTE_(a, b, c, d) a##b##_##c##_##d
#define QKV_PASTE(a, b, c, d)  QKV_PASTE_(a, b, c, d)
/* VARIANT(qkv_op_, relu) -> qkv_op_relu_float32_avx2 */
#define VARIANT(prefix, name) QKV_PASTE(prefix, name, QKV_KERNEL_PRECISION, QKV_KERNEL_VARIANT)

#ifdef QKV_KERNEL_IS_float32
typedef float real;
#    define REAL(name) name##f /* the C library's function of this precision */
#else
typedef double real;
#    define REAL(name) name
#endif

/* Defines the op `title` of this variant; the other arguments initialise the fields of struct
 * qkv_op. */
#define OP(title, ...)                                                                                       \
    extern const struct qkv_op VARIANT(qkv_op_, title);                                                      \
    const struct qkv_op VARIANT(qkv_op_, title) = {.name = #title, __VA_ARGS__}

/* Short names for the declarations: .backward_reads = INPUT(0) | RESULT. */
#define INPUT(i) QKV_INPUT(i)
#define RESULT   QKV_RESULT

/* For large functions with several callers: inlining them would multiply their size in every
 * variant. */
#define NOINLINE __attribute__((noinline, unused))

/* For functions that are rarely called: compiled for size. */
#define COLD __attribute__((cold))

/* RULE(x): x in portable float64, the one variant that has shape rules (see qkv_op_rule); NULL in the others. All
 * variants use its shape rules, so a shape rule, and the sizes that it sets, must not depend on `real` or on the
 * instruction set. */
#ifdef QKV_KERNEL_RULES
#    define RULE(rule) rule
#else
#    define RULE(rule) NULL
#endif

/* ---- gradients ---- */

/* The gradient of input x, for kernels that add to it; NULL if x needs none. For the first op of a backward pass that calls
 * this or claim_gradient for x, the gradient is 0: this function writes the zeros, so that they are in the cache. */
static inline real *gradient_of(struct qkv_tensor *x)
{
    if (!x || !x->needs_gradient) return NULL;
    if (!x->touched) {
        memset(x->gradient, 0, (size_t)x->count * sizeof(real));
        x->touched = true;
    }
    return x->gradient;
}

/* The gradient of input x, for kernels that compute gradient = beta * gradient + ...; NULL if x
 * needs none. *beta is 0, and the gradient uninitialised, for the first op of a backward pass that
 * calls this or gradient_of for x; then the kernel must write every element. Later *beta is 1. */
static inline real *claim_gradient(struct qkv_tensor *x, real *beta)
{
    *beta = x && x->touched ? 1 : 0;
    if (!x || !x->needs_gradient) return NULL;
    x->touched = true;
    return x->gradient;
}

/* to [n] = beta * to + from, with beta 0 or 1. For beta 0, `to` may be uninitialised, and may be
 * `from`. */
static inline void accumulate(int64_t n, real beta, const real *from, real *to)
{
    if (beta > 0) {
#pragma omp simd
        for (int64_t i = 0; i < n; i++) to[i] += from[i];
    } else if (to != from) {
        memcpy(to, from, (size_t)n * sizeof(real));
    }
}

/* ---- shape rules ---- */

/* The result has the shape of input 0. */
static inline bool same_as_input(struct qkv_tensor *y)
{
    y->shape = y->input[0]->shape;
    return true;
}

/* Refuses options.indices unless all `count` of them lie in 0 .. bound - 1. what: name of one index in messages,
 * whose plural ends in "s". */
static inline bool check_indices(struct qkv_tensor *y, int64_t count, int64_t bound, const char *what)
{
    if (!y->options.indices) return qkv_refuse(y, "has no %ss", what);
    if (!qkv_keep_indices(y, count)) return false;
    const int32_t *indices = y->options.indices;
    for (int64_t i = 0; i < count; i++)
        if (indices[i] < 0 || indices[i] >= bound)
            return qkv_refuse(y, "%s %lld is %d, but must lie in 0 to %lld", what, (long long)i,
                              (int)indices[i], (long long)bound - 1);
    return true;
}

/* Refuses a tensor that does not have 2 axes. */
static inline bool check_matrix(struct qkv_tensor *y, const struct qkv_tensor *x, const char *what)
{
    if (x->shape.rank == 2) return true;
    return qkv_refuse(y, "%s is %s, but must have 2 axes", what, qkv_shape_text(x->shape));
}

/* Refuses a vector that is not [length]; NULL is allowed. */
static inline bool check_vector(struct qkv_tensor *y, const struct qkv_tensor *vector, int64_t length,
                                const char *what)
{
    if (!vector || (vector->shape.rank == 1 && vector->shape.size[0] == length)) return true;
    return qkv_refuse(y, "%s is %s, but must be [%lld]", what, qkv_shape_text(vector->shape),
                      (long long)length);
}

/* ---- workspace ---- */

/* Uninitialised memory of y->scratch numbers (in forward, y->scratch_forward if that is more). All ops
 * share it: its contents are lost when the op returns. */
static inline real *scratch_of(struct qkv_tensor *y)
{
    return y->graph->scratch;
}

/* ---- code shared by ops along one axis ---- */

/* The sizes of a tensor seen as [outer, axis, inner], where `axis` is one of its axes, `outer` the
 * product of the axes before it and `inner` of those after it. */
struct view {
    int64_t outer, axis, inner;
};

static inline struct view view_along(struct qkv_shape shape, int64_t axis)
{
    struct view view = {1, 1, 1};
    for (int i = 0; i < shape.rank; i++) {
        if (i < axis)
            view.outer *= shape.size[i];
        else if (i == axis)
            view.axis = shape.size[i];
        else
            view.inner *= shape.size[i];
    }
    return view;
}

static inline bool check_axis(struct qkv_tensor *y)
{
    int64_t axis = y->options.axis, rank = y->input[0]->shape.rank;
    if (axis >= 0 && axis < rank) return true;
    return qkv_refuse(y, "axis is %lld, but input is %s", (long long)axis,
                      qkv_shape_text(y->input[0]->shape));
}

/* The shape of a sum over an axis, which is removed (from a vector: [D] -> [1]), or over all of them. */
static inline bool reduced_shape(struct qkv_tensor *y)
{
    struct qkv_shape x = y->input[0]->shape;
    if (y->options.axis == QKV_ALL || x.rank == 1) {
        if (x.rank == 1 && y->options.axis != QKV_ALL && !check_axis(y)) return false;
        y->shape = QKV_SHAPE(1);
        return true;
    }
    if (!check_axis(y)) return false;
    y->shape.rank = x.rank - 1;
    for (int i = 0; i < y->shape.rank; i++) y->shape.size[i] = x.size[i < y->options.axis ? i : i + 1];
    return true;
}

/* The input of a reduction, viewed as [outer, axis, inner]. */
static inline struct view reduced_view(const struct qkv_tensor *y)
{
    const struct qkv_tensor *x = y->input[0];
    return y->options.axis == QKV_ALL ? (struct view){1, x->count, 1} : view_along(x->shape, y->options.axis);
}

/* The random words of dropout masks: 16 bits for each element, a pure function of seed, step, op
 * and element, so that backward can recompute them. */

enum {
    DROPPER_BLOCKS = 16,                /* Philox blocks per call of dropper_words */
    DROPPER_WORDS = 8 * DROPPER_BLOCKS, /* words of 16 bits per call of dropper_words */
};

/* The generator of one op in one update. */
struct dropper {
    uint32_t key[2], step, stream;
    uint32_t threshold; /* rate * 65536; an element whose word is smaller is dropped */
    real factor;        /* 1 / (1 - rate): scales the elements that are kept */
};

static inline struct dropper dropper_of(const struct qkv_tensor *y, double rate)
{
    const struct qkv_random *random = &y->graph->random;
    uint32_t threshold = (uint32_t)lrint(rate * 65536.0);
    return (struct dropper){
        .key = {(uint32_t)random->seed, (uint32_t)(random->seed >> 32)},
        .step = random->step,
        .stream = QKV_STREAM_DROPOUT | y->dropout_index << 8,
        .threshold = threshold,
        .factor = (real)(65536.0 / (65536.0 - (double)(threshold < 65536 ? threshold : 65535))),
    };
}

#define dropper_words VARIANT(qkv_, dropper_words)
#define dropper_row   VARIANT(qkv_, dropper_row)

/* words [DROPPER_WORDS] = the words of elements n DROPPER_WORDS .. (n + 1) DROPPER_WORDS - 1. They come
 * from Philox blocks n DROPPER_BLOCKS and following. The word w (0 .. 7) of the b-th of these blocks has
 * index w * DROPPER_BLOCKS + b, because a vector holds word w of several blocks. */
void dropper_words(const struct dropper *dropper, int64_t n, uint16_t *restrict words);

/* to [count] = the words of elements first .. first + count - 1. */
void dropper_row(const struct dropper *dropper, int64_t first, int64_t count, uint16_t *to);
