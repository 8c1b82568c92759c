/* What the fused attention op and its parts share: the layout of packed ragged blocks, and who sees whom. */
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

/* The head of keys and values that head h of the queries looks at. */
static inline int64_t key_heads_of(const struct qkv_options *options)
{
    return options->key_value_heads ? options->key_value_heads : options->heads;
}

static inline int64_t key_head(const struct qkv_options *options, int64_t h)
{
    return h / (options->heads / key_heads_of(options));
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

/* ---- who sees whom ---- */

/* The keys that a row sees: 0 .. global_tokens-1 and from .. to-1, with global_tokens < from, or 0. */
struct sight {
    int64_t global_tokens, from, to;
};

/* Row i of `queries`, which stand at the end of `keys`. */
static inline struct sight sight_of(const struct qkv_options *options, int64_t i, int64_t queries,
                                    int64_t keys)
{
    int64_t position = keys - queries + i, window = options->window;
    struct sight sight = {0, 0, options->causal ? position + 1 : keys};
    if (!window || position < options->global_tokens) return sight;
    if (position > window) sight.from = position - window;
    if (window < sight.to - position - 1) sight.to = position + window + 1;
    if (options->global_tokens < sight.from)
        sight.global_tokens = options->global_tokens;
    else
        sight.from = 0;
    return sight;
}

/* Neighbouring numbers of a row, from .. to-1; of them only those that `mask` marks, where it is not NULL. */
struct span {
    int64_t from, to;
    const real *mask; /* counted as the row is */
};

/* What of a row's sight lies in keys first .. first+count-1, counted from there: two spans, maybe empty.
 * `mask` is the row's, by key, or NULL. */
static inline void spans_of(struct sight sight, int64_t first, int64_t count, const real *mask,
                            struct span span[2])
{
    int64_t end[2] = {sight.global_tokens - first, sight.to - first}, start[2] = {-first, sight.from - first};
    for (int k = 0; k < 2; k++) {
        int64_t from = start[k] < 0 ? 0 : start[k] < count ? start[k] : count;
        int64_t to = end[k] < count ? end[k] : count;
        span[k] = (struct span){from, to > from ? to : from, mask ? mask + first : NULL};
    }
}

/* The largest number; -infinity where there is none. */
static inline real span_maximum(struct span span, const real *x)
{
    real most = (real)-INFINITY;
    if (span.from == span.to) return most;
    if (!span.mask) return row_maximum(span.to - span.from, x + span.from);
    for (int64_t j = span.from; j < span.to; j++)
        if (span.mask[j] > 0 && x[j] > most) most = x[j];
    return most;
}

/* to = exp(from - shift), 0 where the mask hides; returns the sum. */
static inline real span_exp(struct span span, const real *from, real shift, real *to)
{
    if (!span.mask) return row_exp(span.to - span.from, from + span.from, shift, to + span.from);
    real sum = 0;
    for (int64_t j = span.from; j < span.to; j++) {
        to[j] = span.mask[j] > 0 ? fast_exp(from[j] - shift) : 0;
        sum += to[j];
    }
    return sum;
}

/* Zeroes what lies outside of both spans. */
static inline void clear_hidden(int64_t count, const struct span span[2], real *x)
{
    memset(x, 0, (size_t)span[0].from * sizeof(real));
    if (span[1].from > span[0].to)
        memset(x + span[0].to, 0, (size_t)(span[1].from - span[0].to) * sizeof(real));
    memset(x + span[1].to, 0, (size_t)(count - span[1].to) * sizeof(real));
}

/* Softmax of one row of scores over both spans. The others get 0, and a row that sees nothing is all 0.
 * `from` and `to` may be the same. */
static inline void visible_softmax(int64_t keys, const struct span span[2], const real *from, real *to)
{
    real most = span_maximum(span[0], from), other = span_maximum(span[1], from), sum = 0;
    most = other > most ? other : most;
    for (int k = 0; k < 2; k++) sum += span_exp(span[k], from, most, to);
    real inverse = sum > 0 ? 1 / sum : 0;
    for (int k = 0; k < 2; k++)
        for (int64_t j = span[k].from; j < span[k].to; j++) to[j] *= inverse;
    clear_hidden(keys, span, to);
}

/* ---- what distance adds to a score ---- */

/* ALiBi's slope of head h: 2^(-8 (h+1) / H) for a power of two; else those of the next lower one, and between
 * them every other of the next higher. */
static inline double alibi_slope(int64_t h, int64_t heads)
{
    int64_t power = 1;
    while (2 * power <= heads) power *= 2;
    return h < power ? exp2(-8.0 * (double)(h + 1) / (double)power)
                     : exp2(-8.0 * (double)(2 * (h - power) + 1) / (double)(2 * power));
}

/* The bucket of a key `ahead` positions behind the query's (before it where negative), as T5 has them. */
static inline int64_t bucket_of(int64_t ahead, int64_t buckets, int64_t distance, bool causal)
{
    int64_t first = 0, far = ahead < 0 ? -ahead : ahead;
    if (!causal) {
        buckets /= 2;
        first = ahead > 0 ? buckets : 0;
    } else if (ahead > 0) {
        far = 0;
    }
    int64_t single = buckets / 2;
    if (far < single) return first + far;
    double grown = log((double)far / (double)single) / log((double)distance / (double)single);
    int64_t bucket = single + (int64_t)(grown * (double)(buckets - single));
    return first + (bucket < buckets ? bucket : buckets - 1);
}

static inline real distance_term(const struct qkv_tensor *y, const struct qkv_tensor *bias, int64_t ahead,
                                 int64_t h)
{
    const struct qkv_options *options = &y->options;
    real term = 0;
    if (options->alibi) term -= (real)(alibi_slope(h, options->heads) * fabs((double)ahead));
    if (bias)
        term += ((const real *)bias->value)
            [bucket_of(ahead, bias->shape.size[0], options->distance, options->causal) * options->heads + h];
    return term;
}

/* ---- shape rules ---- */

static inline bool check_bias(struct qkv_tensor *y, const struct qkv_tensor *bias)
{
    const struct qkv_options *options = &y->options;
    int64_t least = options->causal ? 2 : 4;
    if (!bias) return true;
    if (bias->shape.rank != 2 || bias->shape.size[1] != options->heads)
        return qkv_refuse(y, "bias is %s, but must have a column for each of %lld heads",
                          qkv_shape_text(bias->shape), (long long)options->heads);
    int64_t buckets = bias->shape.size[0];
    if (buckets < least || (!options->causal && buckets % 2))
        return qkv_refuse(y, "bias has %lld buckets, but must have %s", (long long)buckets,
                          options->causal ? "at least 2" : "an even number, at least 4");
    if (options->distance <= buckets / least)
        return qkv_refuse(y, "distance is %lld, but must be above %lld for %lld buckets",
                          (long long)options->distance, (long long)(buckets / least), (long long)buckets);
    return true;
}

/* One sentence: that it has keys, that queries can stand at their end where positions count, and that the
 * mask fits. */
static inline bool check_sentence(struct qkv_tensor *y, int64_t s, int64_t tq, int64_t tk,
                                  const struct qkv_tensor *mask)
{
    const struct qkv_options *options = &y->options;
    if (tq > 0 && tk < 1) return qkv_refuse(y, "segment %lld has queries, but no keys", (long long)s);
    const char *kind = options->causal                           ? "causal attention needs"
                       : options->window                         ? "a window needs"
                       : options->alibi || options->distance > 0 ? "attention by distance needs"
                                                                 : NULL;
    if (kind && tq > tk)
        return qkv_refuse(y, "%s no more queries than keys, but segment %lld has %lld and %lld", kind,
                          (long long)s, (long long)tq, (long long)tk);
    if (mask && (mask->shape.rank != 2 || mask->shape.size[0] != tq || mask->shape.size[1] != tk))
        return qkv_refuse(y, "mask is %s, but segment %lld has %lld queries and %lld keys",
                          qkv_shape_text(mask->shape), (long long)s, (long long)tq, (long long)tk);
    return true;
}

/* Segments, window and mask fit; shared by the shape rules. */
static inline bool check_attention(struct qkv_tensor *y, int64_t query_rows, int64_t key_rows,
                                   const struct qkv_tensor *mask)
{
    const struct qkv_options *options = &y->options;
    int64_t queries = qkv_segment_count(&options->queries), keys = qkv_segment_count(&options->keys);
    if (queries != keys)
        return qkv_refuse(y, "there are %lld query segments, but %lld key segments", (long long)queries,
                          (long long)keys);
    if (!check_segments(y, &options->queries, query_rows, "queries")) return false;
    if (!check_segments(y, &options->keys, key_rows, "keys")) return false;
    if (options->window < 0 || options->global_tokens < 0)
        return qkv_refuse(y, "window is %lld and global_tokens %lld, but neither may be negative",
                          (long long)options->window, (long long)options->global_tokens);
    if (options->global_tokens && !options->window) return qkv_refuse(y, "global_tokens need a window");
    for (int64_t s = 0; s < queries; s++)
        if (!check_sentence(y, s, qkv_segment_length(&options->queries, s, query_rows),
                            qkv_segment_length(&options->keys, s, key_rows), mask))
            return false;
    if (mask && mask->needs_gradient) return qkv_refuse(y, "the mask must not need a gradient");
    return true;
}

/* Heads are at least 1, and those of the keys divide them. */
static inline bool check_head_count(struct qkv_tensor *y)
{
    const struct qkv_options *options = &y->options;
    if (options->heads < 1)
        return qkv_refuse(y, "heads is %lld, but must be at least 1", (long long)options->heads);
    if (options->key_value_heads < 0 || options->heads % key_heads_of(options))
        return qkv_refuse(y, "key_value_heads is %lld, but must divide %lld heads",
                          (long long)options->key_value_heads, (long long)options->heads);
    return true;
}

/* Whether the width of x is `heads` times something; refuses otherwise. */
static inline bool check_heads(struct qkv_tensor *y, const struct qkv_tensor *x, int64_t heads,
                               const char *what)
{
    if (x->shape.rank != 2)
        return qkv_refuse(y, "%s is %s, but must have 2 axes", what, qkv_shape_text(x->shape));
    if (x->shape.size[1] % heads == 0) return true;
    return qkv_refuse(y, "%s is %s, but its width must be a multiple of %lld heads", what,
                      qkv_shape_text(x->shape), (long long)heads);
}

/* The same for queries and keys, whose heads must be equally wide. */
static inline bool check_query_and_key(struct qkv_tensor *y, const struct qkv_tensor *query,
                                       const struct qkv_tensor *key)
{
    int64_t heads = y->options.heads, key_value_heads = key_heads_of(&y->options);
    if (!check_heads(y, query, heads, "query") || !check_heads(y, key, key_value_heads, "key")) return false;
    if (query->shape.size[1] / heads == key->shape.size[1] / key_value_heads) return true;
    if (heads == key_value_heads)
        return qkv_refuse(y, "query is %s, but key is %s", qkv_shape_text(query->shape),
                          qkv_shape_text(key->shape));
    return qkv_refuse(y, "query is %s for %lld heads, but key is %s for %lld", qkv_shape_text(query->shape),
                      (long long)heads, qkv_shape_text(key->shape), (long long)key_value_heads);
}

/* For ops whose value is the ragged block of weights. */
static inline const void *value_of_block(struct qkv_tensor *y)
{
    return y->value;
}

#endif
