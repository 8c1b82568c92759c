/* One line on the terminal that says how far a sweep is. */
#ifndef QKV_TOOLS_SWEEP_PROGRESS_H
#define QKV_TOOLS_SWEEP_PROGRESS_H

#include "sweep_runs.h"
#include "terminal.h"

struct sweep_progress {
    struct progress_bar bar;
    double started;     /* seconds on the monotonic clock; 0: not yet */
    double share_first; /* of all updates that were done before */
};

/* Draws the line: how many runs are done and train, and the time that is left. Does nothing elsewhere than on a terminal. */
void sweep_progress_show(struct sweep_progress *progress, const struct sweep *sweep);

#endif
