#include "qkv/error.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum qkv_status qkv_error_set(struct qkv_error *error, const char *format, ...)
{
    if (!error) return QKV_INVALID;
    va_list arguments;
    va_start(arguments, format);
    int length = vsnprintf(error->message, sizeof error->message, format, arguments);
    va_end(arguments);
    if (length < 0 || (size_t)length >= sizeof error->message)
        memcpy(error->message + sizeof error->message - 4, "...", 4);
    return QKV_INVALID;
}

void qkv_bug(const char *file, int line, const char *condition, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    fprintf(stderr, "qkv: bug at %s:%d (%s): ", file, line, condition);
    vfprintf(stderr, format, arguments);
    fputc('\n', stderr);
    va_end(arguments);
    abort();
}
