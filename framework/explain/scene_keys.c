/* The table of scenes. */
#define KEY_STRUCT struct qkv_scene
#define KEY_TABLE  "explain/scene_keys.def"
#include "config/key_rows.h"

static const struct qkv_key keys[] = {
#include KEY_TABLE
};
const struct qkv_schema qkv_scene_schema = {keys, sizeof keys / sizeof keys[0]};
