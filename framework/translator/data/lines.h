/* What is below lines of text: the bytes of a file; and vocabularies and merges as a part of a larger file. */
#ifndef QKV_DATA_LINES_H
#define QKV_DATA_LINES_H

#include "qkv/bpe.h"
#include "qkv/lines.h"
#include "qkv/vocabulary.h"

#include <stdio.h>

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

#endif
