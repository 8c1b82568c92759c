/* Reads a text line by line: a file or standard input, plain or gzip. All text files are read by these functions: training
 * texts, sentences to translate, references, links between words, vocabularies.
 *
 * Example:
 *     struct qkv_lines lines = {0};
 *     struct qkv_error error;
 *     bool found;
 *     enum qkv_status status = qkv_lines_open(&lines, "sentences.en.gz", &error);
 *     while (!status && !(status = qkv_lines_next(&lines, &found, &error)) && found)
 *         printf("%lld: %s\n", (long long)lines.number, lines.line);
 *     if (status) fprintf(stderr, "%s\n", error.message);
 *     qkv_lines_close(&lines);
 *
 * Lines end in LF or CRLF; the last may end with the file. A byte order mark at the start is skipped; with one of UTF-16,
 * of either byte order, the text is converted to UTF-8. gzip is recognised by its first bytes, not by the name of the
 * file. */
#ifndef QKV_LINES_H
#define QKV_LINES_H

#include "qkv/base.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Longest line, in bytes. */
enum { QKV_LINE_MAX_BYTES = 4 << 20 };

struct qkv_input;

/* Caller's storage; all zero is valid and closed. */
struct qkv_lines {
    char *path;     /* in messages: "<stdin>" for standard input; owned */
    int64_t number; /* of the current line, from 1 */
    /* The current line: UTF-8 and a NUL, without its line end. The caller may change it. Valid until the next call. */
    char *line;
    size_t size; /* bytes of `line`, without the NUL */
    bool ended;  /* true: the current line has a line end in the file */
    /* private */
    struct qkv_input *input;
    char *buffer;
    int64_t capacity;
    size_t used, next; /* bytes in the buffer; where the next line begins in it */
    bool finished;     /* no more bytes come after those in the buffer */
};

/* Opens a file, or standard input for "-". Fails with `path: cannot be read: ...` when it is missing, a folder or a
 * named pipe. After a failure nothing needs to be closed. */
QKV_API enum qkv_status qkv_lines_open(struct qkv_lines *lines, const char *path, struct qkv_error *error);

/* Reads the next line; *found becomes false at the end of the text, for an empty file at the first call. Fails with
 * `path:line:column: ...`, columns in bytes from 1, on invalid UTF-8 or a NUL byte; with `path:line: ...` when a line is
 * longer than QKV_LINE_MAX_BYTES; with `path: ...` when reading fails, memory runs out, UTF-16 is not valid or has no byte
 * order mark, or a gzip file is truncated, damaged or expands to more than 200 times its size (and 256 MiB). */
QKV_API enum qkv_status qkv_lines_next(struct qkv_lines *lines, bool *found, struct qkv_error *error);

/* Fails with `path: the file is empty` when no line was read, and when no text is open. */
QKV_API enum qkv_status qkv_lines_check_read(const struct qkv_lines *lines, struct qkv_error *error);

QKV_API void qkv_lines_close(struct qkv_lines *lines);

#endif
