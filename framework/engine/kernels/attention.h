/* Code shared by the fused attention op and the composed ops: the layout of ragged blocks, softmax over visible keys, and
 * shape checks.
 *
 * A ragged block holds one number per query, key and head: segment by segment, head by head, a [Tq, Tk]
 * matrix. */
#pragma once

#include "graph/attention_rule.h"
#include "kernels/kernel.h"
#include "kernels/vectors.h"

/* One segment: its rows, and where its H matrices [Tq, Tk] start in the ragged block. */
struct segment {
    int64_t query, queries; /* first query row, and their number Tq */
    int64_t key, keys;      /* first key row, and their number Tk */
    int64_t ragged;
};

/* Numbers of the ragged block: the sum of H Tq Tk over the segments. */
static inline int64_t ragged_count(const struct qkv_options *options, int64_t query_rows, int64_t key_rows)
{
    int64_t total = 0;
    for (int64_t s = 0; s < qkv_segment_count(&options->queries); s++)
        total += options->attention.heads * qkv_segment_length(&options->queries, s, query_rows) *
                 qkv_segment_length(&options->keys, s, key_rows);
    return total;
}

static inline struct segment segment_at(const struct qkv_options *options, int64_t s, int64_t ragged,
                                        int64_t query_rows, int64_t key_rows)
{
    return (struct segment){
        .query = qkv_segment_start(&options->queries, s),
        .queries = qkv_segment_length(&options->queries, s, query_rows),
        .key = qkv_segment_start(&options->keys, s),
        .keys = qkv_segment_length(&options->keys, s, key_rows),
        .ragged = ragged,
    };
}

/* The key and value head that query head h uses. */
static inline int64_t key_head(const struct qkv_attention_rule *rule, int64_t h)
{
    return h / (rule->heads / qkv_attention_key_value_heads(rule));
}

static inline int64_t longest_segment(const struct qkv_segments *segments, int64_t rows)
{
    int64_t longest = 0;
    for (int64_t s = 0; s < qkv_segment_count(segments); s++) {
        int64_t length = qkv_segment_length(segments, s, rows);
        if (length > longest) longest = length;
    }
    return longest;
}

/* The scale of the scores: the rule's scale, or 1 / sqrt(width) if that is 0. */
static inline real score_scale(const struct qkv_tensor *y, int64_t width)
{
    double given = y->options.attention.scale;
    return (real)(given > 0 || given < 0 ? given : 1.0 / sqrt((double)width));
}

/* The soft cap of n scaled scores: cap tanh(score / cap). */
static inline void cap_scores(const struct qkv_attention_rule *rule, int64_t n, real *restrict scores)
{
    real cap = (real)rule->soft_cap;
    for (int64_t i = 0; cap > 0 && i < n; i++) scores[i] = cap * fast_tanh(scores[i] / cap);
}

/* The derivative of a capped score. */
static inline real cap_slope(const struct qkv_attention_rule *rule, real capped)
{
    real share = capped / (real)rule->soft_cap;
    return 1 - share * share;
}

/* ---- softmax over the visible keys ---- */

/* The keys that query i of a segment sees. */
static inline struct qkv_visible_keys visible_to(const struct qkv_attention_rule *rule,
                                                 const struct segment *p, int64_t i)
{
    return qkv_attention_visible(rule, p->keys - p->queries + i, p->keys);
}

/* The mask of an attention op, or a row of it: the values of all keys of a segment for one query. */
struct mask {
    const real *value; /* NULL: no mask */
    bool of_keys;      /* [Nk], the same for all queries; otherwise [Tq, Tk], the same for all segments */
    real hidden;       /* the value of a hidden key, 0 or -infinity; that of a visible key is larger */
};

static inline struct mask mask_of(const struct qkv_tensor *y, const struct qkv_tensor *mask)
{
    if (!mask) return (struct mask){0};
    bool additive = y->options.attention.mask_values == QKV_MASK_VALUES_ADDITIVE;
    return (struct mask){mask->value, mask->shape.rank == 1, additive ? (real)-INFINITY : 0};
}

/* The row of the mask for query i of a segment. */
static inline struct mask mask_row(struct mask mask, const struct segment *p, int64_t i)
{
    if (mask.value) mask.value += mask.of_keys ? p->key : i * p->keys;
    return mask;
}

