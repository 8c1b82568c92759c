/* Operands that are paths: reading a config, for every subcommand with an operand CONFIG, and telling files from folders. */
#pragma once

#include "command.h"

/* Reads a config, or standard input for "-". `settings` are overrides, or NULL; texts live in
 * `arena`. Returns QKV_OK, or the exit code after printing every error to stderr, one a line. */
enum qkv_status read_config(struct qkv_config *config, struct qkv_arena *arena, const char *path,
                            const struct option_list *settings);

/* The same for a config of a sweep, whose settings from `first` on, `count` of them, were given by -g: errors there name -g. */
enum qkv_status read_swept_config(struct qkv_config *config, struct qkv_arena *arena, const char *path,
                                  const struct option_list *settings, int first, int count);

/* Says why a file is not a scene: it is a config of training, whose run the error names, or else it has the mistakes of
 * `messages`, which are printed; the error is then empty. Returns QKV_INVALID. */
enum qkv_status refuse_scene(const char *path, const struct qkv_messages *messages, struct qkv_arena *arena,
                             struct qkv_error *error);

/* Finds whether an operand, which may be a run folder, a config or a scene, is a folder; what does not exist is none. Prints why
 * the system cannot tell, and returns QKV_INVALID. */
int find_run_folder(const char *path, bool *is_run);

/* Refuses an output path that is a file which the command reads. Paths may be NULL. */
enum qkv_status refuse_input_as_output(const char *output, const char *const *inputs, int count,
                                       struct qkv_error *error);
