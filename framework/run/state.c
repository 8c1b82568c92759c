/* The state of training: a list of keys with texts, in the order in which they were added. */
#include "qkv/checkpoint.h"

#include "config/number.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static struct qkv_state_entry *find(const struct qkv_state *state, const char *key)
{
    for (int64_t i = 0; i < state->count; i++)
        if (!strcmp(state->list[i].key, key)) return &state->list[i];
    return NULL;
}

/* The entry of a new key; NULL when memory is out. */
static struct qkv_state_entry *append(struct qkv_state *state, const char *key)
{
    if (state->count == state->capacity) {
        int64_t capacity = state->capacity ? 2 * state->capacity : 32;
        void *list = realloc(state->list, (size_t)capacity * sizeof *state->list);
        if (!list) return NULL;
        state->list = list;
        state->capacity = capacity;
    }
    const char *copy = qkv_arena_string(&state->arena, key);
    if (!copy) return NULL;
    struct qkv_state_entry *entry = &state->list[state->count++];
    *entry = (struct qkv_state_entry){copy, ""};
    return entry;
}

void qkv_state_set(struct qkv_state *state, const char *key, const char *text)
{
    QKV_BUG(!strncmp(key, "qkv.", 4), "the key %s of a checkpoint is reserved", key);
    struct qkv_state_entry *entry = find(state, key);
    if (!entry) entry = append(state, key);
    const char *copy = qkv_arena_string(&state->arena, text);
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
    free(state->list);
    *state = (struct qkv_state){0};
}
