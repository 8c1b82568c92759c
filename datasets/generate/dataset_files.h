/* What all generated data sets have in common: the request, and a folder of files that appear together. */
#ifndef QKV_DATASETS_FILES_H
#define QKV_DATASETS_FILES_H

#include "qkv/error.h"
#include "qkv/file.h"

#include <stdbool.h>
#include <stdint.h>

enum split { TRAIN, DEV, TEST, SPLITS };

struct dataset_request {
    const char *folder; /* made if missing */
    bool overwrite;     /* else existing files are an error */
    uint64_t seed;
    int64_t count[SPLITS]; /* lines of each file */
};

enum { MOST_DATASET_FILES = 8 };

/* Caller's storage. */
struct dataset_files {
    struct qkv_file_writer writer[MOST_DATASET_FILES];
    int count;
};

/* Makes the folder and begins `count` files in it; refuses before anything is touched when one is there
 * already and must not be replaced. On failure there is nothing to abandon. */
enum qkv_status dataset_files_begin(struct dataset_files *files, const struct dataset_request *request,
                                    const char *const *names, int count, struct qkv_error *error);

/* Commits all files, in order; the first failure abandons the rest. */
enum qkv_status dataset_files_commit(struct dataset_files *files, struct qkv_error *error);

void dataset_files_abandon(struct dataset_files *files);

#endif
