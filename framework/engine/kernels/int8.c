/* The int8 products of narrow.h. */
#include "kernels/narrow.h"

#include "core/system.h"
#include "kernels/amx.h"

#ifdef QKV_KERNEL_IS_float32
/* ---- panels: scales [padded n], the initial values of sums [padded n], then for each 32 columns and 4 rows of b' the bytes
 * [32 columns, 4 rows]. The instruction multiplies unsigned by signed bytes, so rows of a are stored as number + 128; a sum
 * begins with -128 times the sum of its column ---- */

enum { ZERO = 128 };

void VARIANT(qkv_, int8_pack)(bool transpose_b, int64_t n, int64_t k, const real *b, int64_t ldb,
                              void *panels)
{
    float *scale = panels;
    int64_t padded = int8_padded_columns(n), inner = int8_padded_inner(k);
    int32_t *start = (int32_t *)(scale + padded);
    int8_t *panel = (int8_t *)(start + padded);
    int64_t column_step = transpose_b ? ldb : 1, row_step = transpose_b ? 1 : ldb;
    memset(panel, 0, (size_t)(padded * inner));
    for (int64_t j = 0; j < padded; j++) {
        const real *column = b + j * column_step;
        int8_t *to =
            panel + j / INT8_PANEL_COLUMNS * INT8_PANEL_COLUMNS * inner + j % INT8_PANEL_COLUMNS * INT8_GROUP;
        scale[j] = j < n ? qkv_int8_scale(k, column, row_step) : 0;
        start[j] = 0;
        if (scale[j] <= 0) continue;
        for (int64_t l = 0; l < k; l++) {
            int8_t weight = (int8_t)qkv_int8_of(column[l * row_step], scale[j]);
            to[l / INT8_GROUP * INT8_GROUP * INT8_PANEL_COLUMNS + l % INT8_GROUP] = weight;
            start[j] -= ZERO * weight;
        }
    }
}

/* ---- rows of a ---- */

struct rows {
    float *scale;         /* [m] */
    unsigned char *value; /* [m, padded k]: number + ZERO */
};

static struct rows rows_in(void *memory, int64_t m)
{
    float *scale = memory;
    return (struct rows){scale, (unsigned char *)(scale + m)};
}

typedef int32_t integers __attribute__((vector_size(VECTOR_BYTES), aligned(sizeof(real)), may_alias));
enum { PARTS = INT8_INNER / LANES };

/* to [INT8_INNER] = the lowest bytes of x. (GCC 12 takes the vectors apart where plain C does the same.) */
static inline void store_bytes(const integers x[PARTS], unsigned char *to)
{
#    if defined(__AVX512F__)
    _mm_storeu_si128((__m128i *)to, _mm512_cvtepi32_epi8((__m512i)x[0]));
#    elif defined(__AVX2__)
    __m256i left = (__m256i)(x[0] & 255), right = (__m256i)(x[1] & 255);
    __m256i pairs = _mm256_permute4x64_epi64(_mm256_packus_epi32(left, right), 0xd8);
    _mm_storeu_si128((__m128i *)to,
                     _mm_packus_epi16(_mm256_castsi256_si128(pairs), _mm256_extracti128_si256(pairs, 1)));
#    else
    for (int i = 0; i < INT8_INNER; i++) to[i] = (unsigned char)x[i / LANES][i % LANES];
#    endif
}

/* The maximum of integers: vector_max would lose NaN. */
static inline integers greater_of(integers a, integers b)
{
    integers greater;
    for (int i = 0; i < LANES; i++) greater[i] = b[i] > a[i] ? b[i] : a[i];
    return greater;
}

/* The largest absolute value, as bits: NaN is above infinity. */
static inline int32_t largest_bits(int64_t n, const real *x)
{
    integers max = {0};
    for (int64_t i = 0; i < n; i += LANES)
        max = greater_of(max, (integers)load_first(n - i, x + i) & INT32_MAX);
#    pragma GCC unroll 4
    for (int by = LANES / 2; by >= 4; by /= 2) max = greater_of(max, (integers)rotated((vector)max, by));
    int32_t first = max[0] > max[1] ? max[0] : max[1], second = max[2] > max[3] ? max[2] : max[3];
    return first > second ? first : second;
}

/* value [inner] = ZERO + round(x [k] * factor), to even; after k, ZERO. Adding 1.5 * 2^23 + ZERO to a number of at most 127
 * leaves this integer in the lowest byte. */
