/* The exact kernel of fused attention: computes the weights of one block (struct block) after the other, and keeps them all in
 * y->saved if there is a backward. A block has all queries and keys of a segment and head; under a window, a few queries with
 * the keys that they see.
 *
 * Dropout needs no memory of its own: a kept weight w that dropout drops is stored as -w, until the next forward. So |w| is the
 * weight before dropout, and w > 0 says that it was not dropped; a weight of 0 needs no sign. */
#include "kernels/attention.h"
#include "kernels/gemm.h"

enum { SHORT_ROW = 64 };

/* ---- memory ---- */

struct block_sizes {
    int64_t weights; /* of all blocks of all heads */
    int64_t largest; /* greatest number of weights of a block */
    int64_t columns; /* greatest number of columns of a block */
};

static struct block_sizes block_sizes_of(const struct attention *a)
{
    struct block_sizes sizes = {0};
    for (int64_t s = 0; s < qkv_segment_count(&a->options->queries); s++) {
        struct segment p = segment_at(a->options, s, 0, a->query_rows, a->key_rows);
        struct block b;
        for (int64_t row = 0; row < p.queries; row += b.rows) {
            b = block_at(a->rule, &p, row, rows_of_blocks(a->rule, p.queries));
            int64_t count = b.rows * b.columns;
            sizes.weights += a->heads * count;
            if (count > sizes.largest) sizes.largest = count;
            if (b.columns > sizes.columns) sizes.columns = b.columns;
        }
    }
    return sizes;
}

/* Size of y->saved: all weights, or one block of weights if they are not kept. */
static int64_t exact_saved(const struct attention *a)
{
    struct block_sizes sizes = block_sizes_of(a);
    return a->keep_weights ? sizes.weights : sizes.largest;
}

/* Size of the scratch: the two tables of distance terms, one block, with a soft cap another one for the scores, and the
 * workspace of tile_scores. */
static int64_t exact_scratch(const struct attention *a)
{
    struct block_sizes sizes = block_sizes_of(a);
    int64_t width = a->key_width > a->value_width ? a->key_width : a->value_width;
    int64_t blocks = a->rule->soft_cap > 0 ? 2 : 1;
    return blocks * sizes.largest + tile_workspace(sizes.columns, width) + distance_count(a);
}

static real *block_scratch(const struct place *place)
{
    return (real *)place->y->graph->scratch + distance_count(place->a);
}

static real *weights_of(const struct place *place)
{
    return (real *)place->y->saved + place->at;
}

/* ---- forward ---- */

/* Adds the distance terms to the scores of row i of a block. */
static void add_distance_terms(const struct place *place, int64_t i, real *row)
{
    const struct block *b = &place->block;
    const real *table = distance_row(place->y, place->a, place->head.index) - position_of(place, i);
    for (int r = 0; r < 2; row += b->length[r++])
        for (int64_t j = 0; j < b->length[r]; j++) row[j] += table[b->start[r] + j];
}

/* Softmax of short rows, in place. Row i sees its first `seen_by_first + seen_more * i` keys; the others become
 * 0, whatever fast_exp_nonpositive returns for them. All exponentials are computed in one loop, because a single row would not
 * fill a vector. */
static void short_softmax(int64_t rows, int64_t columns, int64_t seen_by_first, int64_t seen_more,
                          real *weights)
{
    for (int64_t i = 0; i < rows; i++) {
        real *row = weights + i * columns, maximum = row[0];
        for (int64_t j = 1; j < seen_by_first + seen_more * i; j++)
            maximum = row[j] > maximum ? row[j] : maximum;
        for (int64_t j = 0; j < columns; j++) row[j] -= maximum;
    }
    for (int64_t i = 0; i < rows * columns; i++) weights[i] = fast_exp_nonpositive(weights[i]);
    for (int64_t i = 0; i < rows; i++) {
        real *row = weights + i * columns, sum = 0;
        int64_t seen = seen_by_first + seen_more * i;
        for (int64_t j = 0; j < seen; j++) sum += row[j];
        real inverse = 1 / sum;
        for (int64_t j = 0; j < seen; j++) row[j] *= inverse;
        for (int64_t j = seen; j < columns; j++) row[j] = 0;
    }
}

