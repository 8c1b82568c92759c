/* The number types of safetensors files. */
#include "checkpoint/safetensors.h"

#include "core/half.h"

#include <string.h>

static const struct {
    const char *name;
    size_t size;
} TYPES[] = {
    [QKV_STORED_F32] = {"F32", 4},   [QKV_STORED_F64] = {"F64", 8}, [QKV_STORED_F16] = {"F16", 2},
    [QKV_STORED_BF16] = {"BF16", 2}, [QKV_STORED_I8] = {"I8", 1},
};

enum { TYPE_COUNT = sizeof TYPES / sizeof TYPES[0] };

const char *qkv_stored_type_name(enum qkv_stored_type type)
{
    return TYPES[type].name;
}

bool qkv_stored_type_find(const char *name, enum qkv_stored_type *type)
{
    for (int i = 0; i < TYPE_COUNT; i++) {
        if (strcmp(name, TYPES[i].name) != 0) continue;
        *type = (enum qkv_stored_type)i;
        return true;
    }
    return false;
}

size_t qkv_stored_type_size(enum qkv_stored_type type)
{
    return TYPES[type].size;
}

size_t qkv_safetensor_size(const struct qkv_safetensor *tensor)
{
    return (size_t)qkv_shape_count(tensor->shape) * qkv_stored_type_size(tensor->type);
}

static float bfloat16_value(uint16_t stored)
{
    uint32_t bits = (uint32_t)stored << 16;
    float value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

/* Reads number i. Uses memcpy, as the data in a file may start at any byte. */
static double number_at(const struct qkv_safetensor *tensor, int64_t i)
{
    const char *at = (const char *)tensor->data + (size_t)i * qkv_stored_type_size(tensor->type);
    float single;
    double number;
    uint16_t bits;
    switch (tensor->type) {
    case QKV_STORED_F32:
        memcpy(&single, at, sizeof single);
        return (double)single;
    case QKV_STORED_F16:
        memcpy(&bits, at, sizeof bits);
        return (double)qkv_half_value(bits);
    case QKV_STORED_BF16:
        memcpy(&bits, at, sizeof bits);
        return (double)bfloat16_value(bits);
    case QKV_STORED_I8:
        return (double)*(const int8_t *)at;
    case QKV_STORED_F64:
        break;
    }
    memcpy(&number, at, sizeof number);
    return number;
}

void qkv_safetensor_copy(const struct qkv_safetensor *tensor, enum qkv_dtype dtype, void *to)
{
    int64_t count = qkv_shape_count(tensor->shape);
    if (tensor->type == qkv_stored_type_of(dtype))
        memcpy(to, tensor->data, qkv_safetensor_size(tensor));
    else
        for (int64_t i = 0; i < count; i++) qkv_dtype_set(dtype, to, i, number_at(tensor, i));
}
