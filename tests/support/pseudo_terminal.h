/* Runs a command on a terminal, types to it, and reads what the terminal shows. Nothing here sleeps: a test waits until
 * a text appears. */
#pragma once

#include "support.h"

#include "screen.h"

#include <sys/types.h>

/* Set by pseudo_terminal_start. */
struct pseudo_terminal {
    int descriptor; /* of the side of the person */
    pid_t child;
    struct screen screen;
    char *bytes; /* all that was printed, ended by a NUL */
    size_t size, capacity;
    size_t seen; /* bytes before the end of the last text that was waited for */
};

/* Starts a shell command on a terminal of this size, formatted like printf. In it, `qkv` is the program under test. TERM is
 * xterm and the locale C.UTF-8; NO_COLOR is not set, and HOME is empty. */
struct pseudo_terminal *pseudo_terminal_start(int columns, int rows, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* Reads until the command has printed a text, after the one that was waited for before. The test fails if the command
 * ends without it, or prints nothing more for a minute. */
void pseudo_terminal_wait(struct pseudo_terminal *terminal, const char *text);

/* Types keys: "\003" is Ctrl-C, "\004" Ctrl-D, "\033[A" the up arrow. */
void pseudo_terminal_type(struct pseudo_terminal *terminal, const char *keys);

/* Types keys that end the command, and returns what pseudo_terminal_end does. */
int pseudo_terminal_leave(struct pseudo_terminal *terminal, const char *keys);

/* Changes the size of the terminal, which then sends SIGWINCH. */
void pseudo_terminal_resize(struct pseudo_terminal *terminal, int columns, int rows);

/* Reads the rest. Returns the exit code, 128 + signal if a signal ended the command. */
int pseudo_terminal_end(struct pseudo_terminal *terminal);

/* What the terminal shows at the end of the text that was waited for: screen_text. The test fails if the command printed a
 * sequence that the model of the screen does not know. */
char *pseudo_terminal_text(const struct pseudo_terminal *terminal);
