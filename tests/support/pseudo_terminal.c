#define _DEFAULT_SOURCE /* forkpty */
#include "pseudo_terminal.h"

#include <errno.h>
#include <poll.h>
#include <pty.h>
#include <signal.h>
#include <sys/ioctl.h>
#include <sys/wait.h>

enum { LONGEST_WAIT = 60000 /* milliseconds */ };

static void run_child(const char *command)
{
    signal(SIGPIPE, SIG_DFL);
    setenv("TERM", "xterm", 1);
    setenv("LC_ALL", "C.UTF-8", 1);
    unsetenv("NO_COLOR");
    unsetenv("COLORTERM");
    setenv("HOME", "", 1);
    unsetenv("XDG_STATE_HOME");
    unsetenv("EDITRC");
    execl("/bin/sh", "sh", "-c", command, (char *)NULL);
    _exit(127);
}

struct pseudo_terminal *pseudo_terminal_start(int columns, int rows, const char *pattern, ...)
{
    char command[4096];
    va_list arguments;
    va_start(arguments, pattern);
    vsnprintf(command, sizeof command, pattern, arguments);
    va_end(arguments);
    struct pseudo_terminal *terminal = remember(calloc(1, sizeof *terminal));
    cr_assert_not_null(terminal);
    screen_init(&terminal->screen, columns, rows);
    struct winsize size = {.ws_col = (unsigned short)columns, .ws_row = (unsigned short)rows};
    const char *script = format("qkv() { '%s' \"$@\"; }; %s", QKV_BINARY, command);
    terminal->child = forkpty(&terminal->descriptor, NULL, NULL, &size);
    cr_assert_geq(terminal->child, 0, "forkpty: %s", strerror(errno));
    if (terminal->child == 0) run_child(script);
    return terminal;
}

/* Reads what is there, after waiting for it. Returns false at the end. */
static bool read_more(struct pseudo_terminal *terminal)
{
    enum { CAPACITY = 4096 };
    struct pollfd ready = {.fd = terminal->descriptor, .events = POLLIN};
    if (terminal->capacity - terminal->size <= CAPACITY) {
        terminal->capacity = 2 * terminal->capacity + 2 * CAPACITY;
        terminal->bytes = realloc(terminal->bytes, terminal->capacity);
        cr_assert_not_null(terminal->bytes);
    }
    int events = poll(&ready, 1, LONGEST_WAIT);
    cr_assert_eq(events, 1, "the command hangs; it has printed:\n%s", terminal->size ? terminal->bytes : "");
    ssize_t got = read(terminal->descriptor, terminal->bytes + terminal->size, CAPACITY);
    if (got <= 0) return false; /* EIO: the command has ended */
    terminal->size += (size_t)got;
    terminal->bytes[terminal->size] = '\0';
    return true;
}

/* Prints on the screen what was read, up to a size. */
static void print_until(struct pseudo_terminal *terminal, size_t end)
{
    screen_print(&terminal->screen, terminal->bytes + terminal->seen, end - terminal->seen);
    terminal->seen = end;
}

void pseudo_terminal_wait(struct pseudo_terminal *terminal, const char *text)
{
    const char *found = NULL;
    while (!terminal->size || !(found = strstr(terminal->bytes + terminal->seen, text)))
        cr_assert(read_more(terminal), "the command ended without \"%s\":\n%s", text,
                  terminal->size ? terminal->bytes : "");
    print_until(terminal, (size_t)(found - terminal->bytes) + strlen(text));
}

void pseudo_terminal_type(struct pseudo_terminal *terminal, const char *keys)
{
    ssize_t written = write(terminal->descriptor, keys, strlen(keys));
    cr_assert_eq(written, (ssize_t)strlen(keys));
}

void pseudo_terminal_resize(struct pseudo_terminal *terminal, int columns, int rows)
{
    struct winsize size = {.ws_col = (unsigned short)columns, .ws_row = (unsigned short)rows};
    screen_resize(&terminal->screen, columns, rows);
    cr_assert_eq(ioctl(terminal->descriptor, TIOCSWINSZ, &size), 0);
}

int pseudo_terminal_end(struct pseudo_terminal *terminal)
{
    int status;
    while (read_more(terminal)) continue;
    cr_assert_eq(waitpid(terminal->child, &status, 0), terminal->child);
    close(terminal->descriptor);
    print_until(terminal, terminal->size);
    remember(terminal->bytes);
    return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
}

int pseudo_terminal_leave(struct pseudo_terminal *terminal, const char *keys)
{
    pseudo_terminal_type(terminal, keys);
    return pseudo_terminal_end(terminal);
}

char *pseudo_terminal_text(const struct pseudo_terminal *terminal)
{
    cr_expect_str_empty(terminal->screen.unknown);
    return screen_text(&terminal->screen);
}