#ifdef QKV_KERNEL_IS_float32 /* which has at least HEADS lanes */
/* Decoding computes HEADS heads at a time: SUM_LANES lanes hold the scores of KEYS keys for HEADS heads. Lane i
 * belongs to key i / HEADS and head i % HEADS. */
enum { HEADS = 4, KEYS = SUM_LANES / HEADS, SHORT_GROUPS = SHORT_ROW / KEYS };

/* q . k of `width` numbers, as LANES numbers that are still to be added. */
static inline vector dot_lanes(int64_t width, const real *q, const real *k)
{
    vector sum[SUM_PARTS];
#    pragma GCC unroll 4
    for (int p = 0; p < SUM_PARTS; p++) sum[p] = load(q + p * LANES) * load(k + p * LANES);
    for (int64_t l = SUM_LANES; l < width; l += SUM_LANES)
#    pragma GCC unroll 4
        for (int p = 0; p < SUM_PARTS; p++)
            sum[p] = vector_fused(load(q + l + p * LANES), load(k + l + p * LANES), sum[p]);
    return sum_of_parts(sum);
}

/* Scores of keys j .. j + KEYS - 1 of n; -infinity after the last key. */
static inline void scores_of(const struct attention *a, const real *const query[HEADS],
                             const real *const key[HEADS], int64_t j, int64_t n, vector scores[SUM_PARTS])
{
    int64_t at[KEYS];
#    pragma GCC unroll 4
    for (int k = 0; k < KEYS; k++) at[k] = (j + k < n ? j + k : n - 1) * a->key_ld;
#    pragma GCC unroll 4
    for (int part = 0; part < SUM_PARTS; part++) {
        vector x[LANES];
#    pragma GCC unroll 16
        for (int i = 0; i < LANES; i++) {
            int lane = part * LANES + i;
            x[i] = dot_lanes(a->key_width, query[lane % HEADS], key[lane % HEADS] + at[lane / HEADS]);
        }
        scores[part] = a->scale * sums_of_vectors(x);
        for (int i = 0; j + KEYS > n && i < LANES; i++)
            scores[part][i] = (part * LANES + i) / HEADS < n - j ? scores[part][i] : (real)-INFINITY;
    }
}

/* Sets each lane to the sum, or the maximum, of the lanes of the same head. */
static inline vector reduce_keys(vector x[SUM_PARTS], bool sum)
{
#    pragma GCC unroll 4
    for (int half = SUM_PARTS / 2; half > 0; half /= 2)
#    pragma GCC unroll 4
        for (int i = 0; i < half; i++) {
            if (sum)
                x[i] += x[i + half];
            else
                x[i] = vector_max(x[i], x[i + half]);
        }
    vector all = x[0];
#    pragma GCC unroll 4
    for (int by = LANES / 2; by >= HEADS; by /= 2) {
        vector other = rotated(all, by);
        if (sum)
            all += other;
        else
            all = vector_max(all, other);
    }
    return all;
}

/* outs [HEADS, width] = the values of n keys, mixed by weights [n, HEADS]. */
static inline void mix_values(const struct attention *a, int64_t n, const real *weight,
                              const real *const value[HEADS], real *const out[HEADS])
{
    for (int64_t l = 0; l < a->value_width; l += LANES) {
        vector mixed[HEADS];
#    pragma GCC unroll 4
        for (int h = 0; h < HEADS; h++) mixed[h] = (vector){0};
        for (int64_t j = 0; j < n; j++)
#    pragma GCC unroll 4
            for (int h = 0; h < HEADS; h++)
                mixed[h] = vector_fused(all_lanes(weight[j * HEADS + h]),
                                        load(value[h] + j * a->value_ld + l), mixed[h]);
#    pragma GCC unroll 4
        for (int h = 0; h < HEADS; h++) store(out[h] + l, mixed[h]);
    }
}

