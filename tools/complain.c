#include "complain.h"

#include "terminal.h"

#include <stdarg.h>
#include <stdio.h>

static const char *speaker; /* complain_as */

void complain_as(const char *process)
{
    speaker = process;
}

void complain_of_place(const char *message)
{
    if (speaker) fprintf(stderr, "%s: ", speaker);
    print_plain(stderr, message);
    fputc('\n', stderr);
}

int complain(const char *format, ...)
{
    char message[2 * sizeof(struct qkv_error)];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(message, sizeof message, format, arguments);
    va_end(arguments);
    fputs("qkv: ", stderr);
    complain_of_place(message);
    return QKV_INVALID;
}

const char *list_names(char *text, size_t size, qkv_naming *name, const void *context)
{
    const char *one;
    size_t used = 0;
    for (int64_t i = 0; (one = name(context, i)) && used < size; i++)
        used += (size_t)snprintf(text + used, size - used, "%s%s", i ? ", " : "", one);
    return text;
}

int complain_of_name(const char *what, const char *given, qkv_naming *name, const void *context)
{
    char names[1024];
    if (*qkv_names_near(names, sizeof names, given, "", name, context))
        return complain("%s is '%s'; did you mean %s", what, given, names);
    return complain("%s is '%s', but must be %s%s", what, given, name(context, 1) ? "one of " : "",
                    list_names(names, sizeof names, name, context));
}

int conclude(enum qkv_status status, const struct qkv_error *error)
{
    if (status && error->message[0]) complain("%s", error->message);
    return (int)status;
}