static inline void round_row(int64_t k, const real *x, real factor, int64_t inner,
                             unsigned char *restrict value)
{
    const vector rounding = all_lanes(12582912 + ZERO), factors = all_lanes(factor);
    for (int64_t i = 0; i < inner; i += INT8_INNER) {
        integers rounded[PARTS];
#    pragma GCC unroll 4
        for (int part = 0; part < PARTS; part++) {
            int64_t at = i + part * LANES;
            rounded[part] = (integers)(load_first(k - at, x + at) * factors + rounding);
        }
        store_bytes(rounded, value + i);
    }
}

/* A row of zeros, or of numbers too small to divide by, has scale 0; one with infinity or NaN has NaN, as in float32. */
static void quantize_rows(int64_t m, int64_t k, const real *a, struct rows rows)
{
    static const real SMALLEST = 1e-30F;
    int64_t inner = int8_padded_inner(k);
    for (int64_t i = 0; i < m; i++) {
        const real *x = a + i * k;
        int32_t bits = largest_bits(k, x);
        unsigned char *value = rows.value + i * inner;
        real max;
        memcpy(&max, &bits, sizeof max);
        if (max >= SMALLEST && max < INFINITY) {
            rows.scale[i] = max / 127;
            round_row(k, x, 127 / max, inner, value);
        } else {
            rows.scale[i] = max < SMALLEST ? 0 : NAN;
            memset(value, ZERO, (size_t)inner);
        }
    }
}

/* ---- products ---- */

struct int8_job {
    int64_t m, n, inner; /* inner: padded k */
    struct rows rows;
    const float *scale;
    const int32_t *start;
    const int8_t *panels;
    const real *bias;
    real *c;
    int64_t part_panels; /* panels of a part of the job */
    bool by_amx;
};

/* c [row .. row + rows - 1, the columns of the panel that starts at `column`] from int32 sums [rows, 32]. */
static void store_sums(const struct int8_job *job, int64_t row, int64_t rows, int64_t column,
                       int32_t sums[][INT8_PANEL_COLUMNS])
{
    int64_t columns = job->n - column < INT8_PANEL_COLUMNS ? job->n - column : INT8_PANEL_COLUMNS;
    for (int64_t i = 0; i < rows; i++) {
        real *c = job->c + (row + i) * job->n + column, scale = job->rows.scale[row + i];
        for (int64_t j = 0; j < columns; j++) {
            real y = (real)sums[i][j] * (scale * job->scale[column + j]);
            c[j] = job->bias ? y + job->bias[column + j] : y;
        }
    }
}

#    ifdef __AVX2__
/* `rows` rows in one panel. Even bytes and odd bytes are multiplied as 16-bit numbers: the instruction for bytes
 * would saturate. */
static inline __attribute__((always_inline)) void tile_avx2(const int rows, const struct int8_job *job,
                                                            int64_t row, int64_t column)
{
    const __m256i even = _mm256_set1_epi16(255);
    const int8_t *b = job->panels + column * job->inner;
    const unsigned char *a = job->rows.value + row * job->inner;
    __m256i sum[2][4];
#        pragma GCC unroll 2
    for (int i = 0; i < rows; i++)
#        pragma GCC unroll 4
        for (int v = 0; v < 4; v++)
            sum[i][v] = _mm256_loadu_si256((const __m256i *)(job->start + column + v * 8));
    for (int64_t l = 0; l < job->inner; l += INT8_GROUP, b += INT8_GROUP * INT8_PANEL_COLUMNS) {
        __m256i x_even[2], x_odd[2];
#        pragma GCC unroll 2
        for (int i = 0; i < rows; i++) {
            int32_t group;
            memcpy(&group, a + i * job->inner + l, sizeof group);
            __m256i x = _mm256_set1_epi32(group);
            x_even[i] = _mm256_and_si256(x, even);
            x_odd[i] = _mm256_srli_epi16(x, 8);
        }
#        pragma GCC unroll 4
        for (int v = 0; v < 4; v++) {
            __m256i w = _mm256_loadu_si256((const __m256i *)(b + v * 32)), w_odd = _mm256_srai_epi16(w, 8),
                    w_even = _mm256_srai_epi16(_mm256_slli_epi16(w, 8), 8);
#        pragma GCC unroll 2
            for (int i = 0; i < rows; i++) {
                __m256i products = _mm256_add_epi32(_mm256_madd_epi16(w_even, x_even[i]),
                                                    _mm256_madd_epi16(w_odd, x_odd[i]));
                sum[i][v] = _mm256_add_epi32(sum[i][v], products);
            }
        }
    }
    int32_t sums[2][INT8_PANEL_COLUMNS];
#        pragma GCC unroll 2
    for (int i = 0; i < rows; i++)
#        pragma GCC unroll 4
        for (int v = 0; v < 4; v++) _mm256_storeu_si256((__m256i *)(sums[i] + v * 8), sum[i][v]);
    store_sums(job, row, rows, column, sums);
}

