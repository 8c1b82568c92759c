/* Ops that gather, scatter and store rows by index; position embeddings and rotary positions. */
#include "kernels/vectors.h"

/* ---- scatter: to[indices[i]] += factor * from[i] for each row i < count ----
 *
 * If there are many rows, each block of SUM_ROWS rows is summed by index before it is added to `to`; WIDE_ROWS rows and more
 * are summed in double, index by index. So an index that occurs a million times loses no precision. */

/* The different indices of a block of rows: a hash table with open addressing. */
struct index_sums {
    int32_t index[2 * SUM_ROWS]; /* -1: free */
    int16_t sum[2 * SUM_ROWS];   /* the row of the workspace that holds the sum for the index */
    int count;                   /* different indices so far */
};

/* Returns the row of the workspace for the sum of this index. A new index gets the next row. */
static int sum_of_index(struct index_sums *sums, int32_t index)
{
    uint32_t at = (uint32_t)index * 2654435769u >> 23; /* Knuth's multiplicative hash, of 9 bits */
    while (sums->index[at] >= 0 && sums->index[at] != index) at = (at + 1) % (2 * SUM_ROWS);
    if (sums->index[at] < 0) {
        sums->index[at] = index;
        sums->sum[at] = (int16_t)sums->count++;
    }
    return sums->sum[at];
}
_Static_assert(2 * SUM_ROWS == 1 << 9, "the hash has as many bits as the table needs");

static bool is_wide(int64_t count)
{
    return count >= WIDE_ROWS && count <= INT32_MAX;
}

/* Numbers of scratch that scatter to `rows` rows needs. */
static int64_t scatter_scratch(int64_t count, int64_t rows, int64_t columns)
{
    if (is_wide(count)) return rows + count;
    return count > SUM_ROWS ? SUM_ROWS * columns : 0;
}

static void add_scaled_row(int64_t columns, real factor, const real *restrict from, real *restrict to)
{
    for (int64_t j = 0; j < columns; j++) to[j] += factor * from[j];
}

/* Scatters rows first .. end - 1, at most SUM_ROWS. */
static void scatter_block(struct qkv_tensor *y, int64_t first, int64_t end, const real *from, real *to,
                          real factor)
{
    int64_t columns = qkv_columns(y);
    real *sums = scratch_of(y);
    struct index_sums table = {.count = 0};
    memset(table.index, -1, sizeof table.index);
    for (int64_t i = first; i < end; i++) {
        int known = table.count, row = sum_of_index(&table, y->options.indices[i]);
        accumulate(columns, row < known, from + i * columns, sums + row * columns);
    }
    for (int at = 0; at < 2 * SUM_ROWS; at++)
        if (table.index[at] >= 0)
            add_scaled_row(columns, factor, sums + table.sum[at] * columns, to + table.index[at] * columns);
}

/* The same for WIDE_ROWS rows or more. */
static void scatter_wide(struct qkv_tensor *y, const real *from, real *to, int64_t rows, int64_t count,
                         real factor)
{
    enum { BLOCK = 256 };
    int64_t columns = qkv_columns(y);
    /* The first row of `from` with an index, and after each row the next one with the same index; -1: none. */
    int32_t *first = (int32_t *)scratch_of(y), *next = first + rows;
    memset(first, -1, (size_t)rows * sizeof *first);
    for (int32_t i = (int32_t)count - 1; i >= 0; i--) {
        next[i] = first[y->options.indices[i]];
        first[y->options.indices[i]] = i;
    }
    for (int64_t row = 0; row < rows; row++)
        for (int64_t column = 0; first[row] >= 0 && column < columns; column += BLOCK) {
            int64_t n = columns - column < BLOCK ? columns - column : BLOCK;
            double sum[BLOCK] = {0};
            for (int32_t i = first[row]; i >= 0; i = next[i])
                add_wide_column_sums(1, n, from + i * columns + column, columns, sum);
            for (int64_t j = 0; j < n; j++) to[row * columns + column + j] += factor * (real)sum[j];
        }
}

