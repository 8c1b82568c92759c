/* What all generators share: the request, and a folder whose files are written together. */
#ifndef QKV_DATASETS_FILES_H
#define QKV_DATASETS_FILES_H

#include "qkv/error.h"
#include "qkv/file.h"

#include <stdbool.h>
#include <stdint.h>

enum split { TRAIN, DEV, TEST, SPLITS };

struct dataset_request {
    const char *folder; /* created when it does not exist */
    bool overwrite;     /* false: existing files are an error */
    uint64_t seed;
    int64_t count[SPLITS]; /* lines of each file */
    /* Write the lines of train when they are drawn: memory for dev and test alone. They come first then, so that train
     * leaves out their sources, and lines of train may repeat. */
    bool stream;
};

enum { MAX_DATASET_FILES = 8 };

/* Caller's storage. */
struct dataset_files {
    struct qkv_file_writer writer[MAX_DATASET_FILES];
    int count;
};

/* Creates the folder and begins `count` files in it. Fails, before anything is changed, when one of them exists and must
 * not be replaced. After a failure nothing needs to be abandoned. */
enum qkv_status dataset_files_begin(struct dataset_files *files, const struct dataset_request *request,
                                    const char *const *names, int count, struct qkv_error *error);

/* Commits all files, in order; the first failure abandons the rest. */
enum qkv_status dataset_files_commit(struct dataset_files *files, struct qkv_error *error);

/* Fails when a line could not be written. Call it after each line, so that a full disk ends a long generation at once. */
enum qkv_status dataset_line_check(const struct qkv_file_writer *writer, struct qkv_error *error);

void dataset_files_abandon(struct dataset_files *files);

#endif
