/* The names of the values of enums, and of precisions. */
#include "core/choices.h"

#include <string.h>

#define CHOICES(type)                       static const char *const type##_list[] = {
#define CHOICE(value, name, help)           [value] = name,
#define CHOICE_OF_OPTIONS(value, name, ...) [value] = name,
#define INTERNAL(value, name)               [value] = name,
#define CHOICES_END(type)                                                                                    \
    }                                                                                                        \
    ;                                                                                                        \
    const struct qkv_value_names type##_names = {type##_list, sizeof type##_list / sizeof *type##_list};     \
    const char *type##_name(enum type value)                                                                 \
    {                                                                                                        \
        return qkv_value_name(&type##_names, (int)value);                                                    \
    }
#include "qkv/engine_choices.def"

/* ---- precisions ---- */

static const char *const PRECISIONS[QKV_PRECISION_COUNT] = {[QKV_PRECISION_FLOAT32] = "float32",
                                                            [QKV_PRECISION_BFLOAT16] = "bfloat16",
                                                            [QKV_PRECISION_INT8] = "int8"};

const char *qkv_precision_name(enum qkv_precision precision)
{
    return (int)precision >= 0 && precision < QKV_PRECISION_COUNT ? PRECISIONS[precision] : NULL;
}

bool qkv_precision_find(const char *name, enum qkv_precision *precision)
{
    for (int i = 0; i < QKV_PRECISION_COUNT; i++) {
        if (strcmp(name, PRECISIONS[i]) != 0) continue;
        *precision = (enum qkv_precision)i;
        return true;
    }
    return false;
}