/* Makes the graph fail if the mask has values other than those of its convention (enum qkv_mask_values). */
static inline void check_mask_values(struct qkv_tensor *y, const struct qkv_tensor *tensor)
{
    struct mask mask = mask_of(y, tensor);
    bool additive = mask.hidden < 0;
    real visible = additive ? 0 : 1;
    for (int64_t i = 0; mask.value && i < tensor->count; i++)
        if (!(mask.value[i] == visible || mask.value[i] == mask.hidden)) {
            qkv_refuse(y, "element %lld of the mask is %g, but must be %s", (long long)i,
                       (double)mask.value[i],
                       additive ? "0 or -infinity (mask_values is additive)"
                                : "0 or 1 (mask_values is binary; masks of 0 and -infinity are additive)");
            return;
        }
}

/* Columns from .. to - 1 of a row, except those that the mask hides, if there is one. */
struct span {
    int64_t from, to;
    struct mask mask; /* a row, from the key of column 0 on */
};

/* The visible keys of a row among keys first .. first + count - 1, as columns: column 0 is key `first`. Two spans,
 * either of which may be empty. `mask` is the row of the mask. */
static inline void spans_of(struct qkv_visible_keys visible, int64_t first, int64_t count, struct mask mask,
                            struct span span[2])
{
    int64_t end[2] = {visible.global_end - first, visible.to - first},
            start[2] = {-first, visible.from - first};
    if (mask.value) mask.value += first;
    for (int k = 0; k < 2; k++) {
        int64_t from = start[k] < 0 ? 0 : start[k] < count ? start[k] : count;
        int64_t to = end[k] < count ? end[k] : count;
        span[k] = (struct span){from, to > from ? to : from, mask};
    }
}

/* The maximum of a span; -infinity if it is empty. */
static inline real span_maximum(struct span span, const real *x)
{
    real maximum = (real)-INFINITY;
    if (span.from == span.to) return maximum;
    if (!span.mask.value) return row_maximum(span.to - span.from, x + span.from);
    for (int64_t j = span.from; j < span.to; j++)
        if (span.mask.value[j] > span.mask.hidden && x[j] > maximum) maximum = x[j];
    return maximum;
}

/* to = exp(from - shift) in the span, 0 where the mask hides a key; returns the sum. */
static inline real span_exp(struct span span, const real *from, real shift, real *to)
{
    if (!span.mask.value) return row_exp(span.to - span.from, from + span.from, shift, to + span.from);
    real sum = 0;
    if (shift == (real)-INFINITY) shift = 0; /* as row_exp */
    for (int64_t j = span.from; j < span.to; j++) {
        to[j] = span.mask.value[j] > span.mask.hidden ? fast_exp_nonpositive(from[j] - shift) : 0;
        sum += to[j];
    }
    return sum;
}

/* Zeroes the columns outside both spans. */
static inline void zero_hidden(int64_t count, const struct span span[2], real *x)
{
    memset(x, 0, (size_t)span[0].from * sizeof(real));
    if (span[1].from > span[0].to)
        memset(x + span[0].to, 0, (size_t)(span[1].from - span[0].to) * sizeof(real));
    memset(x + span[1].to, 0, (size_t)(count - span[1].to) * sizeof(real));
}

/* The factor that makes weights of exponentials, of which `sum` is the sum: 0 if no key is visible. If all scores are
 * -infinity, it is infinite, and the weights, 0 times that, are NaN as those of softmax. */
static inline real inverse_sum(real sum, const struct span span[2])
{
    bool hides_all = sum == 0;
    for (int k = 0; hides_all && k < 2; k++)
        for (int64_t j = span[k].from; j < span[k].to; j++)
            hides_all &= span[k].mask.value && !(span[k].mask.value[j] > span[k].mask.hidden);
    return hides_all ? 0 : 1 / sum;
}

/* The score of the sink of head h; -infinity without sink. */
static inline real sink_of(const struct qkv_tensor *sink, int64_t h)
{
    return sink ? ((const real *)sink->value)[h] : (real)-INFINITY;
}

/* Softmax of one row of scores over both spans, and a sink, whose score is -infinity if there is none; other columns become 0. A
 * row without visible keys becomes all 0. `from` and `to` may be the same. */
