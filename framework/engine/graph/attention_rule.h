/* What follows from an attention rule (struct qkv_attention_rule of qkv/graph.h). qkv_attention_visible says which keys a
 * query sees. */
#pragma once

#include "qkv/graph.h"

/* QKV_OK if the rule is consistent; else QKV_INVALID and a sentence in `error`, such as "key_value_heads
 * is 2, but must divide 3 heads". Ops refuse such a rule with that sentence. */
enum qkv_status qkv_attention_rule_check(const struct qkv_attention_rule *rule, struct qkv_error *error);

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
double qkv_attention_slope(const struct qkv_attention_rule *rule, int64_t head);

/* Bucket, 0 .. buckets - 1, of a key whose position is `offset` more than that of the query. As in T5: each direction has
 * half of the buckets (causal: the past has all). Half of a direction's buckets hold one distance each, the ranges of the
 * others grow logarithmically up to max_distance. For a rule that qkv_attention_rule_check refuses, returns an arbitrary
 * bucket in 0 .. buckets - 1, or 0 if there are fewer than 2 buckets. */
int64_t qkv_attention_bucket(const struct qkv_attention_rule *rule, int64_t offset);

/* Number of buckets of one direction that hold a single distance each; max_distance must be greater than it. */
int64_t qkv_attention_single_buckets(int64_t buckets, bool causal);
