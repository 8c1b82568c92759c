/* Files that are whole or not there: written under a temporary name in the same folder, synced, then renamed,
 * so that no reader and no crash ever sees half a file, and a failed write leaves the old file as it was.
 *
 *     struct qkv_file_writer writer;
 *     if (qkv_file_begin(&writer, path, error)) return QKV_INVALID;
 *     fprintf(writer.file, ...);                      // no need to check each write: commit does
 *     if (found_a_problem) { qkv_file_abandon(&writer); return QKV_INVALID; }
 *     return qkv_file_commit(&writer, error);
 */
#ifndef QKV_FILE_H
#define QKV_FILE_H

#include "qkv/error.h"

#include <stdio.h>

/* Caller's storage. After commit or abandon it is all zero, and holds nothing that needs a release. */
struct qkv_file_writer {
    FILE *file;      /* write here, in binary; never close it */
    char *path;      /* what it will be called */
    char *temporary; /* what it is called for now: path.<process>.<number>.tmp */
};

/* Opens a new temporary file beside `path`. An existing regular file at `path` will be replaced at commit;
 * anything else there (folder, device) is refused. On failure there is nothing to abandon. */
QKV_API enum qkv_status qkv_file_begin(struct qkv_file_writer *writer, const char *path,
                                       struct qkv_error *error);

/* Checks every write so far, syncs, closes, renames to `path` and syncs the folder. On failure the temporary
 * is gone and `path` is as it was. Ends the writer's life either way. */
QKV_API enum qkv_status qkv_file_commit(struct qkv_file_writer *writer, struct qkv_error *error);

/* Closes and removes the temporary. Does nothing for a writer that is all zero, or already committed. */
QKV_API void qkv_file_abandon(struct qkv_file_writer *writer);

/* Writes `size` bytes to a file: begin, one fwrite, commit. */
QKV_API enum qkv_status qkv_file_write(const char *path, const void *bytes, size_t size,
                                       struct qkv_error *error);

/* Makes the folder `path` and its missing parents; one that is there already is fine. */
QKV_API enum qkv_status qkv_folder_make(const char *path, struct qkv_error *error);

#endif