/* Scatters to `rows` rows. */
static void scatter(struct qkv_tensor *y, const real *from, real *to, int64_t rows, int64_t count,
                    real factor)
{
    int64_t columns = qkv_columns(y);
    if (is_wide(count))
        scatter_wide(y, from, to, rows, count, factor);
    else if (count <= SUM_ROWS)
        for (int64_t i = 0; i < count; i++)
            add_scaled_row(columns, factor, from + i * columns, to + y->options.indices[i] * columns);
    else
        for (int64_t first = 0; first < count; first += SUM_ROWS)
            scatter_block(y, first, count - first < SUM_ROWS ? count : first + SUM_ROWS, from, to, factor);
}

/* Shape of an op whose result has one row per index. */
static bool indexed_shape(struct qkv_tensor *y, const char *table, const char *index)
{
    const struct qkv_tensor *x = y->input[0];
    int64_t count = y->options.index_count;
    if (!check_matrix(y, x, table)) return false;
    if (count < 1) return qkv_refuse(y, "has no %ss", index);
    if (!check_indices(y, count, x->shape.size[0], index)) return false;
    y->shape = (struct qkv_shape){2, {count, x->shape.size[1]}};
    y->scratch = scatter_scratch(count, x->shape.size[0], x->shape.size[1]);
    return true;
}

/* ---- embedding: y[i] = factor table[id[i]]; gather_rows: y[i] = x[row[i]] ---- */

static bool embedding_shape(struct qkv_tensor *y)
{
    return indexed_shape(y, "table", "id");
}

static bool gather_rows_shape(struct qkv_tensor *y)
{
    return indexed_shape(y, "input", "row");
}

static real factor_of(const struct qkv_tensor *y)
{
    return y->op == QKV_OP_embedding ? (real)y->options.factor : 1;
}

static void gather_forward(struct qkv_tensor *y)
{
    const real *from = y->input[0]->value, factor = factor_of(y);
    int64_t columns = qkv_columns(y);
    for (int64_t i = 0; i < y->options.index_count; i++) {
        const real *restrict row = from + y->options.indices[i] * columns;
        real *restrict out = (real *)y->value + i * columns;
        for (int64_t j = 0; j < columns; j++) out[j] = factor * row[j];
    }
}

/* dtable[id[i]] += factor dy[i] */
static void gather_backward(struct qkv_tensor *y)
{
    scatter(y, y->gradient, gradient_of(y->input[0]), y->input[0]->shape.size[0], y->options.index_count,
            factor_of(y));
}

OP(embedding, .inputs = 1, .shape = RULE(embedding_shape), .forward = gather_forward,
   .backward = gather_backward);
OP(gather_rows, .inputs = 1, .shape = RULE(gather_rows_shape), .forward = gather_forward,
   .backward = gather_backward);

/* ---- scatter_rows: y = 0, then y[row[i]] += x[i] ---- */

static bool scatter_rows_shape(struct qkv_tensor *y)
{
    const struct qkv_tensor *x = y->input[0];
    if (y->options.rows < 1)
        return qkv_refuse(y, "the result would have %lld rows", (long long)y->options.rows);
    if (!check_matrix(y, x, "input") || !check_indices(y, x->shape.size[0], y->options.rows, "row"))
        return false;
    y->shape = (struct qkv_shape){2, {y->options.rows, x->shape.size[1]}};
    y->scratch = scatter_scratch(x->shape.size[0], y->options.rows, x->shape.size[1]);
    return true;
}

static void scatter_rows_forward(struct qkv_tensor *y)
{
    memset(y->value, 0, (size_t)y->count * sizeof(real));
    scatter(y, y->input[0]->value, y->value, y->options.rows, y->input[0]->shape.size[0], 1);
}

/* dx[i] += dy[row[i]] */
static void scatter_rows_backward(struct qkv_tensor *y)
{
    const struct qkv_tensor *x = y->input[0];
    int64_t columns = qkv_columns(y);
    real *dx = gradient_of(y->input[0]);
    for (int64_t i = 0; i < x->shape.size[0]; i++)
        accumulate(columns, 1, (const real *)y->gradient + y->options.indices[i] * columns, dx + i * columns);
}

OP(scatter_rows, .inputs = 1, .shape = RULE(scatter_rows_shape), .forward = scatter_rows_forward,
   .backward = scatter_rows_backward);

/* ---- add_positions: y[i] = x[i] + table[position], with position = first + row within its segment ---- */

