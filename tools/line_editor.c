#include "line_editor.h"

#include "edited_lines.h"
#include "key_wait.h"
#include "terminal.h"

#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

void line_editor_open(struct line_editor *editor, const char *prompt)
{
    *editor = (struct line_editor){.prompt = prompt};
#ifdef QKV_LIBEDIT
    if (has_cursor_control(stdout)) editor->edited = edited_lines_open(prompt);
#endif
}

/* Makes space for more bytes and a NUL. */
static bool reserve(struct line_editor *editor, size_t size)
{
    if (editor->capacity > editor->used + size) return true;
    size_t capacity = 2 * editor->capacity + size + 1;
    char *line = realloc(editor->line, capacity);
    if (!line) return false;
    editor->line = line;
    editor->capacity = capacity;
    return true;
}

/* Reads the bytes that the terminal has: a line with its end, or without it after Ctrl-D. Returns false at the end of input. */
static bool read_bytes(struct line_editor *editor)
{
    enum { CAPACITY = 4096 };
    ssize_t got;
    if (!reserve(editor, CAPACITY)) return false;
    do got = read(STDIN_FILENO, editor->line + editor->used, CAPACITY);
    while (got < 0 && errno == EINTR);
    if (got > 0) editor->used += (size_t)got;
    return got > 0;
}

/* Reads a line that the terminal itself edits. It is not known whether anything was typed before Ctrl-C, so the first Ctrl-C
 * clears the line, and the second one leaves. */
static enum line_event read_plain(struct line_editor *editor)
{
    bool cleared = false;
    editor->used = 0;
    for (;;) {
        enum key_event event = key_wait();
        if (event == KEY_REDRAW) continue;
        if (event == KEY_INTERRUPT) {
            if (cleared) return LINE_LEFT;
            cleared = true;
            editor->used = 0;
            printf("\n%s", editor->prompt);
            fflush(stdout);
            continue;
        }
        bool has_ended = !read_bytes(editor);
        if (has_ended && !editor->used) return LINE_ENDED;
        char *newline = memchr(editor->line, '\n', editor->used);
        if (!newline && !has_ended) continue;
        *(newline ? newline : editor->line + editor->used) = '\0';
        return LINE_TYPED;
    }
}

enum line_event line_editor_read(struct line_editor *editor, char **line)
{
    enum line_event event;
    *line = NULL;
    fflush(stdout);
    key_wait_begin();
#ifdef QKV_LIBEDIT
    if (editor->edited) {
        event = edited_lines_read(editor->edited, line);
        key_wait_end();
        return event;
    }
#endif
    fputs(editor->prompt, stdout);
    fflush(stdout);
    event = read_plain(editor);
    key_wait_end();
    if (event == LINE_TYPED) *line = editor->line;
    return event;
}

void line_editor_close(struct line_editor *editor)
{
#ifdef QKV_LIBEDIT
    edited_lines_close(editor->edited);
#endif
    free(editor->line);
}
