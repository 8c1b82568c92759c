/* Attention rules: which are consistent, and the terms that they add to scores: slopes of ALiBi and buckets of distances. */
#include "graph/attention_rule.h"
#include "core/numbers.h"

#include <math.h>

static enum qkv_status check_buckets(const struct qkv_attention_rule *rule, struct qkv_error *error)
{
    int64_t single = qkv_attention_single_buckets(rule->buckets, rule->causal);
    if (!rule->buckets) return QKV_OK;
    if (single < 1 || (!rule->causal && rule->buckets % 2))
        return qkv_error_set(error, "buckets is %lld, but must be %s", (long long)rule->buckets,
                             rule->causal ? "at least 2" : "even and at least 4");
    if (rule->max_distance <= single)
        return qkv_error_set(error, "max_distance is %lld, but must be above %lld for %lld buckets",
                             (long long)rule->max_distance, (long long)single, (long long)rule->buckets);
    return QKV_OK;
}

enum qkv_status qkv_attention_rule_check(const struct qkv_attention_rule *rule, struct qkv_error *error)
{
    if (rule->heads < 1)
        return qkv_error_set(error, "heads is %lld, but must be at least 1", (long long)rule->heads);
    if (rule->key_value_heads < 0 || rule->heads % qkv_attention_key_value_heads(rule))
        return qkv_error_set(error, "key_value_heads is %lld, but must divide %lld heads",
                             (long long)rule->key_value_heads, (long long)rule->heads);
    if (rule->window < 0 || rule->global_tokens < 0)
        return qkv_error_set(error, "window is %lld and global_tokens %lld, but neither may be negative",
                             (long long)rule->window, (long long)rule->global_tokens);
    if (rule->global_tokens && !rule->window) return qkv_error_set(error, "global_tokens need a window");
    if (!(rule->dropout >= 0 && rule->dropout < 1))
        return qkv_error_set(error, "the dropout rate is %g, but must be at least 0 and below 1",
                             rule->dropout);
    if (!isfinite(rule->scale))
        return qkv_error_set(error, "the scale is %g, but must be finite", rule->scale);
    if (!(rule->soft_cap >= 0) || isinf(rule->soft_cap))
        return qkv_error_set(error, "soft_cap is %g, but must be a number above 0, or 0 for none",
                             rule->soft_cap);
    if ((int)rule->kernel < QKV_KERNEL_AUTO || (int)rule->kernel > QKV_KERNEL_FLASH)
        return qkv_error_set(error, "kernel is %d, which is no value of enum qkv_attention_kernel",
                             (int)rule->kernel);
    if ((int)rule->mask_values < QKV_MASK_VALUES_BINARY || (int)rule->mask_values > QKV_MASK_VALUES_ADDITIVE)
        return qkv_error_set(error, "mask_values is %d, which is no value of enum qkv_mask_values",
                             (int)rule->mask_values);
    return check_buckets(rule, error);
}

double qkv_attention_slope(const struct qkv_attention_rule *rule, int64_t head)
{
    int64_t power = 1;
    while (power <= rule->heads / 2) power *= 2;
    double exponent = head < power ? ((double)head + 1) / (double)power
                                   : (2 * ((double)head - (double)power) + 1) / (2 * (double)power);
    return qkv_scalar_exp2(-8 * exponent);
}

int64_t qkv_attention_single_buckets(int64_t buckets, bool causal)
{
    return buckets / (causal ? 2 : 4);
}

int64_t qkv_attention_bucket(const struct qkv_attention_rule *rule, int64_t offset)
{
    int64_t buckets = rule->causal ? rule->buckets : rule->buckets / 2; /* of one direction */
    int64_t single = qkv_attention_single_buckets(rule->buckets, rule->causal);
    int64_t first = !rule->causal && offset > 0 ? buckets : 0;
    if (buckets < 1) return 0;                              /* a rule that qkv_attention_rule_check refuses */
    int64_t distance = offset < 0 ? -(offset + 1) : offset; /* - 1 below 0: INT64_MIN has no opposite */
    distance = offset > 0 && rule->causal ? 0 : offset < 0 && distance < INT64_MAX ? distance + 1 : distance;
    if (distance < single) return first + distance;
    /* qkv_attention_rule_check refuses such a rule, too: it has no distances for the logarithmic scale. */
    if (single < 1 || rule->max_distance <= single) return first + buckets - 1;
    double grown = qkv_scalar_log((double)distance / (double)single) /
                   qkv_scalar_log((double)rule->max_distance / (double)single);
    if (!(grown < 1)) return first + buckets - 1; /* or NaN, where max_distance rounds to single */
    return first + single + (int64_t)(grown * (double)(buckets - single));
}
