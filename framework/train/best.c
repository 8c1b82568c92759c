#include "train/trainer.h"

#include <dirent.h>
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static const char *checkpoint_name(struct session *session, int64_t update)
{
    return qkv_arena_format(&session->arena, "update-%lld.safetensors", (long long)update);
}

/* best.safetensors becomes the file `name`: a second link to the same bytes, put in place in one step. False
 * where the file system has no links. */
static bool link_best(struct session *session, const char *name)
{
    const char *from = qkv_run_file(&session->arena, session->folder, name);
    const char *temporary = qkv_run_file(&session->arena, session->folder, QKV_RUN_BEST ".tmp");
    const char *to = qkv_run_file(&session->arena, session->folder, QKV_RUN_BEST);
    if (!from || !temporary || !to) return false;
    unlink(temporary);
    if (link(from, temporary) != 0) return false;
    bool done = rename(temporary, to) == 0;
    unlink(temporary); /* rename leaves it when both are the same file already */
    return done;
}

/* Whether a is better; a score that is no number is never. */
static bool better(double a, double b, bool higher)
{
    if (isnan(a)) return false;
    return isnan(b) || (higher ? a > b : a < b);
}

enum qkv_status qkv_best_record(struct session *session, double score, bool *is_best, struct qkv_error *error)
{
    const struct qkv_training_config *training = &session->config->training;
    struct position *at = &session->at;
    bool higher = !qkv_metric_info(training->early_stopping_metric)->lower_is_better;
    int64_t room = training->keep_best_ckpts, place = 0;
    QKV_BUG(room < 1 || room > MOST_BEST, "%lld best checkpoints", (long long)room);
    if (at->best_count > room) at->best_count = room; /* a resumed run may be told to keep fewer */
    while (place < at->best_count && !better(score, at->best[place].score, higher)) place++;
    *is_best = place == 0;
    if (place >= room) return QKV_OK;

    if (at->best_count < room) at->best_count++;
    memmove(&at->best[place + 1], &at->best[place],
            (size_t)(at->best_count - 1 - place) * sizeof at->best[0]);
    at->best[place] = (struct best){at->update, score};
    const char *name = checkpoint_name(session, at->update);
    if (!name) return qkv_error_set(error, "out of memory");
    if (qkv_session_save(session, name, false, error)) return QKV_INVALID;
    if (!*is_best || link_best(session, name)) return QKV_OK;
    return qkv_session_save(session, QKV_RUN_BEST, false, error);
}

static bool is_listed(const struct position *at, long long update)
{
    for (int64_t i = 0; i < at->best_count; i++)
        if (at->best[i].update == update) return true;
    return false;
}

enum qkv_status qkv_best_prune(struct session *session, struct qkv_error *error)
{
    DIR *folder = opendir(session->folder);
    if (!folder) return qkv_error_set(error, "%s: %s", session->folder, strerror(errno));
    enum qkv_status status = QKV_OK;
    for (struct dirent *entry; !status && (entry = readdir(folder));) {
        long long update = 0;
        int length = 0;
        sscanf(entry->d_name, "update-%lld.safetensors%n", &update, &length);
        if (!length || entry->d_name[length] || is_listed(&session->at, update)) continue;
        const char *path = qkv_run_file(&session->arena, session->folder, entry->d_name);
        if (!path)
            status = qkv_error_set(error, "out of memory");
        else if (unlink(path) != 0)
            status = qkv_error_set(error, "%s: %s", path, strerror(errno));
    }
    closedir(folder);
    return status;
}

/* What stands in best.safetensors may come from a validation after the checkpoint that the run goes on from.
 */
enum qkv_status qkv_best_restore(struct session *session, struct qkv_error *error)
{
    const char *name = session->at.best_count ? checkpoint_name(session, session->at.best[0].update) : NULL;
    if (name) link_best(session, name);
    return qkv_best_prune(session, error);
}
