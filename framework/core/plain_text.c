#include "core/plain_text.h"

#include <stdio.h>
#include <string.h>
#include <utf8proc.h>

uint32_t qkv_utf8_next(const char **text)
{
    /* Reads a byte of a character only if the bytes before it are valid, and so never reads past the NUL. */
    utf8proc_int32_t point = 0;
    if (!**text) return 0;
    utf8proc_ssize_t size = utf8proc_iterate((const utf8proc_uint8_t *)*text, -1, &point);
    *text += size < 1 ? 1 : size;
    return size < 1 ? QKV_REPLACEMENT : (uint32_t)point;
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
