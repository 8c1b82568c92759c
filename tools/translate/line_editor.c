/* The editor of the lines of a prompt. */
#define _DEFAULT_SOURCE /* SIGWINCH */
#include "line_editor.h"

#include "print.h"
#include "terminal.h"

#include "core/file.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <sys/select.h>
#include <unistd.h>
#ifdef QKV_LIBEDIT
#    include <histedit.h>
#    include <limits.h>
#    include <locale.h>
#    include <sys/stat.h>
#    include <wchar.h>
#endif

static char PROMPT[] = "> "; /* libedit does not change it */

static struct {
    char *line; /* the last line; owned */
    size_t capacity;
    struct editline *editor;       /* of libedit; NULL: the terminal edits */
    struct history *history;       /* of libedit */
    const char *path;              /* of the file of the history; NULL: none */
    struct qkv_arena arena;        /* owns the path */
    bool is_interrupted, is_empty; /* Ctrl-C has ended the line; nothing had been typed in it */
} session;

/* ---- waiting for a key, or for a signal that affects the line that a person types: Ctrl-C, a new size of the terminal, the
 * end of a stop ---- */

enum { SIGNALS = 3 };

static const int SIGNAL[SIGNALS] = {SIGINT, SIGWINCH, SIGCONT};
static struct sigaction before[SIGNALS];
static volatile sig_atomic_t received; /* the number of a signal; 0: none */
static pthread_t reader;

/* Another thread passes the signal on, so that it ends the wait of the reader. */
static void on_signal(int number)
{
    if (!pthread_equal(pthread_self(), reader)) pthread_kill(reader, number);
    received = number;
}

/* From now on Ctrl-C does not end the process. Calls are not nested. */
static void key_wait_begin(void)
{
    struct sigaction action = {.sa_handler = on_signal};
    sigemptyset(&action.sa_mask);
    reader = pthread_self();
    received = 0;
    for (int i = 0; i < SIGNALS; i++) sigaction(SIGNAL[i], &action, &before[i]);
}

/* Waits for bytes to read, or the end: 0; or else for a signal, also one since key_wait_begin or the last call: its number. */
static int key_wait(void)
{
    sigset_t signals, usual;
    fd_set input;
    sigemptyset(&signals);
    for (int i = 0; i < SIGNALS; i++) sigaddset(&signals, SIGNAL[i]);
    pthread_sigmask(SIG_BLOCK, &signals, &usual); /* pselect alone lets them through */
    for (int ready = -1; !received && ready < 0;) {
        FD_ZERO(&input);
        FD_SET(STDIN_FILENO, &input);
        ready = pselect(STDIN_FILENO + 1, &input, NULL, NULL, NULL, &usual);
    }
    int number = received;
    received = 0;
    pthread_sigmask(SIG_SETMASK, &usual, NULL);
    return number;
}

/* ---- lines that libedit edits ---- */

#ifdef QKV_LIBEDIT

enum { CTRL_C = 3, MAX_LINES = 1000 };

