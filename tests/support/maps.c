#include "maps.h"

static void expect_names(const char *const *names, int64_t count, const char *expected)
{
    const char *joined = "";
    for (int64_t i = 0; i < count; i++) joined = format("%s%s%s", joined, i ? " " : "", names[i]);
    if (expected) cr_expect_str_eq(joined, expected, "%s, but expected %s", joined, expected);
}

void expect_tokens(const struct qkv_attention_report *report, const char *source, const char *target_input,
                   const char *target_output)
{
    expect_names(report->source, report->source_length, source);
    expect_names(report->target_input, report->target_length, target_input);
    expect_names(report->target_output, report->target_length, target_output);
}

char *rendered(const struct qkv_attention_report *report, const char *format,
               const struct qkv_format_options *options, size_t *size)
{
    char *bytes;
    size_t length;
    expect_done(qkv_attention_render(report, qkv_format_find(format), options, &bytes, &length, &error));
    if (size) *size = length;
    return remember(bytes);
}

char *explained(const struct qkv_explanation *explanations, int count, const char *format,
                const struct qkv_format_options *options, size_t *size)
{
    char *bytes;
    size_t length;
    expect_done(qkv_explanation_render(explanations, count, qkv_format_find(format), options, &bytes, &length,
                                       &error));
    if (size) *size = length;
    return remember(bytes);
}