static void panel_simple(const struct int8_job *job, int64_t column)
{
    int64_t i = 0;
    for (; i + 2 <= job->m; i += 2) tile_avx2(2, job, i, column);
    if (i < job->m) tile_avx2(1, job, i, column);
}
#    else
/* One panel, in plain C. */
static void panel_simple(const struct int8_job *job, int64_t column)
{
    const int8_t *panel = job->panels + column * job->inner;
    for (int64_t i = 0; i < job->m; i++) {
        int32_t sums[1][INT8_PANEL_COLUMNS];
        const unsigned char *a = job->rows.value + i * job->inner;
        memcpy(sums, job->start + column, sizeof sums);
        for (int64_t l = 0; l < job->inner; l += INT8_GROUP) {
            const int8_t *b = panel + l * INT8_PANEL_COLUMNS;
            for (int j = 0; j < INT8_PANEL_COLUMNS; j++)
                for (int g = 0; g < INT8_GROUP; g++) sums[0][j] += a[l + g] * b[j * INT8_GROUP + g];
        }
        store_sums(job, i, 1, column, sums);
    }
}
#    endif

#    ifdef __AVX512F__
#        define WITH_VNNI __attribute__((target("avx512vnni")))
enum { VNNI_ROWS = 12 }; /* 24 of 32 registers hold sums */

/* c [row .. row + rows - 1, the columns of the panel that starts at `column`] from sums [rows, 2]. */
static inline __attribute__((always_inline)) WITH_VNNI void
store_vnni(const int rows, const struct int8_job *job, int64_t row, int64_t column, __m512i sum[][2])
{
    if (job->n - column < INT8_PANEL_COLUMNS) {
        int32_t sums[VNNI_ROWS][INT8_PANEL_COLUMNS];
#        pragma GCC unroll 16
        for (int i = 0; i < rows; i++) {
            _mm512_storeu_si512(sums[i], sum[i][0]);
            _mm512_storeu_si512(sums[i] + 16, sum[i][1]);
        }
        store_sums(job, row, rows, column, sums);
        return;
    }
    const __m512 left = _mm512_loadu_ps(job->scale + column),
                 right = _mm512_loadu_ps(job->scale + column + 16),
                 nothing = _mm512_set1_ps(-0.0F); /* x + -0 is x, for 0 and -0, too */
    const __m512 left_bias = job->bias ? _mm512_loadu_ps(job->bias + column) : nothing,
                 right_bias = job->bias ? _mm512_loadu_ps(job->bias + column + 16) : nothing;
    real *c = job->c + row * job->n + column;
#        pragma GCC unroll 16
    for (int i = 0; i < rows; i++, c += job->n) {
        const __m512 scale = _mm512_set1_ps(job->rows.scale[row + i]);
        __m512 y = _mm512_mul_ps(_mm512_cvtepi32_ps(sum[i][0]), _mm512_mul_ps(scale, left));
        _mm512_storeu_ps(c, _mm512_add_ps(y, left_bias));
        y = _mm512_mul_ps(_mm512_cvtepi32_ps(sum[i][1]), _mm512_mul_ps(scale, right));
        _mm512_storeu_ps(c + 16, _mm512_add_ps(y, right_bias));
    }
}

/* `rows` rows of c from `row` on, in one panel. Callers pass constants: the sums stay in registers. Of few rows, `chains`
 * sums for each number hide the latency of the multiplication. Of many rows, the first prefetch the next panel. */
