/* What every subcommand that takes a CONFIG shares. */
#ifndef QKV_TOOLS_CONFIG_H
#define QKV_TOOLS_CONFIG_H

#include "command.h"
#include "qkv/arena.h"
#include "qkv/config.h"

/* Reads a config, or standard input for "-", with its overrides (or NULL), in `arena`. Prints every error to
 * stderr, one a line, and gives what the tool should exit with unless it is QKV_OK. */
enum qkv_status read_config(struct qkv_config *config, struct qkv_arena *arena, const char *path,
                            const struct option_list *settings);

/* Tells a run folder from a config or scene, for operands that may be either: true for a folder. */
bool is_run_folder(const char *path);

#endif
