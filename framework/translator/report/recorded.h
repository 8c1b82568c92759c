/* Private to report and explain: finds and checks the parts of a pass (qkv/model.h). A network that is defined by another
 * program may not have recorded them, or with a shape that does not fit its layers. */
#ifndef QKV_REPORT_RECORDED_H
#define QKV_REPORT_RECORDED_H

#include "qkv/model.h"

struct recorded_pass {
    const struct qkv_model *model;
    const struct qkv_trace *trace;
    const char *purpose; /* what the parts are needed for, in plural, for messages: "norms of values" */
    struct qkv_error *error;
};

/* The shape [rows, columns] that a part must have. */
struct part_shape {
    int64_t rows, columns; /* columns 0: any */
};

/* The part with this role of an attention layer (from 1), or of a stack. NULL, with a message that names the network and
 * the part, when the pass has no such part of this shape. */
const struct qkv_part *qkv_recorded_attention(const struct recorded_pass *pass, enum qkv_part_role role,
                                              enum qkv_attention_kind kind, int64_t layer,
                                              struct part_shape shape);
const struct qkv_part *qkv_recorded_stack(const struct recorded_pass *pass, enum qkv_part_role role,
                                          enum qkv_stack_id stack, struct part_shape shape);

#endif
