/* Reads lines that a person types at a terminal. With libedit, they can be edited, and earlier lines can be recalled with the
 * arrow keys. Without it, or if TERM is dumb, only the keys of the terminal itself work, which erase a character or the line. */
#pragma once

enum line_event {
    LINE_TYPED,
    LINE_LEFT,  /* by Ctrl-C on an empty line, or by a second one */
    LINE_ENDED, /* by Ctrl-D, or the terminal is gone */
};

/* Standard input and standard output must be a terminal. Close the editor afterwards. */
void line_editor_open(void);

/* Prints the prompt and reads a line; Ctrl-C clears what is typed. *line has no line end, is valid until the next call, and may
 * be changed. It may have bytes that are not valid UTF-8. It is NULL after any event other than LINE_TYPED. */
enum line_event line_editor_read(char **line);

void line_editor_close(void);
