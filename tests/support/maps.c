#include "maps.h"

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
