/* The prompt of `qkv translate` on a terminal: sentences, and commands that begin with a slash. */
#pragma once

#include "qkv/base.h"

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