static inline void masked_softmax(int64_t keys, const struct span span[2], real sink, const real *from,
                                  real *to)
{
    real maximum = span_maximum(span[0], from), other = span_maximum(span[1], from), sum = 0;
    maximum = other > maximum ? other : maximum;
    if (sink > maximum) maximum = sink;
    for (int k = 0; k < 2; k++) sum += span_exp(span[k], from, maximum, to);
    if (!(sink <= (real)-INFINITY)) sum += fast_exp(sink - maximum); /* also NaN */
    real inverse = inverse_sum(sum, span);
    for (int k = 0; k < 2; k++)
        for (int64_t j = span[k].from; j < span[k].to; j++) to[j] *= inverse;
    zero_hidden(keys, span, to);
}

/* ---- distance terms of a score ---- */

/* The distance term of a score (ALiBi and bias): for head h and a key `offset` positions after the query. */
static inline real distance_term(const struct qkv_tensor *y, const struct qkv_tensor *bias, int64_t offset,
                                 int64_t h)
{
    const struct qkv_attention_rule *rule = &y->options.attention;
    real term = 0;
    if (rule->alibi) term -= (real)(qkv_attention_slope(rule, h) * fabs((double)offset));
    if (bias) term += ((const real *)bias->value)[qkv_attention_bucket(rule, offset) * rule->heads + h];
    return term;
}

/* ---- shape rules ---- */

/* The bias is [buckets, heads] if the rule has buckets, and absent otherwise. */
static inline bool check_bias(struct qkv_tensor *y, const struct qkv_tensor *bias)
{
    const struct qkv_attention_rule *rule = &y->options.attention;
    if (!bias && !rule->buckets) return true;
    if (!bias)
        return qkv_refuse(
            y,
            "there are %lld buckets, but no bias: set attention.bias to a tensor [%lld, %lld], or "
            "give the layer relative positions",
            (long long)rule->buckets, (long long)rule->buckets, (long long)rule->heads);
    if (bias->shape.rank == 2 && bias->shape.size[0] == rule->buckets && bias->shape.size[1] == rule->heads)
        return true;
    return qkv_refuse(y, "bias is %s, but must be [%lld, %lld]: %lld buckets by %lld heads",
                      qkv_shape_text(bias->shape), (long long)rule->buckets, (long long)rule->heads,
                      (long long)rule->buckets, (long long)rule->heads);
}

/* Checks one segment: it has keys, it has no more queries than keys if the rule depends on positions, and a mask [Tq, Tk]
 * fits it. */
static inline bool check_segment(struct qkv_tensor *y, int64_t s, int64_t tq, int64_t tk,
                                 const struct qkv_tensor *mask)
{
    const struct qkv_attention_rule *rule = &y->options.attention;
    if (tq > 0 && tk < 1) return qkv_refuse(y, "segment %lld has queries, but no keys", (long long)s);
    const char *kind = rule->causal                        ? "causal attention needs"
                       : rule->window                      ? "a window needs"
                       : qkv_attention_adds_distance(rule) ? "attention by distance needs"
                                                           : NULL;
    if (kind && tq > tk)
        return qkv_refuse(y, "%s no more queries than keys, but segment %lld has %lld and %lld", kind,
                          (long long)s, (long long)tq, (long long)tk);
    if (mask && mask->shape.rank == 2 && (mask->shape.size[0] != tq || mask->shape.size[1] != tk))
        return qkv_refuse(y, "mask is %s, but segment %lld has %lld queries and %lld keys",
                          qkv_shape_text(mask->shape), (long long)s, (long long)tq, (long long)tk);
    return true;
}

/* Bound on the number of rows if no tensor determines it. */
#define ANY_ROWS (INT64_MAX / 2)

/* The mask is [Tq, Tk], which check_segment tests, or [Nk]. */
static inline bool check_mask(struct qkv_tensor *y, int64_t key_rows, const struct qkv_tensor *mask)
{
    if (!mask) return true;
    if (mask->needs_gradient) return qkv_refuse(y, "the mask must not need a gradient");
    if (mask->shape.rank == 2) return true;
    if (mask->shape.rank == 1 && key_rows == ANY_ROWS)
        return qkv_check_segments(y, &y->options.keys, mask->count, "keys with a mask");
    if (mask->shape.rank == 1 && mask->count == key_rows) return true;
    return qkv_refuse(
        y, "mask is %s, but must be [queries, keys] of every sentence or [%lld], a number per row of keys",
        qkv_shape_text(mask->shape), (long long)key_rows);
}

