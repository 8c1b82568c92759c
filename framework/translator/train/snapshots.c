/* Snapshots: checkpoints in half precision from the random weights to the last ones, evenly spaced in the logarithm of
 * 1 + update, because a model changes most at first. */
#include "train/training.h"

#include "qkv/scalar_math.h"
#include "run/numbered.h"

#include <string.h>

/* If the length of training is not known, the next snapshot is due when 1 + update has grown by GROWTH_OVER / GROWTH_UNDER. */
enum { GROWTH_OVER = 19, GROWTH_UNDER = 16 };

/* Whether a snapshot of this update is planned, in a training that only training.updates ends. Snapshot k of `count`, from 0,
 * is that of update (1 + updates)^(k / (count - 1)) - 1, or of the next update if that one already has a snapshot. */
static bool is_planned(int64_t updates, int64_t count, int64_t update)
{
    double length = qkv_scalar_log(1 + (double)updates);
    int64_t planned = -1;
    for (int64_t k = 0; k < count && planned < update; k++) {
        double share = (double)k / (double)(count - 1);
        int64_t even = (int64_t)(qkv_scalar_exp(share * length) - 0.5); /* - 1 + 0.5: rounded */
        planned = even > planned ? even : planned + 1;
    }
    return planned == update || update == updates;
}

static bool is_due(const struct training *training)
{
    const struct qkv_training_config *settings = &training->config->training;
    const struct progress *progress = &training->progress;
    if (settings->updates && !settings->epochs)
        return is_planned(settings->updates, settings->snapshots, progress->update);
    if (!progress->snapshot_count) return true;
    int64_t before = progress->snapshot[progress->snapshot_count - 1];
    return (double)(progress->update + 1) * GROWTH_UNDER >= (double)(before + 1) * GROWTH_OVER;
}

bool qkv_snapshot_is_recorded(const struct training *training)
{
    const struct progress *progress = &training->progress;
    return !training->config->training.snapshots ||
           (progress->snapshot_count && progress->snapshot[progress->snapshot_count - 1] == progress->update);
}

/* Index of the snapshot, other than the first and the last, whose two neighbours are closest to each other: the ratio of their
 * 1 + update is smallest. */
static int64_t closest(const struct progress *progress)
{
    const int64_t *snapshot = progress->snapshot;
    int64_t found = 1;
    double min = 0;
    for (int64_t i = 1; i + 1 < progress->snapshot_count; i++) {
        double ratio = (double)(snapshot[i + 1] + 1) / (double)(snapshot[i - 1] + 1);
        if (i > 1 && ratio >= min) continue;
        found = i;
        min = ratio;
    }
    return found;
}

static void drop(struct progress *progress, int64_t place)
{
    progress->snapshot_count--;
    memmove(&progress->snapshot[place], &progress->snapshot[place + 1],
            (size_t)(progress->snapshot_count - place) * sizeof progress->snapshot[0]);
}

enum qkv_status qkv_snapshot_record(struct training *training, bool is_end, struct qkv_error *error)
{
    struct progress *progress = &training->progress;
    int64_t max = training->config->training.snapshots;
    if (qkv_snapshot_is_recorded(training) || (!is_end && !is_due(training))) return QKV_OK;
    char name[NUMBERED_NAME_SIZE];
    qkv_numbered_name(name, NUMBERED_SNAPSHOT, progress->update);
    if (qkv_training_save(training, name, CHECKPOINT_HALF, error)) return QKV_INVALID;
    /* The list has room for one more than it keeps, so that the new snapshot takes part in the choice. */
    progress->snapshot[progress->snapshot_count++] = progress->update;
    while (progress->snapshot_count > max) drop(progress, closest(progress));
    return QKV_OK;
}

static bool is_listed(const struct progress *progress, int64_t update)
{
    for (int64_t i = 0; i < progress->snapshot_count; i++)
        if (progress->snapshot[i] == update) return true;
    return false;
}

enum qkv_status qkv_snapshots_prune(const struct training *training, struct qkv_error *error)
{
    return qkv_training_prune(training, NUMBERED_SNAPSHOT, is_listed, error);
}
