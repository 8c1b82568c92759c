/* The exact kernel of fused attention: computes the weights of one block (struct block) after the other, and
 * keeps them all if there is a backward. A block has all queries and keys of a sentence and head; under a
 * window, a few queries with the keys that they see. */
#include "kernels/attention.h"
#include "kernels/gemm.h"

enum { SHORT_ROW = 64 };

static int64_t block_rows(const struct attention *a, const struct sentence *p)
{
    return a->rule->window ? window_rows(a->rule) : p->queries;
}

/* A block, and the offset of its matrix in y->saved: 0 for all blocks if the weights are not kept. */
struct block_place {
    struct head head;
    struct block block;
    int64_t at;
};

typedef void visitor(struct qkv_tensor *y, const struct attention *a, const struct block_place *place);

/* A sentence with one query that sees all keys: every step of decoding. */
static bool is_single(const struct attention *a, const struct sentence *p)
{
    return p->queries == 1 && !a->mask.value && !a->rule->window && !qkv_attention_adds_distance(a->rule);
}

/* Calls `visit` for every block of every head. If `single` is not NULL, it is called instead for
 * sentences with one query: once for all heads, with place->head set to head 0 and place->block not set. */
static NOINLINE void visit_blocks(struct qkv_tensor *y, const struct attention *a, visitor *visit,
                                  visitor *single)
{
    struct block_place place = {.at = 0};
    int64_t ragged = 0;
    for (int64_t s = 0; s < qkv_segment_count(&a->options->queries); s++) {
        struct sentence p = sentence_at(a->options, s, ragged, a->query_rows, a->key_rows);
        if (single && is_single(a, &p)) {
            place.head = head_at(a, &p, 0);
            single(y, a, &place);
            ragged += a->heads * p.keys;
            continue;
        }
        int64_t maximum = block_rows(a, &p);
        for (int64_t h = 0; h < a->heads; h++, ragged += p.queries * p.keys) {
            place.head = head_at(a, &p, h);
            for (int64_t row = 0; row < p.queries; row += place.block.rows) {
                place.block = block_at(a->rule, &p, row, maximum);
                visit(y, a, &place);
                if (a->keep_weights) place.at += place.block.rows * place.block.columns;
            }
        }
    }
}

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
        struct sentence p = sentence_at(a->options, s, 0, a->query_rows, a->key_rows);
        struct block b;
        for (int64_t row = 0; row < p.queries; row += b.rows) {
            b = block_at(a->rule, &p, row, block_rows(a, &p));
            int64_t count = b.rows * b.columns;
            sizes.weights += a->heads * count;
            if (count > sizes.largest) sizes.largest = count;
            if (b.columns > sizes.columns) sizes.columns = b.columns;
        }
    }
    return sizes;
}

/* Size of y->saved: all weights (dropped weights are stored negated), or one block of weights if they are not kept. */
static int64_t exact_saved(const struct attention *a)
{
    struct block_sizes sizes = block_sizes_of(a);
    return a->keep_weights ? sizes.weights : sizes.largest;
}

/* Size of the scratch: the two tables of distance terms, one block, and the workspace of tile_scores. */
static int64_t exact_scratch(const struct attention *a)
{
    struct block_sizes sizes = block_sizes_of(a);
    int64_t width = a->key_width > a->value_width ? a->key_width : a->value_width;
    return sizes.largest + tile_workspace(sizes.columns, width) + distance_count(a);
}

static real *block_scratch(const struct qkv_tensor *y, const struct attention *a)
{
    return (real *)y->graph->scratch + distance_count(a);
}

/* ---- forward ---- */

