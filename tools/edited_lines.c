#include "edited_lines.h"

#include "key_wait.h"

#include "framework/engine/core/temporary.h"

#include "qkv/arena.h"

#include <errno.h>
#include <histedit.h>
#include <limits.h>
#include <locale.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <wchar.h>

enum { CTRL_C = 3, MAX_LINES = 1000 };

struct edited_lines {
    const char *prompt;
    EditLine *editor;
    History *history;
    const char *path;              /* of the file of the history; NULL: none */
    struct qkv_arena arena;        /* owns the path */
    char *line;                    /* the last line; owned */
    bool is_interrupted, is_empty; /* Ctrl-C has ended the line; nothing had been typed in it */
};

static struct edited_lines *lines_of(EditLine *editor)
{
    void *lines = NULL;
    el_get(editor, EL_CLIENTDATA, &lines);
    return lines;
}

static char *prompt_of(EditLine *editor)
{
    return (char *)(size_t)lines_of(editor)->prompt; /* libedit does not change it */
}

/* Called when the terminal has a new size, or when the process continues after a stop, during which the terminal may have had
 * other settings. libedit draws the line again, and assumes that the cursor is at the start of a row. */
static void redraw(EditLine *editor)
{
    fputs("\r\033[J", stdout);
    el_set(editor, EL_PREP_TERM, 0);
    el_set(editor, EL_PREP_TERM, 1);
    el_resize(editor);
    el_set(editor, EL_REFRESH);
}

/* Reads a character; Ctrl-C may come as a signal. Returns 1; 0 at the end, -1 when reading fails. */
static int read_key(EditLine *editor, wchar_t *key)
{
    mbstate_t state = {0};
    for (;;) {
        char byte;
        enum key_event event = key_wait();
        if (event == KEY_INTERRUPT) {
            *key = CTRL_C;
            return 1;
        }
        if (event == KEY_REDRAW) {
            redraw(editor);
            continue;
        }
        ssize_t got = read(STDIN_FILENO, &byte, 1);
        if (got < 0 && errno == EINTR) continue;
        if (got <= 0) return (int)got;
        size_t used = mbrtowc(key, &byte, 1, &state);
        if (used == 0 || used == 1) return 1;
        if (used == (size_t)-1) state = (mbstate_t){0}; /* skips bytes that are not UTF-8 */
    }
}

/* The function of Ctrl-C: ends the line. */
static unsigned char interrupt(EditLine *editor, int key)
{
    struct edited_lines *lines = lines_of(editor);
    const LineInfo *typed = el_line(editor);
    (void)key;
    lines->is_interrupted = true;
    lines->is_empty = typed->lastchar == typed->buffer;
    return CC_EOF;
}

/* Makes the folders of a path, without its last part. */
static void make_folders(char *path)
{
    for (char *slash = strchr(path + 1, '/'); slash; slash = strchr(slash + 1, '/')) {
        *slash = '\0';
        mkdir(path, 0700); /* the XDG Base Directory Specification asks for this mode */
        *slash = '/';
    }
}

/* The file of the history; NULL: none. */
static const char *history_path(struct qkv_arena *arena)
{
    const char *state = getenv("XDG_STATE_HOME"), *home = getenv("HOME");
    char *path = NULL;
    if (state && *state == '/')
        path = qkv_arena_format(arena, "%s/qkv/history", state);
    else if (home && *home == '/')
        path = qkv_arena_format(arena, "%s/.local/state/qkv/history", home);
    if (path) make_folders(path);
    return path;
}

static void open_history(struct edited_lines *lines)
{
    HistEvent event;
    lines->history = history_init();
    if (!lines->history) return;
    history(lines->history, &event, H_SETSIZE, MAX_LINES);
    history(lines->history, &event, H_SETUNIQUE, 1);
    lines->path = history_path(&lines->arena);
    if (lines->path) history(lines->history, &event, H_LOAD, lines->path);
    el_set(lines->editor, EL_HIST, history, lines->history);
}

struct edited_lines *edited_lines_open(const char *prompt)
{
    struct edited_lines *lines = calloc(1, sizeof *lines);
    if (!lines) return NULL;
    lines->prompt = prompt;
    setlocale(LC_CTYPE, "C.UTF-8"); /* for libedit: text is UTF-8, whatever the locale */
    lines->editor = el_init("qkv", stdin, stdout, stderr);
    if (!lines->editor) {
        free(lines);
        return NULL;
    }
    el_set(lines->editor, EL_CLIENTDATA, lines);
    el_set(lines->editor, EL_PROMPT, prompt_of);
    el_set(lines->editor, EL_EDITOR, "emacs");
    open_history(lines);
    el_source(lines->editor, NULL);
    el_set(lines->editor, EL_GETCFN, read_key);
    el_wset(lines->editor, EL_ADDFN, L"qkv-interrupt", L"Forget the line",
            interrupt); /* el_set leaks memory */
    el_set(lines->editor, EL_BIND, "^C", "qkv-interrupt", NULL);
    return lines;
}

/* Copies a line without its end, and adds it to the history. */
static enum line_event keep(struct edited_lines *lines, const char *typed, char **line)
{
    HistEvent event;
    free(lines->line);
    lines->line = strndup(typed, strcspn(typed, "\n"));
    if (!lines->line) return LINE_ENDED;
    if (lines->history && lines->line[strspn(lines->line, " \t")])
        history(lines->history, &event, H_ENTER, lines->line);
    *line = lines->line;
    return LINE_TYPED;
}

enum line_event edited_lines_read(struct edited_lines *lines, char **line)
{
    for (;;) {
        int count = 0;
        lines->is_interrupted = false;
        /* Prepares the terminal before libedit does: libedit prints the prompt first, and keys in between would be echoed
         * twice. */
        el_set(lines->editor, EL_PREP_TERM, 1);
        const char *typed = el_gets(lines->editor, &count);
        if (typed && count > 0) return keep(lines, typed, line);
        if (!lines->is_interrupted) return LINE_ENDED;
        if (lines->is_empty) return LINE_LEFT;
        putchar('\n');
        fflush(stdout);
    }
}

/* Replaces the history file. libedit makes it readable for its owner only. */
static void write_history(struct edited_lines *lines)
{
    static char temporary[PATH_MAX]; /* a signal handler may read it */
    HistEvent event;
    int size = snprintf(temporary, sizeof temporary, "%s.%ld.tmp", lines->path, (long)getpid());
    if (size < 0 || (size_t)size >= sizeof temporary) return;
    qkv_temporary_add(temporary);
    bool written = history(lines->history, &event, H_SAVE, temporary) >= 0;
    if (!written || rename(temporary, lines->path)) remove(temporary);
    qkv_temporary_forget(temporary);
}

void edited_lines_close(struct edited_lines *lines)
{
    if (!lines) return;
    if (lines->path) write_history(lines);
    el_end(lines->editor);
    if (lines->history) history_end(lines->history);
    qkv_arena_release(&lines->arena);
    free(lines->line);
    free(lines);
}
