#include "draw/bytes.h"

#include <locale.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Makes room for `size` more bytes and a NUL. */
static bool reserve(struct bytes *bytes, size_t size)
{
    if (bytes->failed) return false;
    if (bytes->size + size < bytes->capacity) return true;
    size_t capacity = 2 * bytes->capacity + size + 256;
    char *data = capacity > size ? realloc(bytes->data, capacity) : NULL;
    if (!data) {
        bytes->failed = true;
        return false;
    }
    bytes->data = data;
    bytes->capacity = capacity;
    return true;
}

void qkv_bytes_append(struct bytes *bytes, const void *data, size_t size)
{
    if (size == 0 || !reserve(bytes, size)) return;
    memcpy(bytes->data + bytes->size, data, size);
    bytes->size += size;
    bytes->data[bytes->size] = 0;
}

void qkv_bytes_text(struct bytes *bytes, const char *text)
{
    qkv_bytes_append(bytes, text, strlen(text));
}

void qkv_bytes_format(struct bytes *bytes, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    int length = vsnprintf(NULL, 0, format, arguments);
    va_end(arguments);
    if (length < 0 || !reserve(bytes, (size_t)length + 1)) return;
    va_start(arguments, format);
    vsnprintf(bytes->data + bytes->size, (size_t)length + 1, format, arguments);
    va_end(arguments);
    bytes->size += (size_t)length;
}

void qkv_bytes_little_endian(struct bytes *bytes, uint64_t value, int size)
{
    unsigned char digits[8];
    for (int i = 0; i < size; i++) digits[i] = (unsigned char)(value >> (8 * i));
    qkv_bytes_append(bytes, digits, (size_t)size);
}

void qkv_decimal_point(char *number)
{
    const char *point = localeconv()->decimal_point;
    char *found = strstr(number, point);
    if (!found) return;
    *found = '.';
    memmove(found + 1, found + strlen(point), strlen(found + strlen(point)) + 1);
}

/* Tries increasing numbers of digits: the first decimal that reads back as the same double is the shortest. It can start
 * at 15 digits, because different decimals of up to 15 digits are different doubles, and `%g` drops zeros at the end. */
void qkv_bytes_number(struct bytes *bytes, double value)
{
    char text[40];
    for (int digits = 15; digits <= 17; digits++) {
        snprintf(text, sizeof text, "%.*g", digits, value);
        if (strtod(text, NULL) == value) break;
    }
    qkv_decimal_point(text);
    qkv_bytes_text(bytes, text);
}
