/* The bytes of a text: a file or standard input, plain or gzip. UTF-16 with a byte order mark becomes UTF-8. */
#ifndef QKV_DATA_INPUT_H
#define QKV_DATA_INPUT_H

#include "qkv/error.h"

#include <stddef.h>

struct qkv_input;

/* Opens a file, or standard input for "-". `path` must outlive the input. NULL with a message on failure. */
struct qkv_input *qkv_input_open(const char *path, struct qkv_error *error);

/* Opens bytes in memory, which must outlive the input, as if they were the file `path`. NULL with a message on failure. */
struct qkv_input *qkv_input_open_bytes(const char *path, const void *bytes, size_t size,
                                       struct qkv_error *error);

/* Reads up to `size` bytes (`size` is at least 6). Returns as soon as there are some, so that a terminal is read line by line;
 * *got is 0 at the end. Fails when reading fails, when a gzip file is truncated or damaged or expands far more than text does,
 * when text that begins as UTF-16 is not valid UTF-16, and when it looks like UTF-16 without a byte order mark. */
enum qkv_status qkv_input_read(struct qkv_input *input, char *to, size_t size, size_t *got,
                               struct qkv_error *error);

/* NULL: does nothing. */
void qkv_input_close(struct qkv_input *input);

#endif