/* Forward of heads first .. first + HEADS - 1, one query and at most SHORT_ROW keys. */
static void short_heads(struct qkv_tensor *y, const struct attention *a, const struct segment *p,
                        int64_t first)
{
    vector x[SHORT_GROUPS][SUM_PARTS], maximum[SUM_PARTS], sum[SUM_PARTS] = {{0}};
    const real *query[HEADS], *key[HEADS], *value[HEADS];
    real *out[HEADS];
    int64_t n = p->keys, groups = (n + KEYS - 1) / KEYS;
    for (int h = 0; h < HEADS; h++) {
        struct head head = head_at(a, p, first + h);
        query[h] = a->query + head.query;
        key[h] = a->key + head.key;
        value[h] = a->value + head.value;
        out[h] = (real *)y->value + head.out;
    }
    for (int i = 0; i < SUM_PARTS; i++) maximum[i] = all_lanes((real)-INFINITY);
    for (int64_t g = 0; g < groups; g++) {
        scores_of(a, query, key, g * KEYS, n, x[g]);
        for (int i = 0; i < SUM_PARTS; i++) maximum[i] = vector_max(maximum[i], x[g][i]);
    }
    vector shift = reduce_keys(maximum, false);
    for (int64_t g = 0; g < groups; g++)
        for (int i = 0; i < SUM_PARTS; i++) {
            x[g][i] -= shift;
            for (int lane = 0; lane < LANES; lane++) x[g][i][lane] = fast_exp_nonpositive(x[g][i][lane]);
            sum[i] += x[g][i];
        }
    vector inverse = 1 / reduce_keys(sum, true);
    for (int64_t g = 0; g < groups; g++)
        for (int i = 0; i < SUM_PARTS; i++) x[g][i] *= inverse;
    mix_values(a, n, (const real *)x, value, out);
}

/* Computes as many heads as short_heads can, from the first on; returns how many. */
static int64_t all_short_heads(struct qkv_tensor *y, const struct attention *a, const struct segment *p)
{
    int64_t h = 0;
    if (p->keys <= SHORT_ROW && a->key_width % SUM_LANES == 0 && a->value_width % SUM_LANES == 0)
        for (; h + HEADS <= a->heads; h += HEADS) short_heads(y, a, p, h);
    return h;
}
#else
static int64_t all_short_heads(struct qkv_tensor *y, const struct attention *a, const struct segment *p)
{
    (void)y, (void)a, (void)p;
    return 0;
}
#endif

static void single_forward(const struct place *place)
{
    const struct attention *a = place->a;
    const struct segment *p = &place->head.segment;
    real *weights = place->y->saved;
    for (int64_t h = all_short_heads(place->y, a, p); h < a->heads; h++) {
        struct head head = head_at(a, p, h);
        const real *query = a->query + head.query, *key = a->key + head.key;
        for (int64_t j = 0; j < p->keys; j++)
            weights[j] = a->scale * row_dot(a->key_width, query, key + j * a->key_ld);
        row_softmax(p->keys, weights, weights);
        tile_product(1, a->value_width, p->keys, weights, p->keys, a->value + head.value, a->value_ld, false,
                     (real *)place->y->value + head.out, a->out_ld);
    }
}

/* The scaled and capped scores of a block, without distance terms. work: of tile_scores. */
static void block_scores(const struct place *place, real *scores, real *work)
{
    const struct attention *a = place->a;
    const struct block *b = &place->block;
    const struct head *head = &place->head;
    const real *query = a->query + head->query + b->row * a->query_ld, *key = a->key + head->key;
    real *column = scores;
    for (int r = 0; r < 2; column += b->length[r++])
        if (b->length[r])
            tile_scores(b->rows, b->length[r], a->key_width, query, a->query_ld,
                        key + b->start[r] * a->key_ld, a->key_ld, column, b->columns, work);
    for (int64_t i = 0; i < b->rows * b->columns; i++) scores[i] *= a->scale;
    cap_scores(a->rule, b->rows * b->columns, scores);
}

