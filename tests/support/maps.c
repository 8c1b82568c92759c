#include "maps.h"

#include <criterion/criterion.h>

char *rendered(const struct qkv_attention_report *report, const char *format,
               const struct qkv_format_options *options, size_t *size)
{
    char *bytes;
    size_t length;
    struct qkv_error error = {""};
    cr_assert_eq(qkv_attention_render(report, qkv_format_find(format), options, &bytes, &length, &error),
                 QKV_OK, "%s", error.message);
    if (size) *size = length;
    return bytes;
}
