/* The bfloat16 products of narrow.h: both factors are copied, rounded, in the order in which a tile reads them. */
#include "core/system.h"
#include "kernels/narrow.h"

#include "kernels/amx.h"

#ifdef QKV_KERNEL_IS_float32

/* ---- units: what a lane of a tile multiplies at once. A step of the sum, BFLOAT16_STEP numbers of the inner axis, has either 16
 * units, which are pairs of bfloat16 numbers, or 32, which are single numbers, rounded but kept as float32 ---- */

typedef uint32_t unit __attribute__((may_alias));
typedef uint32_t units __attribute__((vector_size(VECTOR_BYTES), aligned(sizeof(real)), may_alias));

enum {
    STEP = BFLOAT16_STEP,
    PAIRS = STEP / 2,
    /* Numbers of the inner axis in a block, which stays in the second-level cache while the panels pass by. */
    INNER = 512,
    /* Units from one row of a block of pairs to the next, with a cache line between them: else all rows would compete for the same
     * lines of the cache. */
    PAIR_STRIDE = INNER / 2 + 16,
    SINGLE_STRIDE = INNER + 16,
#    ifdef __AVX512F__
    BLOCK_UNITS = 960 * PAIR_STRIDE,
#    else
    BLOCK_UNITS = 240 * SINGLE_STRIDE,
#    endif
    MOST_ROWS = 32, /* of a tile */
};

#    define UPPER_HALF 0xffff0000U
#    define SIGN       0x80000000U
#    define SMALLEST   0x00800000U /* 2^-126 */
#    define INFINITE   0x7f800000U
#    define QUIET      0x00400000U /* the bit of a NaN that raises no signal */

static inline int64_t at_most(int64_t max, int64_t n)
{
    return n < max ? n : max;
}

/* Rounds to bfloat16, whose bits are the upper half of the result. */
static inline units rounded(vector numbers)
{
    units x = (units)numbers, magnitude = x & ~SIGN, nearest = x + 0x7fff + (x >> 16 & 1);
    units is_small = (units)(magnitude < SMALLEST), is_nan = (units)(magnitude > INFINITE);
    return (is_small & x & SIGN) | (~(is_small | is_nan) & nearest) | (is_nan & (x | QUIET));
}

typedef void tile_function(int64_t steps, const unit *a, int64_t stride, const unit *b, real *sums,
                           int64_t ld);

enum { KINDS_OF_TILES = 4 };

/* One way of computing the products. */
struct method {
    const char *instruction; /* NULL: those of float32 */
    int units;               /* of a step: PAIRS or STEP */
    /* A block stores its rows in groups; a group has its steps one after the other, each [group, units]. */
    int group;
    int stride; /* units of a row of a block: from a group to the next, `group` times as many */
    /* to [steps of n, units], whose steps are `step` apart, = the row `from`, which has n numbers; zeros follow. */
    void (*round_row)(int64_t n, const real *from, unit *to, int64_t step);
    /* to [units, to_ld] = the columns of a step, from [rows, n]. Rows up to STEP, and columns up to whole vectors, are zeros. */
    void (*zip_step)(int64_t n, int64_t rows, const real *from, int64_t ld, unit *to, int64_t to_ld);
    /* Computes sums [rows, TILE_COLUMNS], whose rows are ld apart, from rows of a block, `stride` units apart, and a panel. */
    struct {
        int rows;
        tile_function *compute;
    } tile[KINDS_OF_TILES]; /* the highest first; the last one of one row, or reading rows that nobody uses */
    void (*begin)(void), (*end)(void); /* around the tiles of a product; NULL: nothing is to be done */
};

/* Callers pass a constant for `rows`, so that the sums stay in registers: of each step, those of the even terms and those of the
 * odd ones. */