static void block_weights(const struct place *place)
{
    const struct attention *a = place->a;
    const struct block *b = &place->block;
    const struct head *head = &place->head;
    const struct segment *p = &head->segment;
    real *weights = weights_of(place);
    block_scores(place, weights, block_scratch(place));
    for (int64_t i = 0; qkv_attention_adds_distance(a->rule) && i < b->rows; i++)
        add_distance_terms(place, i, weights + i * b->columns);
    if (!a->mask.value && !a->rule->window && !a->sink && b->columns < SHORT_ROW) {
        bool causal = a->rule->causal;
        short_softmax(b->rows, b->columns, causal ? position_of(place, 1) : b->columns, causal, weights);
        return;
    }
    for (int64_t i = 0; i < b->rows; i++) {
        real *row = weights + i * b->columns;
        struct mask mask = mask_row(a->mask, p, b->row + i);
        struct span span[2];
        spans_of(visible_in_block(a->rule, p, b, i), 0, b->columns, mask, span);
        /* Column length[0], the first of range 1, is key start[1]. */
        if (mask.value) span[1].mask.value = mask.value + b->start[1] - b->length[0];
        masked_softmax(b->columns, span, sink_of(a->sink, head->index), row, row);
    }
}

/* Negates dropped weights. Without a window, y->saved is laid out as the ragged block. */
static void drop_all(const struct qkv_tensor *y, const struct attention *a, int64_t count,
                     real *restrict weights)
{
    struct dropper dropper = dropper_of(y, a->rule->dropout);
    uint16_t words[DROPPER_WORDS];
    for (int64_t block = 0; block * DROPPER_WORDS < count; block++) {
        int64_t first = block * DROPPER_WORDS;
        int64_t n = count - first < DROPPER_WORDS ? count - first : DROPPER_WORDS;
        dropper_words(&dropper, block, words);
        for (int64_t i = 0; i < n; i++)
            weights[first + i] = words[i] >= dropper.threshold ? weights[first + i] : -weights[first + i];
    }
}

/* Negates dropped weights of a block under a window, whose rows are separate ranges of the ragged block. */
static void drop_block(const struct place *place)
{
    enum { PIECE = 4 * DROPPER_WORDS };
    struct dropper dropper = dropper_of(place->y, place->a->rule->dropout);
    uint16_t words[PIECE];
    const struct block *b = &place->block;
    real *weights = weights_of(place);
    for (int64_t i = 0; i < b->rows; i++)
        for (int r = 0; r < 2; r++)
            for (int64_t done = 0, n; done < b->length[r]; done += n, weights += n) {
                int64_t at =
                    place->head.ragged + (b->row + i) * place->head.segment.keys + b->start[r] + done;
                n = b->length[r] - done < PIECE ? b->length[r] - done : PIECE;
                dropper_row(&dropper, at, n, words);
                for (int64_t j = 0; j < n; j++)
                    weights[j] = words[j] >= dropper.threshold ? weights[j] : -weights[j];
            }
}

/* to = mask / (1 - rate) * x for the weights of a block; NaN stays NaN. `to` may be x. */
static void apply_dropout(const struct place *place, const real *x, real *to)
{
    real factor = dropper_of(place->y, place->a->rule->dropout).factor;
    const real *restrict weights = weights_of(place);
    for (int64_t i = 0; i < place->block.rows * place->block.columns; i++)
        to[i] = weights[i] > 0 ? x[i] * factor : x[i] - x[i];
}

/* The weights of a block after dropout, in the scratch; the weights themselves if there is no dropout. */
static const real *dropped_weights(const struct place *place)
{
    if (!place->a->drops) return weights_of(place);
    apply_dropout(place, weights_of(place), block_scratch(place));
    return block_scratch(place);
}

static void block_mix(const struct place *place)
{
    const struct attention *a = place->a;
    const struct block *b = &place->block;
    const real *used = dropped_weights(place), *value = a->value + place->head.value;
    real *out = (real *)place->y->value + place->head.out + b->row * a->out_ld;
    bool add = false;
    for (int r = 0; r < 2; used += b->length[r++]) {
        if (!b->length[r]) continue;
        tile_product(b->rows, a->value_width, b->length[r], used, b->columns,
                     value + b->start[r] * a->value_ld, a->value_ld, add, out, a->out_ld);
        add = true;
    }
}

static void block_forward(const struct place *place)
{
    block_weights(place);
    block_mix(place);
}

static void exact_mix(struct qkv_tensor *y, const struct attention *a)
{
    visit_blocks(y, a, INT64_MAX, block_mix, NULL);
}

