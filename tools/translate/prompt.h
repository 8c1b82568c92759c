/* The prompt of `qkv translate` on a terminal: sentences, and commands that begin with a slash; and the editor of its lines. */
#ifndef QKV_TOOLS_PROMPT_H
#define QKV_TOOLS_PROMPT_H

#include "qkv/arena.h"
#include "qkv/error.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The callbacks of the prompt. When one fails, the error is printed, and the prompt continues. */
struct translate_prompt {
    void *context;
    /* Prints the translations of a sentence. */
    enum qkv_status (*translate)(void *context, const char *sentence, struct qkv_error *error);
    /* Prints the attention map of the last sentence, by tokens or by words. */
    enum qkv_status (*print_map)(void *context, bool by_words, struct qkv_error *error);
    /* Sets the number of translations that are printed of each sentence from now on. */
    enum qkv_status (*set_n_best)(void *context, int64_t n_best, struct qkv_error *error);
};

/* Reads lines and translates them, or runs their commands, until Ctrl-D or /quit. Returns false when Ctrl-C ended the
 * prompt. */
bool translate_prompt_run(const struct translate_prompt *prompt);

enum line_event {
    LINE_TYPED,
    LINE_LEFT,  /* by Ctrl-C on an empty line, or by a second one */
    LINE_ENDED, /* by Ctrl-D, or the terminal is gone */
};

/* Reads lines that a person types at a terminal. With libedit, they can be edited, and earlier lines can be recalled with the
 * arrow keys. Without it, or if TERM is dumb, only the keys of the terminal itself work, which erase a character or the
 * line. */
struct line_editor {
    const char *prompt; /* ASCII */
    char *line;         /* the last line; owned */
    size_t used, capacity;
    struct editline *editor;       /* of libedit; NULL: the terminal edits */
    struct history *history;       /* of libedit */
    const char *path;              /* of the file of the history; NULL: none */
    struct qkv_arena arena;        /* owns the path */
    bool is_interrupted, is_empty; /* Ctrl-C has ended the line; nothing had been typed in it */
};

/* Standard input and standard output must be a terminal. Call line_editor_close afterwards. */
void line_editor_open(struct line_editor *editor, const char *prompt);

/* Prints the prompt and reads a line; Ctrl-C clears what is typed. *line has no line end, is valid until the next call, and may
 * be changed. It may have bytes that are not valid UTF-8. It is NULL after any event other than LINE_TYPED. */
enum line_event line_editor_read(struct line_editor *editor, char **line);

void line_editor_close(struct line_editor *editor);

#endif
