/* Handles the signals that end or suspend `qkv train`. */
#ifndef QKV_TOOLS_TRAIN_SIGNALS_H
#define QKV_TOOLS_TRAIN_SIGNALS_H

#include <stdbool.h>

/* Options for the messages of the handlers. */
struct train_signals {
    bool quiet;     /* no message */
    bool has_block; /* stderr has a status block, which a message replaces */
};

/* From now on the first SIGINT, SIGTERM or SIGHUP prints a message and ends training after a checkpoint; a second one ends the
 * process immediately. SIGPIPE is ignored. */
void train_signals_handle(struct train_signals signals);

/* The number of the signal that came; 0: none. */
int train_signals_received(void);

#endif
