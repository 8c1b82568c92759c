#include "config/config_keys.h"

#define KEY_STRUCT struct qkv_config
#define KEY_TABLE  "config/config_keys.def"
#include "config/key_rows.h"

static const struct qkv_key keys[] = {
#include KEY_TABLE
};

static const struct qkv_other_name other_names[] = {
#define OTHER_NAME(name, key) {name, key},
#include "config/other_names.def"
#undef OTHER_NAME
};

const struct qkv_schema qkv_config_schema = {
    .keys = keys,
    .count = sizeof keys / sizeof *keys,
    .size = sizeof(KEY_STRUCT),
    .other_names = other_names,
    .other_name_count = sizeof other_names / sizeof *other_names,
};
