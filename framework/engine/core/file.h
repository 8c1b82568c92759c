/* Writes files atomically, opens them, and recognises two names of one file. A file is written under a temporary name in
 * the same folder, synced, then renamed: neither a reader nor a crash ever finds half a file, and a failed write leaves the
 * old file as it was. */
#pragma once

#include "qkv/base.h"

#include <string.h>
#include <sys/stat.h>

/* Caller's storage. All zero after commit or abandon: nothing to release. */
struct qkv_file_writer {
    FILE *file;      /* write here, in binary; never close it */
    char *path;      /* final name */
    char *temporary; /* present name: path.<process>.<number>.tmp; NULL: written directly */
};

/* Opens a temporary file in the folder of `path`. Commit will replace a regular file at `path`; a folder or named pipe there
 * is an error. A character device such as /dev/null, and files that are already open, such as /dev/stdout and /dev/fd/63, are
 * written directly: what is written stays written, whatever fails. After an error there is nothing to abandon. */
enum qkv_status qkv_file_begin(struct qkv_file_writer *writer, const char *path, struct qkv_error *error);

/* Checks all writes, syncs, closes, renames to `path` and syncs the folder. After an error the temporary file is removed and
 * `path` is as it was (unless it is written directly). If only the last step failed, `path` is complete, but may not survive a
 * power failure, and the message says so. The writer cannot be used afterwards. */
enum qkv_status qkv_file_commit(struct qkv_file_writer *writer, struct qkv_error *error);

/* Closes and removes the temporary file. Does nothing to a writer that is all zero or was committed. */
void qkv_file_abandon(struct qkv_file_writer *writer);

/* Writes a file of `size` bytes: begin, one fwrite, commit. */
enum qkv_status qkv_file_write(const char *path, const void *bytes, size_t size, struct qkv_error *error);

/* Opens a file for reading and returns its descriptor, which the caller closes; -1 with a message on failure. Never blocks.
 * `regular`: accepts only a regular file, as for the files of a run; otherwise also devices, and pipes that are already
 * open, such as /dev/stdin and /dev/fd/63. A folder or a named pipe is always refused. */
int qkv_file_open(const char *path, bool regular, struct qkv_error *error);

/* Fails unless `path` is a regular file that can be read. */
enum qkv_status qkv_file_check(const char *path, struct qkv_error *error);

/* True when a file or folder exists at that path, or when the system cannot tell; opening it then reports why. */
bool qkv_path_exists(const char *path);

/* Creates the folder `path` and its missing parents, and syncs each folder in which it creates another. An existing folder
 * is no error. */
enum qkv_status qkv_folder_make(const char *path, struct qkv_error *error);

/* ---- temporary files and folders of this process, which qkv_file_remove_temporary removes when a signal ends it ---- */

/* Registers a file or folder that is about to be made. The string `path` must not change until qkv_temporary_forget. False
 * for more than 1,024 at a time: a signal would leave such a file behind. */
bool qkv_temporary_add(const char *path);

/* Unregisters a file after it was removed or renamed. False: a signal handler is reading the string at this moment, so it
 * must neither change nor be freed; the process is about to end. */
bool qkv_temporary_forget(const char *path);

/* ---- names of files ---- */

/* True for standard input and for pipes of a shell, `<(command)`: opening them does not wait for a writer. */
static inline bool qkv_is_open_file(const char *path)
{
    return !strcmp(path, "/dev/stdin") || !strncmp(path, "/dev/fd/", 8) ||
           !strncmp(path, "/proc/self/fd/", 14);
}

/* True when both paths lead to the same file or folder, which exists. */
static inline bool qkv_is_same_file(const char *a, const char *b)
{
    struct stat one, other;
    return !stat(a, &one) && !stat(b, &other) && one.st_dev == other.st_dev && one.st_ino == other.st_ino;
}

/* ---- the CRC-32 of zip, gzip and PNG (polynomial 0x04C11DB7, reflected), as zlib's crc32 ---- */

/* Continues the sum of earlier bytes, which is 0 at first. */
uint32_t qkv_crc32(uint32_t sum, const void *bytes, size_t size);
