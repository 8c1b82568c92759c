/* Multi-head attention in one op. For every sentence and head it works on tiles in place: heads are columns
 * of the packed matrices, nothing is copied into per-head tensors. The products are small (10 x 16 x 10), so
 * they are loops over contiguous vectors here; a library call would cost more than the product. */
#include "kernels/attention.h"
#include "kernels/dropout.h"
#include "kernels/gemm.h"

/* Below this many multiplications the loops beat the library. */
enum { LIBRARY_PRODUCT = 1 << 16 };

/* c [m, n] (+)= alpha a [m, k] b [k, n]: rows of b scaled and added, so that the inner loop runs along b and
 * c. */
static void tile_product(int64_t m, int64_t n, int64_t k, real alpha, const real *a, int64_t lda,
                         const real *b, int64_t ldb, bool add, real *c, int64_t ldc)
{
    for (int64_t i = 0; i < m; i++) {
        real *restrict out = c + i * ldc;
        if (!add) memset(out, 0, (size_t)n * sizeof(real));
        for (int64_t l = 0; l < k; l++) {
            const real *restrict row = b + l * ldb;
            real factor = alpha * a[i * lda + l];
            for (int64_t j = 0; j < n; j++) out[j] += factor * row[j];
        }
    }
}

/* c [m, n] += alpha a^T b, a [k, m], b [k, n]. */
static void tile_product_transposed(int64_t m, int64_t n, int64_t k, real alpha, const real *a, int64_t lda,
                                    const real *b, int64_t ldb, real *c, int64_t ldc)
{
    for (int64_t l = 0; l < k; l++) {
        const real *restrict row = b + l * ldb;
        for (int64_t i = 0; i < m; i++) {
            real *restrict out = c + i * ldc;
            real factor = alpha * a[l * lda + i];
            for (int64_t j = 0; j < n; j++) out[j] += factor * row[j];
        }
    }
}

/* to [columns, rows] = from [rows, columns] transposed. */
static void tile_transpose(int64_t rows, int64_t columns, const real *restrict from, int64_t ld,
                           real *restrict to)
{
    for (int64_t j = 0; j < columns; j++)
        for (int64_t i = 0; i < rows; i++) to[j * rows + i] = from[i * ld + j];
}

/* c [m, n] = a [m, k] b^T, b [n, k]; `work` holds k n numbers. */
static void tile_scores(int64_t m, int64_t n, int64_t k, const real *a, int64_t lda, const real *b,
                        int64_t ldb, real *c, int64_t ldc, real *work)
{
    if (m * n * k >= LIBRARY_PRODUCT) {
        gemm(false, true, m, n, k, a, lda, b, ldb, 0, c, ldc);
    } else if (m < 4) { /* a few queries, as while decoding: transposing would cost more than it saves */
        for (int64_t i = 0; i < m; i++)
            for (int64_t j = 0; j < n; j++) c[i * ldc + j] = row_dot(k, a + i * lda, b + j * ldb);
    } else {
        tile_transpose(n, k, b, ldb, work);
        tile_product(m, n, k, 1, a, lda, work, n, false, c, ldc);
    }
}

/* The geometry of one call. */
struct attention {
    const struct qkv_options *options;
    int64_t query_rows, key_rows, heads, key_width, value_width;
    int64_t query_ld, key_ld, value_ld, out_ld;
    bool drops;
    real scale;
};

static struct attention attention_of(const struct qkv_tensor *y)
{
    const struct qkv_tensor *query = y->input[0], *key = y->input[1], *value = y->input[2];
    struct attention a = {
        .options = &y->options,
        .query_rows = query->shape.size[0],
        .key_rows = key->shape.size[0],
        .heads = y->options.heads,
        .query_ld = query->shape.size[1],
        .key_ld = key->shape.size[1],
        .value_ld = value->shape.size[1],
        .out_ld = value->shape.size[1],
        .drops = y->graph->drops_out && y->options.rate > 0,
    };
    a.key_width = a.key_ld / a.heads;
    a.value_width = a.value_ld / a.heads;
    a.scale = score_scale(y, a.key_width);
    return a;
}

