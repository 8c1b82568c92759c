/* The option --measure: attention weights, or weights times norms of values. */
#ifndef QKV_TOOLS_MEASURE_OPTION_H
#define QKV_TOOLS_MEASURE_OPTION_H

#include "command.h"

/* The row of an options table; `text` is a const char *. */
/* clang-format off */
#define COMMAND_OPTION_MEASURE(text)                                                                         \
    {"measure", 0, "WHAT", OPTION_CHOICE, text,                                                              \
     "weights (default): attention weights; norms: weights times the norms of what the head makes of " \
     "each word (Kobayashi et al. 2020)", .choices = measure_name}
/* clang-format on */

/* The choices of --measure; the context is not used. */
const char *measure_name(const void *context, int64_t index);

/* Whether `text`, the value of the option, is "norms". NULL: the option is not given. */
bool measures_norms(const char *text);

#endif
