/* Code shared by the cross-entropy ops: the sums that they save, and the output layer, whose logits are computed for one
 * tile of classes and one block of rows at a time. */
#pragma once

#include "kernels/narrow.h"
#include "kernels/vectors.h"

#include "qkv/base.h"

/* `saved` of all these ops starts with these sums over all rows (read by qkv_cross_entropy_sums): the negative
 * log-likelihood of the labels, and the number of rows whose label is the class with the greatest logit (of equal logits
 * the first class, which greedy search takes). If no gradient is needed, `saved` of cross_entropy and linear_cross_entropy
 * ends with the same two numbers of each row, [rows, SUMS] (read by qkv_cross_entropy_row). */
enum { SUM_NEGATIVE_LOG_LIKELIHOOD, SUM_CORRECT, SUMS };

/* Offset of the gradients in `saved`: after the sums, aligned to a vector. */
enum { GRADIENTS_AT = 16 };

static inline bool check_smoothing(struct qkv_tensor *y)
{
    double smoothing = y->options.smoothing;
    if (smoothing >= 0 && smoothing < 1) return true;
    return qkv_refuse(y, "smoothing is %g, but must be at least 0 and below 1", smoothing);
}

/* Whether any of the n numbers of a row is `value` or more. */
static inline bool any_reaches(int64_t n, const real *row, real value)
{
    bool any = false;
    for (int64_t j = 0; j < n; j++) any |= row[j] >= value;
    return any;
}

/* Stores the loss and the sums, each rounded to `real` only once, which is precise enough for reports. */
static inline void store_result(struct qkv_tensor *y, double loss, const double sums[SUMS])
{
    real *saved = y->saved;
    *(real *)y->value = (real)(y->options.factor * loss);
    for (int i = 0; i < SUMS; i++) saved[i] = (real)sums[i];
}

static inline void scale_in_place(int64_t n, real factor, real *numbers)
{
    if (factor == 1) return;
    for (int64_t i = 0; i < n; i++) numbers[i] *= factor;
}

/* dx += dy * saved, where dy is the gradient of the loss. `saved` has the shape of x; it may be the memory of dx itself if
 * this is the first addition to dx. */
static inline void add_scaled(struct qkv_tensor *x, real dy, const real *restrict saved)
{
    real beta;
    real *restrict dx = claim_gradient(x, &beta);
    if (!dx) return;
    if (dx == saved)
        scale_in_place(x->count, dy, dx);
    else if (beta > 0)
        for (int64_t i = 0; i < x->count; i++) dx[i] += dy * saved[i];
    else
        for (int64_t i = 0; i < x->count; i++) dx[i] = dy * saved[i];
}

/* ---- the output layer: logits = x W + b, in blocks of rows and tiles of classes ---- */

enum {
    BLOCK_LOGITS = 1 << 19, /* logits of a block: 2 MiB in float32 */
    MINIMUM_ROWS = 16,      /* minimum rows of a block, even if it then has more logits */
    ROW_MULTIPLE = 12,      /* rows of gemm's tiles */
    TILE_CLASSES = 512,     /* classes of a tile, which then stays in the second-level cache */
};

/* Rows of a block. Wide inputs have larger blocks, because W and dW exceed the caches and are read
 * once per block; even larger ones in bfloat16, in which reading takes more of the time. All blocks have
 * about the same number of rows, a multiple of ROW_MULTIPLE, which fills the rows of gemm's tiles. */
static inline int64_t block_rows(const struct qkv_tensor *weight, int64_t rows, int64_t inner,
                                 int64_t classes)
{
    int64_t maximum = BLOCK_LOGITS / classes, minimum = is_bfloat16(weight) ? inner : inner / 2;
    if (maximum < minimum) maximum = minimum;
    if (maximum < MINIMUM_ROWS) maximum = MINIMUM_ROWS;
    int64_t blocks = (rows + maximum - 1) / maximum, even = (rows + blocks - 1) / blocks;
    int64_t multiple = (even + ROW_MULTIPLE - 1) / ROW_MULTIPLE * ROW_MULTIPLE;
    return multiple < rows ? multiple : rows;
}

static inline int64_t tile_count(int64_t classes)
{
    return (classes + TILE_CLASSES - 1) / TILE_CLASSES;
}

/* The number of classes of the output layer's weight; 0 if the weight does not have 2 axes. */
static inline int64_t classes_of(const struct qkv_tensor *y, const struct qkv_tensor *weight)
{
    return weight->shape.rank == 2 ? weight->shape.size[y->options.transpose_b ? 0 : 1] : 0;
}