static bool attention_shape(struct qkv_tensor *y)
{
    const struct qkv_tensor *query = y->input[0], *key = y->input[1], *value = y->input[2];
    if (y->options.heads < 1)
        return qkv_refuse(y, "heads is %lld, but must be at least 1", (long long)y->options.heads);
    if (!check_heads(y, query, "query") || !check_heads(y, key, "key") || !check_heads(y, value, "value"))
        return false;
    if (query->shape.size[1] != key->shape.size[1])
        return qkv_refuse(y, "query is %s, but key is %s", qkv_shape_text(query->shape),
                          qkv_shape_text(key->shape));
    if (key->shape.size[0] != value->shape.size[0])
        return qkv_refuse(y, "key is %s, but value is %s", qkv_shape_text(key->shape),
                          qkv_shape_text(value->shape));
    if (!(y->options.rate >= 0 && y->options.rate < 1))
        return qkv_refuse(y, "the dropout rate is %g, but must be at least 0 and below 1", y->options.rate);
    struct attention a = attention_of(y);
    if (!check_attention(y, a.query_rows, a.key_rows, y->input[3])) return false;
    y->shape = QKV_SHAPE(a.query_rows, a.value_ld);
    int64_t tq = longest_segment(&y->options.queries, a.query_rows),
            tk = longest_segment(&y->options.keys, a.key_rows);
    int64_t width = a.key_width > a.value_width ? a.key_width : a.value_width;
    y->scratch = 2 * tq * tk + width * tk;
    /* The weights, and behind them what dropout left of them. */
    y->saved_count = ragged_count(&y->options, a.query_rows, a.key_rows) * (a.drops ? 2 : 1);
    return true;
}

/* dropped = mask / (1 - rate) * weights over the whole ragged block. */
static void drop_weights(const struct qkv_tensor *y, int64_t count, const real *restrict weights,
                         real *restrict dropped)
{
    struct dropper dropper = dropper_of(y);
    uint16_t words[DROPPER_WORDS];
    for (int64_t block = 0; block * DROPPER_WORDS < count; block++) {
        int64_t first = block * DROPPER_WORDS;
        int64_t n = count - first < DROPPER_WORDS ? count - first : DROPPER_WORDS;
        dropper_words(&dropper, block, words);
        for (int64_t i = 0; i < n; i++)
            dropped[first + i] = words[i] >= dropper.threshold ? weights[first + i] * dropper.factor : 0;
    }
}

static void attention_forward(struct qkv_tensor *y)
{
    struct attention a = attention_of(y);
    const real *query = y->input[0]->value, *key = y->input[1]->value, *value = y->input[2]->value;
    const real *mask = y->input[3] ? y->input[3]->value : NULL;
    real *weights = y->saved, *work = scratch_of(y), *out = y->value;
    int64_t at = 0, sentences = qkv_segment_count(&a.options->queries);
    for (int64_t s = 0; s < sentences; s++) {
        struct pair p = pair_at(a.options, s, at, a.query_rows, a.key_rows);
        for (int64_t h = 0; h < a.heads; h++, at += p.queries * p.keys) {
            const real *q = query + p.query * a.query_ld + h * a.key_width;
            const real *k = key + p.key * a.key_ld + h * a.key_width;
            real *w = weights + at;
            tile_scores(p.queries, p.keys, a.key_width, q, a.query_ld, k, a.key_ld, w, p.keys, work);
            for (int64_t i = 0; i < p.queries * p.keys; i++) w[i] *= a.scale;
            for (int64_t i = 0; i < p.queries; i++)
                visible_softmax(p.keys, a.options->causal ? i + 1 : p.keys, mask ? mask + i * p.keys : NULL,
                                w + i * p.keys, w + i * p.keys);
        }
    }
    const real *used = weights;
    if (a.drops) {
        drop_weights(y, at, weights, weights + at);
        used = weights + at;
    }
    if (a.options->queries.count)
        memset(out, 0, (size_t)y->count * sizeof(real)); /* rows outside all segments */
    for (int64_t s = 0, from = 0; s < sentences; s++) {
        struct pair p = pair_at(a.options, s, from, a.query_rows, a.key_rows);
        for (int64_t h = 0; h < a.heads; h++, from += p.queries * p.keys) {
            const real *v = value + p.key * a.value_ld + h * a.value_width;
            real *o = out + p.query * a.out_ld + h * a.value_width;
            if (p.queries * p.keys * a.value_width >= LIBRARY_PRODUCT)
                gemm(false, false, p.queries, a.value_width, p.keys, used + from, p.keys, v, a.value_ld, 0, o,
                     a.out_ld);
            else
                tile_product(p.queries, a.value_width, p.keys, 1, used + from, p.keys, v, a.value_ld, false,
                             o, a.out_ld);
        }
    }
}

