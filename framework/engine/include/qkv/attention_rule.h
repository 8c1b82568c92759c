/* The rule of attention: every property of multi-head attention that is not a tensor, as one value.
 *
 * Layers and ops keep copies of it. All code that needs to
 * know which keys a query sees calls qkv_attention_visible. To add a variant of attention, add a field here.
 *
 * Example:
 *     struct qkv_attention_rule rule = {.heads = 4, .causal = true, .window = 2};
 *     struct qkv_error error;
 *     if (qkv_attention_rule_check(&rule, &error)) return;
 *     struct qkv_visible_keys seen = qkv_attention_visible(&rule, 5, 10);
 *     for (int64_t key = seen.from; key < seen.to; key++) printf("%d ", (int)key); */
#ifndef QKV_ATTENTION_RULE_H
#define QKV_ATTENTION_RULE_H

#include "qkv/error.h"

#include <stdbool.h>
#include <stdint.h>

/* How fused attention is computed. The results are the same except for rounding. */
enum qkv_attention_kernel {
    QKV_KERNEL_AUTO,  /* flash for long sentences, exact for short ones: whichever is faster */
    QKV_KERNEL_EXACT, /* keeps the weights: memory grows with the square of the length, or with the window */
    QKV_KERNEL_FLASH, /* keeps one number per row and head, recomputes the weights (Dao et al. 2022) */
};

/* "auto", "exact", "flash"; "unknown" for any other value. */
QKV_API const char *qkv_attention_kernel_name(enum qkv_attention_kernel kernel);

/* What the values of an attention mask mean. */
enum qkv_mask_values {
    QKV_MASK_VALUES_BINARY,   /* 1: the key may be seen; 0: it is hidden. As PyTorch's boolean masks */
    QKV_MASK_VALUES_ADDITIVE, /* 0: the key may be seen; -infinity: it is hidden. As PyTorch's float masks */
};

/* In every field but `heads`, 0 means that the property is not set; {.heads = H} is plain attention.
 *
 * Positions: the queries of a sentence have the last positions of its keys. With Tq queries and Tk >= Tq keys, query i has
 * position p = Tk - Tq + i; key j has position j. The score of the pair in head h is
 *     scale * query . key - slope_h |p - j| + bias[bucket(j - p), h] */
struct qkv_attention_rule {
    int64_t heads; /* H, query heads; at least 1 */
    /* G, heads of keys and values: H / G consecutive query heads share one (Ainslie et al. 2023); 0: H */
    int64_t key_value_heads;
    bool causal; /* p sees no key after p */
    /* p sees keys p - window .. p + window (Beltagy et al. 2020, whose w is twice this; causal: Jiang et
     * al. 2023); 0: all keys */
    int64_t window;
    /* Number of positions at the beginning of each sentence that see all keys and are seen by all queries,
     * except where causality forbids it (Beltagy et al. 2020, with shared projections). Needs a window; 0:
     * none */
    int64_t global_tokens;
    bool alibi;           /* subtract slope_h |p - j| (Press et al. 2022) */
    int64_t buckets;      /* add a learned bias per distance bucket and head (Raffel et al. 2020); 0: none */
    int64_t max_distance; /* with buckets: all distances from here on share the last bucket */
    double scale;         /* of the scores; 0: 1 / sqrt(key width) (Vaswani et al. 2017) */
    double dropout;       /* rate of dropout on the weights, in graphs with dropout */
    enum qkv_attention_kernel kernel;
    enum qkv_mask_values mask_values; /* of the mask, if there is one */
};

/* QKV_OK if the rule is consistent; else QKV_INVALID and a sentence in `error`, such as "key_value_heads
 * is 2, but must divide 3 heads". Ops refuse such a rule with that sentence. */
QKV_API enum qkv_status qkv_attention_rule_check(const struct qkv_attention_rule *rule,
                                                 struct qkv_error *error);

/* ---- which keys a query sees ---- */

/* Keys 0 .. global_end - 1 and from .. to - 1. The two ranges do not overlap. */
struct qkv_visible_keys {
    int64_t global_end, from, to;
};

/* The keys, of 0 .. keys - 1, that the query at `position` sees. A position below 0 counts as 0, one past the
 * last key as the last key; window and global_tokens below 0 count as 0. */
static inline struct qkv_visible_keys qkv_attention_visible(const struct qkv_attention_rule *rule,
                                                            int64_t position, int64_t keys)
{
    int64_t window = rule->window;
    struct qkv_visible_keys visible = {0, 0, 0};
    if (keys < 1) return visible;
    if (position < 0) position = 0;
    if (position > keys - 1) position = keys - 1;
    visible.to = rule->causal ? position + 1 : keys;
    if (window <= 0 || position < rule->global_tokens) return visible;
    if (position > window) visible.from = position - window;
    if (window < visible.to - position - 1) visible.to = position + window + 1;
    if (rule->global_tokens < visible.from)
        visible.global_end = rule->global_tokens > 0 ? rule->global_tokens : 0;
    else
        visible.from = 0;
    return visible;
}

/* Number of visible keys. */
static inline int64_t qkv_visible_count(struct qkv_visible_keys visible)
{
    return visible.to - visible.from + visible.global_end;
}

/* Whether key `key` (at least 0) is visible. */
static inline bool qkv_is_visible(struct qkv_visible_keys visible, int64_t key)
{
    return key < visible.global_end || (key >= visible.from && key < visible.to);
}

/* ---- heads ---- */

/* G: the number of key and value heads. */
static inline int64_t qkv_attention_key_value_heads(const struct qkv_attention_rule *rule)
{
    return rule->key_value_heads ? rule->key_value_heads : rule->heads;
}

/* ---- what distance adds to a score ---- */

/* Whether the rule adds a distance term to the scores. */
static inline bool qkv_attention_adds_distance(const struct qkv_attention_rule *rule)
{
    return rule->alibi || rule->buckets;
}

/* ALiBi's slope of head h (from 0): 2^(-8 (h + 1) / H) if H is a power of two. Otherwise the slopes of the
 * next lower power of two, followed by every other slope of the next higher one. */
QKV_API double qkv_attention_slope(const struct qkv_attention_rule *rule, int64_t head);

/* Bucket, 0 .. buckets - 1, of a key whose position is `offset` more than that of the query. As in T5: each direction has
 * half of the buckets (causal: the past has all). Half of a direction's buckets hold one distance each, the ranges of the
 * others grow logarithmically up to max_distance. For a rule that qkv_attention_rule_check refuses, returns an arbitrary
 * bucket in 0 .. buckets - 1, or 0 if there are fewer than 2 buckets. */
QKV_API int64_t qkv_attention_bucket(const struct qkv_attention_rule *rule, int64_t offset);

/* Number of buckets of one direction that hold a single distance each; max_distance must be greater than it. */
QKV_API int64_t qkv_attention_single_buckets(int64_t buckets, bool causal);

#endif
