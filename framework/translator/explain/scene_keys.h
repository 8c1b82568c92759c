/* The table of the keys of a scene, as a schema whose struct is struct qkv_scene. */
#ifndef QKV_EXPLAIN_SCENE_KEYS_H
#define QKV_EXPLAIN_SCENE_KEYS_H

#include "config/schema.h"
#include "qkv/scene.h"

extern const struct qkv_schema qkv_scene_schema;

#endif