#    define TILE(rows, name, target, add, flushed)                                                           \
        static NOINLINE target void name##_##rows(int64_t steps, const unit *a, int64_t stride,              \
                                                  const unit *b, real *sums, int64_t ld)                     \
        {                                                                                                    \
            vector total[rows][2];                                                                           \
            _Pragma("GCC unroll 16") for (int i = 0; i < rows; i++) total[i][0] = total[i][1] = (vector){0}; \
            for (; steps > 0; steps--) {                                                                     \
                vector sum[rows][2][2];                                                                      \
                _Pragma("GCC unroll 16") for (int i = 0; i < rows; i++) sum[i][0][0] = sum[i][0][1] =        \
                    sum[i][1][0] = sum[i][1][1] = (vector){0};                                               \
                for (int at = 0; at < name##_units; at += 2, a += 2)                                         \
                    _Pragma("GCC unroll 2") for (int odd = 0; odd < 2; odd++, b += TILE_COLUMNS)             \
                    {                                                                                        \
                        units left = *(const units *)b, right = *(const units *)(b + LANES);                 \
                        _Pragma("GCC unroll 16") for (int i = 0; i < rows; i++)                              \
                        {                                                                                    \
                            sum[i][odd][0] = add(sum[i][odd][0], a[i * stride + odd], left);                 \
                            sum[i][odd][1] = add(sum[i][odd][1], a[i * stride + odd], right);                \
                        }                                                                                    \
                    }                                                                                        \
                _Pragma("GCC unroll 16") for (int i = 0; i < rows; i++)                                      \
                    _Pragma("GCC unroll 2") for (int v = 0; v < 2; v++) total[i][v] =                        \
                        flushed(total[i][v] + flushed(sum[i][0][v] + sum[i][1][v]));                         \
            }                                                                                                \
            _Pragma("GCC unroll 16") for (int i = 0; i < rows; i++)                                          \
            {                                                                                                \
                store(sums + i * ld, total[i][0]);                                                           \
                store(sums + i * ld + LANES, total[i][1]);                                                   \
            }                                                                                                \
        }

/* ---- single numbers, with the float32 instructions ---- */

/* Calls round_step(numbers, to) for each step of a row, the last one padded. */
#    define FOR_EACH_STEP(n, from, to, step, round_step)                                                     \
        for (int64_t l = 0; l < n; l += STEP, to += step) {                                                  \
            real padded[STEP];                                                                               \
            const real *numbers = from + l;                                                                  \
            if (n - l < STEP) {                                                                              \
                memset(padded, 0, sizeof padded);                                                            \
                numbers = memcpy(padded, numbers, (size_t)(n - l) * sizeof *numbers);                        \
            }                                                                                                \
            round_step(numbers, to);                                                                         \
        }

static inline void round_step(const real *from, unit *to)
{
    for (int i = 0; i < STEP; i += LANES) *(units *)(to + i) = rounded(load(from + i)) & UPPER_HALF;
}

static void round_row(int64_t n, const real *from, unit *to, int64_t step)
{
    FOR_EACH_STEP(n, from, to, step, round_step)
}

static void zip_step(int64_t n, int64_t rows, const real *from, int64_t ld, unit *to, int64_t to_ld)
{
    for (int64_t row = 0; row < STEP; row++, to += to_ld)
        for (int64_t i = 0; i < n; i += LANES) {
            vector numbers = {0};
            if (row < rows) numbers = load_first(n - i, from + row * ld + i);
            *(units *)(to + i) = rounded(numbers) & UPPER_HALF;
        }
}

enum { flushing_units = STEP, checking_units = STEP, by_pairs_units = PAIRS };

#    if defined(__AVX2__)
/* The processor's mode in which results below 2^-126 become 0, and the mode before. A tile is not inlined, so that nothing else
 * is computed in the mode. */
enum { FLUSH_TO_ZERO = 0x8000 };

static inline __attribute__((always_inline)) vector add_product(vector sum, unit a, units b)
{
    return vector_fused((vector)((units){0} + a), (vector)b, sum);
}

#        define KEPT(x) (x)
#        define FLUSHING_TILE(rows, name, target, add)                                                       \
            TILE(rows, name, target, add, KEPT)                                                              \
            static void with_##name##_##rows(int64_t steps, const unit *a, int64_t stride, const unit *b,    \
                                             real *sums, int64_t ld)                                         \
            {                                                                                                \
                unsigned mode = _mm_getcsr();                                                                \
                _mm_setcsr(mode | FLUSH_TO_ZERO);                                                            \
                name##_##rows(steps, a, stride, b, sums, ld);                                                \
                _mm_setcsr(mode);                                                                            \
            }
