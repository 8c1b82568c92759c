/* Private to explain: the rules between the keys of a scene. */
#ifndef QKV_EXPLAIN_SCENE_CHECK_H
#define QKV_EXPLAIN_SCENE_CHECK_H

#include "config/key_check.h"
#include "explain/scene_keys.h"

struct scene_check {
    struct qkv_scene *scene;
    const char *file; /* in messages about no key */
    struct qkv_key_check keys;
};

/* Checks a scene whose keys were all read, and fills in the widths that follow from others and the
 * fields that scene.h calls computed. */
void qkv_scene_check(const struct scene_check *check);

#endif
