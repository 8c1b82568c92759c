/* UTF-16 as UTF-8: what spreadsheets and Windows programs write as "Unicode text". */
#ifndef QKV_DATA_UTF16_H
#define QKV_DATA_UTF16_H

#include <stdbool.h>
#include <stddef.h>

/* True when a text begins with the byte order mark of UTF-16, whose bytes occur nowhere in UTF-8: FF FE, or for
 * big-endian text FE FF. */
bool qkv_is_utf16(const unsigned char bytes[2], bool *big_endian);

/* Converts `size` bytes, without byte order mark, to UTF-8 in `text`, which has room for size / 2 * 3 bytes. Returns the
 * number of bytes that it used: it leaves the last one of an odd number, and the first half of a pair of surrogates whose
 * second half is missing. *valid becomes false at a surrogate that is not one of a pair. */
size_t qkv_utf16_convert(const unsigned char *bytes, size_t size, bool big_endian, char *text,
                         size_t *text_size, bool *valid);

#endif
