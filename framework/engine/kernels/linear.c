/* Ops: matmul (of two tensors) and linear (a layer's weight and bias). */
#include "kernels/narrow.h"

/* ---- matmul: y [.., m, n] = a' [.., m, k] b' [.., k, n], with a' = a or its transpose, b' = b or its transpose. b' may
 * have no leading axes ---- */

/* The sizes and strides of a batch of products. */
struct batched_product {
    int64_t batch, m, n, k;
    int64_t a_step, b_step, y_step; /* from one matrix of the batch to the next; b_step 0: b is shared */
    int64_t lda, ldb;
};

static struct batched_product product_of(const struct qkv_tensor *y)
{
    const struct qkv_tensor *a = y->input[0], *b = y->input[1];
    int ra = a->shape.rank, rb = b->shape.rank;
    struct batched_product p = {.lda = a->shape.size[ra - 1], .ldb = b->shape.size[rb - 1]};
    int64_t a_rows = a->shape.size[ra - 2], b_rows = b->shape.size[rb - 2];
    p.m = y->options.transpose_a ? p.lda : a_rows;
    p.k = y->options.transpose_a ? a_rows : p.lda;
    p.n = y->options.transpose_b ? b_rows : p.ldb;
    p.a_step = a_rows * p.lda;
    p.b_step = rb > 2 ? b_rows * p.ldb : 0;
    p.y_step = p.m * p.n;
    p.batch = a->count / p.a_step;
    return p;
}

static bool matmul_shape(struct qkv_tensor *y)
{
    struct qkv_shape a = y->input[0]->shape, b = y->input[1]->shape;
    const char *shapes = "inputs are %s%s and %s%s, but %s";
    const char *ta = y->options.transpose_a ? " transposed" : "",
               *tb = y->options.transpose_b ? " transposed" : "";
    if (a.rank < 2 || b.rank < 2)
        return qkv_refuse(y, shapes, qkv_shape_text(a), ta, qkv_shape_text(b), tb,
                          "each needs 2 axes or more");
    bool leading = b.rank == 2 || b.rank == a.rank;
    for (int i = 0; leading && b.rank > 2 && i < a.rank - 2; i++) leading = a.size[i] == b.size[i];
    if (!leading)
        return qkv_refuse(y, shapes, qkv_shape_text(a), ta, qkv_shape_text(b), tb,
                          "their leading axes differ");
    int64_t k = b.size[b.rank - (y->options.transpose_b ? 1 : 2)];
    struct batched_product p = product_of(y);
    if (p.k != k)
        return qkv_refuse(y, shapes, qkv_shape_text(a), ta, qkv_shape_text(b), tb, "their inner axes differ");
    y->shape = a;
    y->shape.size[a.rank - 2] = p.m;
    y->shape.size[a.rank - 1] = p.n;
    return true;
}

static void matmul_forward(struct qkv_tensor *y)
{
    struct batched_product p = product_of(y);
    const real *a = y->input[0]->value, *b = y->input[1]->value;
    real *out = y->value;
    for (int64_t i = 0; i < p.batch; i++)
        gemm(y->options.transpose_a, y->options.transpose_b, p.m, p.n, p.k, a + i * p.a_step, p.lda,
             b + i * p.b_step, p.ldb, 0, out + i * p.y_step, p.n);
}

/* da' += dy b'^T, db' += a'^T dy, transposed if a or b is */
static void matmul_backward(struct qkv_tensor *y)
{
    struct batched_product p = product_of(y);
    bool ta = y->options.transpose_a, tb = y->options.transpose_b;
    const real *dy = y->gradient, *a = y->input[0]->value, *b = y->input[1]->value;
    real *da = gradient_of(y->input[0]), *db = gradient_of(y->input[1]);
    for (int64_t i = 0; i < p.batch; i++) {
        const real *g = dy + i * p.y_step, *ai = a + i * p.a_step, *bi = b + i * p.b_step;
        if (da && !ta) gemm(false, !tb, p.m, p.k, p.n, g, p.n, bi, p.ldb, 1, da + i * p.a_step, p.lda);
        if (da && ta) gemm(tb, true, p.k, p.m, p.n, bi, p.ldb, g, p.n, 1, da + i * p.a_step, p.lda);
        if (db && !tb) gemm(!ta, false, p.k, p.n, p.m, ai, p.lda, g, p.n, 1, db + i * p.b_step, p.ldb);
        if (db && tb) gemm(true, ta, p.n, p.k, p.m, g, p.n, ai, p.lda, 1, db + i * p.b_step, p.ldb);
    }
}

OP(matmul, .inputs = 2, .backward_reads = INPUT(0) | INPUT(1), .shape = RULE(matmul_shape),
   .forward = matmul_forward, .backward = matmul_backward);

/* Defines a function that packs a weight for products in a precision. */
#define PACK(name, pack)                                                                                     \
    static void name(const struct qkv_tensor *weight, bool transposed, void *panels)                         \
    {                                                                                                        \
        int64_t rows = qkv_rows(weight), columns = qkv_columns(weight);                                      \
        VARIANT(qkv_, pack)                                                                                  \
        (transposed, transposed ? rows : columns, transposed ? columns : rows, weight->value, columns,       \
         panels);                                                                                            \
    }
PACK(pack_int8, int8_pack)
PACK(pack_bfloat16, bfloat16_pack)
PACK(pack_float, gemm_panels)

