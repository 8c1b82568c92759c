/* Declares `<enum>_choices`, the names of the values, for each enum of qkv/choices.def. */
#ifndef QKV_CONFIG_CHOICES_H
#define QKV_CONFIG_CHOICES_H

#include "config/schema.h"
#include "qkv/config.h"

#define CHOICES(type)
#define CHOICE(value, name, help)
#define CHOICE_OF_KEYS(value, ...)
#define INTERNAL(value, name)
#define CHOICES_END(type) extern const struct qkv_choices type##_choices;
#include "qkv/choices.def"
#undef CHOICES
#undef CHOICE
#undef CHOICE_OF_KEYS
#undef INTERNAL
#undef CHOICES_END

/* These enums are in qkv/attention_kind.h, qkv/attention_rule.h and qkv/precision.h, not in choices.def. */
extern const struct qkv_choices qkv_alignment_reading_choices, qkv_attention_kernel_choices,
    qkv_precision_choices;

#endif
