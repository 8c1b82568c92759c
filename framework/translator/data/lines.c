#include "data/lines.h"

#include "core/file.h"
#include "core/memory.h"
#include "core/text.h"
#include "data/unicode.h"

enum { CHUNK = 1 << 16 }; /* bytes per read */

enum qkv_status qkv_lines_open(struct qkv_lines *lines, const char *path, struct qkv_error *error)
{
    *lines = (struct qkv_lines){.path = strdup(strcmp(path, "-") ? path : "<stdin>")};
    if (!lines->path) return qkv_no_memory(error);
    lines->input = qkv_input_open(strcmp(path, "-") ? lines->path : path, error);
    if (lines->input) return QKV_OK;
    qkv_lines_close(lines);
    return QKV_INVALID;
}

/* Moves the unfinished line to the front of the buffer and reads more bytes after it. */
static enum qkv_status fill(struct qkv_lines *lines, struct qkv_error *error)
{
    bool first = !lines->capacity;
    size_t got;
    if (!lines->input) return qkv_error_set(error, "no text is open");
    lines->used -= lines->next;
    if (lines->next) memmove(lines->buffer, lines->buffer + lines->next, lines->used);
    lines->next = 0;
    if (lines->used > QKV_LINE_MAX_BYTES)
        return qkv_error_set(error,
                             "%s:%lld: the line is longer than %d MiB; a text has a sentence in each line",
                             lines->path, (long long)lines->number + 1, QKV_LINE_MAX_BYTES >> 20);
    if (!QKV_RESERVE(lines->buffer, lines->capacity, (int64_t)lines->used + CHUNK + 1)) {
        lines->used = 0;
        return qkv_no_memory(error);
    }
    do {
        if (qkv_input_read(lines->input, lines->buffer + lines->used, CHUNK - (first ? lines->used : 0), &got,
                           error))
            return QKV_INVALID;
        lines->used += got;
    } while (first && got && lines->used < 3 && *lines->buffer == '\xEF');
    lines->finished = got == 0;
    if (first && lines->used >= 3 && !memcmp(lines->buffer, "\xEF\xBB\xBF", 3)) lines->next = 3;
    return QKV_OK;
}

enum qkv_status qkv_lines_next(struct qkv_lines *lines, bool *found, struct qkv_error *error)
{
    *found = false;
    size_t searched = 0; /* bytes after `next` that hold no newline */
    char *newline = NULL;
    for (;;) {
        size_t held = lines->used - lines->next;
        if (held > searched) newline = memchr(lines->buffer + lines->next + searched, '\n', held - searched);
        if (newline || lines->finished) break;
        searched = held;
        if (fill(lines, error)) return QKV_INVALID;
    }
    if (!newline && lines->next == lines->used) return QKV_OK;
    lines->ended = newline != NULL;
    lines->line = lines->buffer + lines->next;
    char *end = newline ? newline : lines->buffer + lines->used;
    lines->next = (size_t)(end - lines->buffer) + (newline != NULL);
    if (newline && end > lines->line && end[-1] == '\r') end--;
    *end = '\0'; /* `fill` reserves one byte more than it reads */
    lines->size = (size_t)(end - lines->line);
    lines->number++;
    size_t valid = qkv_text_valid_size(lines->line, lines->size);
    if (valid < lines->size) {
        char place[768];
        snprintf(place, sizeof place, "%s:%lld:", lines->path, (long long)lines->number);
        return qkv_text_refuse(place, lines->line, lines->size, valid, error);
    }
    *found = true;
    return QKV_OK;
}

enum qkv_status qkv_lines_check_read(const struct qkv_lines *lines, struct qkv_error *error)
{
    if (lines->number) return QKV_OK;
    return lines->path ? qkv_error_set(error, "%s: the file is empty", lines->path)
                       : qkv_error_set(error, "no text is open");
}

/* Opens a part, in which lines are numbered from 1, or a regular file. */
static enum qkv_status open_part(struct qkv_lines *lines, struct qkv_file_part part, struct qkv_error *error)
{
    if (!part.bytes)
        return qkv_file_check(part.path, error) ? QKV_INVALID : qkv_lines_open(lines, part.path, error);
    *lines = (struct qkv_lines){.path = strdup(part.path), .used = part.size, .finished = true};
    if (lines->path && QKV_RESERVE(lines->buffer, lines->capacity, (int64_t)part.size + 1)) {
        memcpy(lines->buffer, part.bytes, part.size);
        return QKV_OK;
    }
    qkv_lines_close(lines);
    return qkv_no_memory(error);
}

enum qkv_status qkv_lines_read_part(struct qkv_file_part part, qkv_add_line *add, void *made,
                                    struct qkv_error *error)
{
    struct qkv_lines lines;
    bool found;
    enum qkv_status status;
    if (open_part(&lines, part, error)) return QKV_INVALID;
    while (!(status = qkv_lines_next(&lines, &found, error)) && found) {
        status = add(made, &lines, error);
        if (!status && !lines.ended)
            status = qkv_error_set(error, "%s:%lld: the last line has no newline; the file may be truncated",
                                   lines.path, (long long)lines.number);
        if (status) break;
    }
    if (!status) status = qkv_lines_check_read(&lines, error);
    qkv_lines_close(&lines);
    return status;
}

void qkv_lines_close(struct qkv_lines *lines)
{
    qkv_input_close(lines->input);
    free(lines->path);
    free(lines->buffer);
    *lines = (struct qkv_lines){0};
}
