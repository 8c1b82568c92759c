/* Opens files, and writes them atomically: a file is written under a temporary name in the same folder, synced, then
 * renamed. Neither a reader nor a crash ever finds half a file, and a failed write leaves the old file as it was.
 *
 * Example:
 *     struct qkv_error error;
 *     struct qkv_file_writer writer;
 *     if (!qkv_file_begin(&writer, "scores.csv", &error)) {
 *         fprintf(writer.file, "%g\n", 0.5); // commit finds failed writes
 *         if (qkv_file_commit(&writer, &error)) fprintf(stderr, "%s\n", error.message);
 *     }
 */
#ifndef QKV_FILE_H
#define QKV_FILE_H

#include "qkv/error.h"

#include <stdbool.h>
#include <stdio.h>

/* Caller's storage. All zero after commit or abandon: nothing to release. */
struct qkv_file_writer {
    FILE *file;      /* write here, in binary; never close it */
    char *path;      /* final name */
    char *temporary; /* present name: path.<process>.<number>.tmp; NULL: written directly */
};

/* Opens a temporary file in the folder of `path`. Commit will replace a regular file at `path`; a folder or named pipe there
 * is an error. A character device such as /dev/null, and files that are already open, such as /dev/stdout and /dev/fd/63, are
 * written directly: what is written stays written, whatever fails. After an error there is nothing to abandon. */
QKV_API enum qkv_status qkv_file_begin(struct qkv_file_writer *writer, const char *path,
                                       struct qkv_error *error);

/* Checks all writes, syncs, closes, renames to `path` and syncs the folder. After an error the temporary file is removed and
 * `path` is as it was (unless it is written directly). If only the last step failed, `path` is complete, but may not survive a
 * power failure, and the message says so. The writer cannot be used afterwards. */
QKV_API enum qkv_status qkv_file_commit(struct qkv_file_writer *writer, struct qkv_error *error);

/* Closes and removes the temporary file. Does nothing to a writer that is all zero or was committed. */
QKV_API void qkv_file_abandon(struct qkv_file_writer *writer);

/* Removes the temporary files of all writers of this process. Only for a signal handler that then ends the process; it may
 * be called at any time and in any thread, and writers fail afterwards. Without this call, a signal that ends the process
 * leaves the temporary files behind. */
QKV_API void qkv_file_remove_temporary(void);

/* Writes a file of `size` bytes: begin, one fwrite, commit. */
QKV_API enum qkv_status qkv_file_write(const char *path, const void *bytes, size_t size,
                                       struct qkv_error *error);

/* Opens a file for reading and returns its descriptor, which the caller closes; -1 with a message on failure. Never blocks.
 * `regular`: accepts only a regular file, as for the files of a run; otherwise also devices, and pipes that are already
 * open, such as /dev/stdin and /dev/fd/63. A folder or a named pipe is always refused. */
QKV_API int qkv_file_open(const char *path, bool regular, struct qkv_error *error);

/* The same as a stream, which the caller closes; NULL with a message on failure. */
QKV_API FILE *qkv_file_stream(const char *path, bool regular, struct qkv_error *error);

/* Fails unless `path` is a regular file that can be read. */
QKV_API enum qkv_status qkv_file_check(const char *path, struct qkv_error *error);

/* True when a file or folder exists at that path, or when the system cannot tell; opening it then reports why. */
QKV_API bool qkv_path_exists(const char *path);

/* Creates the folder `path` and its missing parents, and syncs each folder in which it creates another. An existing folder
 * is no error. */
QKV_API enum qkv_status qkv_folder_make(const char *path, struct qkv_error *error);

#endif
