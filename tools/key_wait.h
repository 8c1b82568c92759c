/* Waits for a key on standard input, or for a signal that concerns the line which a person types there. */
#ifndef QKV_TOOLS_KEY_WAIT_H
#define QKV_TOOLS_KEY_WAIT_H

enum key_event {
    KEY_READY,     /* bytes to read, or the end */
    KEY_INTERRUPT, /* Ctrl-C */
    KEY_REDRAW,    /* the terminal has another size, or the process was stopped and goes on */
};

/* From now on Ctrl-C does not end the process. Calls are not nested. */
void key_wait_begin(void);

/* Signals that came since key_wait_begin or the last event are events, whichever thread received them. */
enum key_event key_wait(void);

/* Gives the signals back what they did before. */
void key_wait_end(void);

#endif
