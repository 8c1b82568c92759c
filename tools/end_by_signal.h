/* How a command ends by a signal. */
#ifndef QKV_TOOLS_END_BY_SIGNAL_H
#define QKV_TOOLS_END_BY_SIGNAL_H

/* Removes temporary files and ends the process by a signal: a shell then sees 128 + number, and ends the loop or the `&&`
 * list that the command is part of. A handler may call it. */
void end_by_signal(int number);

/* From now on SIGINT, SIGTERM, SIGHUP and SIGPIPE end the process in this way, except those that were ignored, as SIGHUP is
 * under nohup. Commands may then handle them in another way. */
void end_by_signal_handle(void);

#endif