/* One sentence and head, with w the weights, u what dropout left of them:
 *     dv += u^T do,  du = do v^T,  dw = du * mask / (1 - rate),  ds = scale w (dw - sum(dw w)),  dq += ds k,
 *     dk += ds^T q */
static void attention_head_backward(struct qkv_tensor *y, const struct attention *a, const struct pair *p,
                                    int64_t h, const real *w, const real *u)
{
    int64_t q_at = p->query * a->query_ld + h * a->key_width, k_at = p->key * a->key_ld + h * a->key_width;
    int64_t v_at = p->key * a->value_ld + h * a->value_width, tq = p->queries, tk = p->keys;
    const real *out = (const real *)y->gradient + p->query * a->out_ld + h * a->value_width;
    real *dq = gradient_of(y->input[0]), *dk = gradient_of(y->input[1]), *dv = gradient_of(y->input[2]);
    real *ds = scratch_of(y), *work = ds + tq * tk;
    bool large = tq * tk * (a->key_width < a->value_width ? a->key_width : a->value_width) >= LIBRARY_PRODUCT;

    if (dv && large)
        gemm(true, false, tk, a->value_width, tq, u, tk, out, a->out_ld, 1, dv + v_at, a->value_ld);
    else if (dv)
        tile_product_transposed(tk, a->value_width, tq, 1, u, tk, out, a->out_ld, dv + v_at, a->value_ld);
    if (!dq && !dk) return;

    tile_scores(tq, tk, a->value_width, out, a->out_ld, (const real *)y->input[2]->value + v_at, a->value_ld,
                ds, tk, work);
    if (a->drops) {
        real factor = dropper_of(y).factor;
        /* A weight that was kept is its copy times the factor; one that is 0 has no gradient either way. */
        for (int64_t i = 0; i < tq * tk; i++) ds[i] = u[i] > 0 ? ds[i] * factor : 0;
    }
    for (int64_t i = 0; i < tq; i++) {
        real dot = row_dot(tk, w + i * tk, ds + i * tk);
        for (int64_t j = i * tk; j < (i + 1) * tk; j++) ds[j] = a->scale * w[j] * (ds[j] - dot);
    }
    const real *q = (const real *)y->input[0]->value + q_at, *k = (const real *)y->input[1]->value + k_at;
    if (dq && large)
        gemm(false, false, tq, a->key_width, tk, ds, tk, k, a->key_ld, 1, dq + q_at, a->query_ld);
    else if (dq)
        tile_product(tq, a->key_width, tk, 1, ds, tk, k, a->key_ld, true, dq + q_at, a->query_ld);
    if (dk && large)
        gemm(true, false, tk, a->key_width, tq, ds, tk, q, a->query_ld, 1, dk + k_at, a->key_ld);
    else if (dk)
        tile_product_transposed(tk, a->key_width, tq, 1, ds, tk, q, a->query_ld, dk + k_at, a->key_ld);
}

static void attention_backward(struct qkv_tensor *y)
{
    struct attention a = attention_of(y);
    const real *weights = y->saved;
    const real *used = a.drops ? weights + ragged_count(a.options, a.query_rows, a.key_rows) : weights;
    int64_t at = 0;
    for (int64_t s = 0; s < qkv_segment_count(&a.options->queries); s++) {
        struct pair p = pair_at(a.options, s, at, a.query_rows, a.key_rows);
        for (int64_t h = 0; h < a.heads; h++, at += p.queries * p.keys)
            attention_head_backward(y, &a, &p, h, weights + at, used + at);
    }
}

