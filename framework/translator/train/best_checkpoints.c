#include "train/training.h"

#include "core/temporary.h"
#include "run/numbered.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

/* Makes best.safetensors a hard link to the file `name`, atomically. False where the file system has no links. */
static bool link_best(const struct training *training, const char *name)
{
    static const char *const temporary = QKV_RUN_BEST ".tmp";
    int folder = dirfd(training->lock);
    unlinkat(folder, temporary, 0);
    qkv_temporary_add(training->best_temporary);
    bool is_linked = linkat(folder, name, folder, temporary, 0) == 0 &&
                     renameat(folder, temporary, folder, QKV_RUN_BEST) == 0;
    unlinkat(folder, temporary, 0); /* rename does nothing when both names are links to the same file */
    qkv_temporary_forget(training->best_temporary);
    return is_linked;
}

/* Called before the present update is added to a list. */
static void note_early_end(struct training *training)
{
    struct progress *progress = &training->progress;
    bool is_early = progress->update % training->config->training.validation_freq != 0;
    progress->early_end = is_early ? progress->update : 0;
}

/* How many places a list has that keeps `max` checkpoints. */
static int64_t capacity_of(const struct progress *progress, int64_t max)
{
    return max && progress->early_end ? max + 1 : max;
}

enum qkv_status qkv_best_record(struct training *training, double score, bool *is_best,
                                struct qkv_error *error)
{
    const struct qkv_training_config *settings = &training->config->training;
    struct progress *progress = &training->progress;
    enum qkv_metric metric = settings->early_stopping_metric;
    int64_t max = settings->keep_best_ckpts, place = 0;
    QKV_BUG(max < 1 || max > MAX_BEST, "%lld best checkpoints", (long long)max);
    if (progress->best_count > max) progress->best_count = max; /* a resumed run may keep fewer */
    while (place < progress->best_count && !qkv_metric_is_better(metric, score, progress->best[place].score))
        place++;
    *is_best = place == 0;
    note_early_end(training);
    if (place >= max) return QKV_OK;

    if (progress->best_count < capacity_of(progress, max)) progress->best_count++;
    memmove(&progress->best[place + 1], &progress->best[place],
            (size_t)(progress->best_count - 1 - place) * sizeof progress->best[0]);
    progress->best[place] = (struct best_checkpoint){progress->update, score};
    char memory[NUMBERED_NAME_SIZE];
    const char *name = qkv_numbered_name(memory, NUMBERED_UPDATE, progress->update);
    if (qkv_training_save(training, name, CHECKPOINT_VALUES, error)) return QKV_INVALID;
    if (!*is_best || link_best(training, name)) return QKV_OK;
    return qkv_training_save(training, QKV_RUN_BEST, CHECKPOINT_VALUES, error);
}

static bool is_best_listed(const struct progress *progress, int64_t update)
{
    for (int64_t i = 0; i < progress->best_count; i++)
        if (progress->best[i].update == update) return true;
    return false;
}

bool qkv_last_is_recorded(const struct training *training)
{
    const struct progress *progress = &training->progress;
    return !training->config->training.keep_last_ckpts ||
           (progress->last_count && progress->last[progress->last_count - 1] == progress->update);
}

enum qkv_status qkv_last_record(struct training *training, struct qkv_error *error)
{
    struct progress *progress = &training->progress;
    int64_t max = training->config->training.keep_last_ckpts, count = progress->last_count;
    QKV_BUG(max > MAX_LAST, "%lld last checkpoints", (long long)max);
    if (!qkv_last_is_recorded(training)) {
        char name[NUMBERED_NAME_SIZE];
        note_early_end(training);
        /* The file of a checkpoint that is among the best is written already. */
        if (!is_best_listed(progress, progress->update) &&
            qkv_training_save(training, qkv_numbered_name(name, NUMBERED_UPDATE, progress->update),
                              CHECKPOINT_VALUES, error))
            return QKV_INVALID;
        if (count == MAX_LAST + 1)
            memmove(progress->last, progress->last + 1, (size_t)--count * sizeof(int64_t));
        progress->last[count++] = progress->update;
    }
    int64_t capacity = capacity_of(progress, max);
    int64_t dropped = count > capacity ? count - capacity : 0; /* a resumed run may keep fewer */
    progress->last_count = count - dropped;
    memmove(progress->last, progress->last + dropped, (size_t)progress->last_count * sizeof(int64_t));
    return QKV_OK;
}

static bool is_listed(const struct progress *progress, int64_t update)
{
    for (int64_t i = 0; i < progress->last_count; i++)
        if (progress->last[i] == update) return true;
    return is_best_listed(progress, update);
}

enum qkv_status qkv_best_prune(struct training *training, struct qkv_error *error)
{
    return qkv_training_prune(training, NUMBERED_UPDATE, is_listed, error);
}

enum qkv_status qkv_best_forget_early_end(struct training *training, struct qkv_error *error)
{
    struct progress *progress = &training->progress;
    int64_t forgotten = progress->early_end, best_count = 0, last_count = 0;
    if (!forgotten || qkv_training_is_at_end(training)) return QKV_OK;
    for (int64_t i = 0; i < progress->best_count; i++)
        if (progress->best[i].update != forgotten) progress->best[best_count++] = progress->best[i];
    for (int64_t i = 0; i < progress->last_count; i++)
        if (progress->last[i] != forgotten) progress->last[last_count++] = progress->last[i];
    progress->best_count = best_count;
    progress->last_count = last_count;
    progress->early_end = progress->validated = 0;
    return qkv_training_save(training, QKV_RUN_LAST, CHECKPOINT_RESUMABLE, error);
}

/* Makes best.safetensors a link to the best checkpoint of the list. A killed run may have written best.safetensors
 * for a validation that came after last.safetensors; the resumed run repeats that validation. */
enum qkv_status qkv_best_restore(struct training *training, struct qkv_error *error)
{
    char name[NUMBERED_NAME_SIZE];
    if (training->progress.best_count)
        link_best(training, qkv_numbered_name(name, NUMBERED_UPDATE, training->progress.best[0].update));
    return qkv_best_prune(training, error);
}
