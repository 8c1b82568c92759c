/* The values of --kind, and of --layer and --head: a number from 1, or a word. */
#ifndef QKV_TOOLS_LAYER_OR_HEAD_H
#define QKV_TOOLS_LAYER_OR_HEAD_H

#include <stdint.h>

/* The choices of --kind: the kinds of attention. The context is not used. */
const char *kind_name(const void *context, int64_t index);

/* The words that are accepted in place of a number. */
enum layer_or_head_words { ACCEPT_MEAN = 1, ACCEPT_BEST = 2, ACCEPT_ALL = 4 };

/* Reads the number, or QKV_ATTENTION_EACH, _MEAN or _BEST for "all", "mean" or "best", into *index; `text` NULL
 * leaves it as it is. Returns QKV_OK, or the exit code after an error message. */
int read_layer_or_head(const char *option, const char *text, unsigned accepted, int *index);

#endif
