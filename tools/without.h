/* The option --without, which silences heads of attention. */
#ifndef QKV_TOOLS_WITHOUT_H
#define QKV_TOOLS_WITHOUT_H

#include "command.h"

#include "qkv/model.h"

/* The row of an options table; `list` is a struct option_list. */
/* clang-format off */
#define COMMAND_OPTION_WITHOUT(list)                                                                         \
    {"without", 0, "HEAD", OPTION_LIST, list,                                                                \
     "silence a head, such as cross.2.1 (attention, layer, head), which then adds nothing to its layer; may be " \
     "repeated, or comma-separated"}
/* clang-format on */

/* Silences the heads that the option lists. Fails when the model has no such head. */
enum qkv_status silence_heads(struct qkv_model *model, const struct option_list *without,
                              struct qkv_error *error);

/* Writes the names of the silent heads of a model into `text`: "cross.2.1, cross.2.2"; "" if there is none. Returns `text`. */
const char *list_silent_heads(const struct qkv_model *model, char *text, size_t size);

#endif
