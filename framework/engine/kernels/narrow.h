/* Products of bfloat16 numbers, and of int8 numbers (below), summed in float32. A bfloat16 number is the upper half of a
 * float32 number: 8 bits of exponent, 7 of mantissa. Both factors are rounded to the nearest, ties to even; numbers below
 * 2^-126 become 0.
 *
 * The order of a sum is that of the AMX instruction tdpbf16ps. With fma rounding once, and flushing results below 2^-126 to 0: a
 * sum s starts as 0, and for each BFLOAT16_STEP terms, of which those behind the last one count as 0 * 0, e = o = 0; for k = 0 ...
 * 15: e = fma(a[2k], b[2k], e), o = fma(a[2k+1], b[2k+1], o); then s = s + (e + o). After 512 terms, s is added to what the result
 * is so far. Every way of computing it gives the same bits: AMX, vdpbf16ps, float32 instructions in the mode that flushes, and
 * instructions of processors without that mode. */
#pragma once

#include "kernels/gemm.h"
#include "kernels/kernel.h"
#include "qkv/graph.h"

/* float64 has no such products: nothing calls or defines these functions there. */
#ifdef QKV_KERNEL_IS_float32
#    define NARROW
#else
#    define NARROW __attribute__((weak))
#endif

enum { BFLOAT16_STEP = 32 };

/* Whether products with this weight are computed in bfloat16. */
static inline bool is_bfloat16(const struct qkv_tensor *weight)
{
    return weight->binding && weight->binding->parameters->products == QKV_PRECISION_BFLOAT16;
}

/* Bytes of the panels of b' [k, n]. */
NARROW size_t VARIANT(qkv_, bfloat16_panels_size)(int64_t n, int64_t k);

/* Packs b' [k, n], which is b or its transpose, into bfloat16_panels_size bytes. */
NARROW void VARIANT(qkv_, bfloat16_pack)(bool transpose_b, int64_t n, int64_t k, const real *b, int64_t ldb,
                                         void *panels);

/* Computes p. panels: p's b' as bfloat16_pack packs it, or NULL. workers, if not NULL, share the columns of a large b;
 * results have the same bits without them. Needs half a megabyte of stack. */
NARROW void VARIANT(qkv_, bfloat16_product)(struct qkv_workers *workers, const struct product *p,
                                            const void *panels);

/* The instructions for bfloat16 products that are used, "amx" or "vdpbf16ps"; NULL: those of float32. */
const char *VARIANT(qkv_, bfloat16_instruction)(void);

typedef void gemm_function(bool transpose_a, bool transpose_b, int64_t m, int64_t n, int64_t k, const real *a,
                           int64_t lda, const real *b, int64_t ldb, real beta, real *c, int64_t ldc);

/* gemm of a and b rounded to bfloat16. */
static inline void gemm_bfloat16(bool transpose_a, bool transpose_b, int64_t m, int64_t n, int64_t k,
                                 const real *a, int64_t lda, const real *b, int64_t ldb, real beta, real *c,
                                 int64_t ldc)
{
    const struct output output = {.c = c, .ldc = ldc, .beta = beta};
    const struct product product = {transpose_a, transpose_b, m, n, k, a, b, lda, ldb, output};
    VARIANT(qkv_, bfloat16_product)(NULL, &product, NULL);
}

/* Products of int8 weights and activations. A weight is an int8 number times the scale of its output (column of b'), an
 * activation is an int8 number times the scale of its row, which is computed when the product runs. Sums of int8 products
 * are int32 and exact, so every variant, every number of threads and every order gives the same bits. */

enum {
    INT8_PANEL_COLUMNS = 32, /* columns of a panel: two vectors of 16 sums */
    INT8_GROUP = 4,          /* neighbouring rows of b' that an instruction multiplies at once */
    INT8_INNER = 16,         /* k is padded to a multiple of this: four groups, perhaps with separate sums */
    INT8_LONGEST = 1 << 16,  /* largest k: 255 * 127 * k stays within int32 */
};

static inline int64_t int8_padded_columns(int64_t n)
{
    return (n + INT8_PANEL_COLUMNS - 1) / INT8_PANEL_COLUMNS * INT8_PANEL_COLUMNS;
}

static inline int64_t int8_padded_inner(int64_t k)
{
    return (k + INT8_INNER - 1) / INT8_INNER * INT8_INNER;
}

/* Bytes of the panels of b' [k, n]: a scale and a number for each column, then the panels. */
static inline size_t int8_panels_size(int64_t n, int64_t k)
{
    return (size_t)int8_padded_columns(n) * (sizeof(float) + sizeof(int32_t) + (size_t)int8_padded_inner(k));
}

/* Bytes of a [m, k] as int8: a scale for each row, then the rows. */
static inline size_t int8_rows_size(int64_t m, int64_t k)
{
    return (size_t)m * (sizeof(float) + (size_t)int8_padded_inner(k));
}

/* Whether products of x and this weight, `inner` long, are int8. */
static inline bool is_int8(const struct qkv_tensor *weight, int64_t inner)
{
    return weight->binding && weight->binding->parameters->products == QKV_PRECISION_INT8 &&
           inner <= INT8_LONGEST;
}

/* Packs b' [k, n], which is b or its transpose. `panels` has int8_panels_size bytes. */
NARROW void VARIANT(qkv_, int8_pack)(bool transpose_b, int64_t n, int64_t k, const real *b, int64_t ldb,
                                     void *panels);

/* c [m, n] = a [m, k] b' [k, n] + bias [n], which may be NULL; rows of a, and of c, follow each other. rows: workspace of
 * int8_rows_size bytes. workers, if not NULL, share the columns of a large b. */
NARROW void VARIANT(qkv_, int8_product)(struct qkv_workers *workers, int64_t m, int64_t n, int64_t k,
                                        const real *a, const void *panels, const real *bias, real *c,
                                        void *rows);

/* The name of the processor's instruction for int8 products; NULL: there is none. */
const char *VARIANT(qkv_, int8_instruction)(void);
