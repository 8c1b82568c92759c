/* The bfloat16 products of narrow.h. */
#include "core/system.h"
#include "kernels/narrow.h"

#include "kernels/gemm.h"

#ifdef QKV_KERNEL_IS_float32

/* ---- pairs: two bfloat16 numbers that are neighbours on the inner axis, the first in the lower half ---- */

typedef uint16_t number __attribute__((may_alias));
typedef uint32_t pair __attribute__((may_alias));
typedef uint32_t pairs __attribute__((vector_size(VECTOR_BYTES), aligned(sizeof(real)), may_alias));

enum {
    INNER_PAIRS = INNER_BLOCK / 2,
    BLOCK_ROWS = 480,
    /* Pairs from one row of a block to the next, with a cache line between them: else all rows would compete for the same
     * lines of the cache. A full vector may be stored behind the last pair. */
    BLOCK_STRIDE = INNER_PAIRS + 16,
};

#    define UPPER_HALF 0xffff0000U
#    define SIGN       0x80000000U
#    define SMALLEST   0x00800000U /* 2^-126 */
#    define INFINITE   0x7f800000U
#    define QUIET      0x00400000U /* the bit of a NaN that raises no signal */

/* Rounds to bfloat16, whose bits are the upper half of the result. `type`: uint32_t or pairs. */
#    define ROUNDED(name, type, choose)                                                                      \
        static inline type name(type x)                                                                      \
        {                                                                                                    \
            type magnitude = x & ~SIGN, nearest = x + 0x7fff + (x >> 16 & 1);                                \
            type finite = choose(magnitude < SMALLEST, x & SIGN, nearest);                                   \
            return choose(magnitude > INFINITE, x | QUIET, finite);                                          \
        }
#    define CHOOSE_NUMBER(condition, yes, no) ((condition) ? (yes) : (no))
#    define CHOOSE_LANES(condition, yes, no)  (((pairs)(condition) & (yes)) | (~(pairs)(condition) & (no)))
ROUNDED(rounded, uint32_t, CHOOSE_NUMBER)
ROUNDED(rounded_lanes, pairs, CHOOSE_LANES)
#    undef ROUNDED

static inline int64_t at_most(int64_t max, int64_t n)
{
    return n < max ? n : max;
}

/* ---- two ways of doing the same: in plain vectors, and by the instructions of avx512_bf16 ---- */

typedef void tile_function(int64_t columns, int64_t depth, const pair *a, const pair *b, int64_t row,
                           const struct output *output);

enum { KINDS_OF_TILES = 6 };
static const int ROWS_OF_TILES[KINDS_OF_TILES] = {1, 2, 4, 6, 8, 12};

struct method {
    /* to [n] = from [n], rounded; if n is odd, a 0 follows. */
    void (*round_row)(int64_t n, const real *from, number *to);
    /* Pair i of `to` is of first[i] and second[i], or 0 if second is NULL. n is rounded up to whole vectors, with zeros. */
    void (*zip_rows)(int64_t n, const real *first, const real *second, pair *to);
    /* Computes ROWS_OF_TILES rows of c [.., columns], columns <= TILE_COLUMNS, from rows of a block and a panel, each
     * `depth` pairs deep. */
    tile_function *tile[KINDS_OF_TILES];
};

/* Callers pass a constant for `rows`, so that the tile stays in registers. */
#    define TILE(rows, name, target, add)                                                                    \
        static NOINLINE target void name##_##rows(int64_t columns, int64_t depth, const pair *a,             \
                                                  const pair *b, int64_t row, const struct output *output)   \
        {                                                                                                    \
            vector sum[TILE_ROWS][2];                                                                        \
            enum { COUNT = rows < TILE_ROWS ? rows : TILE_ROWS };                                            \
            _Pragma("GCC unroll 16") for (int i = 0; i < COUNT; i++) sum[i][0] = sum[i][1] = (vector){0};    \
            prefetch_tile(COUNT, row, output);                                                               \
            for (int64_t l = 0; l < depth; l++, a++, b += TILE_COLUMNS) {                                    \
                pairs left = *(const pairs *)b, right = *(const pairs *)(b + LANES);                         \
                _Pragma("GCC unroll 16") for (int i = 0; i < COUNT; i++)                                     \
                {                                                                                            \
                    sum[i][0] = add(sum[i][0], a[i * BLOCK_STRIDE], left);                                   \
                    sum[i][1] = add(sum[i][1], a[i * BLOCK_STRIDE], right);                                  \
                }                                                                                            \
            }                                                                                                \
            finish_tile(COUNT, columns, sum, row, output);                                                   \
        }