/* Checks that a tensor can have as many elements as the ragged block. */
static inline bool check_ragged_count(struct qkv_tensor *y, int64_t query_rows, int64_t key_rows)
{
    const struct qkv_options *options = &y->options;
    int64_t heads = options->attention.heads, total = 0;
    for (int64_t s = 0; s < qkv_segment_count(&options->queries); s++) {
        int64_t queries = qkv_segment_length(&options->queries, s, query_rows), pairs;
        if (__builtin_mul_overflow(queries, qkv_segment_length(&options->keys, s, key_rows), &pairs) ||
            __builtin_mul_overflow(pairs, heads, &pairs) || pairs > QKV_MAX_ELEMENTS - total)
            return qkv_refuse(
                y,
                "%lld heads of segment %lld and those before it have more than %lld pairs of query and key",
                (long long)heads, (long long)s, (long long)QKV_MAX_ELEMENTS);
        total += pairs;
    }
    return true;
}

/* Checks that segments and mask fit the rule and the rows. For the shape rules of all attention ops. */
static inline bool check_attention(struct qkv_tensor *y, int64_t query_rows, int64_t key_rows,
                                   const struct qkv_tensor *mask)
{
    const struct qkv_options *options = &y->options;
    int64_t queries = qkv_segment_count(&options->queries), keys = qkv_segment_count(&options->keys);
    if (!qkv_check_segments(y, &options->queries, query_rows, "queries") ||
        !qkv_check_segments(y, &options->keys, key_rows, "keys") ||
        !qkv_check_disjoint(y, &options->queries, "queries"))
        return false;
    if (queries != keys)
        return qkv_refuse(y, "there are %lld query segments, but %lld key segments", (long long)queries,
                          (long long)keys);
    for (int64_t s = 0; s < queries; s++)
        if (!check_segment(y, s, qkv_segment_length(&options->queries, s, query_rows),
                           qkv_segment_length(&options->keys, s, key_rows), mask))
            return false;
    return check_mask(y, key_rows, mask) && check_ragged_count(y, query_rows, key_rows);
}

/* For ops whose input is a ragged block [P], which does not tell the number of rows: if a segment count is 0, replaces it
 * by one segment with all rows of the query or key from which the scores were computed. */
static inline bool find_segments(struct qkv_tensor *y)
{
    struct qkv_segments *segments[2] = {&y->options.queries, &y->options.keys};
    const struct qkv_tensor *scores = y->input[0];
    while (scores && scores->op != QKV_OP_attention_scores && scores->op != QKV_OP_attention_additive)
        scores = scores->input[0];
    for (int i = 0; i < 2; i++) {
        if (segments[i]->count) continue;
        if (!scores)
            return qkv_refuse(y,
                              "needs attention.queries and attention.keys, because its first input does not "
                              "come from attention_scores or attention_additive");
        int64_t *range = qkv_graph_memory(y->graph, 2 * sizeof *range);
        if (!range) return false;
        range[1] = scores->input[i]->shape.size[0];
        *segments[i] = (struct qkv_segments){1, &range[0], &range[1]};
    }
    return true;
}

static inline bool check_rule(struct qkv_tensor *y)
{
    struct qkv_error error;
    if (qkv_attention_rule_check(&y->options.attention, &error) == QKV_OK) return true;
    return qkv_refuse(y, "%s", error.message);
}

/* Checks that x is a matrix whose width is a multiple of `heads`. */
static inline bool check_heads(struct qkv_tensor *y, const struct qkv_tensor *x, int64_t heads,
                               const char *what)
{
    if (!check_matrix(y, x, what)) return false;
    if (x->shape.size[1] % heads == 0) return true;
    return qkv_refuse(y, "%s is %s, but its width must be a multiple of %lld heads", what,
                      qkv_shape_text(x->shape), (long long)heads);
}

