/* A model of a terminal's screen: what a person sees after a program has printed text and escape sequences. */
#pragma once

#include "support.h"

enum { SCREEN_MAX_COLUMNS = 200, SCREEN_MAX_ROWS = 60, SCREEN_MAX_LINES = 2000 };

/* A character cell: UTF-8, with combining marks. "" is the right half of a wide character. */
struct screen_cell {
    char text[16];
};

/* Set all zero by screen_init. */
struct screen {
    int columns, rows;
    int top;         /* the line of the screen's first row; lines above have scrolled away */
    int row, column; /* of the cursor, on the screen; column == columns: the next character wraps */
    bool wraps;
    bool is_colored;  /* some text had a colour or another style */
    char unknown[64]; /* the first escape sequence that the model does not know; "" if there is none */
    char pending[64]; /* the beginning of a character or sequence */
    size_t pending_size;
    int lines; /* lines ever used */
    struct screen_cell cell[SCREEN_MAX_LINES][SCREEN_MAX_COLUMNS];
};

void screen_init(struct screen *screen, int columns, int rows);

/* Prints bytes; the last sequence may be continued by the next call. */
void screen_print(struct screen *screen, const char *bytes, size_t size);

/* Changes the size. Lines are wrapped anew, as most terminals do; the cursor stays at its character. */
void screen_resize(struct screen *screen, int columns, int rows);

/* Returns all lines, also those that have scrolled away, without spaces at their ends and without empty lines at the
 * end. */
char *screen_text(const struct screen *screen);