/* Adds the distance terms to the scores of row i of a block. */
static void add_distance_terms(const struct qkv_tensor *y, const struct attention *a,
                               const struct block_place *place, int64_t i, real *row)
{
    const struct block *b = &place->block;
    const struct sentence *p = &place->head.sentence;
    int64_t position = p->keys - p->queries + b->row + i;
    const real *table = distance_row(y, a, place->head.index);
    for (int r = 0; r < 2; r++) {
        const real *from = table + b->start[r] - position;
        for (int64_t j = 0; j < b->length[r]; j++) row[j] += from[j];
        row += b->length[r];
    }
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
static void short_heads(struct qkv_tensor *y, const struct attention *a, const struct sentence *p,
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
static int64_t all_short_heads(struct qkv_tensor *y, const struct attention *a, const struct sentence *p)
{
    int64_t h = 0;
    if (p->keys <= SHORT_ROW && a->key_width % SUM_LANES == 0 && a->value_width % SUM_LANES == 0)
        for (; h + HEADS <= a->heads; h += HEADS) short_heads(y, a, p, h);
    return h;
}
#else
static int64_t all_short_heads(struct qkv_tensor *y, const struct attention *a, const struct sentence *p)
{
    (void)y, (void)a, (void)p;
    return 0;
}
#endif

static void single_forward(struct qkv_tensor *y, const struct attention *a, const struct block_place *place)
{
    const struct sentence *p = &place->head.sentence;
    real *weights = y->saved;
    for (int64_t h = all_short_heads(y, a, p); h < a->heads; h++) {
        struct head head = head_at(a, p, h);
        const real *query = a->query + head.query, *key = a->key + head.key;
        for (int64_t j = 0; j < p->keys; j++)
            weights[j] = a->scale * row_dot(a->key_width, query, key + j * a->key_ld);
        row_softmax(p->keys, weights, weights);
        tile_product(1, a->value_width, p->keys, weights, p->keys, a->value + head.value, a->value_ld, false,
                     (real *)y->value + head.out, a->out_ld);
    }
}

static void block_weights(struct qkv_tensor *y, const struct attention *a, const struct block_place *place)
{
    const struct block *b = &place->block;
    const struct head *head = &place->head;
    const struct sentence *p = &head->sentence;
    const real *query = a->query + head->query + b->row * a->query_ld, *key = a->key + head->key;
    real *weights = (real *)y->saved + place->at, *column = weights;
    for (int r = 0; r < 2; column += b->length[r++])
        if (b->length[r])
            tile_scores(b->rows, b->length[r], a->key_width, query, a->query_ld,
                        key + b->start[r] * a->key_ld, a->key_ld, column, b->columns, block_scratch(y, a));
    for (int64_t i = 0; i < b->rows * b->columns; i++) weights[i] *= a->scale;
    for (int64_t i = 0; qkv_attention_adds_distance(a->rule) && i < b->rows; i++)
        add_distance_terms(y, a, place, i, weights + i * b->columns);
    if (!a->mask.value && !a->rule->window && b->columns < SHORT_ROW) {
        bool causal = a->rule->causal;
        short_softmax(b->rows, b->columns, causal ? p->keys - p->queries + b->row + 1 : b->columns, causal,
                      weights);
        return;
    }
    for (int64_t i = 0; i < b->rows; i++) {
        real *row = weights + i * b->columns;
        struct mask mask = mask_row(a->mask, p, b->row + i);
        struct span span[2];
        spans_of(visible_in_block(a->rule, p, b, i), 0, b->columns, mask, span);
        /* Column length[0], the first of range 1, is key start[1]. */
        if (mask.value) span[1].mask.value = mask.value + b->start[1] - b->length[0];
        masked_softmax(b->columns, span, row, row);
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
static void drop_block(struct qkv_tensor *y, const struct attention *a, const struct block_place *place)
{
    enum { PIECE = 4 * DROPPER_WORDS };
    struct dropper dropper = dropper_of(y, a->rule->dropout);
    uint16_t words[PIECE];
    const struct block *b = &place->block;
    int64_t keys = place->head.sentence.keys;
    real *weights = (real *)y->saved + place->at;
    for (int64_t i = 0; i < b->rows; i++)
        for (int r = 0; r < 2; r++)
            for (int64_t done = 0, n; done < b->length[r]; done += n, weights += n) {
                n = b->length[r] - done < PIECE ? b->length[r] - done : PIECE;
                dropper_row(&dropper, place->head.ragged + (b->row + i) * keys + b->start[r] + done, n,
                            words);
                for (int64_t j = 0; j < n; j++)
                    weights[j] = words[j] >= dropper.threshold ? weights[j] : -weights[j];
            }
}

/* u = mask / (1 - rate) * weights, in `buffer`; the weights themselves if there is no dropout. */
static const real *dropped_weights(const struct qkv_tensor *y, const struct attention *a, int64_t count,
                                   const real *restrict weights, real *restrict buffer)
{
    if (!a->drops) return weights;
    real factor = dropper_of(y, a->rule->dropout).factor;
    for (int64_t i = 0; i < count; i++) /* NaN stays NaN */
        buffer[i] = weights[i] > 0 ? weights[i] * factor : weights[i] - weights[i];
    return buffer;
}

static void block_mix(struct qkv_tensor *y, const struct attention *a, const struct block_place *place)
{
    const struct block *b = &place->block;
    const real *used = dropped_weights(y, a, b->rows * b->columns, (const real *)y->saved + place->at,
                                       block_scratch(y, a)),
               *value = a->value + place->head.value;
    real *out = (real *)y->value + place->head.out + b->row * a->out_ld;
    bool add = false;
    for (int r = 0; r < 2; used += b->length[r++]) {
        if (!b->length[r]) continue;
        tile_product(b->rows, a->value_width, b->length[r], used, b->columns,
                     value + b->start[r] * a->value_ld, a->value_ld, add, out, a->out_ld);
        add = true;
    }
}

static void block_forward(struct qkv_tensor *y, const struct attention *a, const struct block_place *place)
{
    block_weights(y, a, place);
    block_mix(y, a, place);
}

static void exact_mix(struct qkv_tensor *y, const struct attention *a)
{
    visit_blocks(y, a, block_mix, NULL);
}

static void exact_forward(struct qkv_tensor *y, const struct attention *a)
{
    distance_table(y, a);
    if (!a->drops) {
        visit_blocks(y, a, block_forward, a->keep_weights ? NULL : single_forward);
        return;
    }
    visit_blocks(y, a, block_weights, NULL);
    if (a->rule->window)
        visit_blocks(y, a, drop_block, NULL);
    else
        drop_all(y, a, y->saved_count, y->saved);
    exact_mix(y, a);
}

/* ---- backward ---- */

/* ds = scale w (dw - sum(dw w)). On entry `ds` holds dw, which is 0 for dropped weights. Adds ds / scale to the gradient of
 * the distance terms. */
static void score_gradients(const struct qkv_tensor *y, const struct attention *a,
                            const struct block_place *place, const real *weights, real *ds)
{
    const struct block *b = &place->block;
    int64_t position = place->head.sentence.keys - place->head.sentence.queries + b->row;
    real *table = needs_bias_gradient(y) ? distance_row(y, a, a->heads + place->head.index) : NULL;
    real inverse = 1 / a->scale;
    for (int64_t i = 0; i < b->rows; i++, weights += b->columns, ds += b->columns) {
        real dot = row_dot(b->columns, weights, ds);
        for (int64_t j = 0; j < b->columns; j++) ds[j] = a->scale * REAL(fabs)(weights[j]) * (ds[j] - dot);
        const real *from = ds;
        for (int r = 0; table && r < 2; from += b->length[r++]) {
            real *to = table + b->start[r] - position - i;
            for (int64_t j = 0; j < b->length[r]; j++) to[j] += inverse * from[j];
        }
    }
}

/* One block, with w the weights and u the weights after dropout:
 *     dv += u^T do,  du = do v^T,  dw = du * mask / (1 - rate),  ds = scale w (dw - sum(dw w)),  dq += ds k,
 *     dk += ds^T q */
static void block_backward(struct qkv_tensor *y, const struct attention *a, const struct block_place *place)
{
    const struct block *b = &place->block;
    const struct head *head = &place->head;
    const real *weights = (const real *)y->saved + place->at;
    const real *out = (const real *)y->gradient + head->out + b->row * a->out_ld;
    const real *query = a->query + head->query + b->row * a->query_ld;
    real *dq = gradient_of(y->input[0]), *dk = gradient_of(y->input[1]), *dv = gradient_of(y->input[2]);
    real *ds = block_scratch(y, a), *work = ds + b->rows * b->columns;
    const real *used =
        dv ? dropped_weights(y, a, b->rows * b->columns, weights, ds) : NULL; /* overwritten by dw below */
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
    if (!dq && !dk && !needs_bias_gradient(y)) return;
    if (a->drops) {
        real factor = dropper_of(y, a->rule->dropout).factor;
        /* A weight of 0 has no gradient, dropped or not, unless that is NaN. */
        for (int64_t i = 0; i < b->rows * b->columns; i++)
            ds[i] = weights[i] > 0 ? ds[i] * factor : ds[i] - ds[i];
    }
    score_gradients(y, a, place, weights, ds);
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
    visit_blocks(y, a, block_backward, NULL);
    distance_backward(y, a);
}

/* ---- weights for reports ---- */

static void unpack_block(struct qkv_tensor *y, const struct attention *a, const struct block_place *place)
{
    if (!a->keep_weights) block_weights(y, a, place);
    const struct block *b = &place->block;
    const real *weights = (const real *)y->saved + place->at;
    int64_t keys = place->head.sentence.keys;
    real *to = (real *)y->weights + place->head.ragged + b->row * keys;
    for (int64_t i = 0; i < b->rows; i++, to += keys)
        for (int r = 0; r < 2; weights += b->length[r++])
            for (int64_t j = 0; j < b->length[r]; j++) to[b->start[r] + j] = REAL(fabs)(weights[j]);
}

static void exact_unpack_weights(struct qkv_tensor *y, const struct attention *a)
{
    if (!a->keep_weights) distance_table(y, a); /* other ops have reused the scratch since forward */
    visit_blocks(y, a, unpack_block, NULL);
}

const struct qkv_attention_kernels VARIANT(qkv_attention_, exact) = {
    RULE(exact_saved), RULE(exact_scratch), exact_forward, exact_backward, exact_mix, exact_unpack_weights};

/* ---- products of the small matrices of one sentence and head (attention.h) ---- */

/* ---- small products: up to 4 rows and one vector of columns of the result stay in registers while
 * the loop over k accumulates them ---- */

enum { STRIP_ROWS = 4 };

/* Unrolls a loop over rows, so that the sums of the rows stay in registers. Without AVX2 the sums would not fit,
 * and unrolling would only lengthen the code. */
#ifdef __AVX2__
#    define UNROLL_ROWS _Pragma("GCC unroll 4")
#else
#    define UNROLL_ROWS
#endif

/* strip16, strip8, strip4: c [rows, columns] = a' b; with `add`, c += a' b. b [k, lanes] has as many
 * columns as the name says; c may have fewer. Element [i, l] of a' is a[i * a_row + l * a_step].
 * Callers pass a constant for `rows`. type: a vector of at most `lanes` lanes. */
#define STRIP(lanes, type, type_fused)                                                                       \
    static inline __attribute__((always_inline)) void strip##lanes(                                          \
        const int rows, int64_t columns, int64_t k, const real *a, int64_t a_row, int64_t a_step,            \
        const real *b, int64_t ldb, bool add, real *c, int64_t ldc)                                          \
    {                                                                                                        \
        enum { WIDTH = sizeof(type) / sizeof(real), PARTS = lanes / WIDTH };                                 \
        type sum[STRIP_ROWS][PARTS];                                                                         \
        UNROLL_ROWS for (int i = 0; i < rows; i++) _Pragma("GCC unroll 8") for (int p = 0; p < PARTS; p++)   \
            sum[i][p] = (type){0};                                                                           \
        for (int64_t l = 0; l < k; l++) _Pragma("GCC unroll 8") for (int p = 0; p < PARTS; p++)              \
            {                                                                                                \
                type row = *(const type *)(b + l * ldb + p * WIDTH);                                         \
                UNROLL_ROWS for (int i = 0; i < rows; i++) sum[i][p] =                                       \
                    type_fused(a[i * a_row + l * a_step] - (type){0}, row, sum[i][p]);                       \
            }                                                                                                \
        UNROLL_ROWS for (int i = 0; i < rows; i++)                                                           \
        {                                                                                                    \
            if (columns == lanes) {                                                                          \
                _Pragma("GCC unroll 8") for (int p = 0; p < PARTS; p++)                                      \
                {                                                                                            \
                    type *to = (type *)(c + i * ldc + p * WIDTH);                                            \
                    if (add) sum[i][p] += *to;                                                               \
                    *to = sum[i][p];                                                                         \
                }                                                                                            \
                continue;                                                                                    \
            }                                                                                                \
            for (int64_t j = 0; j < columns; j++)                                                            \
                c[i * ldc + j] = (add ? c[i * ldc + j] : 0) + sum[i][j / WIDTH][j % WIDTH];                  \
        }                                                                                                    \
    }
STRIP(16, vector, vector_fused)
STRIP(8, vector_8, vector_8_fused)
STRIP(4, vector_4, vector_4_fused)
#undef STRIP

/* Computes c [m, columns], one strip of columns, in blocks of 4 rows, then 2, then 1. */
#define STRIPS(lanes, m, columns, k, a, a_row, a_step, b, ldb, add, c, ldc)                                  \
    do {                                                                                                     \
        int64_t i_ = 0;                                                                                      \
        for (; i_ + STRIP_ROWS <= (m); i_ += STRIP_ROWS)                                                     \
            strip##lanes(STRIP_ROWS, columns, k, (a) + i_ * (a_row), a_row, a_step, b, ldb, add,             \
                         (c) + i_ * (ldc), ldc);                                                             \
        if ((m)-i_ >= 2) {                                                                                   \
            strip##lanes(2, columns, k, (a) + i_ * (a_row), a_row, a_step, b, ldb, add, (c) + i_ * (ldc),    \
                         ldc);                                                                               \
            i_ += 2;                                                                                         \
        }                                                                                                    \
        if (i_ < (m))                                                                                        \
            strip##lanes(1, columns, k, (a) + i_ * (a_row), a_row, a_step, b, ldb, add, (c) + i_ * (ldc),    \
                         ldc);                                                                               \
    } while (0)

