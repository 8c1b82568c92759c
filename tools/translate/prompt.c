/* The prompt of `qkv translate`, and the editor of its lines. */
#define _DEFAULT_SOURCE /* SIGWINCH */
#include "prompt.h"

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

enum line_event {
    LINE_TYPED,
    LINE_LEFT,  /* by Ctrl-C on an empty line, or by a second one */
    LINE_ENDED, /* by Ctrl-D, or the terminal is gone */
};

/* Reads lines that a person types at a terminal. With libedit, they can be edited, and earlier lines can be recalled with the
 * arrow keys. Without it, or if TERM is dumb, only the keys of the terminal itself work, which erase a character or the
 * line. */
struct line_editor {
    const char *prompt; /* ASCII */
    char *line;         /* the last line; owned */
    size_t capacity;
    struct editline *editor;       /* of libedit; NULL: the terminal edits */
    struct history *history;       /* of libedit */
    const char *path;              /* of the file of the history; NULL: none */
    struct qkv_arena arena;        /* owns the path */
    bool is_interrupted, is_empty; /* Ctrl-C has ended the line; nothing had been typed in it */
};

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

/* Restores the previous handlers of the signals. */
static void key_wait_end(void)
{
    for (int i = 0; i < SIGNALS; i++) sigaction(SIGNAL[i], &before[i], NULL);
}

/* ---- lines that libedit edits ---- */

#ifdef QKV_LIBEDIT

enum { CTRL_C = 3, MAX_LINES = 1000 };

static struct line_editor *lines_of(EditLine *editor)
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
    struct line_editor *lines = lines_of(editor);
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

static void open_history(struct line_editor *lines)
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

/* Reads the history: $XDG_STATE_HOME/qkv/history, or ~/.local/state/qkv/history. If the file does not exist, or its
 * folder cannot be made, the history is empty at first. The user's ~/.editrc applies. */
static void open_edited(struct line_editor *lines)
{
    setlocale(LC_CTYPE, "C.UTF-8"); /* for libedit: text is UTF-8, whatever the locale */
    lines->editor = el_init("qkv", stdin, stdout, stderr);
    if (!lines->editor) return;
    el_set(lines->editor, EL_CLIENTDATA, lines);
    el_set(lines->editor, EL_PROMPT, prompt_of);
    el_set(lines->editor, EL_EDITOR, "emacs");
    open_history(lines);
    el_source(lines->editor, NULL);
    el_set(lines->editor, EL_GETCFN, read_key);
    el_wset(lines->editor, EL_ADDFN, L"qkv-interrupt", L"Forget the line",
            interrupt); /* el_set leaks memory */
    el_set(lines->editor, EL_BIND, "^C", "qkv-interrupt", NULL);
}

/* Copies a line without its end, and adds it to the history. */
static enum line_event keep(struct line_editor *lines, const char *typed, char **line)
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

static enum line_event read_edited(struct line_editor *lines, char **line)
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
static void write_history(struct line_editor *lines)
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

/* Writes the last thousand lines of the history, if that is possible. */
static void close_edited(struct line_editor *lines)
{
    if (lines->path) write_history(lines);
    el_end(lines->editor);
    if (lines->history) history_end(lines->history);
    qkv_arena_release(&lines->arena);
}

#endif

/* ---- lines that the terminal edits ---- */

/* Reads a line that the terminal itself edits. It is not known whether anything was typed before Ctrl-C, so the first Ctrl-C
 * clears the line, and the second one leaves. */
static enum line_event read_plain(struct line_editor *editor, char **line)
{
    bool cleared = false;
    setvbuf(stdin, NULL, _IONBF, 0); /* key_wait does not see what a stream has read ahead */
    for (;;) {
        int number = key_wait();
        if (number == SIGINT) {
            if (cleared) return LINE_LEFT;
            cleared = true;
            printf("\n%s", editor->prompt);
            fflush(stdout);
        }
        if (number) continue;
        errno = 0;
        ssize_t length = getline(&editor->line, &editor->capacity, stdin);
        bool is_interrupted = length < 0 && errno == EINTR; /* behind a Ctrl-D in the line */
        clearerr(stdin);
        if (is_interrupted) continue;
        if (length < 0) return LINE_ENDED;
        editor->line[strcspn(editor->line, "\n")] = '\0';
        *line = editor->line;
        return LINE_TYPED;
    }
}

/* ---- either ---- */

