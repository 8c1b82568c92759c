/* Reads lines that are edited with libedit, and keeps their history in a file. Only in builds with libedit (QKV_LIBEDIT). */
#ifndef QKV_TOOLS_EDITED_LINES_H
#define QKV_TOOLS_EDITED_LINES_H

#include "line_editor.h"

struct edited_lines;

/* Reads the history: $XDG_STATE_HOME/qkv/history, or ~/.local/state/qkv/history. If the file does not exist, or its
 * folder cannot be made, the history is empty at first. The user's ~/.editrc applies. NULL when libedit cannot work here. The
 * prompt must outlive the result. */
struct edited_lines *edited_lines_open(const char *prompt);

/* Like line_editor_read. Signals are received by key_wait, which the caller begins and ends. */
enum line_event edited_lines_read(struct edited_lines *lines, char **line);

/* Writes the last thousand lines of the history, if that is possible. NULL: does nothing. */
void edited_lines_close(struct edited_lines *lines);

#endif
