#include "core/plain_text.h"

#include <stdio.h>
#include <string.h>

/* Decodes the first character of UTF-8 text of at least one byte: returns the number of its bytes, at most `size`, and sets its
 * code point; 0 if the text does not begin with a valid character (Unicode 15, table 3-7). Reads a byte only if the bytes
 * before it are valid, and so never reads past a NUL. */
static size_t decode(const unsigned char *bytes, size_t size, uint32_t *point)
{
    unsigned char first = bytes[0];
    *point = first;
    if (first < 0x80) return 1;
    size_t length = first < 0xC2 ? 0 : first < 0xE0 ? 2 : first < 0xF0 ? 3 : first < 0xF5 ? 4 : 0;
    /* The range of the second byte excludes longer spellings, surrogates and numbers above 0x10FFFF. */
    unsigned char low = first == 0xE0 ? 0xA0 : first == 0xF0 ? 0x90 : 0x80;
    unsigned char high = first == 0xED ? 0x9F : first == 0xF4 ? 0x8F : 0xBF;
    *point = first & (0x7Fu >> length);
    for (size_t i = 1; i < length; i++, low = 0x80, high = 0xBF) {
        if (i >= size || bytes[i] < low || bytes[i] > high) return 0;
        *point = *point << 6 | (bytes[i] & 0x3Fu);
    }
    return length;
}

uint32_t qkv_utf8_next(const char **text)
{
    uint32_t point;
    if (!**text) return 0;
    size_t size = decode((const unsigned char *)*text, SIZE_MAX, &point);
    *text += size ? size : 1;
    return size ? point : QKV_REPLACEMENT;
}

size_t qkv_text_valid_size(const char *text, size_t size)
{
    uint32_t point;
    size_t valid = 0, used = 1;
    while (valid < size && text[valid] && used) {
        used = decode((const unsigned char *)text + valid, size - valid, &point);
        valid += used;
    }
    return valid;
}

bool qkv_is_utf8(const char *text)
{
    while (*text) {
        const char *start = text;
        if (qkv_utf8_next(&text) == QKV_REPLACEMENT && text == start + 1) return false;
    }
    return true;
}

bool qkv_is_plain(uint32_t point)
{
    bool control = point < 0x20 || (point >= 0x7F && point < 0xA0);
    bool separator_or_order = (point >= 0x2028 && point <= 0x202E) || (point >= 0x2066 && point <= 0x2069);
    bool character = (point < 0xD800 || point > 0xDFFF) && (point < 0xFDD0 || point > 0xFDEF) &&
                     (point & 0xFFFE) != 0xFFFE;
    return character && !control && !separator_or_order;
}

int qkv_plain_next(const char **text, char out[QKV_PLAIN_SIZE])
{
    const char *start = *text;
    uint32_t point = qkv_utf8_next(text);
    size_t size = (size_t)(*text - start);
    if (size == 1 && point == QKV_REPLACEMENT)
        return snprintf(out, QKV_PLAIN_SIZE, "\\x%02X", (unsigned char)*start);
    if (qkv_is_plain(point) || !size) {
        memcpy(out, start, size);
        return (int)size;
    }
    return snprintf(out, QKV_PLAIN_SIZE,
                    point < 0x100     ? "\\x%02X"
                    : point < 0x10000 ? "\\u%04X"
                                      : "\\U%08X",
                    point);
}
