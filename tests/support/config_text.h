/* What qkv_config_write writes. */
#pragma once

#include "support.h"

static inline char *config_text(const struct qkv_config *config, bool full)
{
    char *text;
    size_t size;
    FILE *file = open_memstream(&text, &size);
    cr_assert_eq(qkv_config_write(config, file, full), QKV_OK);
    fclose(file);
    return remember(text);
}