/* Checks that query and key are matrices with the same width per head. */
static inline bool check_query_and_key(struct qkv_tensor *y, const struct qkv_tensor *query,
                                       const struct qkv_tensor *key)
{
    const struct qkv_attention_rule *rule = &y->options.attention;
    int64_t heads = rule->heads, key_value_heads = qkv_attention_key_value_heads(rule);
    if (!check_heads(y, query, heads, "query") || !check_heads(y, key, key_value_heads, "key")) return false;
    if (query->shape.size[1] / heads == key->shape.size[1] / key_value_heads) return true;
    if (heads == key_value_heads)
        return qkv_refuse(y, "query is %s, but key is %s", qkv_shape_text(query->shape),
                          qkv_shape_text(key->shape));
    return qkv_refuse(y, "query is %s for %lld heads, but key is %s for %lld", qkv_shape_text(query->shape),
                      (long long)heads, qkv_shape_text(key->shape), (long long)key_value_heads);
}

/* For the field `weights` of struct qkv_op: ops whose result is the ragged block of weights itself. */
static inline const void *value_of_block(struct qkv_tensor *y)
{
    return y->value;
}

/* Products of the small matrices of one segment and attention head: a tile of queries by keys. A product of
 * few multiplications, such as m = 10, n = 16, k = 10, is a loop over contiguous vectors, because a call of
 * BLAS would cost more than the product; a larger one calls gemm. lda, ldb and ldc are the strides of rows. */

/* Products of fewer multiplications use the loops; the others use gemm, which is faster from there
 * on. */
enum { GEMM_MULTIPLICATIONS = 1 << 16 };

#define tile_product            VARIANT(qkv_, tile_product)
#define tile_product_transposed VARIANT(qkv_, tile_product_transposed)
#define tile_scores             VARIANT(qkv_, tile_scores)

/* c [m, n] = a [m, k] b [k, n]; with `add`, c += a b. */
void tile_product(int64_t m, int64_t n, int64_t k, const real *a, int64_t lda, const real *b, int64_t ldb,
                  bool add, real *c, int64_t ldc);

/* c [m, n] += a^T b, with a [k, m] and b [k, n]. */
void tile_product_transposed(int64_t m, int64_t n, int64_t k, const real *a, int64_t lda, const real *b,
                             int64_t ldb, real *c, int64_t ldc);

/* c [m, n] = a b^T, with a [m, k] and b [n, k]: scores of m queries and n keys. work:
 * tile_workspace(n, k) numbers, uninitialised. */
void tile_scores(int64_t m, int64_t n, int64_t k, const real *a, int64_t lda, const real *b, int64_t ldb,
                 real *c, int64_t ldc, real *work);

enum { STRIP_LANES = 16 }; /* columns of a strip: 1, 2 or 4 vectors */

/* n columns, rounded up to full strips. */
static inline int64_t padded_to_strips(int64_t n)
{
    return (n + STRIP_LANES - 1) / STRIP_LANES * STRIP_LANES;
}

/* Numbers of workspace that tile_scores needs for up to n rows of b and any number m of rows of a. It
 * transposes b, into n columns padded to strips, only if m is 4 or more and m n k < GEMM_MULTIPLICATIONS: then
 * n k < GEMM_MULTIPLICATIONS / 4. */
static inline int64_t tile_workspace(int64_t n, int64_t k)
{
    int64_t maximum = GEMM_MULTIPLICATIONS / 4 + STRIP_LANES * k;
    return padded_to_strips(n) * k < maximum ? padded_to_strips(n) * k : maximum;
}

/* ---- code shared by the two kernels of the fused attention op ---- */

/* The geometry of a call, and blocks of query rows with the ranges of keys that these rows see. A window only changes loop
 * bounds: the keys of a block are the global keys and those within the windows of its rows; other keys are not read. */

struct attention {
    const struct qkv_options *options;
    const struct qkv_attention_rule *rule;
    int64_t query_rows, key_rows, heads, key_width, value_width;
    int64_t group;                              /* query heads that share a head of keys and values */
    int64_t query_ld, key_ld, value_ld, out_ld; /* row strides of the matrices, as in BLAS */
    int64_t longest_queries, longest_keys;      /* of a segment */
    bool drops;                                 /* dropout applies */
    bool keep_weights; /* for backward, or because dropout marks the weights of all blocks in one pass */
    real scale;
    const real *query, *key, *value;
    struct mask mask;
    const struct qkv_tensor *bias, *sink;
};

