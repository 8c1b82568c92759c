/* Finds and loads the snapshots of a run. */
#include "run/snapshots.h"

#include "run/numbered.h"
#include "run/provenance.h"

#include <dirent.h>
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int is_snapshot(const struct dirent *entry)
{
    return qkv_numbered_update(entry->d_name, NUMBERED_SNAPSHOT) >= 0;
}

static int by_update(const void *a, const void *b)
{
    int64_t left = *(const int64_t *)a, right = *(const int64_t *)b;
    return (left > right) - (left < right);
}

enum qkv_status qkv_snapshots_find(struct qkv_run *run, int64_t **updates, int64_t *count,
                                   struct qkv_error *error)
{
    struct dirent **entries = NULL;
    int found = scandir(run->path, &entries, is_snapshot, NULL);
    if (found < 0) return qkv_error_set(error, "%s: cannot be read: %s", run->path, strerror(errno));
    *count = 0;
    *updates = qkv_arena_allocate(&run->arena, (size_t)(found + 1) * sizeof **updates);
    for (int i = 0; i < found; i++) {
        if (*updates) (*updates)[(*count)++] = qkv_numbered_update(entries[i]->d_name, NUMBERED_SNAPSHOT);
        free(entries[i]);
    }
    free(entries);
    if (!*updates) return qkv_error_set(error, "out of memory for run %s", run->path);
    if (*count) qsort(*updates, (size_t)*count, sizeof **updates, by_update);
    return QKV_OK;
}

double qkv_checkpoint_loss(const struct qkv_state *state)
{
    double sum, tokens;
    bool known = !qkv_state_get_number(state, "train.log_loss", &sum, NULL) &&
                 !qkv_state_get_number(state, "train.log_tokens", &tokens, NULL) && tokens > 0;
    return known ? sum / tokens : (double)NAN;
}

enum qkv_status qkv_snapshot_load(struct qkv_run *run, int64_t update, double *loss, struct qkv_error *error)
{
    struct qkv_state state = {0};
    struct qkv_parameters *parameters = &run->model->parameters;
    char name[NUMBERED_NAME_SIZE];
    const char *path =
        qkv_run_file(&run->arena, run->path, qkv_numbered_name(name, NUMBERED_SNAPSHOT, update));
    if (!path) return qkv_error_set(error, "out of memory for run %s", run->path);
    enum qkv_status status = qkv_checkpoint_load(path, parameters, NULL, &state, error);
    if (!status)
        status = qkv_provenance_check(&state, &run->config, QKV_KEYS_FIXED_BY_MODEL, &run->source,
                                      &run->target, path, error);
    *loss = qkv_checkpoint_loss(&state);
    qkv_state_release(&state);
    return status;
}
