/* Waits for a key on standard input, or for a signal that affects the line that a person types there. */
#ifndef QKV_TOOLS_KEY_WAIT_H
#define QKV_TOOLS_KEY_WAIT_H

enum key_event {
    KEY_READY,     /* bytes to read, or the end */
    KEY_INTERRUPT, /* Ctrl-C */
    KEY_REDRAW,    /* the terminal has a new size, or the process continues after a stop */
};

/* From now on Ctrl-C does not end the process. Calls are not nested. */
void key_wait_begin(void);

/* Waits for the next event. Also reports signals that came since key_wait_begin or the last event, whichever thread received
 * them. */
enum key_event key_wait(void);

/* Restores the previous handlers of the signals. */
void key_wait_end(void);

#endif
