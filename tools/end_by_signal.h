/* How a command ends after a signal that it handled. */
#ifndef QKV_TOOLS_END_BY_SIGNAL_H
#define QKV_TOOLS_END_BY_SIGNAL_H

/* Ends the process by the signal that it handled, as if it had not handled it: a shell then sees 128 + number, and
 * ends the loop or the `&&` list that the command is part of. */
void end_by_signal(int number);

#endif
