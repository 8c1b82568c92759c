#include "config/config_keys.h"

#define KEY_STRUCT struct qkv_config
#define KEY_TABLE  "config/config_keys.def"
#include "config/key_rows.h"

static const struct qkv_key keys[] = {
#include KEY_TABLE
};
const struct qkv_schema qkv_config_schema = {keys, sizeof keys / sizeof *keys, sizeof(KEY_STRUCT)};
