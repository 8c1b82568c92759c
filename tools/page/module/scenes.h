/* The scenes of a page: what it shows in place of a trained run. */
#ifndef QKV_PAGE_SCENES_H
#define QKV_PAGE_SCENES_H

#include "page/module/walk.h"

#include "qkv/scene.h"

/* Caller's storage, all zero at first. */
struct page_scenes {
    struct qkv_arena arena; /* of the scenes */
    struct qkv_scene *list; /* [count] */
    int64_t count;
    struct qkv_arena view_arena;
    /* Of the scene that is shown: words with keys as source, words with queries as target outputs, and the maps of its
     * weights, which count as cross-attention; nothing else */
    struct page_view view;
};

/* Opens scenes that were packed one after another (explain/packed_scene.h). */
enum qkv_status page_scenes_open(struct page_scenes *scenes, const unsigned char *bytes, size_t size,
                                 struct qkv_error *error);

/* Shows scene `number`, from 0, and walks through it; with random numbers of another seed than its own unless `seed` is
 * below 0. */
enum qkv_status page_scenes_show(struct page_scenes *scenes, int64_t number, int64_t seed,
                                 struct page_walk *walk, struct qkv_error *error);

#endif