static void exact_forward(struct qkv_tensor *y, const struct attention *a)
{
    distance_table(y, a);
    if (!a->drops) {
        visit_blocks(y, a, INT64_MAX, block_forward, a->keep_weights ? NULL : single_forward);
        return;
    }
    visit_blocks(y, a, INT64_MAX, block_weights, NULL);
    if (a->rule->window)
        visit_blocks(y, a, INT64_MAX, drop_block, NULL);
    else
        drop_all(y, a, y->saved_count, y->saved);
    exact_mix(y, a);
}

/* ---- backward ---- */

/* ds = scale w (dw - sum(dw w)). On entry `ds` holds dw, which is 0 for dropped weights. Adds ds / scale to the gradient of
 * the distance terms, and -(1 - sum(w)) sum(dw w) to that of the sink, whose weight is 1 - sum(w). */
static void score_gradients(const struct place *place, real *ds)
{
    const struct attention *a = place->a;
    const struct block *b = &place->block;
    const real *weights = weights_of(place);
    real *table =
        needs_bias_gradient(place->y) ? distance_row(place->y, a, a->heads + place->head.index) : NULL;
    real inverse = 1 / a->scale, *dsink = gradient_of(place->y->input[5]);
    for (int64_t i = 0; i < b->rows; i++, weights += b->columns, ds += b->columns) {
        real dot = row_dot(b->columns, weights, ds), left = 1;
        for (int64_t j = 0; dsink && j < b->columns; j++) left -= REAL(fabs)(weights[j]);
        if (dsink) dsink[place->head.index] -= left * dot;
        for (int64_t j = 0; j < b->columns; j++) ds[j] = a->scale * REAL(fabs)(weights[j]) * (ds[j] - dot);
        const real *from = ds;
        for (int r = 0; table && r < 2; from += b->length[r++]) {
            real *to = table + b->start[r] - position_of(place, i);
            for (int64_t j = 0; j < b->length[r]; j++) to[j] += inverse * from[j];
        }
    }
}

/* One block, with w the weights and u the weights after dropout:
 *     dv += u^T do,  du = do v^T,  dw = du * mask / (1 - rate),  ds = scale w (dw - sum(dw w)),  dq += ds k,
 *     dk += ds^T q
 * With a soft cap, ds is multiplied by the slopes of the scores, which are computed again. */
static void block_backward(const struct place *place)
{
    struct qkv_tensor *y = place->y;
    const struct attention *a = place->a;
    const struct block *b = &place->block;
    const struct head *head = &place->head;
    const real *out = (const real *)y->gradient + head->out + b->row * a->out_ld;
    const real *query = a->query + head->query + b->row * a->query_ld;
    real *dq = gradient_of(y->input[0]), *dk = gradient_of(y->input[1]), *dv = gradient_of(y->input[2]);
    real *ds = block_scratch(place), *scores = ds + b->rows * b->columns;
    real *work = a->rule->soft_cap > 0 ? scores + b->rows * b->columns : scores;
    const real *used = dv ? dropped_weights(place) : NULL; /* overwritten by dw below */
    int64_t first[2] = {0, b->length[0]};
    for (int r = 0; r < 2; r++) {
        if (!b->length[r]) continue;
        int64_t value = head->value + b->start[r] * a->value_ld;
        if (dv)
            tile_product_transposed(b->length[r], a->value_width, b->rows, used + first[r], b->columns, out,
                                    a->out_ld, dv + value, a->value_ld);
        tile_scores(b->rows, b->length[r], a->value_width, out, a->out_ld, a->value + value, a->value_ld,
                    ds + first[r], b->columns, work);
    }
    if (!dq && !dk && !needs_bias_gradient(y) && !gradient_of(y->input[5])) return;
    if (a->drops) apply_dropout(place, ds, ds); /* a weight of 0 has no gradient, dropped or not */
    score_gradients(place, ds);
    if (a->rule->soft_cap > 0) block_scores(place, scores, work);
    for (int64_t i = 0; a->rule->soft_cap > 0 && i < b->rows * b->columns; i++)
        ds[i] *= cap_slope(a->rule, scores[i]);
    for (int r = 0; r < 2; r++) {
        if (!b->length[r]) continue;
        int64_t key = head->key + b->start[r] * a->key_ld;
        if (dq)
            tile_product(b->rows, a->key_width, b->length[r], ds + first[r], b->columns, a->key + key,
                         a->key_ld, true, dq + head->query + b->row * a->query_ld, a->query_ld);
        if (dk)
            tile_product_transposed(b->length[r], a->key_width, b->rows, ds + first[r], b->columns, query,
                                    a->query_ld, dk + key, a->key_ld);
    }
}