/* Position of the first row of segment s. */
static int64_t first_of(const struct qkv_tensor *y, int64_t s)
{
    return y->options.first ? y->options.first[s] : 0;
}

/* Every row of a segment has a position in the table. */
static bool check_positions(struct qkv_tensor *y, const struct qkv_tensor *x, const struct qkv_tensor *table)
{
    const struct qkv_segments *segments = &y->options.segments;
    int64_t rows = x->shape.size[0];
    if (!qkv_check_segments(y, segments, rows, "input") || !qkv_check_disjoint(y, segments, "input"))
        return false;
    for (int64_t s = 0; s < qkv_segment_count(segments); s++) {
        int64_t first = first_of(y, s), length = qkv_segment_length(segments, s, rows),
                positions = table->shape.size[0];
        if (first < 0 || length > positions || first > positions - length)
            return qkv_refuse(
                y, "segment %lld has %lld rows from position %lld on, but the table has %lld positions",
                (long long)s, (long long)length, (long long)first, (long long)positions);
    }
    return true;
}

static bool add_positions_shape(struct qkv_tensor *y)
{
    const struct qkv_tensor *x = y->input[0], *table = y->input[1];
    if (!check_matrix(y, x, "input") || !check_matrix(y, table, "table")) return false;
    if (x->shape.size[1] != table->shape.size[1])
        return qkv_refuse(y, "input is %s, but table is %s", qkv_shape_text(x->shape),
                          qkv_shape_text(table->shape));
    return check_positions(y, x, table) && same_as_input(y);
}

static void add_positions_forward(struct qkv_tensor *y)
{
    const struct qkv_segments *segments = &y->options.segments;
    int64_t rows = y->shape.size[0], columns = y->shape.size[1];
    const real *x = y->input[0]->value;
    real *out = y->value;
    if (segments->count) accumulate(y->count, 0, x, out); /* rows outside all segments */
    for (int64_t s = 0; s < qkv_segment_count(segments); s++) {
        int64_t first = qkv_segment_start(segments, s) * columns;
        int64_t count = qkv_segment_length(segments, s, rows) * columns;
        const real *table = (const real *)y->input[1]->value + first_of(y, s) * columns;
#pragma omp simd
        for (int64_t i = 0; i < count; i++) out[first + i] = x[first + i] + table[i];
    }
}

/* dx += dy, dtable[position] += dy[i] */
static void add_positions_backward(struct qkv_tensor *y)
{
    const struct qkv_segments *segments = &y->options.segments;
    int64_t rows = y->shape.size[0], columns = y->shape.size[1];
    const real *dy = y->gradient;
    real beta;
    real *dx = claim_gradient(y->input[0], &beta);
    if (dx) accumulate(y->count, beta, dy, dx);
    real *dtable = gradient_of(y->input[1]);
    for (int64_t s = 0; dtable && s < qkv_segment_count(segments); s++)
        accumulate(qkv_segment_length(segments, s, rows) * columns, 1,
                   dy + qkv_segment_start(segments, s) * columns, dtable + first_of(y, s) * columns);
}

OP(add_positions, .inputs = 2, .elementwise = INPUT(0), .shape = RULE(add_positions_shape),
   .forward = add_positions_forward, .backward = add_positions_backward);

/* ---- rotate (RoPE, Su et al. 2021): rotates each pair of an even column a and an odd column b to
 * (a c - b s, a s + b c). The table has the sine s in its even columns and the cosine c in its odd ones, a row for each
 * position ---- */

static bool rotate_shape(struct qkv_tensor *y)
{
    const struct qkv_tensor *x = y->input[0], *table = y->input[1];
    if (!check_matrix(y, x, "input") || !check_matrix(y, table, "table")) return false;
    if (table->needs_gradient) return qkv_refuse(y, "the table must not need a gradient");
    if (table->shape.size[1] % 2)
        return qkv_refuse(y, "table is %s, but its width must be even", qkv_shape_text(table->shape));
    if (x->shape.size[1] % table->shape.size[1])
        return qkv_refuse(y, "input is %s, but its width must be a multiple of that of the table, %s",
                          qkv_shape_text(x->shape), qkv_shape_text(table->shape));
    return check_positions(y, x, table) && same_as_input(y);
}

