/* Paths in YAML files. There is one rule: a path in a file is relative to the folder of that file, a path on the command line
 * to the current folder. */
#pragma once

#include "qkv/base.h"

/* Converts `path`, as the YAML file `file` has it, to a path from the current folder; NULL when there is no memory. "" and "-"
 * stay unchanged, and so do paths that are read from standard input, whose folder is the current one. */
const char *qkv_path_of_file(struct qkv_arena *arena, const char *file, const char *path);

/* The folder of the run whose config is `file`; NULL when `file` is not the config of a run. */
const char *qkv_path_run_folder(struct qkv_arena *arena, const char *file);

/* True when there is a file or folder of this name, when there are files of which it is the common prefix or that it matches as a
 * pattern, and for "-". */
bool qkv_path_is_text(const char *path);

/* The files that `path` names, in the arena: those of a folder, or those that a pattern as in a shell matches, whose last name
 * alone may have wildcards, in the order of their bytes, without hidden ones; otherwise `path` itself. None in an empty folder.
 * NULL when memory runs out. */
const char **qkv_path_files(struct qkv_arena *arena, const char *path, int64_t *count);

/* Whether the name of a file is that of a config: it ends in .yaml or .yml. */
bool qkv_path_is_yaml(const char *path);

/* Sets *relative to the path relative to `folder`, and *absolute to its absolute form. False, with errno set, when memory is
 * out or the system cannot resolve the path (EIO, EMFILE). A folder that does not exist is not an error. */
bool qkv_path_in_folder(struct qkv_arena *arena, const char *folder, const char *path, const char **relative,
                        const char **absolute);
