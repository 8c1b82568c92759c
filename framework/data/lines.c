#include "data/lines.h"

#include "core/grow.h"
#include "data/unicode.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zlib.h>

enum { CHUNK = 1 << 18 }; /* bytes per read */

/* Moves the unfinished line to the front of the buffer and reads more bytes after it. */
static enum qkv_status fill(struct qkv_lines *lines, struct qkv_error *error)
{
    lines->used -= lines->next;
    if (lines->next) memmove(lines->buffer, lines->buffer + lines->next, lines->used);
    lines->next = 0;
    if (!QKV_RESERVE(lines->buffer, lines->capacity, (int64_t)lines->used + CHUNK + 1)) {
        lines->used = 0;
        return qkv_error_set(error, "%s: out of memory", lines->path);
    }
    int got = gzread(lines->file, lines->buffer + lines->used, CHUNK);
    int code = Z_OK;
    const char *reason = gzerror(lines->file, &code);
    if (got < 0 && code == Z_ERRNO) return qkv_error_set(error, "%s: %s", lines->path, strerror(errno));
    if (code == Z_BUF_ERROR) return qkv_error_set(error, "%s: the gzip file is truncated", lines->path);
    if (got < 0) {
        const char *detail = strrchr(reason, ':'); /* zlib writes "path: reason" */
        return qkv_error_set(error, "%s: the gzip file is damaged:%s", lines->path,
                             detail ? detail + 1 : reason);
    }
    lines->used += (size_t)got;
    lines->finished = got == 0;
    return QKV_OK;
}

static void skip_byte_order_mark(struct qkv_lines *lines)
{
    if (lines->used >= 3 && !memcmp(lines->buffer, "\xEF\xBB\xBF", 3)) lines->next = 3;
}

enum qkv_status qkv_lines_open(struct qkv_lines *lines, const char *path, struct qkv_error *error)
{
    struct stat status;
    bool standard = !strcmp(path, "-");
    if (standard) path = "<stdin>";
    if (standard ? fstat(STDIN_FILENO, &status) : stat(path, &status))
        return qkv_error_set(error, "%s: %s", path, strerror(errno));
    if (S_ISDIR(status.st_mode)) return qkv_error_set(error, "%s: is a folder, not a text file", path);
    *lines = (struct qkv_lines){.path = strdup(path)};
    int descriptor =
        standard ? dup(STDIN_FILENO) : -1; /* gzclose closes the copy; standard input stays open */
    lines->file = standard ? gzdopen(descriptor, "rb") : gzopen(path, "rb");
    if (!lines->file && descriptor >= 0) close(descriptor);
    enum qkv_status result = QKV_OK;
    if (!lines->path || !lines->file) {
        result = qkv_error_set(error, "%s: %s", path, strerror(errno ? errno : ENOMEM));
    } else {
        gzbuffer(lines->file, CHUNK);
        while (!result && !lines->finished && lines->used <= 3) result = fill(lines, error);
        if (!result) skip_byte_order_mark(lines);
        if (!result && lines->finished && lines->used == lines->next)
            result = qkv_error_set(error, "%s: the file is empty", path);
    }
    if (result) qkv_lines_close(lines);
    return result;
}

enum qkv_status qkv_lines_next(struct qkv_lines *lines, bool *found, struct qkv_error *error)
{
    *found = false;
    size_t searched = lines->next;
    char *newline;
    while (!(newline = memchr(lines->buffer + searched, '\n', lines->used - searched)) && !lines->finished) {
        searched = lines->used - lines->next; /* bytes without a newline, which `fill` moves to the front */
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
        return qkv_text_refuse(place, lines->line, valid, error);
    }
    *found = true;
    return QKV_OK;
}

void qkv_lines_close(struct qkv_lines *lines)
{
    if (lines->file) gzclose(lines->file);
    free(lines->path);
    free(lines->buffer);
    *lines = (struct qkv_lines){0};
}
