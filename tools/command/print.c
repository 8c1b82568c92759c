#include "command.h"
#include "report/json_text.h"

#include <limits.h>
#include <stdarg.h>

/* ---- error messages ---- */

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
    if (status) fflush(stdout); /* what was printed before the mistake comes before it in a pipe, too */
    if (status && error->message[0]) print_error("%s", error->message);
    return (int)status;
}

void *required(void *memory)
{
    if (memory) return memory;
    print_error("out of memory");
    qkv_file_remove_temporary();
    exit(QKV_INVALID);
}

/* ---- text of any origin ---- */

void format_duration(double seconds, char text[16])
{
    unsigned rounded = seconds < 3e6 ? (unsigned)(seconds + 0.5) : 3000000;
    if (rounded < 60)
        snprintf(text, 16, "%us", rounded);
    else if (rounded < 3600)
        snprintf(text, 16, "%um%02us", rounded / 60 % 60, rounded % 60);
    else
        snprintf(text, 16, "%uh%02um", rounded / 3600 % 1000, rounded / 60 % 60);
}

void print_plain(FILE *file, const char *text)
{
    print_plain_start(file, text, INT_MAX);
}

void print_plain_start(FILE *file, const char *text, int max)
{
    char one[QKV_PLAIN_SIZE];
    for (int length; max > 0 && (length = qkv_plain_next(&text, one)); max--)
        fwrite(one, 1, (size_t)length, file);
    if (*text) fputs("...", file);
}

void say(FILE *file, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    int size = vsnprintf(NULL, 0, format, arguments);
    va_end(arguments);
    char *message = required(malloc((size_t)size + 1));
    va_start(arguments, format);
    vsnprintf(message, (size_t)size + 1, format, arguments);
    va_end(arguments);
    bool ends_line = *format && format[strlen(format) - 1] == '\n';
    if (ends_line) message[size - 1] = '\0';
    print_plain(file, message);
    if (ends_line) fputc('\n', file);
    free(message);
}

void print_result(FILE *file, const char *text)
{
    char one[QKV_PLAIN_SIZE];
    if (!isatty(fileno(file))) {
        fputs(text, file);
        return;
    }
    while (*text)
        if (*text == '\n' || *text == '\t')
            fputc(*text++, file);
        else
            fwrite(one, 1, (size_t)qkv_plain_next(&text, one), file);
}

static void print_shell_word(FILE *file, const char *word)
{
    char one[QKV_PLAIN_SIZE];
    bool escaped = false;
    for (const char *at = word, *next = at; qkv_plain_next(&next, one); at = next)
        escaped = escaped || (*one == '\\' && *at != '\\');
    static const char plain[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_./=,:+@%-";
    if (*word && !word[strspn(word, plain)]) {
        fputs(word, file);
        return;
    }
    fputs(escaped ? "$'" : "'", file);
    while (*word) {
        if (*word == '\'' || (escaped && *word == '\\')) fputs(escaped ? "\\" : "'\\'", file);
        fwrite(one, 1, (size_t)qkv_plain_next(&word, one), file);
    }
    fputc('\'', file);
}

void print_command(FILE *file, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    for (const char *word; (word = strstr(format, "%s")); format = word + 2) {
        fwrite(format, 1, (size_t)(word - format), file);
        print_shell_word(file, va_arg(arguments, const char *));
    }
    va_end(arguments);
    fputs(format, file);
}

enum qkv_status write_output(const char *path, struct bytes *bytes, struct qkv_error *error)
{
    enum qkv_status status = QKV_OK;
    if (bytes->failed) required(NULL);
    if (path)
        status = qkv_file_write(path, bytes->data, bytes->size, error);
    else
        fwrite(bytes->data, 1, bytes->size, stdout);
    free(bytes->data);
    return status;
}

/* ---- JSON ---- */

static void *allocate(size_t size)
{
    return required(malloc(size));
}

void json_need_memory(void)
{
    cJSON_InitHooks(&(cJSON_Hooks){allocate, free});
}

void json_numbers(struct cJSON *object, const struct json_number *members)
{
    for (; members->key; members++) cJSON_AddNumberToObject(object, members->key, members->value);
}

void json_texts(struct cJSON *object, const struct json_text *members)
{
    for (; members->key; members++) cJSON_AddStringToObject(object, members->key, members->value);
}

void json_print(struct cJSON *object)
{
    struct bytes out = {0};
    qkv_json_append(&out, object);
    qkv_bytes_text(&out, "\n");
    cJSON_Delete(object);
    write_output(NULL, &out, NULL);
}