/* ---- linear in int8: the workspace holds x as int8, and the weight packed where the graph has no panels ---- */

/* Numbers of workspace. */
static int64_t int8_scratch(const struct qkv_tensor *y)
{
    int64_t rows = qkv_rows(y), inner = qkv_columns(y->input[0]);
    size_t bytes = int8_rows_size(rows, inner) + int8_panels_size(qkv_columns(y), inner);
    return (int64_t)((bytes + sizeof(float) - 1) / sizeof(float));
}

static void linear_int8(struct qkv_tensor *y)
{
    const struct qkv_tensor *x = y->input[0], *weight = y->input[1], *bias = y->input[2];
    int64_t rows = qkv_rows(x), inner = qkv_columns(x), columns = qkv_columns(y);
    bool transposed = y->options.transpose_b;
    size_t size = int8_panels_size(columns, inner);
    const void *panels = qkv_panels_of(weight, transposed, size, pack_int8);
    char *workspace = (char *)scratch_of(y);
    if (!panels) {
        pack_int8(weight, transposed, workspace);
        panels = workspace;
    }
    VARIANT(qkv_, int8_product)
    (y->graph->workers, rows, columns, inner, x->value, panels, bias ? bias->value : NULL, y->value,
     workspace + size);
}

/* ---- linear: y [.., C] = x [.., D] W' [D, C] + b [C], with W' = W or its transpose ---- */

static bool linear_shape(struct qkv_tensor *y)
{
    const struct qkv_tensor *x = y->input[0], *weight = y->input[1];
    bool transposed = y->options.transpose_b;
    if (weight->shape.rank != 2 || weight->shape.size[transposed ? 1 : 0] != qkv_columns(x))
        return qkv_refuse(y, "input is %s, but weight is %s%s", qkv_shape_text(x->shape),
                          qkv_shape_text(weight->shape), transposed ? " transposed" : "");
    y->shape = x->shape;
    y->shape.size[x->shape.rank - 1] = weight->shape.size[transposed ? 0 : 1];
    if (is_int8(weight, qkv_columns(x))) y->scratch_forward = int8_scratch(y);
    return check_vector(y, y->input[2], qkv_columns(y), "bias");
}

static void linear_forward(struct qkv_tensor *y)
{
    if (y->scratch_forward > 0) { /* linear_shape reserves it for products in int8 only */
        linear_int8(y);
        return;
    }
    const struct qkv_tensor *x = y->input[0], *weight = y->input[1], *bias = y->input[2];
    const struct product p = {
        .transpose_b = y->options.transpose_b,
        .m = qkv_rows(x),
        .n = qkv_columns(y),
        .k = qkv_columns(x),
        .a = x->value,
        .lda = qkv_columns(x),
        .b = weight->value,
        .ldb = qkv_columns(weight),
        .output = {.c = y->value, .ldc = qkv_columns(y), .bias = bias ? bias->value : NULL},
    };
    const void *panels = NULL;
    if (is_bfloat16(weight)) {
        panels = qkv_panels_of(weight, p.transpose_b, VARIANT(qkv_, bfloat16_panels_size)(p.n, p.k),
                               pack_bfloat16);
        VARIANT(qkv_, bfloat16_product)(y->graph->workers, &p, panels);
        return;
    }
    if (VARIANT(qkv_, gemm_reads_panels)(p.m, p.n, p.k))
        panels = qkv_panels_of(weight, p.transpose_b,
                               (size_t)VARIANT(qkv_, gemm_panels_count)(p.n, p.k) * sizeof(real), pack_float);
    gemm_bias(y->graph->workers, &p, panels);
}

/* dx += dy W'^T, dW' += x^T dy, db += the sum of the rows of dy */
static void linear_backward(struct qkv_tensor *y)
{
    struct qkv_tensor *x = y->input[0], *weight = y->input[1];
    int64_t rows = qkv_rows(x), inner = qkv_columns(x), columns = qkv_columns(y);
    bool transposed = y->options.transpose_b;
    const real *dy = y->gradient;
    gemm_function *multiply = is_bfloat16(weight) ? gemm_bfloat16 : gemm;
    real beta;
    real *dx = claim_gradient(x, &beta);
    if (dx && is_bfloat16(weight))
        multiply(false, !transposed, rows, inner, columns, dy, columns, weight->value, qkv_columns(weight),
                 beta, dx, inner);
    else if (dx) /* prefetches x, which left the cache after forward and which dW reads next */
        gemm_prefetch(false, !transposed, rows, inner, columns, dy, columns, weight->value,
                      qkv_columns(weight), beta, dx, inner, x->value, x->count);
    real *dw = claim_gradient(weight, &beta);
    if (dw && !transposed)
        multiply(true, false, inner, columns, rows, x->value, inner, dy, columns, beta, dw, columns);
    if (dw && transposed)
        multiply(true, false, columns, inner, rows, dy, columns, x->value, inner, beta, dw, inner);
    real *db = gradient_of(y->input[2]);
    if (db) add_column_sums(rows, columns, dy, columns, db);
}

OP(linear, .inputs = 3, .optional = INPUT(2), .backward_reads = INPUT(0) | INPUT(1),
   .shape = RULE(linear_shape), .forward = linear_forward, .backward = linear_backward);
