#include "train/training.h"

#include <stdio.h>

/* The integer fields and their keys. */
static const struct {
    const char *key;
    size_t offset;
} INTEGERS[] = {
    {"train.update", offsetof(struct progress, update)},
    {"train.epoch", offsetof(struct progress, epoch)},
    {"train.batch", offsetof(struct progress, batch)},
    {"train.tokens", offsetof(struct progress, tokens)},
    {"train.waited", offsetof(struct progress, waited)},
    {"train.validated", offsetof(struct progress, validated)},
    {"train.log_tokens", offsetof(struct progress, log_tokens)},
    {"train.best_count", offsetof(struct progress, best_count)},
};

enum { INTEGER_COUNT = sizeof INTEGERS / sizeof INTEGERS[0] };

static const char *best_key(char key[48], int64_t i, const char *field)
{
    snprintf(key, 48, "train.best.%lld.%s", (long long)i + 1, field);
    return key;
}

static const char *last_key(char key[48], int64_t i)
{
    snprintf(key, 48, "train.last.%lld.update", (long long)i + 1);
    return key;
}

/* Without keep_last_ckpts, a checkpoint has no list of the last ones. */
static void save_last(const struct progress *progress, struct qkv_state *state)
{
    char key[48];
    if (!progress->last_count) return;
    qkv_state_set_integer(state, "train.last_count", progress->last_count);
    for (int64_t i = 0; i < progress->last_count; i++)
        qkv_state_set_integer(state, last_key(key, i), progress->last[i]);
}

static enum qkv_status restore_last(struct progress *progress, const struct qkv_state *state,
                                    struct qkv_error *error)
{
    char key[48];
    if (!qkv_state_get(state, "train.last_count")) return QKV_OK;
    if (qkv_state_get_count(state, "train.last_count", &progress->last_count, error)) return QKV_INVALID;
    if (progress->last_count > MOST_LAST)
        return qkv_error_set(error, "train.last_count is %lld, but at most %d are kept",
                             (long long)progress->last_count, MOST_LAST);
    for (int64_t i = 0; i < progress->last_count; i++)
        if (qkv_state_get_count(state, last_key(key, i), &progress->last[i], error)) return QKV_INVALID;
    return QKV_OK;
}

void qkv_progress_save(const struct progress *progress, struct qkv_state *state)
{
    char key[48];
    for (int i = 0; i < INTEGER_COUNT; i++)
        qkv_state_set_integer(state, INTEGERS[i].key,
                              *(const int64_t *)((const char *)progress + INTEGERS[i].offset));
    qkv_state_set_number(state, "train.log_loss", progress->log_loss);
    for (int64_t i = 0; i < progress->best_count; i++) {
        qkv_state_set_integer(state, best_key(key, i, "update"), progress->best[i].update);
        qkv_state_set_number(state, best_key(key, i, "score"), progress->best[i].score);
    }
    save_last(progress, state);
}

enum qkv_status qkv_progress_restore(struct progress *progress, const struct qkv_state *state,
                                     struct qkv_error *error)
{
    struct progress found = {0};
    char key[48];
    for (int i = 0; i < INTEGER_COUNT; i++) {
        int64_t *field = (int64_t *)((char *)&found + INTEGERS[i].offset);
        if (qkv_state_get_count(state, INTEGERS[i].key, field, error)) return QKV_INVALID;
    }
    if (found.epoch >= UINT32_MAX) /* random numbers distinguish no more epochs */
        return qkv_error_set(error, "train.epoch is %lld, but must be below 2^32 - 1",
                             (long long)found.epoch);
    if (found.best_count > MOST_BEST)
        return qkv_error_set(error, "train.best_count is %lld, but at most %d are kept",
                             (long long)found.best_count, MOST_BEST);
    if (qkv_state_get_number(state, "train.log_loss", &found.log_loss, error)) return QKV_INVALID;
    for (int64_t i = 0; i < found.best_count; i++)
        if (qkv_state_get_count(state, best_key(key, i, "update"), &found.best[i].update, error) ||
            qkv_state_get_number(state, best_key(key, i, "score"), &found.best[i].score, error))
            return QKV_INVALID;
    if (restore_last(&found, state, error)) return QKV_INVALID;
    *progress = found;
    return QKV_OK;
}
