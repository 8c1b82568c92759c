#include "config/choices.h"

/* ---- the enums of the engine, whose names core/choices.c defines ---- */

#define CHOICES(type)                                     static const struct qkv_choice type##_list[] = {
#define CHOICE(value, name, help)                         [value] = {name, help, NULL, NULL},
#define INTERNAL(value, name)                             [value] = {name, NULL, NULL, NULL},
#define CHOICE_OF_OPTIONS(value, name, uses, needs, help) [value] = {name, help, uses, needs},
/* A list of keys, which ends with NULL or "". The compiler joins the "" before the arguments with the first key; without
 * arguments, it is the end of an empty list. */
#define USES(...)    ((const char *const[]){"" __VA_ARGS__, NULL})
#define NEEDS(...)   USES(__VA_ARGS__)
#define OPTION(name) "training." #name
#define VALIDATIONS                                                                                          \
    "training.validation_freq", "testing.beam_size", "testing.beam_alpha", "testing.max_output_length"
#define VALIDATED_DATA "data.dev"
#define CHOICES_END(type)                                                                                    \
    }                                                                                                        \
    ;                                                                                                        \
    const struct qkv_choices type##_choices = {type##_list, sizeof type##_list / sizeof *type##_list};
#include "qkv/engine_choices.def"

CHOICES(qkv_alignment_reading)
CHOICE(QKV_READING_PREDICTED, "predicted", "the step that predicts it")
CHOICE(QKV_READING_READ, "read", "the step that reads it, which is the next one")
CHOICES_END(qkv_alignment_reading)

CHOICES(qkv_attention_kernel)
CHOICE(QKV_KERNEL_AUTO, "auto", "`flash` for long sentences, `exact` for short ones")
CHOICE(QKV_KERNEL_EXACT, "exact",
       "keeps the attention weights for the gradient: memory grows with the square of the length")
CHOICE(QKV_KERNEL_FLASH, "flash",
       "recomputes the weights for the gradient: memory grows linearly with the length")
CHOICES_END(qkv_attention_kernel)

CHOICES(qkv_precision)
CHOICE(QKV_PRECISION_FLOAT32, "float32", "")
CHOICE(
    QKV_PRECISION_BFLOAT16, "bfloat16",
    "8 bits of mantissa; faster on processors that have the instruction `vdpbf16ps`, much slower on others")
INTERNAL(QKV_PRECISION_INT8, "int8")
CHOICES_END(qkv_precision)

/* ---- the enums of the translator, with their names ---- */

#undef CHOICES_END
#define CHOICES_END(type)                                                                                    \
    }                                                                                                        \
    ;                                                                                                        \
    const struct qkv_choices type##_choices = {type##_list, sizeof type##_list / sizeof *type##_list};       \
    const char *type##_name(enum type value)                                                                 \
    {                                                                                                        \
        return qkv_choice_name(&type##_choices, (int)value);                                                 \
    }
#include "qkv/choices.def"
