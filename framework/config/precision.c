#include "qkv/precision.h"

#include "config/choices.h"

#include <string.h>

const char *qkv_precision_name(enum qkv_precision precision)
{
    return precision >= 0 && precision < QKV_PRECISION_COUNT
               ? qkv_choice_name(&qkv_precision_choices, (int)precision)
               : NULL;
}

bool qkv_precision_find(const char *name, enum qkv_precision *precision)
{
    for (int i = 0; i < QKV_PRECISION_COUNT; i++) {
        if (strcmp(name, qkv_choice_name(&qkv_precision_choices, i)) != 0) continue;
        *precision = (enum qkv_precision)i;
        return true;
    }
    return false;
}
