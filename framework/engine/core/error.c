/* Messages of errors and of bugs, the flag that interrupts long calls, and the version. */

#include "core/memory.h"
#include "core/text.h"
#include "qkv/version.h"

#include <stdarg.h>

/* Copies a text with escapes (core/text.h). False if it does not fit: it is then cut between two characters. */
static bool copy_plain(char *copy, size_t size, const char *text)
{
    char one[QKV_PLAIN_SIZE];
    size_t used = 0;
    int length;
    while ((length = qkv_plain_next(&text, one)) && used + (size_t)length < size) {
        memcpy(copy + used, one, (size_t)length);
        used += (size_t)length;
    }
    copy[used] = 0;
    return !length;
}

enum qkv_status qkv_error_set(struct qkv_error *error, const char *format, ...)
{
    if (!error) return QKV_INVALID;
    if (!format) format = "";
    va_list arguments;
    va_start(arguments, format);
    char raw[sizeof error->message] = "";
    int length = vsnprintf(raw, sizeof raw, format, arguments);
    va_end(arguments);
    if (length < 0 || !copy_plain(error->message, sizeof error->message, raw) ||
        (size_t)length >= sizeof raw) {
        copy_plain(error->message, sizeof error->message - 3, raw);
        strcat(error->message, "...");
    }
    return QKV_INVALID;
}

static _Thread_local const bool *interrupt;

void qkv_set_interrupt(const bool *flag)
{
    interrupt = flag;
}

const bool *qkv_interrupt_flag(void)
{
    return interrupt;
}

enum qkv_status qkv_check_interrupt(struct qkv_error *error)
{
    return interrupt && __atomic_load_n(interrupt, __ATOMIC_RELAXED) ? qkv_error_set(error, "interrupted")
                                                                     : QKV_OK;
}

static qkv_bug_handler *bug_handler;
static void *bug_context;

void qkv_set_bug_handler(qkv_bug_handler *handler, void *context)
{
    bug_handler = handler;
    bug_context = context;
}

void qkv_bug(const char *file, int line, const char *condition, const char *format, ...)
{
    char reason[512], message[1024];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(reason, sizeof reason, format, arguments);
    va_end(arguments);
    snprintf(message, sizeof message, "bug at %s:%d (%s): %s", file, line, condition, reason);
    if (bug_handler)
        bug_handler(bug_context, message);
    else
        fprintf(stderr, "qkv: %s\n", message);
    abort();
}

const char *qkv_version(void)
{
    return QKV_VERSION;
}
