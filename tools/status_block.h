/* Lines at the end of what a terminal shows that are drawn over and over in the same place.
 *
 * Between two drawings the cursor waits at the start of the block, so that STATUS_BLOCK_ERASE removes it without knowing
 * how many rows it has: a terminal that is made narrower may have wrapped its lines. */
#ifndef QKV_TOOLS_STATUS_BLOCK_H
#define QKV_TOOLS_STATUS_BLOCK_H

#include "draw/bytes.h"

#include <stdbool.h>
#include <stdio.h>

/* Removes a block that is drawn, and does nothing to what stands above it. A signal handler may write it, followed by a
 * message and a line end; the next drawing then comes below the message. */
#define STATUS_BLOCK_ERASE "\r\033[J"

/* A terminal and what is drawn there. */
struct status_block {
    FILE *file;
    bool live; /* the file is a terminal with cursor control */
    bool drawn;
    int rows;        /* below that of the cursor */
    double drawn_at; /* seconds on the monotonic clock */
};

struct status_block status_block_on(FILE *file);

/* True five times a second, and while nothing is drawn; false unless the block is live, and where the terminal belongs
 * to another job. */
bool status_block_is_due(const struct status_block *block);

/* Draws lines, each ended by \n and narrower than the terminal, in place of those before. Of lines that do not fit
 * on the terminal the first are drawn. An empty line for the cursor comes before them. */
void status_block_draw(struct status_block *block, const struct bytes *lines);

/* Removes the block; call it before printing anything else. */
void status_block_erase(struct status_block *block);

/* Leaves the block as it is, and moves the cursor below it. */
void status_block_keep(struct status_block *block);

#endif