static const int64_t QUERY_STARTS[] = {0, 2, 3}, QUERY_LENGTHS[] = {2, 1, 3};
static const int64_t KEY_STARTS[] = {0, 1, 5}, KEY_LENGTHS[] = {1, 4, 3};
static const int64_t SQUARE_STARTS[] = {0, 3}, SQUARE_LENGTHS[] = {3, 3};
static const int64_t LONG_STARTS[] = {0, 17}, LONG_LENGTHS[] = {17, 7};
#define RAGGED .queries = {3, QUERY_STARTS, QUERY_LENGTHS}, .keys = {3, KEY_STARTS, KEY_LENGTHS}
#define SELF   .queries = {3, QUERY_STARTS, QUERY_LENGTHS}, .keys = {3, QUERY_STARTS, QUERY_LENGTHS}
#define SQUARE .queries = {2, SQUARE_STARTS, SQUARE_LENGTHS}, .keys = {2, SQUARE_STARTS, SQUARE_LENGTHS}
#define LONG   .queries = {2, LONG_STARTS, LONG_LENGTHS}, .keys = {2, LONG_STARTS, LONG_LENGTHS}

static const struct qkv_sample attention_good[] = {
    {"cross, ragged", {IN(6, 6), IN(8, 6), IN(8, 6)}, .options = {.heads = 2, RAGGED}},
    {"self", {IN(6, 4), IN(6, 4), IN(6, 4)}, .options = {.heads = 2, SELF}},
    {"causal", {IN(6, 4), IN(6, 4), IN(6, 4)}, .options = {.heads = 2, SELF, .causal = true}},
    {"wide values, scaled", {IN(6, 4), IN(8, 4), IN(8, 10)}, .options = {.heads = 2, RAGGED, .factor = 1.5}},
    {"dropout", {IN(6, 4), IN(6, 4), IN(6, 4)}, .options = {.heads = 2, SELF, .rate = 0.4}},
    {"causal dropout, odd sizes",
     {IN(24, 9), IN(24, 9), IN(24, 3)},
     .options = {.heads = 3, LONG, .causal = true, .rate = 0.1}},
    {"masked",
     {IN(6, 4), IN(6, 4), IN(6, 4), IN(3, 3)},
     .options = {.heads = 2, SQUARE},
     .constant = 8,
     .binary = 8},
    {"constant query", {IN(6, 4), IN(8, 4), IN(8, 4)}, .options = {.heads = 2, RAGGED}, .constant = 1},
    {"constant value", {IN(6, 4), IN(8, 4), IN(8, 4)}, .options = {.heads = 2, RAGGED}, .constant = 4},
    {"rows outside", {IN(9, 4), IN(9, 4), IN(9, 4)}, .options = {.heads = 1, RAGGED}},
    {"whole, library products", {IN(48, 32), IN(48, 32), IN(48, 32)}, .options = {.heads = 1}},
    {0},
};
static const struct qkv_sample attention_bad[] = {
    {"heads",
     {IN(6, 5), IN(8, 5), IN(8, 6)},
     .options = {.heads = 2, RAGGED},
     .message = "query is [6, 5], but its width must be a multiple of 2 heads"},
    {"key width",
     {IN(6, 6), IN(8, 4), IN(8, 4)},
     .options = {.heads = 2, RAGGED},
     .message = "query is [6, 6], but key is [8, 4]"},
    {"value rows",
     {IN(6, 4), IN(8, 4), IN(7, 4)},
     .options = {.heads = 2, RAGGED},
     .message = "key is [8, 4], but value is [7, 4]"},
    {"causal",
     {IN(6, 4), IN(8, 4), IN(8, 4)},
     .options = {.heads = 2, RAGGED, .causal = true},
     .message = "causal attention needs as many queries as keys, but segment 0 has 2 and 1"},
    {"rate",
     {IN(6, 4), IN(8, 4), IN(8, 4)},
     .options = {.heads = 2, RAGGED, .rate = 1},
     .message = "the dropout rate is 1"},
    {"mask",
     {IN(6, 4), IN(6, 4), IN(6, 4), IN(3, 2)},
     .options = {.heads = 2, SQUARE},
     .constant = 8,
     .message = "mask is [3, 2], but segment 0 has 3 queries and 3 keys"},
    {0},
};
OP(attention, .inputs = 4, .optional = 8, .drops = true, .shape = attention_shape,
   .forward = attention_forward, .backward = attention_backward, .good = SAMPLES(attention_good),
   .bad = SAMPLES(attention_bad));
