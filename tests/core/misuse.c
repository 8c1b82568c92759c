/* Numbers that do not fit: each call ends, and none reaches memory that it must not. */
#include "framework/engine/core/file.h"
#include "framework/engine/core/numbers.h"
#include "framework/engine/core/system.h"
#include "framework/engine/graph/attention_rule.h"

#include "support.h"

Test(misuse, nothing_is_shuffled_for_a_count_below_1)
{
    int64_t order[] = {1, 2};
    const struct qkv_random random = {.seed = 1};
    qkv_random_shuffle(random, INT64_MIN, order);
    qkv_random_shuffle(random, -1, order);
    qkv_random_shuffle(random, 0, NULL);
    cr_expect(order[0] == 1 && order[1] == 2);
}

Test(misuse, no_team_is_the_caller_alone)
{
    cr_expect_eq(qkv_workers_count(NULL), 1);
}

Test(misuse, empty_files_and_paths_without_a_name)
{
    expect_done(qkv_file_write(format("%s/empty", scratch("empty")), NULL, 0, &error));
    cr_expect_eq(qkv_file_commit(&(struct qkv_file_writer){0}, &error), QKV_INVALID);
    cr_expect_eq(qkv_file_open("", false, &error), -1);
    cr_expect_eq(qkv_file_check("", &error), QKV_INVALID);
}

/* qkv_attention_rule_check refuses most of these rules. */
Test(misuse, slopes_and_buckets_of_any_rule_are_numbers)
{
    static const int64_t odd[] = {0, 1, -1, 2, 3, 7, 8, 9, -2, -40, 40, INT64_MAX, INT64_MIN};
    enum { ODD = sizeof odd / sizeof *odd };
    for (int i = 0; i < ODD * ODD * ODD * 2; i++) {
        const struct qkv_attention_rule rule = {.heads = odd[i % ODD],
                                                .buckets = odd[i / ODD % ODD],
                                                .max_distance = odd[i / ODD / ODD % ODD],
                                                .causal = i & 1};
        for (int j = 0; j < ODD; j++) {
            qkv_attention_slope(&rule, odd[j]);
            int64_t bucket = qkv_attention_bucket(&rule, odd[j]);
            cr_assert(bucket >= 0 && (bucket < rule.buckets || !bucket), "rule %d, offset %lld: %lld", i,
                      (long long)odd[j], (long long)bucket);
        }
    }
    const struct qkv_attention_rule rule = {.heads = 1, .buckets = 8, .max_distance = 16};
    cr_expect_eq(qkv_attention_bucket(&rule, INT64_MIN), 3);
    cr_expect_eq(qkv_attention_bucket(&rule, INT64_MAX), 7);
}

Test(misuse, a_rule_of_attention_with_an_unknown_enum_is_refused)
{
    static const int WRONG[] = {-1, 3, INT32_MAX, INT32_MIN};
    struct qkv_attention_rule rule = {.heads = 2};
    expect_done(qkv_attention_rule_check(&rule, &error));
    for (int i = 0; i < 4; i++) {
        rule = (struct qkv_attention_rule){.heads = 2, .kernel = (enum qkv_attention_kernel)WRONG[i]};
        expect_refusal(qkv_attention_rule_check(&rule, &error),
                       format("kernel is %d, which is no value of enum qkv_attention_kernel", WRONG[i]));
        rule = (struct qkv_attention_rule){.heads = 2, .mask_values = (enum qkv_mask_values)WRONG[i]};
        expect_refusal(qkv_attention_rule_check(&rule, &error),
                       format("mask_values is %d, which is no value of enum qkv_mask_values", WRONG[i]));
    }
}

Test(misuse, a_query_sees_only_keys_that_exist)
{
    static const int64_t odd[] = {0, 1, 2, 4, 5, -1, INT64_MAX, INT64_MIN};
    enum { ODD = sizeof odd / sizeof *odd };
    for (int i = 0; i < ODD * ODD * ODD * ODD * 2; i++) {
        const struct qkv_attention_rule rule = {.heads = 1,
                                                .window = odd[i % ODD],
                                                .global_tokens = odd[i / ODD % ODD],
                                                .causal = i / (ODD * ODD * ODD * ODD)};
        int64_t position = odd[i / ODD / ODD % ODD], keys = odd[i / ODD / ODD / ODD % ODD];
        struct qkv_visible_keys seen = qkv_attention_visible(&rule, position, keys);
        int64_t max = keys > 0 ? keys : 0, count = qkv_visible_count(seen);
        cr_assert(seen.global_end >= 0 && seen.global_end <= seen.from && seen.from <= seen.to &&
                      seen.to <= max && count >= (max > 0) && count <= max,
                  "window %lld, global %lld, causal %d, position %lld, keys %lld: %lld, %lld .. %lld",
                  (long long)rule.window, (long long)rule.global_tokens, (int)rule.causal,
                  (long long)position, (long long)keys, (long long)seen.global_end, (long long)seen.from,
                  (long long)seen.to);
    }
    const struct qkv_attention_rule causal = {.heads = 1, .causal = true};
    cr_expect_eq(qkv_attention_visible(&causal, INT64_MAX, 5).to, 5);
    cr_expect_eq(qkv_attention_visible(&causal, INT64_MIN, 5).to, 1);
}