/* One head of one segment. */
struct head {
    struct segment segment;
    int64_t index; /* 0 .. H - 1 */
    /* Offsets in each matrix: first row of the segment, first column of the head */
    int64_t query, key, value, out;
    int64_t ragged; /* offset of its [Tq, Tk] matrix in the ragged block: dropout masks depend on it */
};

/* Queries row .. row + rows - 1 of a segment (from 0), and the keys of the segment that they see: two ranges of
 * keys, the first of which may be empty. The scores and weights of a block are matrices [rows, columns]; the
 * columns of range 1 follow those of range 0. */
struct block {
    int64_t row, rows, columns;
    int64_t start[2], length[2]; /* of the ranges: first key (from 0) and number of keys */
};

static inline struct block block_at(const struct qkv_attention_rule *rule, const struct segment *p,
                                    int64_t row, int64_t max_rows)
{
    int64_t position = p->keys - p->queries + row;
    struct block b = {.row = row, .rows = p->queries - row < max_rows ? p->queries - row : max_rows};
    /* A position below 0 means that the rule does not depend on positions: every row sees all keys. */
    if (position >= 0 && position < rule->global_tokens && b.rows > rule->global_tokens - position)
        b.rows = rule->global_tokens - position;
    struct qkv_visible_keys first = visible_to(rule, p, row), last = visible_to(rule, p, row + b.rows - 1);
    b.length[0] = first.global_end;
    b.start[1] = first.from;
    b.length[1] = last.to - first.from;
    b.columns = b.length[0] + b.length[1];
    return b;
}

/* The visible keys of row i of a block, as columns of the block. */
static inline struct qkv_visible_keys visible_in_block(const struct qkv_attention_rule *rule,
                                                       const struct segment *p, const struct block *b,
                                                       int64_t i)
{
    struct qkv_visible_keys visible = visible_to(rule, p, b->row + i);
    int64_t shift = b->start[1] - b->length[0];
    visible.from -= shift;
    visible.to -= shift;
    return visible;
}

/* ---- distance terms of the scores ----
 *
 * The scratch begins with two tables [H, 2 M], where M is longest_keys, the number of keys of the longest segment: the
 * distance terms of each head, and their gradients. Column M + d belongs to the keys d positions after the query. */

static inline bool needs_bias_gradient(const struct qkv_tensor *y)
{
    return y->input[4] && y->input[4]->needs_gradient;
}

/* Numbers of both tables. */
static inline int64_t distance_count(const struct attention *a)
{
    return qkv_attention_adds_distance(a->rule) ? 2 * a->heads * 2 * a->longest_keys : 0;
}

/* Column M of the row of head h. Callers index it with key position - query position, which may be
 * negative. Row H + h is the gradient of row h. */
static inline real *distance_row(const struct qkv_tensor *y, const struct attention *a, int64_t h)
{
    return (real *)y->graph->scratch + (2 * h + 1) * a->longest_keys;
}

static inline void distance_table(const struct qkv_tensor *y, const struct attention *a)
{
    int64_t maximum = a->longest_keys;
    for (int64_t h = 0; qkv_attention_adds_distance(a->rule) && h < a->heads; h++)
        for (int64_t d = -maximum; d < maximum; d++)
            distance_row(y, a, h)[d] = distance_term(y, a->bias, d, h);
}

static inline void distance_clear(const struct qkv_tensor *y, const struct attention *a)
{
    if (needs_bias_gradient(y))
        memset(distance_row(y, a, a->heads) - a->longest_keys, 0,
               (size_t)(distance_count(a) / 2) * sizeof(real));
}

/* dbias[bucket(d), h] += gradient[h, d] */
static inline void distance_backward(const struct qkv_tensor *y, const struct attention *a)
{
    if (!needs_bias_gradient(y)) return;
    real *gradient = gradient_of(y->input[4]);
    for (int64_t d = -a->longest_keys; d < a->longest_keys; d++) {
        int64_t bucket = qkv_attention_bucket(a->rule, d);
        for (int64_t h = 0; h < a->heads; h++)
            gradient[bucket * a->heads + h] += distance_row(y, a, a->heads + h)[d];
    }
}

