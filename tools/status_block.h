/* Lines at the end of the output on a terminal, which are redrawn in the same place.
 *
 * Between two drawings the cursor waits at the start of the block, so that STATUS_BLOCK_ERASE removes it without knowing
 * how many rows it has: a terminal that is made narrower may have wrapped its lines. */
#ifndef QKV_TOOLS_STATUS_BLOCK_H
#define QKV_TOOLS_STATUS_BLOCK_H

#include "draw/text.h"

#include <stdbool.h>
#include <stdio.h>

/* Removes a block that is drawn, without changing the lines above it. A signal handler may write it, followed by a
 * message and a line end; the block is then drawn below the message the next time. */
#define STATUS_BLOCK_ERASE "\r\033[J"

/* A terminal and the state of the block on it. */
struct status_block {
    FILE *file;
    bool live; /* the file is a terminal with cursor control */
    bool drawn;
    int rows;        /* of the block, below the row of the cursor */
    double drawn_at; /* seconds on the monotonic clock */
};

struct status_block status_block_on(FILE *file);

/* Whether it is time to draw: nothing is drawn yet, or the last drawing is a fifth of a second ago. Always false if the block
 * is not live, or if the terminal belongs to another job. */
bool status_block_is_due(const struct status_block *block);

/* Draws lines, each terminated by \n and narrower than the terminal, in place of the previous ones, after an empty line for the
 * cursor. If not all lines fit on the terminal, draws only the first ones. */
void status_block_draw(struct status_block *block, const struct bytes *lines);

/* Removes the block; call it before printing anything else. */
void status_block_erase(struct status_block *block);

/* Leaves the block on the terminal, and moves the cursor below it. */
void status_block_keep(struct status_block *block);

#endif
