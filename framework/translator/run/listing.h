/* Private: what a folder holds, for messages about runs and checkpoints that do not exist. */
#ifndef QKV_RUN_LISTING_H
#define QKV_RUN_LISTING_H

#include "qkv/arena.h"

/* The names of the checkpoints in a folder as --checkpoint takes them, sorted, with commas between; of many, the first ones and
 * the number of the others. It lives in the arena. NULL: there are none, or the folder cannot be read. */
const char *qkv_list_checkpoints(struct qkv_arena *arena, const char *folder);

/* The path of the first run in a folder, by name, in the arena. NULL: there is none, or the folder cannot be read. */
const char *qkv_find_run_inside(struct qkv_arena *arena, const char *folder);

#endif
