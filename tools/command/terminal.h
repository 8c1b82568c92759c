/* Output for people at a terminal: progress bar, colours, width, safe printing. */
#pragma once

#include "draw/text.h"

/* A progress bar that is redrawn in one line; does nothing unless `live`. */
struct progress_bar {
    FILE *file;
    bool live; /* the file is a terminal */
    bool drawn;
    double drawn_at; /* seconds on the monotonic clock */
};

/* A bar on `file`; live when that is a terminal with cursor control. */
struct progress_bar progress_bar_on(FILE *file);

/* Draws the fraction done (0 .. 1; negative: not known) and a text, at most ten times a second. */
void progress_bar_show(struct progress_bar *bar, double share, const char *text);

/* Erases the line; call it before printing anything else. */
void progress_bar_clear(struct progress_bar *bar);

/* The colours that text written to a file may have: none when the file is not a terminal, or
 * NO_COLOR is set and not empty (https://no-color.org). */
enum qkv_terminal_colors terminal_colors(FILE *file);

/* The width of a terminal in columns; 80 if the file is not a terminal. */
int terminal_width(FILE *file);

/* The height of a terminal in rows; 24 if the file is not a terminal. */
int terminal_height(FILE *file);

/* Whether a file is a terminal that supports escape sequences: TERM is set, and not to dumb. */
bool has_cursor_control(FILE *file);

/* False if the terminal belongs to another job of the shell, as after `command &`. */
bool is_in_foreground(FILE *file);

/* Whether the locale of the environment (LC_ALL, LC_CTYPE, LANG) has UTF-8. */
bool locale_is_utf8(void);
