/* The signals that end `qkv train`, or stop it for a while. */
#ifndef QKV_TOOLS_TRAIN_SIGNALS_H
#define QKV_TOOLS_TRAIN_SIGNALS_H

#include <stdbool.h>

/* What the handlers write. */
struct train_signals {
    bool quiet;     /* no message */
    bool has_block; /* stderr has a status block, which a message replaces */
};

/* From now on the first SIGINT, SIGTERM or SIGHUP ends training after a checkpoint, and says so; a second one ends the
 * process at once. SIGPIPE is ignored. */
void train_signals_handle(struct train_signals signals);

/* The number of the signal that came; 0: none. */
int train_signals_received(void);

#endif
