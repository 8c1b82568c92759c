/* Ends a command by a signal. */
#ifndef QKV_TOOLS_END_BY_SIGNAL_H
#define QKV_TOOLS_END_BY_SIGNAL_H

/* Removes temporary files and ends the process by a signal, so that a shell sees the status 128 + number, and ends the loop or
 * the `&&` list that the command is part of. A handler may call it. */
void end_by_signal(int number);

/* From now on SIGINT, SIGTERM, SIGHUP and SIGPIPE end the process in this way, except signals that were ignored, such as SIGHUP
 * under nohup. Commands may install other handlers later. */
void end_by_signal_handle(void);

#endif