static inline __attribute__((always_inline)) WITH_VNNI void
tile_vnni(const int rows, const int chains, const struct int8_job *job, int64_t row, int64_t column)
{
    const int64_t inner = job->inner, next_panel = row == 0 ? inner * INT8_PANEL_COLUMNS : 0;
    const int8_t *b = job->panels + column * inner;
    const unsigned char *a[VNNI_ROWS / 3];
    __m512i sum[VNNI_ROWS][2];
#        pragma GCC unroll 4
    for (int i = 0; i < rows; i += 3) a[i / 3] = job->rows.value + (row + i) * inner;
#        pragma GCC unroll 16
    for (int i = 0; i < rows * chains; i++) {
        sum[i][0] = i < rows ? _mm512_loadu_si512(job->start + column) : _mm512_setzero_si512();
        sum[i][1] = i < rows ? _mm512_loadu_si512(job->start + column + 16) : _mm512_setzero_si512();
    }
    for (int64_t l = inner; l > 0; l -= chains * INT8_GROUP) {
#        pragma GCC unroll 4
        for (int g = 0; g < chains; g++, b += INT8_GROUP * INT8_PANEL_COLUMNS) {
            __m512i left = _mm512_loadu_si512(b), right = _mm512_loadu_si512(b + 64);
            if (rows >= 6) {
                __builtin_prefetch(b + next_panel, 0, 2);
                __builtin_prefetch(b + next_panel + 64, 0, 2);
            }
#        pragma GCC unroll 16
            for (int i = 0; i < rows; i++) {
                int32_t group; /* by four addresses: those of all rows would not fit into registers */
                memcpy(&group, a[i / 3] + i % 3 * inner + g * INT8_GROUP, sizeof group);
                __m512i x = _mm512_set1_epi32(group);
                sum[g * rows + i][0] = _mm512_dpbusd_epi32(sum[g * rows + i][0], x, left);
                sum[g * rows + i][1] = _mm512_dpbusd_epi32(sum[g * rows + i][1], x, right);
            }
        }
#        pragma GCC unroll 4
        for (int i = 0; i < rows; i += 3) a[i / 3] += chains * INT8_GROUP;
    }
#        pragma GCC unroll 16
    for (int i = rows; i < rows * chains; i++) {
        sum[i % rows][0] = _mm512_add_epi32(sum[i % rows][0], sum[i][0]);
        sum[i % rows][1] = _mm512_add_epi32(sum[i % rows][1], sum[i][1]);
    }
    store_vnni(rows, job, row, column, sum);
}

#        define TILE(rows, chains)                                                                           \
            static NOINLINE WITH_VNNI void tile_vnni_##rows(const struct int8_job *job, int64_t row,         \
                                                            int64_t column)                                  \
            {                                                                                                \
                tile_vnni(rows, chains, job, row, column);                                                   \
            }
TILE(12, 1)
TILE(8, 1)
TILE(6, 1)
TILE(4, 2)
TILE(3, 4)
TILE(2, 4)
TILE(1, 4)
#        undef TILE

/* AMX_ROWS rows of c from `row` on, in one panel. Groups that fill no tile are multiplied as elsewhere. */
static WITH_VNNI void tile_amx(const struct int8_job *job, int64_t row, int64_t column)
{
    enum { TILE_INNER = 64, HALF = AMX_ROWS / 2 };
    const int64_t inner = job->inner, panel_row = INT8_GROUP * INT8_PANEL_COLUMNS,
                  sums_row = INT8_PANEL_COLUMNS * sizeof(int32_t);
    const unsigned char *a = job->rows.value + row * inner;
    const int8_t *b = job->panels + column * inner;
    _Alignas(64) int32_t sums[AMX_ROWS][INT8_PANEL_COLUMNS];
    int64_t l = 0;
    for (int i = 0; i < AMX_ROWS; i++) memcpy(sums[i], job->start + column, sizeof sums[i]);
    AMX_LOAD(0, sums[0], sums_row);
    AMX_LOAD(1, sums[0] + 16, sums_row);
    for (; l + TILE_INNER <= inner; l += TILE_INNER, b += TILE_INNER * INT8_PANEL_COLUMNS) {
        AMX_LOAD(4, a + l, inner);
        AMX_LOAD(6, b, panel_row);
        AMX_LOAD(7, b + 64, panel_row);
        AMX_MULTIPLY(tdpbusd, 0, 4, 6);
        AMX_MULTIPLY(tdpbusd, 1, 4, 7);
    }
    AMX_STORE(0, sums[0], sums_row);
    AMX_STORE(1, sums[0] + 16, sums_row);
    for (int first = 0; first < AMX_ROWS; first += HALF) {
        __m512i sum[VNNI_ROWS][2];
#        pragma GCC unroll 8
        for (int i = 0; i < HALF; i++) {
            sum[i][0] = _mm512_loadu_si512(sums[first + i]);
            sum[i][1] = _mm512_loadu_si512(sums[first + i] + 16);
            for (int64_t g = l; g < inner; g += INT8_GROUP) {
                int32_t group;
                memcpy(&group, a + (first + i) * inner + g, sizeof group);
                const int8_t *columns = b + (g - l) * INT8_PANEL_COLUMNS;
                __m512i x = _mm512_set1_epi32(group);
                sum[i][0] = _mm512_dpbusd_epi32(sum[i][0], x, _mm512_loadu_si512(columns));
                sum[i][1] = _mm512_dpbusd_epi32(sum[i][1], x, _mm512_loadu_si512(columns + 64));
            }
        }
        store_vnni(HALF, job, row + first, column, sum);
    }
}

