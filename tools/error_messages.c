#include "error_messages.h"

#include "core/plain_text.h"

#include <stdarg.h>
#include <stdio.h>

static const char *process_name; /* set_error_process */

void set_error_process(const char *process)
{
    process_name = process;
}

/* Writes a line in a single call, because mpirun may interleave output that its processes write in pieces. */
static void print_line(const char *start, const char *message)
{
    char line[4096];
    size_t length = (size_t)snprintf(line, sizeof line, "%s%s%s", start, process_name ? process_name : "",
                                     process_name ? ": " : "");
    for (int size; (size = qkv_plain_next(&message, line + length));) {
        length += (size_t)size;
        if (length + QKV_PLAIN_SIZE < sizeof line) continue;
        fwrite(line, 1, length, stderr);
        length = 0;
    }
    line[length++] = '\n';
    fwrite(line, 1, length, stderr);
}

void print_located_error(const char *message)
{
    print_line("", message);
}

int print_error(const char *format, ...)
{
    char message[2 * sizeof(struct qkv_error)];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(message, sizeof message, format, arguments);
    va_end(arguments);
    print_line("qkv: ", message);
    return QKV_INVALID;
}

const char *list_names(char *text, size_t size, qkv_name_lister *name, const void *context)
{
    const char *one;
    size_t used = 0;
    for (int64_t i = 0; (one = name(context, i)) && used < size; i++)
        used += (size_t)snprintf(text + used, size - used, "%s%s", i ? ", " : "", one);
    return text;
}

int print_unknown_name(const char *what, const char *given, qkv_name_lister *name, const void *context)
{
    enum { FEW = 3 }; /* names that are listed even if one is near: the user may have meant another */
    char names[1024];
    int64_t count = 0;
    while (count <= FEW && name(context, count)) count++;
    if (count > FEW && *qkv_suggest_names(names, sizeof names, given, "", name, context))
        return print_error("%s is '%s'; did you mean %s", what, given, names);
    return print_error("%s is '%s', but must be %s%s", what, given, count > 1 ? "one of " : "",
                       list_names(names, sizeof names, name, context));
}

int conclude(enum qkv_status status, const struct qkv_error *error)
{
    if (status && error->message[0]) print_error("%s", error->message);
    return (int)status;
}
