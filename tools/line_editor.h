/* Reads lines that a person types at a terminal. With libedit, they can be edited, and earlier lines can be recalled with the
 * arrow keys. Without it, or if TERM is dumb, only the keys of the terminal itself work, which erase a character or the
 * line. */
#ifndef QKV_TOOLS_LINE_EDITOR_H
#define QKV_TOOLS_LINE_EDITOR_H

#include <stddef.h>

enum line_event {
    LINE_TYPED,
    LINE_LEFT,  /* by Ctrl-C on an empty line, or by a second one */
    LINE_ENDED, /* by Ctrl-D, or the terminal is gone */
};

struct edited_lines; /* edited_lines.h */

/* All zero at first, except for the prompt. */
struct line_editor {
    const char *prompt;          /* ASCII */
    struct edited_lines *edited; /* NULL: the terminal edits */
    char *line;                  /* owned; the last line where the terminal edits */
    size_t used, capacity;
};

/* Standard input and standard output must be a terminal. Call line_editor_close afterwards. */
void line_editor_open(struct line_editor *editor, const char *prompt);

/* Prints the prompt and reads a line; Ctrl-C clears what is typed. *line has no line end, is valid until the next call, and may
 * be changed. It may have bytes that are not valid UTF-8. It is NULL after any event other than LINE_TYPED. */
enum line_event line_editor_read(struct line_editor *editor, char **line);

void line_editor_close(struct line_editor *editor);

#endif
