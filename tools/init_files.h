/* The files that `qkv init` writes: all of them or none. */
#ifndef QKV_TOOLS_INIT_FILES_H
#define QKV_TOOLS_INIT_FILES_H

#include "init_config.h"

#include <stdio.h>

enum { INIT_FILES = QKV_PAIRS_PARTS + 1 /* the config */ };

/* The paths of train, dev, test and config. */
struct init_paths {
    char path[INIT_FILES][4096];
};

/* Makes the paths: `folder` is "" or ends in a slash. */
void init_paths_make(struct init_paths *paths, const char *folder, const struct init_names *names);

/* Fails when a file exists already, unless `overwrite`, and when it is one of the files that the pairs were read from. */
enum qkv_status init_files_check(const struct init_paths *paths, const struct qkv_pairs *pairs,
                                 bool overwrite, struct qkv_error *error);

/* Fails when the config cannot be written, or its folder cannot be made. Leaves nothing behind. */
enum qkv_status init_files_try(const struct init_paths *paths, struct qkv_error *error);

/* Writes source, tab and target of each pair of a part. */
void init_part_write(FILE *file, const struct init_data *data, enum qkv_pairs_part part, int64_t max);

/* Makes the folder of the config and writes all files. After a failure, files that did not exist before do not exist. */
enum qkv_status init_files_write(const struct init_paths *paths, const struct init_plan *plan,
                                 const struct init_data *data, const struct init_names *names,
                                 struct qkv_error *error);

#endif