#        ifdef __AVX512F__
FLUSHING_TILE(6, flushing, , add_product)
#        else
FLUSHING_TILE(3, flushing, , add_product)
#        endif
FLUSHING_TILE(2, flushing, , add_product)
FLUSHING_TILE(1, flushing, , add_product)
static const struct method by_float32 = {NULL,
                                         STEP,
                                         1,
                                         SINGLE_STRIDE,
                                         round_row,
                                         zip_step,
#        ifdef __AVX512F__
                                         {{6, with_flushing_6},
#        else
                                         {{3, with_flushing_3},
#        endif
                                          {2, with_flushing_2},
                                          {1, with_flushing_1}},
                                         NULL,
                                         NULL};
#    else

/* x, or a 0 of its sign where it is below 2^-126. */
static inline vector without_small(vector x)
{
    units bits = (units)x;
    return (vector)(bits & ((units)((bits & ~SIGN) >= SMALLEST) | SIGN));
}

/* A sum that is below 2^-126 before it is rounded to the subnormal numbers there, but not afterwards, is small all the same if 24
 * bits of it are below: rounding to them is what the instructions do. All terms are exact in float64. */
static inline __attribute__((always_inline)) vector add_checked(vector sum, unit a, units b)
{
    static const double LEAST = 0x1.ffffffp-127; /* rounds to 2^-126 */
    vector left = (vector)((units){0} + a), right = (vector)b, result = vector_fused(left, right, sum);
    units is_smallest = (units)(((units)result & ~SIGN) == SMALLEST);
    for (int i = 0; i < LANES; i++)
        if (is_smallest[i] && fabs((double)left[i] * (double)right[i] + (double)sum[i]) < LEAST)
            result[i] = copysignf(0, result[i]);
    return without_small(result);
}

TILE(4, checking, , add_checked, without_small)
TILE(1, checking, , add_checked, without_small)
static const struct method by_float32 = {
    NULL, STEP, 1, SINGLE_STRIDE, round_row, zip_step, {{4, checking_4}, {1, checking_1}}, NULL, NULL};
#    endif

/* ---- pairs, with vdpbf16ps and with AMX ---- */

#    ifdef __AVX512F__
#        define WITH_BFLOAT16 __attribute__((target("avx512bf16")))

/* The order of pairs for vdpbf16ps, which adds the product of the upper halves first: those of the even terms, 2 and 0, 6 and 4,
 * ..., alternate with those of the odd terms, 3 and 1, 7 and 5, .... AMX reads them as they stand. */
static const uint16_t BY_FOUR[32] = {2,  0,  3,  1,  6,  4,  7,  5,  10, 8,  11, 9,  14, 12, 15, 13,
                                     18, 16, 19, 17, 22, 20, 23, 21, 26, 24, 27, 25, 30, 28, 31, 29};

static inline __attribute__((always_inline)) WITH_BFLOAT16 __m512i step_of(const real *from)
{
    return (__m512i)_mm512_cvtne2ps_pbh(_mm512_loadu_ps(from + 16), _mm512_loadu_ps(from));
}

static inline __attribute__((always_inline)) WITH_BFLOAT16 void round_pairs(const real *from, unit *to)
{
    _mm512_storeu_si512(to, step_of(from));
}

static inline __attribute__((always_inline)) WITH_BFLOAT16 void round_pairs_by_four(const real *from,
                                                                                    unit *to)
{
    _mm512_storeu_si512(to, _mm512_permutexvar_epi16(_mm512_loadu_si512(BY_FOUR), step_of(from)));
}

static WITH_BFLOAT16 void round_row_of_pairs(int64_t n, const real *from, unit *to, int64_t step)
{
    FOR_EACH_STEP(n, from, to, step, round_pairs)
}

static WITH_BFLOAT16 void round_row_by_four(int64_t n, const real *from, unit *to, int64_t step)
{
    FOR_EACH_STEP(n, from, to, step, round_pairs_by_four)
}

/* Callers pass a constant for `by_four`. */
static inline __attribute__((always_inline)) WITH_BFLOAT16 void
zip_pairs(const bool by_four, int64_t n, int64_t rows, const real *from, int64_t ld, unit *to, int64_t to_ld)
{
    static const uint16_t ZIPPED[32] = {0, 16, 1, 17, 2,  18, 3,  19, 4,  20, 5,  21, 6,  22, 7,  23,
                                        8, 24, 9, 25, 10, 26, 11, 27, 12, 28, 13, 29, 14, 30, 15, 31};
    const __m512i zipped = _mm512_loadu_si512(ZIPPED);
    for (int at = 0; at < PAIRS; at++, to += to_ld) {
        int lower = by_four ? BY_FOUR[2 * at] : 2 * at, upper = by_four ? BY_FOUR[2 * at + 1] : 2 * at + 1;
        const real *first = from + lower * ld, *second = from + upper * ld;
        for (int64_t i = 0; i < n; i += LANES) {
            vector left = {0}, right = {0};
            if (lower < rows) left = load_first(n - i, first + i);
            if (upper < rows) right = load_first(n - i, second + i);
            __m512i both = (__m512i)_mm512_cvtne2ps_pbh((__m512)right, (__m512)left);
            _mm512_storeu_si512(to + i, _mm512_permutexvar_epi16(zipped, both));
        }
    }
}

static WITH_BFLOAT16 void zip_step_of_pairs(int64_t n, int64_t rows, const real *from, int64_t ld, unit *to,
                                            int64_t to_ld)
{
    zip_pairs(false, n, rows, from, ld, to, to_ld);
}

static WITH_BFLOAT16 void zip_step_by_four(int64_t n, int64_t rows, const real *from, int64_t ld, unit *to,
                                           int64_t to_ld)
{
    zip_pairs(true, n, rows, from, ld, to, to_ld);
}

static inline __attribute__((always_inline)) WITH_BFLOAT16 vector add_pair(vector sum, unit a, units b)
{
    return (vector)_mm512_dpbf16_ps((__m512)sum, (__m512bh)_mm512_set1_epi32((int)a), (__m512bh)b);
}

/* vdpbf16ps flushes in any mode; the additions of its sums do not. */
FLUSHING_TILE(6, by_pairs, WITH_BFLOAT16, add_pair)
FLUSHING_TILE(2, by_pairs, WITH_BFLOAT16, add_pair)
FLUSHING_TILE(1, by_pairs, WITH_BFLOAT16, add_pair)
static const struct method by_vdpbf16ps = {"vdpbf16ps",
                                           PAIRS,
                                           1,
                                           PAIR_STRIDE,
                                           round_row_by_four,
                                           zip_step_by_four,
                                           {{6, with_by_pairs_6}, {2, with_by_pairs_2}, {1, with_by_pairs_1}},
                                           NULL,
                                           NULL};

/* Tiles 0 to 3 are sums [16, 16], 4 and 5 rows of a block [16, 32 numbers], 6 and 7 columns of a panel [16 pairs, 16]. */
static void amx_32(int64_t steps, const unit *a, int64_t stride, const unit *b, real *sums, int64_t ld)
{
    const int64_t row = TILE_COLUMNS * sizeof(real), bytes = PAIRS * sizeof *a,
                  to_bytes = ld * (int64_t)sizeof *sums;
    /* Each step fetches its share of the rows that the next tile writes. */
    const int64_t share = (2 * AMX_ROWS + steps - 1) / steps;
    const real *next = sums + 2 * AMX_ROWS * ld;
    AMX_CLEAR(0);
    AMX_CLEAR(1);
    AMX_CLEAR(2);
    AMX_CLEAR(3);
    for (; steps > 0; steps--, a += AMX_ROWS * PAIRS, b += PAIRS * TILE_COLUMNS) {
        AMX_LOAD(6, b, row);
        AMX_LOAD(4, a, bytes);
        AMX_LOAD(7, b + 16, row);
        AMX_MULTIPLY(tdpbf16ps, 0, 4, 6);
        AMX_LOAD(5, a + AMX_ROWS * stride, bytes);
        AMX_MULTIPLY(tdpbf16ps, 1, 4, 7);
        AMX_MULTIPLY(tdpbf16ps, 2, 5, 6);
        AMX_MULTIPLY(tdpbf16ps, 3, 5, 7);
        for (int64_t i = 0; i < share; i++, next += ld) {
            __builtin_prefetch(next, 1);
            __builtin_prefetch(next + 16, 1);
        }
    }
    AMX_STORE(0, sums, to_bytes);
    AMX_STORE(1, sums + 16, to_bytes);
    AMX_STORE(2, sums + 16 * ld, to_bytes);
    AMX_STORE(3, sums + 16 * ld + 16, to_bytes);
}

static void amx_16(int64_t steps, const unit *a, int64_t stride, const unit *b, real *sums, int64_t ld)
{
    (void)stride;
    const int64_t row = TILE_COLUMNS * sizeof(real), bytes = PAIRS * sizeof *a,
                  to_bytes = ld * (int64_t)sizeof *sums;
    AMX_CLEAR(0);
    AMX_CLEAR(1);
    for (; steps > 0; steps--, a += AMX_ROWS * PAIRS, b += PAIRS * TILE_COLUMNS) {
        AMX_LOAD(6, b, row);
        AMX_LOAD(4, a, bytes);
        AMX_LOAD(7, b + 16, row);
        AMX_MULTIPLY(tdpbf16ps, 0, 4, 6);
        AMX_MULTIPLY(tdpbf16ps, 1, 4, 7);
    }
    AMX_STORE(0, sums, to_bytes);
    AMX_STORE(1, sums + 16, to_bytes);
}

static const struct method by_amx = {"amx",
                                     PAIRS,
                                     AMX_ROWS,
                                     PAIR_STRIDE,
                                     round_row_of_pairs,
                                     zip_step_of_pairs,
                                     {{32, amx_32}, {16, amx_16}},
                                     amx_begin,
                                     amx_end};
#    endif

/* ---- the choice ---- */

static const struct method *fastest_method(void)
{
#    ifdef __AVX512F__
    switch (qkv_bfloat16_way()) {
    case QKV_BFLOAT16_BY_AMX:
        return &by_amx;
    case QKV_BFLOAT16_BY_VDPBF16PS:
        return &by_vdpbf16ps;
    case QKV_BFLOAT16_BY_FLOAT32:
        break;
    }
#    endif
    return &by_float32;
}

const char *VARIANT(qkv_, bfloat16_instruction)(void)
{
    return fastest_method()->instruction;
}

/* ---- packing ---- */

/* The steps of k numbers; the last one is padded with zeros. */
static inline int64_t steps_of(int64_t k)
{
    return (k + STEP - 1) / STEP;
}

/* Where a step of a row is in a block. */
static inline unit *place_of(const struct method *method, int64_t row, int64_t step, unit *block)
{
    int64_t in_group = row % method->group;
    return block + (row - in_group) * method->stride + (step * method->group + in_group) * method->units;
}

/* block = the units of the rows of a [rows, k]. */
static void pack_rows(const struct method *method, int64_t rows, int64_t k, const real *a, int64_t lda,
                      unit *block)
{
    for (int64_t i = 0; i < rows; i++)
        method->round_row(k, a + i * lda, place_of(method, i, 0, block), method->group * method->units);
}

enum { PART_ROWS = 128 + LANES };

/* block = the units of the rows of the transpose of a [k, rows]. */
static void pack_transposed_rows(const struct method *method, int64_t rows, int64_t k, const real *a,
                                 int64_t lda, unit *block)
{
    _Alignas(64) unit part[STEP * PART_ROWS];
    const int64_t row = method->group > 1 ? method->units : method->stride;
    for (int64_t l = 0; l < k; l += STEP)
        for (int64_t first = 0; first < rows; first += PART_ROWS - LANES) {
            int64_t width = at_most(PART_ROWS - LANES, rows - first);
            method->zip_step(width, k - l, a + l * lda + first, lda, part, PART_ROWS);
            for (int64_t i = 0; i < width; i += LANES)
                for (int at = 0; at < method->units; at += LANES)
                    transpose_block(LANES, (const real *)part + at * PART_ROWS + i, PART_ROWS,
                                    (real *)place_of(method, first + i, l / STEP, block) + at, row);
        }
}

/* panel [units of k, TILE_COLUMNS] = the units of the columns of b [k, columns], padded with zeros. */
static void pack_columns(const struct method *method, int64_t columns, int64_t k, const real *b, int64_t ldb,
                         unit *panel)
{
    if (columns <= LANES)
        memset(panel, 0, (size_t)(steps_of(k) * method->units * TILE_COLUMNS) * sizeof *panel);
    for (int64_t l = 0; l < k; l += STEP, panel += method->units * TILE_COLUMNS) {
        for (int64_t row = l; row < k && row < l + STEP; row++) { /* of the next panel */
            __builtin_prefetch(b + row * ldb + TILE_COLUMNS, 0, 2);
            __builtin_prefetch(b + row * ldb + TILE_COLUMNS + LANES, 0, 2);
        }
        method->zip_step(columns, k - l, b + l * ldb, ldb, panel, TILE_COLUMNS);
    }
}

/* panel [units of k, TILE_COLUMNS] = the units of the columns of the transpose of b [columns, k], padded with zeros. */
static void pack_transposed_columns(const struct method *method, int64_t columns, int64_t k, const real *b,
                                    int64_t ldb, unit *panel)
{
    _Alignas(64) unit part[LANES * SINGLE_STRIDE];
    for (int64_t j = 0; j < TILE_COLUMNS; j += LANES) {
        int64_t width = at_most(LANES, columns - j);
        for (int64_t i = 0; i < width; i++)
            method->round_row(k, b + (j + i) * ldb, part + i * SINGLE_STRIDE, method->units);
        for (int64_t at = 0; at < steps_of(k) * method->units; at += LANES)
            transpose_block(width, (const real *)part + at, SINGLE_STRIDE,
                            (real *)(panel + at * TILE_COLUMNS + j), TILE_COLUMNS);
    }
}

/* Packs the part [k, columns] of b' that starts at [row, column]. */
static void pack_panel(const struct product *p, const struct method *method, int64_t row, int64_t k,
                       int64_t column, int64_t columns, unit *panel)
{
    if (p->transpose_b)
        pack_transposed_columns(method, columns, k, p->b + column * p->ldb + row, p->ldb, panel);
    else
        pack_columns(method, columns, k, p->b + row * p->ldb + column, p->ldb, panel);
}

size_t VARIANT(qkv_, bfloat16_panels_size)(int64_t n, int64_t k)
{
    return (size_t)(padded_columns(n) * steps_of(k) * fastest_method()->units) * sizeof(unit);
}

void VARIANT(qkv_, bfloat16_pack)(bool transpose_b, int64_t n, int64_t k, const real *b, int64_t ldb,
                                  void *panels)
{
    const struct product p = {.transpose_b = transpose_b, .b = b, .ldb = ldb};
    const struct method *method = fastest_method();
    unit *panel = panels;
    for (int64_t l = 0; l < k; l += INNER) {
        int64_t inner = at_most(INNER, k - l);
        for (int64_t j = 0; j < n; j += TILE_COLUMNS, panel += steps_of(inner) * method->units * TILE_COLUMNS)
            pack_panel(&p, method, l, inner, j, at_most(TILE_COLUMNS, n - j), panel);
    }
}

/* ---- products ---- */

/* c [rows, columns] = sums [rows, TILE_COLUMNS], with the epilogue `output`. */
static void finish_rows(int64_t rows, int64_t columns, const real *sums, struct output output)
{
    if (columns < TILE_COLUMNS) {
        store_narrow((int)rows, columns, sums, output);
        return;
    }
    for (int64_t i = 0; i < rows; i++, sums += TILE_COLUMNS, output.c += output.ldc)
        for (int v = 0; v < TILE_COLUMNS; v += LANES) {
            vector sum = load(sums + v);
            if (output.bias) sum += load(output.bias + v);
            if (output.beta > 0) sum += load(output.c + v);
            store(output.c + v, sum);
        }
}

/* Computes c [rows, columns] from a block of rows and a panel: by the highest tiles that fit, and the last rows by one that may
 * be higher. */
static void multiply_panel(const struct method *method, int64_t rows, int64_t columns, int64_t steps,
                           const unit *block, const unit *panel, const struct output *output)
{
    _Alignas(64) real sums[MOST_ROWS * TILE_COLUMNS];
    bool is_plain = columns == TILE_COLUMNS && !output->bias && output->beta <= 0;
    int kind = 0;
    for (int64_t i = 0; i < rows; i += method->tile[kind].rows) {
        while (method->tile[kind].rows > rows - i && method->tile[kind + 1].rows) kind++;
        const int height = method->tile[kind].rows;
        const unit *a = block + i * method->stride;
        struct output at = output_at(output, i, 0);
        if (is_plain && height <= rows - i) {
            method->tile[kind].compute(steps, a, method->stride, panel, at.c, at.ldc);
        } else {
            method->tile[kind].compute(steps, a, method->stride, panel, sums, TILE_COLUMNS);
            finish_rows(at_most(height, rows - i), columns, sums, at);
        }
    }
}

/* Computes p, whose columns start at column `first` of a larger b' with `all_columns` columns. panels: the packed larger
 * b', or NULL. */
static void multiply(const struct product *p, const unit *panels, int64_t all_columns, int64_t first)
{
    _Alignas(64) unit block[BLOCK_UNITS], packed[INNER * TILE_COLUMNS];
    const struct method *method = fastest_method();
    const int64_t room = BLOCK_UNITS / method->stride / 48 * 48, blocks = (p->m + room - 1) / room;
    const int64_t most = at_most(room, (p->m / blocks / 32 + 1) * 32);
    struct output output = p->output;
    if (method->begin) method->begin();
    for (int64_t l = 0; l < p->k; l += INNER) {
        int64_t inner = at_most(INNER, p->k - l), steps = steps_of(inner);
        for (int64_t i = 0; i < p->m; i += most) {
            int64_t rows = at_most(most, p->m - i);
            struct output complete = output_at(&p->output, i, 0);
            if (p->transpose_a)
                pack_transposed_rows(method, rows, inner, p->a + l * p->lda + i, p->lda, block);
            else
                pack_rows(method, rows, inner, p->a + i * p->lda + l, p->lda, block);
            for (int64_t j = 0; j < p->n; j += TILE_COLUMNS) {
                int64_t columns = at_most(TILE_COLUMNS, p->n - j);
                const unit *panel = packed;
                if (panels)
                    panel = panels +
                            method->units * (l / STEP * padded_columns(all_columns) + (first + j) * steps);
                else
                    pack_panel(p, method, l, inner, j, columns, packed);
                output = complete;
                set_columns(&output, &complete, j, l == 0);
                multiply_panel(method, rows, columns, steps, block, panel, &output);
            }
        }
    }
    if (method->end) method->end();
}

/* A product that is split among threads: part i has columns i * part_columns and following. */
struct job {
    const struct product *product;
    const unit *panels;
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
#endif
