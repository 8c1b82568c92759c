#include "train/training.h"

#include <dirent.h>
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static const char *checkpoint_name(struct training *training, int64_t update)
{
    return qkv_arena_format(&training->arena, "update-%lld.safetensors", (long long)update);
}

/* Makes best.safetensors a hard link to the file `name`, atomically. False where the file system has no
 * links. */
static bool link_best(struct training *training, const char *name)
{
    const char *from = qkv_run_file(&training->arena, training->folder, name);
    const char *temporary = qkv_run_file(&training->arena, training->folder, QKV_RUN_BEST ".tmp");
    const char *to = qkv_run_file(&training->arena, training->folder, QKV_RUN_BEST);
    if (!from || !temporary || !to) return false;
    unlink(temporary);
    if (link(from, temporary) != 0) return false;
    bool done = rename(temporary, to) == 0;
    unlink(temporary); /* rename does nothing when both names are links to the same file */
    return done;
}

/* True when score a is better than b. NaN is never better. */
static bool better(double a, double b, bool higher)
{
    if (isnan(a)) return false;
    return isnan(b) || (higher ? a > b : a < b);
}

enum qkv_status qkv_best_record(struct training *training, double score, bool *is_best,
                                struct qkv_error *error)
{
    const struct qkv_training_config *settings = &training->config->training;
    struct progress *progress = &training->progress;
    bool higher = !qkv_metric_info(settings->early_stopping_metric)->lower_is_better;
    int64_t most = settings->keep_best_ckpts, place = 0;
    QKV_BUG(most < 1 || most > MOST_BEST, "%lld best checkpoints", (long long)most);
    if (progress->best_count > most) progress->best_count = most; /* a resumed run may keep fewer */
    while (place < progress->best_count && !better(score, progress->best[place].score, higher)) place++;
    *is_best = place == 0;
    if (place >= most) return QKV_OK;

    if (progress->best_count < most) progress->best_count++;
    memmove(&progress->best[place + 1], &progress->best[place],
            (size_t)(progress->best_count - 1 - place) * sizeof progress->best[0]);
    progress->best[place] = (struct best_checkpoint){progress->update, score};
    const char *name = checkpoint_name(training, progress->update);
    if (!name) return qkv_error_set(error, "out of memory");
    if (qkv_training_save(training, name, false, error)) return QKV_INVALID;
    if (!*is_best || link_best(training, name)) return QKV_OK;
    return qkv_training_save(training, QKV_RUN_BEST, false, error);
}

static bool is_listed(const struct progress *progress, long long update)
{
    for (int64_t i = 0; i < progress->best_count; i++)
        if (progress->best[i].update == update) return true;
    return false;
}

enum qkv_status qkv_best_prune(struct training *training, struct qkv_error *error)
{
    DIR *folder = opendir(training->folder);
    if (!folder) return qkv_error_set(error, "%s: %s", training->folder, strerror(errno));
    enum qkv_status status = QKV_OK;
    for (struct dirent *entry; !status && (entry = readdir(folder));) {
        long long update = 0;
        int length = 0;
        sscanf(entry->d_name, "update-%lld.safetensors%n", &update, &length);
        if (!length || entry->d_name[length] || is_listed(&training->progress, update)) continue;
        const char *path = qkv_run_file(&training->arena, training->folder, entry->d_name);
        if (!path)
            status = qkv_error_set(error, "out of memory");
        else if (unlink(path) != 0)
            status = qkv_error_set(error, "%s: %s", path, strerror(errno));
    }
    closedir(folder);
    return status;
}

/* Makes best.safetensors a link to the best checkpoint of the list: a killed run may have written it for a
 * validation that came after last.safetensors, from which the run continues. */
enum qkv_status qkv_best_restore(struct training *training, struct qkv_error *error)
{
    const char *name =
        training->progress.best_count ? checkpoint_name(training, training->progress.best[0].update) : NULL;
    if (name) link_best(training, name);
    return qkv_best_prune(training, error);
}
