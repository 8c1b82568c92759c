/* Finds the two line-aligned files that a prefix stands for. */
#ifndef QKV_DATA_PAIRS_PATHS_H
#define QKV_DATA_PAIRS_PATHS_H

#include "qkv/pairs_file.h"

/* True of the path of a file that exists, and of "-": not a prefix. */
bool qkv_pairs_is_table(const char *path);

/* Finds both files, by request.target or by the prefix request.path: prefix.<language> and the same in gzip. Copies their
 * paths, which the caller frees, also after a failure. */
enum qkv_status qkv_pairs_find_files(const struct qkv_pairs_request *request, char *path[2],
                                     struct qkv_error *error);

#endif
