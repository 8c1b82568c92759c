/* A hash table from a string to its number; all strings are in one block. */
#include "qkv/types.h"

#include "core/grow.h"

#include <stdlib.h>
#include <string.h>

/* FNV-1a (Fowler, Noll, Vo), folded to 32 bits. */
static uint32_t hash_of(const char *token, size_t *size)
{
    uint64_t hash = 14695981039346656037u;
    const char *end = token;
    for (; *end; end++) hash = (hash ^ (unsigned char)*end) * 1099511628211u;
    *size = (size_t)(end - token);
    return (uint32_t)(hash ^ (hash >> 32));
}

/* The slot of a string, or the free slot for it. At most half of the slots are in use. */
static int64_t slot_of(const struct qkv_types *types, const char *token, uint32_t hash)
{
    int64_t mask = types->slot_count - 1, slot = hash & mask;
    for (; types->slots[slot] >= 0; slot = (slot + 1) & mask) {
        int32_t type = types->slots[slot];
        if (types->hash[type] == hash && !strcmp(types->text + types->start[type], token)) break;
    }
    return slot;
}

static bool double_slots(struct qkv_types *types)
{
    int64_t count = types->slot_count ? 2 * types->slot_count : 1024;
    int32_t *slots = malloc((size_t)count * sizeof *slots);
    if (!slots) return false;
    for (int64_t i = 0; i < count; i++) slots[i] = -1;
    for (int64_t type = 0; type < types->size; type++) {
        int64_t slot = types->hash[type] & (count - 1);
        while (slots[slot] >= 0) slot = (slot + 1) & (count - 1);
        slots[slot] = (int32_t)type;
    }
    free(types->slots);
    types->slots = slots;
    types->slot_count = count;
    return true;
}

/* The sum, or the number that is closest to it. */
static int64_t sum_saturated(int64_t a, int64_t b)
{
    if (b > 0 && a > INT64_MAX - b) return INT64_MAX;
    if (b < 0 && a < INT64_MIN - b) return INT64_MIN;
    return a + b;
}

/* Appends a string and its NUL to the text, also a part of the text itself, which growing moves. False when there is no
 * memory. */
static bool append(struct qkv_types *types, const char *token, int64_t size)
{
    uintptr_t begin = (uintptr_t)types->text, at = (uintptr_t)token;
    bool is_part = begin && at >= begin && at < begin + (uintptr_t)types->text_size;
    if (!QKV_RESERVE(types->text, types->text_capacity, types->text_size + size)) return false;
    memcpy(types->text + types->text_size, is_part ? types->text + (at - begin) : token, (size_t)size);
    types->text_size += size;
    return true;
}

int32_t qkv_types_add(struct qkv_types *types, const char *token, int64_t frequency)
{
    size_t size;
    uint32_t hash = hash_of(token, &size);
    if (2 * (types->size + 1) > types->slot_count && !double_slots(types)) {
        qkv_types_release(types);
        return -1;
    }
    int64_t slot = slot_of(types, token, hash), type = types->slots[slot];
    if (type >= 0) {
        types->frequency[type] = sum_saturated(types->frequency[type], frequency);
        return (int32_t)type;
    }
    type = types->size;
    int64_t start = types->text_size;
    if (type == INT32_MAX || !QKV_RESERVE(types->frequency, types->capacity, type + 1) ||
        !QKV_RESERVE(types->start, types->start_capacity, type + 1) ||
        !QKV_RESERVE(types->hash, types->hash_capacity, type + 1) ||
        !append(types, token, (int64_t)size + 1)) {
        qkv_types_release(types);
        return -1;
    }
    types->start[type] = start;
    types->hash[type] = hash;
    types->frequency[type] = frequency;
    types->slots[slot] = (int32_t)type;
    types->size++;
    return (int32_t)type;
}

int32_t qkv_types_find(const struct qkv_types *types, const char *token)
{
    size_t size;
    uint32_t hash = hash_of(token, &size);
    return types->slot_count ? types->slots[slot_of(types, token, hash)] : -1;
}

const char *qkv_types_token(const struct qkv_types *types, int64_t type)
{
    return type >= 0 && type < types->size ? types->text + types->start[type] : NULL;
}

void qkv_types_release(struct qkv_types *types)
{
    free(types->frequency);
    free(types->start);
    free(types->hash);
    free(types->slots);
    free(types->text);
    *types = (struct qkv_types){0};
}
