/* Converts UTF-16, which spreadsheets and Windows programs write as "Unicode text", to UTF-8. */
#ifndef QKV_DATA_UTF16_H
#define QKV_DATA_UTF16_H

#include <stdbool.h>
#include <stddef.h>

/* True when a text begins with the byte order mark of UTF-16, FF FE, or FE FF for big-endian text. These bytes never occur in
 * UTF-8. */
bool qkv_is_utf16(const unsigned char bytes[2], bool *big_endian);

/* Converts `size` bytes, without byte order mark, to UTF-8 in `text`, which has room for size / 2 * 3 bytes. Returns the
 * number of bytes that it has converted: it leaves the last byte of an odd number, and the first half of a surrogate pair whose
 * second half is missing. *valid becomes false at a surrogate that is not part of a pair. */
size_t qkv_utf16_convert(const unsigned char *bytes, size_t size, bool big_endian, char *text,
                         size_t *text_size, bool *valid);

#endif
