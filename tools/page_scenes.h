/* Collects the contents of a page of scenes. */
#ifndef QKV_TOOLS_PAGE_SCENES_H
#define QKV_TOOLS_PAGE_SCENES_H

#include "page_write.h"

#include "qkv/arena.h"

/* Reads scenes, those of the tutorials or `count` files, packs them one after another (explain/scene.h) and lists the
 * facts that the page shows about them. The caller frees contents->model and contents->scenes, even after a failure; other
 * texts are in the arena. Fails for a file that is not a scene, and for a scene whose numbers come from a run. Messages about a
 * file are printed; *error is then empty. */
enum qkv_status page_scenes_collect(struct page_contents *contents, int count, char **files,
                                    struct qkv_arena *arena, struct qkv_error *error);

#endif
