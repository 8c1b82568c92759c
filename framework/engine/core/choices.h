/* The names of the values of each enum of qkv/engine_choices.def: `<enum>_names`, and <enum>_name(value), such as
 * qkv_activation_name(QKV_ACTIVATION_GELU): "gelu", or "unknown". */
#pragma once

#include "qkv/base.h"

/* name[value], for the values from 0 to count - 1. */
struct qkv_value_names {
    const char *const *name;
    int count;
};

static inline bool qkv_value_exists(const struct qkv_value_names *names, int value)
{
    return value >= 0 && value < names->count;
}

/* The name of a value; "unknown" when the enum has no such value. */
static inline const char *qkv_value_name(const struct qkv_value_names *names, int value)
{
    return qkv_value_exists(names, value) ? names->name[value] : "unknown";
}

#define CHOICES(type)
#define CHOICE(value, name, help)
#define CHOICE_OF_OPTIONS(value, ...)
#define INTERNAL(value, name)
#define CHOICES_END(type)                                                                                    \
    extern const struct qkv_value_names type##_names;                                                        \
    const char *type##_name(enum type value);
#include "qkv/engine_choices.def"
#undef CHOICES
#undef CHOICE
#undef CHOICE_OF_OPTIONS
#undef INTERNAL
#undef CHOICES_END

/* "float32", "bfloat16", "int8"; NULL for an unknown value. */
const char *qkv_precision_name(enum qkv_precision precision);

/* Finds a precision by its name; false if there is none. */
bool qkv_precision_find(const char *name, enum qkv_precision *precision);
