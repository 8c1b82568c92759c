/* What the tools show to people on a terminal. */
#ifndef QKV_TOOLS_TERMINAL_H
#define QKV_TOOLS_TERMINAL_H

#include "qkv/colormap.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

/* One line at the bottom that is drawn over and over; does nothing unless `live`. */
struct progress_bar {
    FILE *file;
    bool live; /* the file is a terminal */
    bool drawn;
    double shown; /* when it was drawn last, seconds */
};

/* A bar on `file`, live when that is a terminal that can draw one. */
struct progress_bar progress_bar_on(FILE *file);

/* Draws the share done (0 .. 1; negative: not known) and a text, at most some times a second. */
void progress_bar_show(struct progress_bar *bar, double share, const char *text);

/* Takes the line away, before something else is printed. */
void progress_bar_clear(struct progress_bar *bar);

/* Prints text that came from a file or a stranger: control characters, which could play with the terminal, as
 * \xNN. */
void print_plain(FILE *file, const char *text, size_t length);

/* "42s", "3m12s", "1h05m". */
void format_duration(double seconds, char text[16]);

/* Whether colours may be used on a file: a terminal, and NO_COLOR is unset or empty (https://no-color.org).
 */
bool colours_on(FILE *file);

/* The colours that text on a file may have. */
enum qkv_terminal_colors terminal_colors(FILE *file);

/* Columns of the terminal behind a file; 80 where that cannot be said. */
int terminal_width(FILE *file);

#endif