static void exact_backward(struct qkv_tensor *y, const struct attention *a)
{
    distance_clear(y, a);
    visit_blocks(y, a, INT64_MAX, block_backward, NULL);
    distance_backward(y, a);
}

/* ---- weights for reports ---- */

static void unpack_block(const struct place *place)
{
    if (!place->a->keep_weights) block_weights(place);
    const struct block *b = &place->block;
    const real *weights = weights_of(place);
    int64_t keys = place->head.segment.keys;
    real *to = (real *)place->y->weights + place->head.ragged + b->row * keys;
    for (int64_t i = 0; i < b->rows; i++, to += keys)
        for (int r = 0; r < 2; weights += b->length[r++])
            for (int64_t j = 0; j < b->length[r]; j++) to[b->start[r] + j] = REAL(fabs)(weights[j]);
}

static void exact_unpack_weights(struct qkv_tensor *y, const struct attention *a)
{
    if (!a->keep_weights) distance_table(y, a); /* other ops have reused the scratch since forward */
    visit_blocks(y, a, INT64_MAX, unpack_block, NULL);
}

const struct qkv_attention_kernels VARIANT(qkv_attention_, exact) = {
    RULE(exact_saved), RULE(exact_scratch), exact_forward, exact_backward, exact_mix, exact_unpack_weights};

/* ---- products of the small matrices of one segment and head (attention.h) ---- */

/* ---- small products: up to 4 rows and one strip of columns of the result stay in registers while the loop over k accumulates
 * them ---- */

enum { STRIP_ROWS = 4, STRIP_VECTORS = STRIP_LANES / LANES };

/* Unrolls a loop over rows, so that the sums of the rows stay in registers. Without AVX2 the sums would not fit,
 * and unrolling would only lengthen the code. */
#ifdef __AVX2__
#    define UNROLL_ROWS _Pragma("GCC unroll 4")
#else
#    define UNROLL_ROWS
#endif
#define UNROLL_VECTORS _Pragma("GCC unroll 8")

/* Whether a strip of b and of c has complete vectors; or that of b, which is padded; or neither. */
enum strip_end { COMPLETE, PADDED, CUT };

/* The operands of a product c [.., columns] = a' [.., k] b [k, columns], or += with `add`. Element [i, l] of a' is
 * a[i * a_row + l * a_step]. */
struct small {
    int64_t columns, k;
    const real *a;
    int64_t a_row, a_step;
    const real *b;
    int64_t ldb;
    bool add;
    real *c;
    int64_t ldc;
};

/* Computes `rows` rows of c from `row` on, and as many columns as `vectors` vectors have, or fewer. Callers pass constants for
 * `rows`, `vectors` and `end`. */
static inline __attribute__((always_inline)) void
strip(const int rows, const int vectors, const enum strip_end end, const struct small *p, int64_t row)
{
    const int64_t a_row = p->a_row, a_step = p->a_step, ldb = p->ldb, columns = p->columns;
    const real *a = p->a + row * a_row, *b = p->b;
    real *c = p->c + row * p->ldc;
    vector sum[STRIP_ROWS][STRIP_VECTORS];
    UNROLL_ROWS for (int i = 0; i < rows; i++) UNROLL_VECTORS for (int v = 0; v < vectors; v++) sum[i][v] =
        (vector){0};
    for (int64_t l = 0; l < p->k; l++, b += ldb) UNROLL_VECTORS for (int v = 0; v < vectors; v++)
        {
            vector right = end == CUT ? load_first(columns - v * LANES, b + v * LANES) : load(b + v * LANES);
            UNROLL_ROWS for (int i = 0; i < rows; i++) sum[i][v] =
                vector_fused(all_lanes(a[i * a_row + l * a_step]), right, sum[i][v]);
        }
    UNROLL_ROWS for (int i = 0; i < rows; i++, c += p->ldc)
    {
        UNROLL_VECTORS for (int v = 0; end == COMPLETE && v < vectors; v++)
        {
            if (p->add) sum[i][v] += load(c + v * LANES);
            store(c + v * LANES, sum[i][v]);
        }
        for (int64_t j = 0; end != COMPLETE && j < columns; j++)
            c[j] = (p->add ? c[j] : 0) + sum[i][j / LANES][j % LANES];
    }
}