/* Defines the method `name` from its round_row and from functions that make pairs and that add products. */
#    define METHOD(name, target, round_row, pairs_of, add)                                                   \
        static target void name##_zip_rows(int64_t n, const real *first, const real *second, pair *to)       \
        {                                                                                                    \
            for (int64_t i = 0; i < n; i += LANES)                                                           \
                *(pairs *)(to + i) = pairs_of(load_first(n - i, first + i),                                  \
                                              second ? load_first(n - i, second + i) : (vector){0});         \
        }                                                                                                    \
        TILE(12, name, target, add)                                                                          \
        TILE(8, name, target, add)                                                                           \
        TILE(6, name, target, add)                                                                           \
        TILE(4, name, target, add)                                                                           \
        TILE(2, name, target, add)                                                                           \
        TILE(1, name, target, add)                                                                           \
        static const struct method name = {                                                                  \
            round_row, name##_zip_rows, {name##_1, name##_2, name##_4, name##_6, name##_8, name##_12}};

static void round_row(int64_t n, const real *from, number *restrict to)
{
#    pragma omp simd
    for (int64_t i = 0; i < n; i++) {
        uint32_t bits;
        memcpy(&bits, &from[i], sizeof bits);
        to[i] = (number)(rounded(bits) >> 16);
    }
    if (n % 2) to[n] = 0;
}

static inline pairs pairs_of(vector first, vector second)
{
    return (rounded_lanes((pairs)second) & UPPER_HALF) | rounded_lanes((pairs)first) >> 16;
}

/* x, or a 0 of its sign where it is below 2^-126. */
static inline vector without_small(vector x)
{
    pairs bits = (pairs)x;
    return (vector)(bits & ((pairs)((bits & ~SIGN) >= SMALLEST) | SIGN));
}

static inline __attribute__((always_inline)) vector add_products(vector sum, pair a, pairs b)
{
    pairs all = (pairs){0} + a;
    sum = without_small(vector_fused((vector)(all & UPPER_HALF), (vector)(b & UPPER_HALF), sum));
    return without_small(vector_fused((vector)(all << 16), (vector)(b << 16), sum));
}

METHOD(simple, , round_row, pairs_of, add_products)

#    ifdef __AVX512F__
#        define WITH_BFLOAT16 __attribute__((target("avx512bf16")))

static WITH_BFLOAT16 void round_row_by_instruction(int64_t n, const real *from, number *restrict to)
{
    int64_t i = 0;
    for (; i + 32 <= n; i += 32)
        _mm512_storeu_si512(
            to + i, (__m512i)_mm512_cvtne2ps_pbh(_mm512_loadu_ps(from + i + 16), _mm512_loadu_ps(from + i)));
    round_row(n - i, from + i, to + i);
}

static inline __attribute__((always_inline)) WITH_BFLOAT16 pairs pairs_by_instruction(vector first,
                                                                                      vector second)
{
    static const uint16_t ZIPPED[32] = {0, 16, 1, 17, 2,  18, 3,  19, 4,  20, 5,  21, 6,  22, 7,  23,
                                        8, 24, 9, 25, 10, 26, 11, 27, 12, 28, 13, 29, 14, 30, 15, 31};
    __m512i both = (__m512i)_mm512_cvtne2ps_pbh((__m512)second, (__m512)first);
    return (pairs)_mm512_permutexvar_epi16(_mm512_loadu_si512(ZIPPED), both);
}

static inline __attribute__((always_inline)) WITH_BFLOAT16 vector add_by_instruction(vector sum, pair a,
                                                                                     pairs b)
{
    return (vector)_mm512_dpbf16_ps((__m512)sum, (__m512bh)_mm512_set1_epi32((int)a), (__m512bh)b);
}

METHOD(by_instruction, WITH_BFLOAT16, round_row_by_instruction, pairs_by_instruction, add_by_instruction)
#    endif

static const struct method *fastest_method(void)
{
#    ifdef __AVX512F__
    if (__builtin_cpu_supports("avx512bf16")) return &by_instruction;
#    endif
    return &simple;
}

const char *VARIANT(qkv_, bfloat16_instruction)(void)
{
    return fastest_method() == &simple ? NULL : "vdpbf16ps";
}

/* ---- packing ---- */

/* block [rows, BLOCK_STRIDE] = the pairs of the rows of a. */
static void pack_rows(const struct method *method, int64_t rows, int64_t k, const real *a, int64_t lda,
                      pair *block)
{
    for (int64_t i = 0; i < rows; i++)
        method->round_row(k, a + i * lda, (number *)(block + i * BLOCK_STRIDE));
}

/* block [rows, BLOCK_STRIDE] = the pairs of the rows of the transpose of a [k, rows]. Stores LANES rows at a time. */
static void pack_transposed_rows(const struct method *method, int64_t rows, int64_t k, const real *a,
                                 int64_t lda, pair *block)
{
    _Alignas(64) pair part[LANES * BLOCK_ROWS];
    for (int64_t l = 0; 2 * l < k; l += LANES) {
        int64_t depth = at_most(LANES, (k + 1) / 2 - l);
        for (int64_t at = 0; at < depth; at++) {
            const real *first = a + 2 * (l + at) * lda;
            method->zip_rows(rows, first, 2 * (l + at) + 1 < k ? first + lda : NULL, part + at * BLOCK_ROWS);
        }
        for (int64_t i = 0; i < rows; i += LANES)
            transpose_block(depth, (const real *)part + i, BLOCK_ROWS, (real *)(block + i * BLOCK_STRIDE + l),
                            BLOCK_STRIDE);
    }
}

/* Prefetches the columns of the next panel: they arrive while the current panel is multiplied. */
static inline void prefetch_next(const real *columns)
{
    __builtin_prefetch(columns, 0, 2);
    __builtin_prefetch(columns + LANES, 0, 2);
}

/* panel [pairs of k, TILE_COLUMNS] = the pairs of the columns of b [k, columns], padded with zeros. */
static void pack_columns(const struct method *method, int64_t columns, int64_t k, const real *b, int64_t ldb,
                         pair *panel)
{
    if (columns <= LANES) memset(panel, 0, (size_t)((k + 1) / 2 * TILE_COLUMNS) * sizeof *panel);
    for (int64_t l = 0; 2 * l < k; l++) {
        const real *first = b + 2 * l * ldb, *second = 2 * l + 1 < k ? first + ldb : NULL;
        prefetch_next(first + TILE_COLUMNS);
        prefetch_next(first + ldb + TILE_COLUMNS);
        method->zip_rows(columns, first, second, panel + l * TILE_COLUMNS);
    }
}

/* panel [pairs of k, TILE_COLUMNS] = the pairs of the columns of the transpose of b [columns, k], padded with zeros. */
static void pack_transposed_columns(const struct method *method, int64_t columns, int64_t k, const real *b,
                                    int64_t ldb, pair *panel)
{
    _Alignas(64) pair part[LANES * LANES];
    _Alignas(64) real transposed[LANES * LANES];
    for (int64_t j = 0; j < TILE_COLUMNS; j += LANES) {
        int64_t width = at_most(LANES, columns - j);
        for (int64_t l = 0; 2 * l < k; l += LANES) {
            int64_t depth = at_most(LANES, (k + 1) / 2 - l);
            for (int64_t i = 0; i < width; i++) {
                const real *row = b + (j + i) * ldb + 2 * l;
                prefetch_next(row + TILE_COLUMNS * ldb);
                method->round_row(at_most(2 * LANES, k - 2 * l), row, (number *)(part + i * LANES));
            }
            transpose_block(width, (const real *)part, LANES, transposed, LANES);
            for (int64_t at = 0; at < depth; at++)
                store((real *)(panel + (l + at) * TILE_COLUMNS + j), load(transposed + at * LANES));
        }
    }
}

/* Packs the part [k, columns] of b' that starts at [row, column]. */
static void pack_panel(const struct product *p, const struct method *method, int64_t row, int64_t k,
                       int64_t column, int64_t columns, pair *panel)
{
    if (p->transpose_b)
        pack_transposed_columns(method, columns, k, p->b + column * p->ldb + row, p->ldb, panel);
    else
        pack_columns(method, columns, k, p->b + row * p->ldb + column, p->ldb, panel);
}

void VARIANT(qkv_, bfloat16_pack)(bool transpose_b, int64_t n, int64_t k, const real *b, int64_t ldb,
                                  void *panels)
{
    const struct product p = {.transpose_b = transpose_b, .b = b, .ldb = ldb};
    const struct method *method = fastest_method();
    pair *panel = panels;
    for (int64_t l = 0; l < k; l += INNER_BLOCK) {
        int64_t inner = at_most(INNER_BLOCK, k - l);
        for (int64_t j = 0; j < n; j += TILE_COLUMNS, panel += (inner + 1) / 2 * TILE_COLUMNS)
            pack_panel(&p, method, l, inner, j, at_most(TILE_COLUMNS, n - j), panel);
    }
}

/* ---- products ---- */

/* Computes c [rows, columns] from a block of rows and a panel: tiles of TILE_ROWS rows, then smaller ones. */
static void multiply_panel(const struct method *method, int64_t rows, int64_t columns, int64_t depth,
                           const pair *block, const pair *panel, const struct output *output)
{
    int kind = KINDS_OF_TILES - 1;
    while (ROWS_OF_TILES[kind] > TILE_ROWS) kind--;
    for (int64_t i = 0; i < rows; i += ROWS_OF_TILES[kind]) {
        while (ROWS_OF_TILES[kind] > rows - i) kind--;
        method->tile[kind](columns, depth, block + i * BLOCK_STRIDE, panel, i, output);
    }
}

/* Computes p, whose columns start at column `first` of a larger b' with `all_columns` columns. panels: the packed larger
 * b', or NULL. */
static void multiply(const struct product *p, const pair *panels, int64_t all_columns, int64_t first)
{
    _Alignas(64) pair block[(BLOCK_ROWS + LANES) * BLOCK_STRIDE], packed[INNER_PAIRS * TILE_COLUMNS];
    const struct method *method = fastest_method();
    struct output output = p->output;
    for (int64_t l = 0; l < p->k; l += INNER_BLOCK) {
        int64_t inner = at_most(INNER_BLOCK, p->k - l), depth = (inner + 1) / 2;
        for (int64_t i = 0; i < p->m; i += BLOCK_ROWS) {
            int64_t rows = at_most(BLOCK_ROWS, p->m - i);
            struct output complete = output_at(&p->output, i, 0);
            if (p->transpose_a)
                pack_transposed_rows(method, rows, inner, p->a + l * p->lda + i, p->lda, block);
            else
                pack_rows(method, rows, inner, p->a + i * p->lda + l, p->lda, block);
            for (int64_t j = 0; j < p->n; j += TILE_COLUMNS) {
                int64_t columns = at_most(TILE_COLUMNS, p->n - j);
                const pair *panel = packed;
                if (panels)
                    panel = panels + l / 2 * padded_columns(all_columns) + (first + j) * depth;
                else
                    pack_panel(p, method, l, inner, j, columns, packed);
                output = complete;
                set_columns(&output, &complete, j, l == 0);
                multiply_panel(method, rows, columns, depth, block, panel, &output);
            }
        }
    }
}

/* A product that is split among threads: part i has columns i * part_columns and following. */
struct job {
    const struct product *product;
    const pair *panels;
    int64_t part_columns;
};

static void multiply_part(void *context, int part)
{
    const struct job *job = context;
    struct product p = *job->product;
    int64_t first = part * job->part_columns;
    p.n = at_most(job->part_columns, p.n - first);
    p.b += first * (p.transpose_b ? p.ldb : 1);
    p.output = output_at(&p.output, 0, first);
    multiply(&p, job->panels, job->product->n, first);
}

void VARIANT(qkv_, bfloat16_product)(struct qkv_workers *workers, const struct product *p, const void *panels)
{
    /* Least number of elements in a part of b; multiplying a smaller b takes less time than waking threads. */
    enum { PART_NUMBERS = 1 << 16 };
    if (workers && p->n * p->k >= 2 * PART_NUMBERS) {
        struct job job = {p, panels, padded_columns(PART_NUMBERS / p->k + 1)};
        qkv_workers_run(workers, (int)((p->n + job.part_columns - 1) / job.part_columns), multiply_part,
                        &job);
    } else {
        multiply(p, panels, p->n, 0);
    }
}
#else
void VARIANT(qkv_, bfloat16_pack)(bool transpose_b, int64_t n, int64_t k, const real *b, int64_t ldb,
                                  void *panels)
{
    (void)transpose_b, (void)n, (void)k, (void)b, (void)ldb, (void)panels;
    QKV_BUG(true, "bfloat16 in float64");
}

void VARIANT(qkv_, bfloat16_product)(struct qkv_workers *workers, const struct product *p, const void *panels)
{
    (void)workers, (void)p, (void)panels;
    QKV_BUG(true, "bfloat16 in float64");
}
#endif
