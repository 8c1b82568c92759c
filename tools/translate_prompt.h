/* The prompt of `qkv translate` on a terminal: sentences, and commands that begin with a slash. */
#ifndef QKV_TOOLS_TRANSLATE_PROMPT_H
#define QKV_TOOLS_TRANSLATE_PROMPT_H

#include "qkv/error.h"

#include <stdbool.h>
#include <stdint.h>

/* What the prompt asks of the command. An error is printed, and the prompt goes on. */
struct translate_prompt {
    void *context;
    /* Prints the translations of a sentence. */
    enum qkv_status (*translate)(void *context, const char *sentence, struct qkv_error *error);
    /* Prints the attention map of the last sentence. */
    enum qkv_status (*print_map)(void *context, struct qkv_error *error);
    /* From now on so many translations of a sentence are printed. */
    enum qkv_status (*set_n_best)(void *context, int64_t n_best, struct qkv_error *error);
};

/* Reads and obeys lines until Ctrl-D or /quit. Returns false where Ctrl-C ended it. */
bool translate_prompt_run(const struct translate_prompt *prompt);

#endif