static void panel_vnni(const struct int8_job *job, int64_t column)
{
    int64_t i = 0;
    if (job->by_amx)
        for (; i + AMX_ROWS <= job->m; i += AMX_ROWS) tile_amx(job, i, column);
    for (; i + 12 <= job->m; i += 12) tile_vnni_12(job, i, column);
#        define ROWS(number)                                                                                 \
            if (job->m - i >= number) {                                                                      \
                tile_vnni_##number(job, i, column);                                                          \
                i += number;                                                                                 \
            }
    ROWS(8)
    ROWS(6)
    ROWS(4)
    ROWS(3)
    ROWS(2)
    ROWS(1)
#        undef ROWS
}
#    endif

typedef void panel_function(const struct int8_job *job, int64_t column);

static panel_function *fastest_panel(void)
{
#    ifdef __AVX512F__
    if (__builtin_cpu_supports("avx512vnni")) return panel_vnni;
#    endif
    return panel_simple;
}

const char *VARIANT(qkv_, int8_instruction)(void)
{
    return fastest_panel() == panel_simple ? NULL : qkv_has_amx() ? "amx and vpdpbusd" : "vpdpbusd";
}

static void multiply_part(void *context, int part)
{
    const struct int8_job *job = context;
    panel_function *multiply_panel = fastest_panel();
    int64_t columns = job->part_panels * INT8_PANEL_COLUMNS, first = part * columns;
#    ifdef __AVX512F__
    if (job->by_amx) amx_begin();
#    endif
    for (int64_t j = first; j < first + columns && j < job->n; j += INT8_PANEL_COLUMNS)
        multiply_panel(job, j);
#    ifdef __AVX512F__
    if (job->by_amx) amx_end();
#    endif
}

void VARIANT(qkv_, int8_product)(struct qkv_workers *workers, int64_t m, int64_t n, int64_t k, const real *a,
                                 const void *panels, const real *bias, real *c, void *memory)
{
    /* Least number of bytes in a part of b; multiplying a smaller b takes less time than waking threads. */
    enum { PART_BYTES = 1 << 17, AMX_LEAST_ROWS = 16 };
    int64_t padded = int8_padded_columns(n), inner = int8_padded_inner(k);
    struct rows rows = rows_in(memory, m);
    struct int8_job job = {.m = m,
                           .n = n,
                           .inner = inner,
                           .rows = rows,
                           .scale = panels,
                           .start = (const int32_t *)((const float *)panels + padded),
                           .panels = (const int8_t *)((const float *)panels + 2 * padded),
                           .bias = bias,
                           .c = c,
                           .part_panels = padded / INT8_PANEL_COLUMNS,
                           .by_amx = m >= AMX_LEAST_ROWS && fastest_panel() != panel_simple && qkv_has_amx()};
    quantize_rows(m, k, a, rows);
    if (workers && padded * inner >= 2 * PART_BYTES) {
        job.part_panels = PART_BYTES / (inner * INT8_PANEL_COLUMNS) + 1;
        int64_t part = job.part_panels * INT8_PANEL_COLUMNS;
        qkv_workers_run(workers, (int)((padded + part - 1) / part), multiply_part, &job);
    } else {
        multiply_part(&job, 0);
    }
}
#endif
