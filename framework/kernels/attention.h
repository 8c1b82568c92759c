/* What the fused attention op and its parts share: the layout of packed ragged blocks. */
#ifndef QKV_KERNELS_ATTENTION_H
#define QKV_KERNELS_ATTENTION_H

#include "kernels/softmax.h"

/* One sentence of a packed block: its rows, and where its H matrices of Tq x Tk numbers start. */
struct pair {
    int64_t query, queries; /* first row and number of rows: Tq */
    int64_t key, keys;      /* Tk */
    int64_t block;
};

/* Total of H Tq Tk over the sentences, given the numbers of rows of both sides. */
static inline int64_t ragged_count(const struct qkv_options *options, int64_t query_rows, int64_t key_rows)
{
    int64_t total = 0;
    for (int64_t s = 0; s < qkv_segment_count(&options->queries); s++)
        total += options->heads * qkv_segment_length(&options->queries, s, query_rows) *
                 qkv_segment_length(&options->keys, s, key_rows);
    return total;
}

static inline struct pair pair_at(const struct qkv_options *options, int64_t s, int64_t block,
                                  int64_t query_rows, int64_t key_rows)
{
    return (struct pair){
        .query = qkv_segment_start(&options->queries, s),
        .queries = qkv_segment_length(&options->queries, s, query_rows),
        .key = qkv_segment_start(&options->keys, s),
        .keys = qkv_segment_length(&options->keys, s, key_rows),
        .block = block,
    };
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

/* The scale of the scores: what the caller gave, or 1 / sqrt(width). */
static inline real score_scale(const struct qkv_tensor *y, int64_t width)
{
    double given = y->options.factor;
    return (real)(given > 0 || given < 0 ? given : 1.0 / sqrt((double)width));
}

/* Segments, heads and mask fit; shared by the shape rules. */
static inline bool check_attention(struct qkv_tensor *y, int64_t query_rows, int64_t key_rows,
                                   const struct qkv_tensor *mask)
{
    const struct qkv_options *options = &y->options;
    if (options->heads < 1)
        return qkv_refuse(y, "heads is %lld, but must be at least 1", (long long)options->heads);
    int64_t queries = qkv_segment_count(&options->queries), keys = qkv_segment_count(&options->keys);
    if (queries != keys)
        return qkv_refuse(y, "there are %lld query segments, but %lld key segments", (long long)queries,
                          (long long)keys);
    if (!check_segments(y, &options->queries, query_rows, "queries")) return false;
    if (!check_segments(y, &options->keys, key_rows, "keys")) return false;
    for (int64_t s = 0; s < queries; s++) {
        int64_t tq = qkv_segment_length(&options->queries, s, query_rows);
        int64_t tk = qkv_segment_length(&options->keys, s, key_rows);
        if (tq > 0 && tk < 1) return qkv_refuse(y, "segment %lld has queries, but no keys", (long long)s);
        if (options->causal && tq != tk)
            return qkv_refuse(
                y, "causal attention needs as many queries as keys, but segment %lld has %lld and %lld",
                (long long)s, (long long)tq, (long long)tk);
        if (mask && (mask->shape.rank != 2 || mask->shape.size[0] != tq || mask->shape.size[1] != tk))
            return qkv_refuse(y, "mask is %s, but segment %lld has %lld queries and %lld keys",
                              qkv_shape_text(mask->shape), (long long)s, (long long)tq, (long long)tk);
    }
    if (mask && mask->needs_gradient) return qkv_refuse(y, "the mask must not need a gradient");
    return true;
}

/* Whether the width of x is H times something; refuses otherwise. */
static inline bool check_heads(struct qkv_tensor *y, const struct qkv_tensor *x, const char *what)
{
    if (x->shape.rank != 2)
        return qkv_refuse(y, "%s is %s, but must have 2 axes", what, qkv_shape_text(x->shape));
    if (x->shape.size[1] % y->options.heads == 0) return true;
    return qkv_refuse(y, "%s is %s, but its width must be a multiple of %lld heads", what,
                      qkv_shape_text(x->shape), (long long)y->options.heads);
}

/* Softmax of one row of scores where only some keys are visible: the first `limit`, and of those the ones
 * that `mask` (NULL: all) marks. The others get 0, and a row that sees nothing is all 0. */
static inline void visible_softmax(int64_t keys, int64_t limit, const real *mask, const real *from, real *to)
{
    if (!mask) {
        row_softmax(limit, from, to);
    } else {
        real most = (real)-INFINITY, sum = 0;
        for (int64_t j = 0; j < limit; j++)
            if (mask[j] > 0 && from[j] > most) most = from[j];
        for (int64_t j = 0; j < limit; j++) {
            to[j] = mask[j] > 0 ? fast_exp(from[j] - most) : 0;
            sum += to[j];
        }
        for (int64_t j = 0; sum > 0 && j < limit; j++) to[j] /= sum;
    }
    for (int64_t j = limit; j < keys; j++) to[j] = 0;
}

#endif
