/* Writes vocabularies and merges to a stream, and reads them from a part of a larger file. The public functions for complete
 * files describe the contents and how reading fails. */
#ifndef QKV_DATA_FILE_PARTS_H
#define QKV_DATA_FILE_PARTS_H

#include "qkv/bpe.h"
#include "qkv/lines.h"
#include "qkv/vocabulary.h"

#include <stdio.h>

struct qkv_file_part {
    const char *path;  /* of the file */
    const void *bytes; /* [size]: the part, in memory; NULL: the complete file */
    size_t size;
};

/* Opens a part, in which lines are numbered from 1, or a regular file. Fails as qkv_lines_open does. */
enum qkv_status qkv_lines_open_part(struct qkv_lines *lines, struct qkv_file_part part,
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