/* Calls `rotate` for each row of the segments. angles [width]: the sines and cosines of the row's
 * position; width: columns of one head. */
static void rotate_rows(struct qkv_tensor *y, const real *from, real *to,
                        void (*rotate)(int64_t columns, int64_t width, const real *angles, const real *from,
                                       real *to))
{
    const struct qkv_segments *segments = &y->options.segments;
    int64_t columns = qkv_columns(y), rows = y->shape.size[0], width = y->input[1]->shape.size[1];
    for (int64_t s = 0; s < qkv_segment_count(segments); s++) {
        int64_t row = qkv_segment_start(segments, s) * columns;
        const real *table = (const real *)y->input[1]->value + first_of(y, s) * width;
        for (int64_t i = 0; i < qkv_segment_length(segments, s, rows); i++, row += columns)
            rotate(columns, width, table + i * width, from + row, to + row);
    }
}

/* Fuses the products explicitly: GCC 12 fuses a pair a c - b s, a s + b c by itself, even where contraction is off. */
static void rotate_row(int64_t columns, int64_t width, const real *restrict angles, const real *restrict from,
                       real *restrict to)
{
    for (int64_t h = 0; h < columns; h += width)
        for (int64_t d = 0; d < width; d += 2) {
            real sine = angles[d], cosine = angles[d + 1], a = from[h + d], b = from[h + d + 1];
            to[h + d] = fused(a, cosine, -(b * sine));
            to[h + d + 1] = fused(a, sine, b * cosine);
        }
}

/* to += rotated - from, where `rotated` is `from` rotated by the opposite angle. rotate_backward has already added the
 * unrotated gradient to all rows, because rows outside all segments are not rotated; this replaces it in the other rows. */
static void rotate_row_back(int64_t columns, int64_t width, const real *restrict angles,
                            const real *restrict from, real *restrict to)
{
    for (int64_t h = 0; h < columns; h += width)
        for (int64_t d = 0; d < width; d += 2) {
            real sine = angles[d], cosine = angles[d + 1], a = from[h + d], b = from[h + d + 1];
            to[h + d] += fused(a, cosine, b * sine) - a;
            to[h + d + 1] += fused(b, cosine, -(a * sine)) - b;
        }
}

static void rotate_forward(struct qkv_tensor *y)
{
    if (y->options.segments.count) /* rows outside all segments are copied */
        memcpy(y->value, y->input[0]->value, (size_t)y->count * sizeof(real));
    rotate_rows(y, y->input[0]->value, y->value, rotate_row);
}

/* dx += dy, rotated by the opposite angle */
static void rotate_backward(struct qkv_tensor *y)
{
    real beta;
    real *dx = claim_gradient(y->input[0], &beta);
    if (!dx) return;
    accumulate(y->count, beta, y->gradient, dx);
    rotate_rows(y, y->gradient, dx, rotate_row_back);
}

OP(rotate, .inputs = 2, .backward_reads = INPUT(1), .shape = RULE(rotate_shape), .forward = rotate_forward,
   .backward = rotate_backward);

/* ---- store_rows: target[row[i]] = x[i], in place; has no backward ---- */

static bool store_rows_shape(struct qkv_tensor *y)
{
    const struct qkv_tensor *target = y->input[0], *x = y->input[1];
    if (!check_matrix(y, target, "target") || !check_matrix(y, x, "input")) return false;
    if (target->shape.size[1] != x->shape.size[1])
        return qkv_refuse(y, "target is %s, but input is %s", qkv_shape_text(target->shape),
                          qkv_shape_text(x->shape));
    return check_indices(y, x->shape.size[0], target->shape.size[0], "row") && same_as_input(y);
}

static void store_rows_forward(struct qkv_tensor *y)
{
    const struct qkv_tensor *x = y->input[1];
    int64_t columns = qkv_columns(y);
    for (int64_t i = 0; i < x->shape.size[0]; i++)
        memcpy((real *)y->value + y->options.indices[i] * columns, (const real *)x->value + i * columns,
               (size_t)columns * sizeof(real));
}

OP(store_rows, .inputs = 2, .alias = INPUT(0), .shape = RULE(store_rows_shape),
   .forward = store_rows_forward);