/* ---- heads ---- */

/* A separate function: when it is inlined, the compiler divides even in the usual case of group 1. */
static NOINLINE int64_t shared_head(const struct attention *a, int64_t h)
{
    return h / a->group;
}

static inline struct head head_at(const struct attention *a, const struct segment *p, int64_t h)
{
    int64_t shared = a->group == 1 ? h : shared_head(a, h);
    return (struct head){
        .segment = *p,
        .index = h,
        .query = p->query * a->query_ld + h * a->key_width,
        .key = p->key * a->key_ld + shared * a->key_width,
        .value = p->key * a->value_ld + shared * a->value_width,
        .out = p->query * a->out_ld + h * a->value_width,
        .ragged = p->ragged + h * p->queries * p->keys,
    };
}

/* A block of one head, and the offset of its weights in y->saved: 0 for all blocks if the weights are not kept. */
struct place {
    struct qkv_tensor *y;
    const struct attention *a;
    struct head head;
    struct block block;
    int64_t at;
};

typedef void visitor(const struct place *place);

/* The position of row i of the block among the keys of the segment; below 0 where no term depends on positions. */
static inline int64_t position_of(const struct place *place, int64_t i)
{
    const struct segment *p = &place->head.segment;
    return p->keys - p->queries + place->block.row + i;
}

/* Rows of a block. Under a window, many, so that products are efficient, but not so many that the windows of the first and the
 * last row, all of whose keys the block computes, lie far apart; otherwise `most`. */
static inline int64_t rows_of_blocks(const struct qkv_attention_rule *rule, int64_t most)
{
    int64_t rows = rule->window / 2;
    if (!rule->window) return most;
    return rows < 16 ? 16 : rows > 256 ? 256 : rows;
}

/* A segment with one query that sees all keys: every step of decoding. */
static inline bool is_single(const struct attention *a, const struct segment *p)
{
    return p->queries == 1 && !a->mask.value && !a->rule->window && !qkv_attention_adds_distance(a->rule) &&
           !(a->rule->soft_cap > 0) && !a->sink;
}

/* Calls `visit` for every block of every head; without a window, blocks have at most `most` rows. If `single` is not NULL, it is
 * called instead for segments with one query: once for all heads, with place->head set to head 0 and place->block not set. */
static NOINLINE void visit_blocks(struct qkv_tensor *y, const struct attention *a, int64_t most,
                                  visitor *visit, visitor *single)
{
    struct place place = {.y = y, .a = a};
    int64_t ragged = 0, rows = rows_of_blocks(a->rule, most);
    for (int64_t s = 0; s < qkv_segment_count(&a->options->queries); s++) {
        struct segment p = segment_at(a->options, s, ragged, a->query_rows, a->key_rows);
        if (single && is_single(a, &p)) {
            place.head = head_at(a, &p, 0);
            single(&place);
            ragged += a->heads * p.keys;
            continue;
        }
        for (int64_t h = 0; h < a->heads; h++, ragged += p.queries * p.keys) {
            place.head = head_at(a, &p, h);
            for (int64_t row = 0; row < p.queries; row += place.block.rows) {
                place.block = block_at(a->rule, &p, row, rows);
                visit(&place);
                if (a->keep_weights) place.at += place.block.rows * place.block.columns;
            }
        }
    }
}

/* ---- the two kernels ---- */

struct qkv_attention_kernels {
    int64_t (*saved)(const struct attention *a);   /* size of y->saved */
    int64_t (*scratch)(const struct attention *a); /* size of the scratch */
    void (*forward)(struct qkv_tensor *y, const struct attention *a);
    void (*backward)(struct qkv_tensor *y, const struct attention *a);
    /* Computes the result from the weights in y->saved. NULL: they are not kept, and backward reads the result. */
    void (*mix)(struct qkv_tensor *y, const struct attention *a);
    /* Writes all weights before dropout into y->weights, a ragged block of zeros. */
    void (*unpack_weights)(struct qkv_tensor *y, const struct attention *a);
};

extern const struct qkv_attention_kernels VARIANT(qkv_attention_, exact), VARIANT(qkv_attention_, flash);
