/* Private: a growing byte buffer. */
#ifndef QKV_BYTES_H
#define QKV_BYTES_H

#include "qkv/error.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Starts all zero; the owner frees `data`. If memory runs out, `failed` stays set and later appends do
 * nothing, so that callers check once at the end. A NUL that `size` does not count follows the bytes. */
struct bytes {
    char *data;
    size_t size, capacity;
    bool failed;
};

void qkv_bytes_append(struct bytes *bytes, const void *data, size_t size);
void qkv_bytes_text(struct bytes *bytes, const char *text);
void qkv_bytes_format(struct bytes *bytes, const char *format, ...) QKV_PRINTF(2, 3);

/* Appends the `size` low bytes of a number, lowest first. */
void qkv_bytes_little_endian(struct bytes *bytes, uint64_t value, int size);

/* Appends the shortest decimal that reads back as the same double, with a decimal point in every locale. */
void qkv_bytes_number(struct bytes *bytes, double value);

/* Replaces the decimal point of the locale by ".", in a number that printf has written. */
void qkv_decimal_point(char *number);

#endif
