/* Declares `<enum>_choices`, the values as a config names them, for each enum of qkv/choices.def and
 * qkv/engine_choices.def. */
#ifndef QKV_CONFIG_CHOICES_H
#define QKV_CONFIG_CHOICES_H

#include "config/schema.h"
#include "qkv/config.h"

#define CHOICES(type)
#define CHOICE(value, name, help)
#define CHOICE_OF_OPTIONS(value, ...)
#define INTERNAL(value, name)
#define CHOICES_END(type) extern const struct qkv_choices type##_choices;
#include "qkv/choices.def"
#include "qkv/engine_choices.def"
#undef CHOICES
#undef CHOICE
#undef CHOICE_OF_OPTIONS
#undef INTERNAL
#undef CHOICES_END

/* The enums of qkv/attention_kind.h, qkv/attention_rule.h and qkv/precision.h. */
extern const struct qkv_choices qkv_alignment_reading_choices, qkv_attention_kernel_choices,
    qkv_precision_choices;

#endif