static char *prompt_of(EditLine *editor)
{
    (void)editor;
    return PROMPT;
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
        int number = key_wait();
        if (number == SIGINT) {
            *key = CTRL_C;
            return 1;
        }
        if (number) {
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
    const LineInfo *typed = el_line(editor);
    (void)key;
    session.is_interrupted = true;
    session.is_empty = typed->lastchar == typed->buffer;
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
static const char *history_path(void)
{
    const char *state = getenv("XDG_STATE_HOME"), *home = getenv("HOME");
    char *path = NULL;
    if (state && *state == '/')
        path = qkv_arena_format(&session.arena, "%s/qkv/history", state);
    else if (home && *home == '/')
        path = qkv_arena_format(&session.arena, "%s/.local/state/qkv/history", home);
    if (path) make_folders(path);
    return path;
}

static void open_history(void)
{
    HistEvent event;
    session.history = history_init();
    if (!session.history) return;
    history(session.history, &event, H_SETSIZE, MAX_LINES);
    history(session.history, &event, H_SETUNIQUE, 1);
    session.path = history_path();
    if (session.path) history(session.history, &event, H_LOAD, session.path);
    el_set(session.editor, EL_HIST, history, session.history);
}

/* Reads the history: $XDG_STATE_HOME/qkv/history, or ~/.local/state/qkv/history. If the file does not exist, or its
 * folder cannot be made, the history is empty at first. The user's ~/.editrc applies. */
static void open_edited(void)
{
    setlocale(LC_CTYPE, "C.UTF-8"); /* for libedit: text is UTF-8, whatever the locale */
    session.editor = el_init("qkv", stdin, stdout, stderr);
    if (!session.editor) return;
    el_set(session.editor, EL_PROMPT, prompt_of);
    el_set(session.editor, EL_EDITOR, "emacs");
    open_history();
    el_source(session.editor, NULL);
    el_set(session.editor, EL_GETCFN, read_key);
    el_wset(session.editor, EL_ADDFN, L"qkv-interrupt", L"Forget the line",
            interrupt); /* el_set leaks memory */
    el_set(session.editor, EL_BIND, "^C", "qkv-interrupt", NULL);
}

/* Copies a line without its end, and adds it to the history. */
static enum line_event keep(const char *typed, char **line)
{
    HistEvent event;
    free(session.line);
    session.line = strndup(typed, strcspn(typed, "\n"));
    if (!session.line) return LINE_ENDED;
    if (session.history && session.line[strspn(session.line, " \t")])
        history(session.history, &event, H_ENTER, session.line);
    *line = session.line;
    return LINE_TYPED;
}

static enum line_event read_edited(char **line)
{
    for (;;) {
        int count = 0;
        session.is_interrupted = false;
        /* Prepares the terminal before libedit does: libedit prints the prompt first, and keys in between would be echoed
         * twice. */
        el_set(session.editor, EL_PREP_TERM, 1);
        const char *typed = el_gets(session.editor, &count);
        if (typed && count > 0) return keep(typed, line);
        if (!session.is_interrupted) return LINE_ENDED;
        if (session.is_empty) return LINE_LEFT;
        putchar('\n');
        fflush(stdout);
    }
}

/* Replaces the history file. libedit makes it readable for its owner only. */
static void write_history(void)
{
    static char temporary[PATH_MAX]; /* a signal handler may read it */
    HistEvent event;
    int size = snprintf(temporary, sizeof temporary, "%s.%ld.tmp", session.path, (long)getpid());
    if (size < 0 || (size_t)size >= sizeof temporary) return;
    qkv_temporary_add(temporary);
    bool written = history(session.history, &event, H_SAVE, temporary) >= 0;
    if (!written || rename(temporary, session.path)) remove(temporary);
    qkv_temporary_forget(temporary);
}

/* Writes the last thousand lines of the history, if that is possible. */
static void close_edited(void)
{
    if (session.path) write_history();
    el_end(session.editor);
    if (session.history) history_end(session.history);
    qkv_arena_release(&session.arena);
}

#endif

/* ---- lines that the terminal edits ---- */

/* Reads a line that the terminal itself edits. It is not known whether anything was typed before Ctrl-C, so the first Ctrl-C
 * clears the line, and the second one leaves. */
static enum line_event read_plain(char **line)
{
    bool cleared = false;
    setvbuf(stdin, NULL, _IONBF, 0); /* key_wait does not see what a stream has read ahead */
    for (;;) {
        int number = key_wait();
        if (number == SIGINT) {
            if (cleared) return LINE_LEFT;
            cleared = true;
            printf("\n%s", PROMPT);
            fflush(stdout);
        }
        if (number) continue;
        errno = 0;
        ssize_t length = getline(&session.line, &session.capacity, stdin);
        bool is_interrupted = length < 0 && errno == EINTR; /* behind a Ctrl-D in the line */
        clearerr(stdin);
        if (is_interrupted) continue;
        if (length < 0) return LINE_ENDED;
        session.line[strcspn(session.line, "\n")] = '\0';
        *line = session.line;
        return LINE_TYPED;
    }
}

/* ---- either ---- */

void line_editor_open(void)
{
#ifdef QKV_LIBEDIT
    if (has_cursor_control(stdout)) open_edited();
#endif
}

enum line_event line_editor_read(char **line)
{
    enum line_event event = LINE_ENDED;
    *line = NULL;
    fflush(stdout);
    key_wait_begin();
#ifdef QKV_LIBEDIT
    if (session.editor) event = read_edited(line);
#endif
    if (!session.editor) {
        fputs(PROMPT, stdout);
        fflush(stdout);
        event = read_plain(line);
    }
    for (int i = 0; i < SIGNALS; i++) sigaction(SIGNAL[i], &before[i], NULL);
    return event;
}

void line_editor_close(void)
{
#ifdef QKV_LIBEDIT
    if (session.editor) close_edited();
#endif
    free(session.line);
}
