/* One line on the terminal that shows the progress of a sweep. */
#ifndef QKV_TOOLS_SWEEP_PROGRESS_H
#define QKV_TOOLS_SWEEP_PROGRESS_H

#include "sweep_runs.h"
#include "terminal.h"

struct sweep_progress {
    struct progress_bar bar;
    double started;     /* seconds on the monotonic clock; 0: not yet */
    double share_first; /* share of all updates that were done before that */
};

/* Draws the line: how many runs are done, how many are being trained, and the time left. Does nothing if there is no
 * terminal. */
void sweep_progress_show(struct sweep_progress *progress, const struct sweep *sweep);

#endif
