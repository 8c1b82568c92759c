/* Text files read line by line, plain or gzip, with a place for every problem. */
#ifndef QKV_DATA_LINES_H
#define QKV_DATA_LINES_H

#include "qkv/error.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct gzFile_s;

/* Caller's storage. */
struct qkv_lines {
    char *path;     /* owned */
    int64_t number; /* of the current line, from 1 */
    char *line; /* NUL-terminated, without its line end (LF or CRLF), valid UTF-8; may be written to, valid
                   until the next call */
    size_t size;
    bool ended; /* whether the current line had a line end */
    /* private */
    struct gzFile_s *file;
    char *buffer;
    int64_t capacity;
    size_t used, next; /* bytes in the buffer; where the next line begins */
    bool finished;
};

/* Opens a file, or standard input for "-"; fails with `path: ...` when it is missing, a folder or empty (a
 * byte order mark alone counts as empty). There is nothing to close after a failure. */
enum qkv_status qkv_lines_open(struct qkv_lines *lines, const char *path, struct qkv_error *error);

/* Reads the next line; `*found` becomes false at the end of the file. Fails with `path:line:column: ...` on
 * invalid UTF-8 or a NUL byte, with `path: ...` when reading fails or a gz file is cut off or damaged. */
enum qkv_status qkv_lines_next(struct qkv_lines *lines, bool *found, struct qkv_error *error);

void qkv_lines_close(struct qkv_lines *lines);

#endif
