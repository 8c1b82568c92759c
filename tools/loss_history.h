/* Records the history of a loss in bounded memory, and draws it in one row of a terminal. */
#ifndef QKV_TOOLS_LOSS_HISTORY_H
#define QKV_TOOLS_LOSS_HISTORY_H

#include "draw/text.h"

#include <stdbool.h>
#include <stdint.h>

enum { LOSS_HISTORY_POINTS = 256 };

/* All zero: empty. Each point is the mean of `per_point` consecutive losses; the last may have fewer. When all points are used,
 * pairs of neighbours are merged. */
struct loss_history {
    double sum[LOSS_HISTORY_POINTS];
    int count;
    int64_t per_point; /* 0: 1 */
    int64_t in_last;
};

/* Adds a loss; one that is not finite is left out. */
void loss_history_add(struct loss_history *history, double loss);

/* Draws the complete history from left to right: appends at most `width` characters of one column each, taller for a higher
 * loss, on a logarithmic scale between the lowest and the highest loss. Without UTF-8, heights are shown by _ . - = + #. */
void loss_history_draw(const struct loss_history *history, int width, bool is_utf8, struct bytes *out);

#endif
