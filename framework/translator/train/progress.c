#include "train/training.h"

#include <math.h>
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

static const char EARLY_END[] = "train.early_end"; /* stored only if it is not 0 */

enum { INTEGER_COUNT = sizeof INTEGERS / sizeof INTEGERS[0] };

static const char *best_key(char key[48], int64_t i, const char *field)
{
    snprintf(key, 48, "train.best.%lld.%s", (long long)i + 1, field);
    return key;
}

/* The lists of updates. An empty list is not stored in a checkpoint. */
static const struct update_list {
    const char *name;
    size_t count, updates; /* where they are in struct progress */
    int64_t max;
} LISTS[] = {
    {"last", offsetof(struct progress, last_count), offsetof(struct progress, last), MAX_LAST + 1},
    {"snapshot", offsetof(struct progress, snapshot_count), offsetof(struct progress, snapshot),
     MAX_SNAPSHOTS},
};

enum { LIST_COUNT = sizeof LISTS / sizeof LISTS[0] };

static const char *count_key(char key[48], const struct update_list *list)
{
    snprintf(key, 48, "train.%s_count", list->name);
    return key;
}

static const char *update_key(char key[48], const struct update_list *list, int64_t i)
{
    snprintf(key, 48, "train.%s.%lld.update", list->name, (long long)i + 1);
    return key;
}

static void save_list(const struct update_list *list, const struct progress *progress,
                      struct qkv_state *state)
{
    char key[48];
    int64_t count = *(const int64_t *)((const char *)progress + list->count);
    const int64_t *updates = (const int64_t *)((const char *)progress + list->updates);
    if (!count) return;
    qkv_state_set_integer(state, count_key(key, list), count);
    for (int64_t i = 0; i < count; i++) qkv_state_set_integer(state, update_key(key, list, i), updates[i]);
}

static enum qkv_status restore_list(const struct update_list *list, struct progress *progress,
                                    const struct qkv_state *state, struct qkv_error *error)
{
    char key[48];
    int64_t *count = (int64_t *)((char *)progress + list->count);
    int64_t *updates = (int64_t *)((char *)progress + list->updates);
    if (!qkv_state_get(state, count_key(key, list))) return QKV_OK;
    if (qkv_state_get_count(state, key, count, error)) return QKV_INVALID;
    if (*count > list->max)
        return qkv_error_set(error, "%s is %lld, but at most %lld are kept", key, (long long)*count,
                             (long long)list->max);
    for (int64_t i = 0; i < *count; i++)
        if (qkv_state_get_count(state, update_key(key, list, i), &updates[i], error)) return QKV_INVALID;
    return QKV_OK;
}

void qkv_progress_save(const struct progress *progress, struct qkv_state *state)
{
    char key[48];
    for (int i = 0; i < INTEGER_COUNT; i++)
        qkv_state_set_integer(state, INTEGERS[i].key,
                              *(const int64_t *)((const char *)progress + INTEGERS[i].offset));
    if (progress->early_end) qkv_state_set_integer(state, EARLY_END, progress->early_end);
    qkv_state_set_number(state, "train.log_loss", progress->log_loss);
    if (isfinite(progress->log_cross_entropy))
        qkv_state_set_number(state, "train.log_cross_entropy", progress->log_cross_entropy);
    if (progress->log_alignment > 0)
        qkv_state_set_number(state, "train.log_alignment", progress->log_alignment);
    for (int64_t i = 0; i < progress->best_count; i++) {
        qkv_state_set_integer(state, best_key(key, i, "update"), progress->best[i].update);
        qkv_state_set_number(state, best_key(key, i, "score"), progress->best[i].score);
    }
    for (int i = 0; i < LIST_COUNT; i++) save_list(&LISTS[i], progress, state);
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
    if (qkv_state_get(state, EARLY_END) && qkv_state_get_count(state, EARLY_END, &found.early_end, error))
        return QKV_INVALID;
    if (found.best_count > MAX_BEST + 1)
        return qkv_error_set(error, "train.best_count is %lld, but at most %d are kept",
                             (long long)found.best_count, MAX_BEST + 1);
    if (qkv_state_get_number(state, "train.log_loss", &found.log_loss, error)) return QKV_INVALID;
    if (!qkv_state_get(state, "train.log_cross_entropy"))
        found.log_cross_entropy = found.log_tokens ? (double)NAN : 0;
    else if (qkv_state_get_number(state, "train.log_cross_entropy", &found.log_cross_entropy, error))
        return QKV_INVALID;
    if (qkv_state_get(state, "train.log_alignment") &&
        qkv_state_get_number(state, "train.log_alignment", &found.log_alignment, error))
        return QKV_INVALID;
    for (int64_t i = 0; i < found.best_count; i++)
        if (qkv_state_get_count(state, best_key(key, i, "update"), &found.best[i].update, error) ||
            qkv_state_get_number(state, best_key(key, i, "score"), &found.best[i].score, error))
            return QKV_INVALID;
    for (int i = 0; i < LIST_COUNT; i++)
        if (restore_list(&LISTS[i], &found, state, error)) return QKV_INVALID;
    *progress = found;
    return QKV_OK;
}

bool qkv_training_is_at_end(const struct training *training)
{
    const struct qkv_training_config *settings = &training->config->training;
    const struct progress *progress = &training->progress;
    if (settings->updates && progress->update >= settings->updates) return true;
    return settings->epochs && progress->epoch + 1 >= settings->epochs &&
           progress->batch >= training->batches.count;
}

bool qkv_training_is_finished(const struct training *training)
{
    const struct progress *progress = &training->progress;
    int64_t patience = training->config->training.patience;
    bool ends = qkv_training_is_at_end(training) || (patience && progress->waited >= patience);
    return ends && (!training->evaluator || progress->validated == progress->update);
}
