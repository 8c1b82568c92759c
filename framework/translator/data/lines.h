/* Reads a text line by line: a file or standard input, plain or gzip. All text files are read by these functions: training
 * texts, sentences to translate, references, links between words, vocabularies.
 *
 * Lines end in LF or CRLF; the last may end with the file. A byte order mark at the start is skipped; with one of UTF-16,
 * of either byte order, the text is converted to UTF-8. gzip is recognised by its first bytes, not by the name of the
 * file. */
#pragma once

#include "qkv/corpus.h"

/* ---- the bytes of a text: a file or standard input, plain or gzip; UTF-16 with a byte order mark becomes UTF-8 ---- */

struct qkv_input;

/* Opens a file, or standard input for "-". `path` must outlive the input. NULL with a message on failure. */
struct qkv_input *qkv_input_open(const char *path, struct qkv_error *error);

/* Reads up to `size` bytes (`size` is at least 6). Returns as soon as there are some, so that a terminal is read line by line;
 * *got is 0 at the end. Fails when reading fails, when a gzip file is truncated or damaged or expands far more than text does,
 * when text that begins as UTF-16 is not valid UTF-16, and when it looks like UTF-16 without a byte order mark. */
enum qkv_status qkv_input_read(struct qkv_input *input, char *to, size_t size, size_t *got,
                               struct qkv_error *error);

/* NULL: does nothing. */
void qkv_input_close(struct qkv_input *input);

/* ---- lines ---- */

/* Longest line, in bytes. */
enum { QKV_LINE_MAX_BYTES = 4 << 20 };

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
enum qkv_status qkv_lines_open(struct qkv_lines *lines, const char *path, struct qkv_error *error);

/* Reads the next line; *found becomes false at the end of the text, for an empty file at the first call. Fails with
 * `path:line:column: ...`, columns in bytes from 1, on invalid UTF-8 or a NUL byte; with `path:line: ...` when a line is
 * longer than QKV_LINE_MAX_BYTES; with `path: ...` when reading fails, memory runs out, UTF-16 is not valid or has no byte
 * order mark, or a gzip file is truncated, damaged or expands to more than 200 times its size (and 256 MiB). */
enum qkv_status qkv_lines_next(struct qkv_lines *lines, bool *found, struct qkv_error *error);

/* Fails with `path: the file is empty` when no line was read, and when no text is open. */
enum qkv_status qkv_lines_check_read(const struct qkv_lines *lines, struct qkv_error *error);

void qkv_lines_close(struct qkv_lines *lines);

/* ---- vocabularies and merges, written to a stream and read from a part of a file; the public functions for complete files
 * describe the contents and how reading fails ---- */

struct qkv_file_part {
    const char *path;  /* of the file */
    const void *bytes; /* [size]: the part, in memory; NULL: the complete file */
    size_t size;
};

/* Adds the current line to `made`. May change the line. */
typedef enum qkv_status qkv_add_line(void *made, const struct qkv_lines *lines, struct qkv_error *error);

/* Calls `add` for each line of a part, or of a regular file. Fails when there is no line, and when the last one is not
 * terminated. */
enum qkv_status qkv_lines_read_part(struct qkv_file_part part, qkv_add_line *add, void *made,
                                    struct qkv_error *error);

/* Write errors are left in the stream, for ferror. */
void qkv_vocabulary_write(const struct qkv_vocabulary *vocabulary, FILE *file);
enum qkv_status qkv_vocabulary_read(struct qkv_vocabulary *vocabulary, struct qkv_file_part part,
                                    struct qkv_error *error);

void qkv_bpe_write(const struct qkv_bpe *bpe, FILE *file);
struct qkv_bpe *qkv_bpe_read(struct qkv_file_part part, struct qkv_error *error);

void qkv_bpe_write_pieces(const struct qkv_bpe *bpe, FILE *file);
enum qkv_status qkv_bpe_read_pieces(struct qkv_bpe *bpe, struct qkv_file_part part, struct qkv_error *error);
