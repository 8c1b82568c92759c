/* Private: the edits of TER. */
#ifndef QKV_METRICS_TER_EDITS_H
#define QKV_METRICS_TER_EDITS_H

#include "metrics/text.h"

/* The number of edits and shifts that turn a hypothesis into a reference; -1 when memory runs out. Words are numbers
 * (qkv_text_number_words). */
int64_t qkv_ter_edits(struct qkv_arena *arena, const struct qkv_symbols *hypothesis,
                      const struct qkv_symbols *reference);

#endif
