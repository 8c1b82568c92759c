/* The option --precision of commands that compute with a run. */
#ifndef QKV_TOOLS_PRECISION_OPTION_H
#define QKV_TOOLS_PRECISION_OPTION_H

#include "command.h"

#include "qkv/model.h"

/* The row of an options table; `text` is a const char *, NULL if the option is not given. */
/* clang-format off */
#define COMMAND_OPTION_PRECISION(text)                                                                       \
    {"precision", 0, "TYPE", OPTION_CHOICE, text,                                                            \
     "type of the numbers that linear layers multiply: {choices} (default: int8 of a quantised run, else float32)",  \
     .choices = precision_name}
/* clang-format on */

/* The choices of --precision; the context is not used. */
const char *precision_name(const void *context, int64_t index);

/* Sets the precision of a model to the one that the option names; NULL: keeps the precision of the model. */
enum qkv_status set_precision(struct qkv_model *model, const char *name, struct qkv_error *error);

/* The name of a model's precision; NULL: float32. */
const char *narrow_precision(const struct qkv_model *model);

#endif
