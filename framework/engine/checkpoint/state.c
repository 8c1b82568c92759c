/* The state of training: a list of keys with texts, in the order in which they were added. */
#include "qkv/checkpoint.h"

#include "core/grow.h"
#include "core/number.h"
#include "core/plain_text.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static struct qkv_state_entry *find(const struct qkv_state *state, const char *key)
{
    int32_t i = qkv_types_find(&state->keys, key); /* keys are numbered in the order of the list */
    return i < 0 || i >= state->count ? NULL : &state->list[i];
}

/* Appends an entry for a new key; NULL when memory runs out, which may also have lost the existing entries. */
static struct qkv_state_entry *append(struct qkv_state *state, const char *key)
{
    const char *copy = qkv_arena_string(&state->arena, key);
    if (!copy) return NULL;
    if (!QKV_RESERVE(state->list, state->capacity, state->count + 1)) {
        state->count = 0;
        return NULL;
    }
    if (qkv_types_add(&state->keys, key, 0) < 0) return NULL;
    struct qkv_state_entry *entry = &state->list[state->count++];
    *entry = (struct qkv_state_entry){copy, ""};
    return entry;
}

void qkv_state_set(struct qkv_state *state, const char *key, const char *text)
{
    if (state->failed) return; /* keys and list may no longer agree */
    struct qkv_state_entry *entry = find(state, key);
    if (!entry) entry = append(state, key);
    char *copy = qkv_arena_string(&state->arena, text);
    size_t size = strlen(text), valid = 0;
    while (copy && (valid += qkv_text_valid_size(copy + valid, size - valid)) < size) copy[valid] = '?';
    if (entry && copy)
        entry->text = copy;
    else
        state->failed = true;
}

void qkv_state_set_integer(struct qkv_state *state, const char *key, int64_t value)
{
    char text[QKV_NUMBER_SIZE];
    snprintf(text, sizeof text, "%" PRId64, value);
    qkv_state_set(state, key, text);
}

void qkv_state_set_number(struct qkv_state *state, const char *key, double value)
{
    char text[QKV_NUMBER_SIZE];
    if (isnan(value))
        qkv_state_set(state, key, "nan");
    else if (isinf(value))
        qkv_state_set(state, key, value > 0 ? "inf" : "-inf");
    else {
        qkv_number_format(text, value);
        qkv_state_set(state, key, text);
    }
}

const char *qkv_state_get(const struct qkv_state *state, const char *key)
{
    const struct qkv_state_entry *entry = find(state, key);
    return entry ? entry->text : NULL;
}

enum qkv_status qkv_state_get_integer(const struct qkv_state *state, const char *key, int64_t *value,
                                      struct qkv_error *error)
{
    const char *text = qkv_state_get(state, key);
    if (!text) return qkv_error_set(error, "%s is missing", key);
    int64_t number;
    if (qkv_number_kind(text) != QKV_NUMBER_INTEGER || !qkv_integer_read(text, &number))
        return qkv_error_set(error, "%s is \"%s\", but must be a whole number", key, text);
    *value = number;
    return QKV_OK;
}

enum qkv_status qkv_state_get_count(const struct qkv_state *state, const char *key, int64_t *value,
                                    struct qkv_error *error)
{
    int64_t count;
    if (qkv_state_get_integer(state, key, &count, error)) return QKV_INVALID;
    if (count < 0 || count > QKV_COUNT_MAX)
        return qkv_error_set(error, "%s is %lld, but must be from 0 to %lld", key, (long long)count,
                             (long long)QKV_COUNT_MAX);
    *value = count;
    return QKV_OK;
}

enum qkv_status qkv_state_get_number(const struct qkv_state *state, const char *key, double *value,
                                     struct qkv_error *error)
{
    const char *text = qkv_state_get(state, key);
    if (!text) return qkv_error_set(error, "%s is missing", key);
    double number;
    if (!strcmp(text, "nan"))
        number = (double)NAN;
    else if (!strcmp(text, "inf"))
        number = (double)INFINITY;
    else if (!strcmp(text, "-inf"))
        number = -(double)INFINITY;
    else if (qkv_number_kind(text) == QKV_NUMBER_NONE || !qkv_number_read(text, &number))
        return qkv_error_set(error, "%s is \"%s\", but must be a number", key, text);
    *value = number;
    return QKV_OK;
}

void qkv_state_release(struct qkv_state *state)
{
    qkv_arena_release(&state->arena);
    qkv_types_release(&state->keys);
    free(state->list);
    *state = (struct qkv_state){0};
}
