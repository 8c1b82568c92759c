/* Reads text files line by line, plain or gzip; errors name file, line and column. */
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
    /* The current line: UTF-8 and a NUL, without its line end (LF or CRLF). The caller may change
     * it. Valid until the next call. */
    char *line;
    size_t size; /* bytes of `line`, without the NUL */
    bool ended;  /* true: the current line has a line end in the file */
    /* private */
    struct gzFile_s *file;
    char *buffer;
    int64_t capacity;
    size_t used, next; /* bytes in the buffer; offset of the next line in it */
    bool finished;     /* the end of the file is in the buffer */
};

/* Opens a file, or standard input for "-". Fails with `path: ...` when it is missing, a folder, or empty (a file with only
 * a byte order mark is empty). After a failure nothing needs to be closed. */
enum qkv_status qkv_lines_open(struct qkv_lines *lines, const char *path, struct qkv_error *error);

/* Reads the next line; `*found` becomes false at the end of the file. Fails with `path:line:column: ...` on
 * invalid UTF-8 or a NUL byte, with `path: ...` when reading fails or a gz file is truncated or damaged. */
enum qkv_status qkv_lines_next(struct qkv_lines *lines, bool *found, struct qkv_error *error);

void qkv_lines_close(struct qkv_lines *lines);

#endif
