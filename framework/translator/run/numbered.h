/* Private: names of checkpoints with the number of their update, such as update-500.safetensors. */
#ifndef QKV_RUN_NUMBERED_H
#define QKV_RUN_NUMBERED_H

#include <stdbool.h>
#include <stdint.h>

/* The prefixes of such names: of the best and the last checkpoints, and of those of training.snapshots. */
#define NUMBERED_UPDATE   "update-"
#define NUMBERED_SNAPSHOT "snapshot-"

enum { NUMBERED_NAME_SIZE = 48 };

/* Writes the name of the checkpoint of an update to `name`, which it returns. */
const char *qkv_numbered_name(char name[NUMBERED_NAME_SIZE], const char *prefix, int64_t update);

/* The update of the checkpoint with this name, if it is the prefix and a number; -1 for other names. */
int64_t qkv_numbered_update(const char *name, const char *prefix);

/* True for names that begin with one of the prefixes, whatever follows: nothing else may write such a file. */
bool qkv_numbered_is_reserved(const char *name);

#endif
