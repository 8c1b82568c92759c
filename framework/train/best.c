#include "train/trainer.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static const char *checkpoint_name(struct session *session, int64_t update)
{
    return qkv_arena_format(&session->arena, "update-%lld.safetensors", (long long)update);
}

/* best.safetensors becomes the file `name`: a second link to the same bytes, put in place in one step. Where the file
 * system has no links, the checkpoint is written once more. */
static enum qkv_status point_best_at(struct session *session, const char *name, struct qkv_error *error)
{
    const char *from = qkv_run_file(&session->arena, session->folder, name);
    const char *temporary = qkv_run_file(&session->arena, session->folder, "best.tmp");
    const char *to = qkv_run_file(&session->arena, session->folder, QKV_RUN_BEST);
    if (!from || !temporary || !to) return qkv_error_set(error, "out of memory");
    unlink(temporary);
    if (link(from, temporary) == 0) {
        if (rename(temporary, to) == 0) {
            unlink(temporary); /* rename leaves it when both are the same file already */
            return QKV_OK;
        }
        unlink(temporary);
    }
    return session_save(session, QKV_RUN_BEST, error);
}

/* Whether a is better; a score that is no number is never. */
static bool better(double a, double b, bool higher)
{
    if (isnan(a)) return false;
    return isnan(b) || (higher ? a > b : a < b);
}

enum qkv_status best_note(struct session *session, double score, bool *is_best, struct qkv_error *error)
{
    const struct qkv_training_config *training = &session->config->training;
    struct position *at = &session->at;
    bool higher = qkv_metric_higher_is_better(training->early_stopping_metric);
    int64_t room = training->keep_best_ckpts < MOST_BEST ? training->keep_best_ckpts : MOST_BEST, place = 0;
    if (room < 1) room = 1; /* the best one is always kept */
    while (place < at->best_count && !better(score, at->best[place].score, higher)) place++;
    *is_best = place == 0;
    if (place >= room) return QKV_OK;

    int64_t dropped = at->best_count == room ? at->best[room - 1].update : 0;
    if (at->best_count < room) at->best_count++;
    memmove(&at->best[place + 1], &at->best[place], (size_t)(at->best_count - 1 - place) * sizeof at->best[0]);
    at->best[place] = (struct best){at->update, score};
    const char *name = checkpoint_name(session, at->update);
    if (!name) return qkv_error_set(error, "out of memory");
    if (session_save(session, name, error)) return QKV_INVALID;
    if (*is_best && point_best_at(session, name, error)) return QKV_INVALID;
    if (dropped) {
        const char *old = checkpoint_name(session, dropped);
        const char *path = old ? qkv_run_file(&session->arena, session->folder, old) : NULL;
        if (path) unlink(path);
    }
    return QKV_OK;
}