/* Standard input and standard output must be a terminal. Call line_editor_close afterwards. */
static void line_editor_open(struct line_editor *editor, const char *prompt)
{
    *editor = (struct line_editor){.prompt = prompt};
#ifdef QKV_LIBEDIT
    if (has_cursor_control(stdout)) open_edited(editor);
#endif
}

/* Prints the prompt and reads a line; Ctrl-C clears what is typed. *line has no line end, is valid until the next call, and may
 * be changed. It may have bytes that are not valid UTF-8. It is NULL after any event other than LINE_TYPED. */
static enum line_event line_editor_read(struct line_editor *editor, char **line)
{
    enum line_event event = LINE_ENDED;
    *line = NULL;
    fflush(stdout);
    key_wait_begin();
#ifdef QKV_LIBEDIT
    if (editor->editor) event = read_edited(editor, line);
#endif
    if (!editor->editor) {
        fputs(editor->prompt, stdout);
        fflush(stdout);
        event = read_plain(editor, line);
    }
    key_wait_end();
    return event;
}

static void line_editor_close(struct line_editor *editor)
{
#ifdef QKV_LIBEDIT
    if (editor->editor) close_edited(editor);
#endif
    free(editor->line);
}

/* ---- the prompt ---- */

enum { MAX_TRANSLATIONS = 1000 };

/* The commands. An argument is the rest of the line, without spaces around it. */
enum { MAP, WORDS, NBEST, HELP, QUIT, COMMANDS_OF_PROMPT };
static const struct {
    const char *name, *argument, *help; /* "/nbest", "N"; "" if it has none */
} COMMAND[COMMANDS_OF_PROMPT] = {
    [MAP] = {"/map", "", "draw the cross attention of the last sentence"},
    [WORDS] = {"/words", "", "draw it between words, if the tokens are parts of words"},
    [NBEST] = {"/nbest", "N", "print the N best translations of each sentence"},
    [HELP] = {"/help", "", "print this list"},
    [QUIT] = {"/quit", "", "end, as Ctrl-D does"},
};

static void set_n_best(const struct translate_prompt *prompt, const char *argument)
{
    struct qkv_error error;
    char *end;
    errno = 0;
    long long n_best = strtoll(argument, &end, 10);
    if (end == argument || *end || errno || n_best < 1 || n_best > MAX_TRANSLATIONS)
        print_error("/nbest needs a number from 1 to %d", MAX_TRANSLATIONS);
    else
        conclude(prompt->set_n_best(prompt->context, n_best, &error), &error);
}

static void print_help(void)
{
    enum { HELP_COLUMN = 10 };
    for (int c = 0; c < COMMANDS_OF_PROMPT; c++) {
        int columns = printf("%s %s", COMMAND[c].name, COMMAND[c].argument);
        printf("%*s%s\n", HELP_COLUMN - columns, "", COMMAND[c].help);
    }
    puts("Other lines are sentences, also those with a space before a slash.");
}

/* Runs the command in a line that begins with a slash. Returns false to leave the prompt. */
static bool run_command(const struct translate_prompt *prompt, char *line)
{
    struct qkv_error error;
    size_t length = strlen(line), size = strcspn(line, " \t");
    while (strchr(" \t", line[length - 1])) line[--length] = '\0';
    const char *argument = line + size + strspn(line + size, " \t");
    int c = 0;
    while (c < COMMANDS_OF_PROMPT &&
           (strlen(COMMAND[c].name) != size || strncmp(line, COMMAND[c].name, size) != 0))
        c++;
    if (c == COMMANDS_OF_PROMPT)
        print_error("there is no command %.*s; /help lists the commands", (int)size, line);
    else if (*argument && !*COMMAND[c].argument)
        print_error("%s has no argument, but got '%s'", COMMAND[c].name, argument);
    else if (c == MAP || c == WORDS)
        conclude(prompt->print_map(prompt->context, c == WORDS, &error), &error);
    else if (c == NBEST)
        set_n_best(prompt, argument);
    else if (c == HELP)
        print_help();
    else
        return false;
    return true;
}

bool translate_prompt_run(const struct translate_prompt *prompt)
{
    struct line_editor editor;
    enum line_event event;
    char *line;
    line_editor_open(&editor, "> ");
    while ((event = line_editor_read(&editor, &line)) == LINE_TYPED) {
        struct qkv_error error;
        if (*line != '/')
            conclude(prompt->translate(prompt->context, line, &error), &error);
        else if (!run_command(prompt, line))
            break;
    }
    if (event != LINE_TYPED) putchar('\n');
    line_editor_close(&editor);
    return event != LINE_LEFT;
}
