/* Paths in YAML files. One rule: a path in a file is relative to the folder of that file, a path of the command line to the
 * current folder. */
#ifndef QKV_CONFIG_PATH_H
#define QKV_CONFIG_PATH_H

#include "qkv/arena.h"

#include <stdbool.h>

/* The path, from the current folder, that the YAML file `file` means by `path`; NULL when there is no memory. "" and "-"
 * stay, and so do the paths in standard input, whose folder is the current one. */
const char *qkv_path_of_file(struct qkv_arena *arena, const char *file, const char *path);

/* The folder of the run that `file` is the config of; NULL when it is no such config. */
const char *qkv_path_run_folder(struct qkv_arena *arena, const char *file);

/* True when there is a file or folder of this name, or the text in two files of which it is the common prefix. */
bool qkv_path_is_text(const char *path);

/* The path as a file in `folder` names it, and its absolute form. False, and errno, when memory is out or the
 * system cannot resolve the path (EIO, EMFILE); a folder that does not exist is no failure. */
bool qkv_path_in_folder(struct qkv_arena *arena, const char *folder, const char *path, const char **relative,
                        const char **absolute);

#endif
