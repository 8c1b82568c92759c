/* The values of --layer and --head: a number from 1, or a word. */
#ifndef QKV_TOOLS_LAYER_OR_HEAD_H
#define QKV_TOOLS_LAYER_OR_HEAD_H

#include <stdbool.h>

/* Words besides numbers. */
enum layer_or_head_words { ACCEPT_MEAN = 1, ACCEPT_BEST = 2, ACCEPT_ALL = 4 };

/* Reads the number, or QKV_ATTENTION_EACH, _MEAN or _BEST for "all", "mean" or "best", into *index; `text` NULL
 * leaves it as it is. Returns QKV_OK, or the exit code after an error message. */
int read_layer_or_head(const char *option, const char *text, unsigned accepted, int *index);

#endif