/* Computes m rows of one strip, 4 at a time, then 2, then 1. */
static inline __attribute__((always_inline)) void strips(const int vectors, const enum strip_end end,
                                                         int64_t m, const struct small *p)
{
    int64_t i = 0;
    for (; i + STRIP_ROWS <= m; i += STRIP_ROWS) strip(STRIP_ROWS, vectors, end, p, i);
    if (m - i >= 2) {
        strip(2, vectors, end, p, i);
        i += 2;
    }
    if (i < m) strip(1, vectors, end, p, i);
}

/* c [m, n] = a' b: strip by strip, the last columns vector by vector. */
static NOINLINE void small_product(int64_t m, int64_t n, struct small p)
{
    for (int64_t j = 0, done; j < n; j += done, p.b += done, p.c += done) {
        done = n - j >= STRIP_LANES ? STRIP_LANES : LANES;
        p.columns = n - j;
        if (n - j >= STRIP_LANES)
            strips(STRIP_VECTORS, COMPLETE, m, &p);
        else if (n - j >= LANES)
            strips(1, COMPLETE, m, &p);
        else
            strips(1, CUT, m, &p);
    }
}

/* ---- products of any size ---- */

void tile_product(int64_t m, int64_t n, int64_t k, const real *a, int64_t lda, const real *b, int64_t ldb,
                  bool add, real *c, int64_t ldc)
{
    if (m * n * k >= GEMM_MULTIPLICATIONS)
        gemm(false, false, m, n, k, a, lda, b, ldb, add, c, ldc);
    else
        small_product(m, n, (struct small){0, k, a, lda, 1, b, ldb, add, c, ldc});
}

void tile_product_transposed(int64_t m, int64_t n, int64_t k, const real *a, int64_t lda, const real *b,
                             int64_t ldb, real *c, int64_t ldc)
{
    if (m * n * k >= GEMM_MULTIPLICATIONS)
        gemm(true, false, m, n, k, a, lda, b, ldb, 1, c, ldc);
    else
        small_product(m, n, (struct small){0, k, a, 1, lda, b, ldb, true, c, ldc});
}

void tile_scores(int64_t m, int64_t n, int64_t k, const real *a, int64_t lda, const real *b, int64_t ldb,
                 real *c, int64_t ldc, real *work)
{
    if (m * n * k >= GEMM_MULTIPLICATIONS) {
        gemm(false, true, m, n, k, a, lda, b, ldb, 0, c, ldc);
        return;
    }
    if (m < 4) { /* few queries, as in decoding: transposing b costs more than it saves */
        for (int64_t i = 0; i < m; i++)
            for (int64_t j = 0; j < n; j++) c[i * ldc + j] = row_dot(k, a + i * lda, b + j * ldb);
        return;
    }
    int64_t width = padded_to_strips(n), l = 0;
    for (; l + LANES <= k; l += LANES)
        for (int64_t j = 0; j < width; j += LANES)
            transpose_block(n - j, b + j * ldb + l, ldb, work + l * width + j, width);
    for (; l < k; l++) {
        real *restrict to = work + l * width;
        for (int64_t j = 0; j < n; j++) to[j] = b[j * ldb + l];
        for (int64_t j = n; j < width; j++) to[j] = 0;
    }
    for (int64_t j = 0; j < n; j += STRIP_LANES) {
        const struct small p = {n - j, k, a, lda, 1, work + j, width, false, c + j, ldc};
        if (n - j >= STRIP_LANES)
            strips(STRIP_VECTORS, COMPLETE, m, &p);
        else
            strips(STRIP_VECTORS, PADDED, m, &p);
    }
}