/* Refuses a weight that does not fit x, [N, D], or a bias that does not fit the weight. */
static inline bool check_output_layer(struct qkv_tensor *y, const struct qkv_tensor *x,
                                      const struct qkv_tensor *weight, const struct qkv_tensor *bias)
{
    bool transposed = y->options.transpose_b;
    if (x->shape.rank != 2 || weight->shape.rank != 2 ||
        weight->shape.size[transposed ? 1 : 0] != x->shape.size[1])
        return qkv_refuse(y, "input is %s, but weight is %s%s", qkv_shape_text(x->shape),
                          qkv_shape_text(weight->shape), transposed ? " transposed" : "");
    return check_vector(y, bias, classes_of(y, weight), "bias");
}

struct output_layer {
    int64_t inner, classes, ldw;
    bool transposed, is_bfloat16;
    const real *weight, *bias; /* [D, C], [C, D] if transposed; [C] or NULL */
    real *dw, *db;             /* sums over all blocks; dw is NULL if the weight needs no gradient */
    wide_sum *wide_db; /* [C]: of WIDE_ROWS rows or more, the sums that become db at the end; or NULL */
};

/* The output layer of an op: dW is the op's forward_gradient, and db [C] is at `db`. */
static inline struct output_layer output_layer_of(const struct qkv_tensor *y, const struct qkv_tensor *weight,
                                                  const struct qkv_tensor *bias, real *db)
{
    bool transposed = y->options.transpose_b;
    return (struct output_layer){
        .inner = weight->shape.size[transposed ? 1 : 0],
        .classes = classes_of(y, weight),
        .ldw = weight->shape.size[1],
        .transposed = transposed,
        .is_bfloat16 = is_bfloat16(weight),
        .weight = weight->value,
        .bias = bias ? bias->value : NULL,
        .dw = y->forward_gradient,
        .db = db,
    };
}

/* Numbers of workspace for wide_db. */
static inline int64_t wide_db_scratch(int64_t rows, int64_t classes)
{
    return rows >= WIDE_ROWS ? classes * (int64_t)(sizeof(double) / sizeof(float)) : 0;
}

/* Before the first and after the last of `rows` rows whose gradients are propagated. */
static inline void begin_db(struct output_layer *layer, int64_t rows, real *scratch)
{
    memset(layer->db, 0, (size_t)layer->classes * sizeof(real));
    if (rows >= WIDE_ROWS)
        layer->wide_db = memset((void *)scratch, 0, (size_t)layer->classes * sizeof(double));
}

static inline void end_db(const struct output_layer *layer)
{
    for (int64_t j = 0; layer->wide_db && j < layer->classes; j++) layer->db[j] = (real)layer->wide_db[j];
}

/* The weights of a class: a column of W, or a row of a transposed W. */
static inline const real *weight_of(const struct output_layer *layer, int64_t class)
{
    return layer->weight + class * (layer->transposed ? layer->ldw : 1);
}

/* tile [rows, n] = the logits of classes first .. first + n - 1 for x [rows, D]. */
static inline void project_tile(const struct output_layer *layer, int64_t rows, const real *x, int64_t first,
                                int64_t n, real *tile)
{
    const struct product product = {
        .transpose_b = layer->transposed,
        .m = rows,
        .n = n,
        .k = layer->inner,
        .a = x,
        .lda = layer->inner,
        .b = weight_of(layer, first),
        .ldb = layer->ldw,
        .output = {.c = tile, .ldc = n, .bias = layer->bias ? layer->bias + first : NULL},
    };
    if (layer->is_bfloat16)
        VARIANT(qkv_, bfloat16_product)(NULL, &product, NULL);
    else
        gemm_bias(NULL, &product, NULL);
}

/* With g the gradient of the logits in `tile` [rows, n]: db += the sum of the rows of g; dx [rows, D] += g W^T, unless dx
 * is NULL; dW += x^T g. The first tile of a block of rows finds dx uninitialised, the first block (is_first) dW. */
static inline void propagate_tile(const struct output_layer *layer, int64_t rows, const real *x,
                                  int64_t first, int64_t n, const real *tile, bool is_first, real *dx)
{
    int64_t inner = layer->inner, ldw = layer->ldw;
    real beta = is_first ? 0 : 1;
    gemm_function *multiply = layer->is_bfloat16 ? gemm_bfloat16 : gemm;
    if (layer->wide_db)
        add_wide_column_sums(rows, n, tile, n, layer->wide_db + first);
    else
        add_column_sums(rows, n, tile, n, layer->db + first);
    if (dx)
        multiply(false, !layer->transposed, rows, inner, n, tile, n, weight_of(layer, first), ldw,
                 first > 0 ? 1 : 0, dx, inner);
    if (layer->dw && !layer->transposed)
        multiply(true, false, inner, n, rows, x, inner, tile, n, beta, layer->dw + first, ldw);
    if (layer->dw && layer->transposed)
        multiply(true, false, n, inner, rows, tile, n, x, inner, beta, layer->dw + first * ldw, ldw);
}
