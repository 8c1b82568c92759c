/* Private: the names of checkpoints that a run keeps by the number of their update, such as update-500.safetensors. */
#ifndef QKV_RUN_NUMBERED_H
#define QKV_RUN_NUMBERED_H

#include <stdbool.h>
#include <stdint.h>

/* What such a name begins with: the best and the last checkpoints, and those of training.snapshots. */
#define NUMBERED_UPDATE   "update-"
#define NUMBERED_SNAPSHOT "snapshot-"

enum { NUMBERED_NAME_SIZE = 48 };

/* The name of the checkpoint of an update, in `name`. */
const char *qkv_numbered_name(char name[NUMBERED_NAME_SIZE], const char *prefix, int64_t update);

/* The update whose checkpoint with this prefix has the name; -1 for other names. */
int64_t qkv_numbered_update(const char *name, const char *prefix);

/* True for names that begin with one of the prefixes, whatever follows: nothing else may write such a file. */
bool qkv_numbered_is_reserved(const char *name);

#endif