/* c [m, n] = a' b; with `add`, c += a' b. a' as for strip16, b [k, n]. */
static NOINLINE void small_product(int64_t m, int64_t n, int64_t k, const real *a, int64_t a_row,
                                   int64_t a_step, const real *b, int64_t ldb, bool add, real *c, int64_t ldc)
{
    int64_t j = 0;
    for (; j + 16 <= n; j += 16) STRIPS(16, m, 16, k, a, a_row, a_step, b + j, ldb, add, c + j, ldc);
    if (j + 8 <= n) {
        STRIPS(8, m, 8, k, a, a_row, a_step, b + j, ldb, add, c + j, ldc);
        j += 8;
    }
    if (j + 4 <= n) {
        STRIPS(4, m, 4, k, a, a_row, a_step, b + j, ldb, add, c + j, ldc);
        j += 4;
    }
    for (; j < n; j++)
        for (int64_t i = 0; i < m; i++) {
            real sum = 0;
            for (int64_t l = 0; l < k; l++) sum = fused(a[i * a_row + l * a_step], b[l * ldb + j], sum);
            c[i * ldc + j] = (add ? c[i * ldc + j] : 0) + sum;
        }
}

/* ---- products of any size ---- */

void tile_product(int64_t m, int64_t n, int64_t k, const real *a, int64_t lda, const real *b, int64_t ldb,
                  bool add, real *c, int64_t ldc)
{
    if (m * n * k >= GEMM_MULTIPLICATIONS)
        gemm(false, false, m, n, k, a, lda, b, ldb, add, c, ldc);
    else
        small_product(m, n, k, a, lda, 1, b, ldb, add, c, ldc);
}

void tile_product_transposed(int64_t m, int64_t n, int64_t k, const real *a, int64_t lda, const real *b,
                             int64_t ldb, real *c, int64_t ldc)
{
    if (m * n * k >= GEMM_MULTIPLICATIONS)
        gemm(true, false, m, n, k, a, lda, b, ldb, 1, c, ldc);
    else
        small_product(m, n, k, a, 1, lda, b, ldb, true, c, ldc);
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
    for (int64_t j = 0; j < n; j += 16) {
        int64_t columns = n - j < 16 ? n - j : 16;
        STRIPS(16, m, columns, k, a, lda, 1, work + j, width, false, c + j, ldc);
    }
}
