/* Finds the two line-aligned files that a prefix stands for. */
#ifndef QKV_DATA_PAIRS_PATHS_H
#define QKV_DATA_PAIRS_PATHS_H

#include "qkv/pairs_file.h"

/* Whether a path names a table, because the file exists or the path is "-", and is not a prefix. */
bool qkv_pairs_is_table(const char *path);

/* Finds both files: request.path and request.target, or the files prefix.<language>, plain or .gz, if request.path is a
 * prefix. Copies their paths, which the caller frees, even after a failure. */
enum qkv_status qkv_pairs_find_files(const struct qkv_pairs_request *request, char *path[2],
                                     struct qkv_error *error);

#endif
