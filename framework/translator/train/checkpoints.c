/* The checkpoints of a training: where it is, to and from their state; which of them are kept, in three lists; and the average
 * that ends a training. */
#include "data/corpus.h"
#include "optimize/optimize.h"
#include "train/training.h"

#include "checkpoint/safetensors.h"
#include "core/file.h"
#include "core/numbers.h"
#include "run/checkpoints.h"

#include "metrics/metric.h"

#include <errno.h>
#include <math.h>
#include <unistd.h>

_Static_assert(MAX_KEPT <= (int)QKV_AVERAGE_MAX, "more best checkpoints than an average can have");

/* ---- where training is, to and from the state of a checkpoint ---- */

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
    {"train.best_count", offsetof(struct progress, kept[KEPT_BEST].count)},
};
enum { INTEGER_COUNT = sizeof INTEGERS / sizeof INTEGERS[0], KEY_SIZE = 48 };

static const char EARLY_END[] = "train.early_end"; /* stored only if it is not 0 */

/* The lists. One that is empty is not stored in a checkpoint. */
static const struct {
    const char *name;
    int64_t max;
} LISTS[KEPT_LISTS] = {[KEPT_BEST] = {"best", MAX_KEPT + 1},
                       [KEPT_LAST] = {"last", MAX_KEPT + 1},
                       [KEPT_SNAPSHOTS] = {"snapshot", MAX_KEPT}};

static const char *count_key(char key[KEY_SIZE], int list)
{
    snprintf(key, KEY_SIZE, "train.%s_count", LISTS[list].name);
    return key;
}

static const char *item_key(char key[KEY_SIZE], int list, int64_t i, const char *field)
{
    snprintf(key, KEY_SIZE, "train.%s.%lld.%s", LISTS[list].name, (long long)i + 1, field);
    return key;
}

static void save_list(const struct progress *progress, int list, struct qkv_state *state)
{
    char key[KEY_SIZE];
    const struct kept_list *kept = &progress->kept[list];
    if (kept->count) qkv_state_set_integer(state, count_key(key, list), kept->count);
    for (int64_t i = 0; i < kept->count; i++) {
        qkv_state_set_integer(state, item_key(key, list, i, "update"), kept->item[i].update);
        if (list != KEPT_BEST) continue;
        qkv_state_set_number(state, item_key(key, list, i, "score"), kept->item[i].score);
        if (isfinite(kept->item[i].loss))
            qkv_state_set_number(state, item_key(key, list, i, "loss"), kept->item[i].loss);
    }
}

static enum qkv_status restore_list(struct progress *progress, int list, const struct qkv_state *state,
                                    struct qkv_error *error)
{
    char key[KEY_SIZE];
    struct kept_list *kept = &progress->kept[list];
    if (!qkv_state_get(state, count_key(key, list))) return QKV_OK;
    if (qkv_state_get_count(state, key, &kept->count, error)) return QKV_INVALID;
    if (kept->count > LISTS[list].max)
        return qkv_error_set(error, "%s is %lld, but at most %lld are kept", key, (long long)kept->count,
                             (long long)LISTS[list].max);
    for (int64_t i = 0; i < kept->count; i++) {
        struct kept *item = &kept->item[i];
        if (qkv_state_get_count(state, item_key(key, list, i, "update"), &item->update, error) ||
            (list == KEPT_BEST &&
             qkv_state_get_number(state, item_key(key, list, i, "score"), &item->score, error)))
            return QKV_INVALID;
        item->loss = (double)NAN;
        if (qkv_state_find_number(state, item_key(key, list, i, "loss"), &item->loss, error))
            return QKV_INVALID;
    }
    return QKV_OK;
}

static void save_progress(const struct progress *progress, struct qkv_state *state)
{
    for (int i = 0; i < INTEGER_COUNT; i++)
        qkv_state_set_integer(state, INTEGERS[i].key,
                              *(const int64_t *)((const char *)progress + INTEGERS[i].offset));
    if (progress->early_end) qkv_state_set_integer(state, EARLY_END, progress->early_end);
    qkv_state_set_number(state, "train.log_loss", progress->log_loss);
    if (isfinite(progress->log_cross_entropy))
        qkv_state_set_number(state, "train.log_cross_entropy", progress->log_cross_entropy);
    if (progress->log_alignment > 0)
        qkv_state_set_number(state, "train.log_alignment", progress->log_alignment);
    for (int list = 0; list < KEPT_LISTS; list++) save_list(progress, list, state);
}

enum qkv_status qkv_progress_restore(struct progress *progress, const struct qkv_state *state,
                                     struct qkv_error *error)
{
    struct progress found = {0};
    for (int i = 0; i < INTEGER_COUNT; i++) {
        int64_t *field = (int64_t *)((char *)&found + INTEGERS[i].offset);
        if (qkv_state_get_count(state, INTEGERS[i].key, field, error)) return QKV_INVALID;
    }
    if (found.epoch >= UINT32_MAX) /* random numbers distinguish no more epochs */
        return qkv_error_set(error, "train.epoch is %lld, but must be below 2^32 - 1",
                             (long long)found.epoch);
    if (qkv_state_get(state, EARLY_END) && qkv_state_get_count(state, EARLY_END, &found.early_end, error))
        return QKV_INVALID;
    found.log_cross_entropy = found.log_tokens ? (double)NAN : 0;
    if (qkv_state_get_number(state, "train.log_loss", &found.log_loss, error) ||
        qkv_state_find_number(state, "train.log_cross_entropy", &found.log_cross_entropy, error) ||
        qkv_state_find_number(state, "train.log_alignment", &found.log_alignment, error))
        return QKV_INVALID;
    for (int list = 0; list < KEPT_LISTS; list++)
        if (restore_list(&found, list, state, error)) return QKV_INVALID;
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

/* ---- files ---- */

enum kind {
    RESUMABLE, /* with the optimizer's moments, which only --resume reads and which make up most of the file (two thirds with
                  Adam, half with SGD) */
    VALUES,
    HALF, /* values in half precision */
};

int qkv_training_texts(const struct training *training, struct qkv_trained_text texts[MAX_TEXTS])
{
    const struct qkv_data_config *data = &training->config->data;
    const struct qkv_corpus *train = &training->train, *dev = &training->dev;
    const struct qkv_token_links *links = &training->links;
    int count = 0;
    bool is_running = train->sides.runs_on; /* the number of its windows depends on the epoch */
    texts[count++] = (struct qkv_trained_text){
        "data.train", data->train, is_running ? train->tokens : train->count, qkv_corpus_checksum(train)};
    if (links->pairs)
        texts[count++] = (struct qkv_trained_text){"data.train_links", data->train_links, links->pairs,
                                                   qkv_token_links_checksum(links)};
    if (*qkv_dev_path(data))
        texts[count++] = (struct qkv_trained_text){
            "data.dev", qkv_dev_path(data), is_running ? dev->tokens : dev->count, qkv_corpus_checksum(dev)};
    return count;
}

/* Adds a short sentence of the training text, whose words are all known, as an example for those who try the model. */
static void save_example(const struct training *training, struct qkv_state *state)
{
    enum { FIRST = 1000, FEWEST = 3, MOST = 60, MOST_BYTES = 80 };
    const struct qkv_corpus_side *side = &training->train.source;
    for (int64_t i = 0; i < training->train.count && i < FIRST; i++) {
        const int32_t *ids = side->ids + side->start[i];
        int64_t count = side->start[i + 1] - side->start[i], known = 0;
        while (known < count && ids[known] != QKV_UNKNOWN) known++;
        if (known < count || count < FEWEST || count > MOST) continue;
        const char **tokens = qkv_vocabulary_tokens(&training->source, count, ids, &state->arena);
        const char *text =
            tokens ? qkv_detokenize(&training->config->data.src, count, tokens, &state->arena) : NULL;
        if (text && strlen(text) > MOST_BYTES) continue;
        if (text) qkv_state_set(state, QKV_STATE_EXAMPLE, text);
        return;
    }
}

/* Writes a checkpoint to the file `name` of the run folder. The file is begun in a folder that was locked a moment before; it
 * cannot get its name in another one, because it is renamed within its folder. */
static enum qkv_status save(struct training *training, const char *name, enum kind kind,
                            struct qkv_error *error)
{
    struct qkv_parameters *parameters = &training->model->parameters;
    struct qkv_trained_text texts[MAX_TEXTS];
    struct qkv_state state = {0};
    int count = qkv_training_texts(training, texts);
    const char *path = QKV_RUN_FILE(training->folder, name);
    qkv_provenance_save(&state, training->config, &training->source, &training->target);
    for (int i = 0; i < count; i++) qkv_provenance_save_text(&state, &texts[i]);
    save_example(training, &state);
    save_progress(&training->progress, &state);
    if (training->rate.first > 0) qkv_state_set_number(&state, FIRST_RATE, training->rate.first);
    qkv_schedule_save(&training->schedule, &state);
    /* A checkpoint without the state of the optimizer holds the moving average, if there is one, in place of the parameters. */
    if (kind != RESUMABLE) qkv_optimizer_swap_average(&training->optimizer, parameters);
    enum qkv_status status = qkv_run_folder_is_locked(training, error);
    if (!status && kind == HALF)
        status = qkv_checkpoint_save_half(path, parameters, &state, error);
    else if (!status)
        status = qkv_checkpoint_save(path, parameters, kind == RESUMABLE ? &training->optimizer.state : NULL,
                                     &state, error);
    if (kind != RESUMABLE) qkv_optimizer_swap_average(&training->optimizer, parameters);
    qkv_state_release(&state);
    /* Where the folder was moved, that is the reason. */
    if (status && qkv_run_folder_is_moved(training)) qkv_run_folder_is_locked(training, error);
    return status;
}

static bool is_listed(const struct progress *progress, enum kept_in list, int64_t update)
{
    const struct kept_list *kept = &progress->kept[list];
    for (int64_t i = 0; i < kept->count; i++)
        if (kept->item[i].update == update) return true;
    return false;
}

/* Whether a file is a checkpoint with a numbered name that is in no list. */
static bool is_unlisted(const struct training *training, const char *name)
{
    const struct progress *progress = &training->progress;
    int64_t update = qkv_numbered_update(name, NUMBERED_UPDATE),
            snapshot = qkv_numbered_update(name, NUMBERED_SNAPSHOT);
    if (snapshot >= 0) return !is_listed(progress, KEPT_SNAPSHOTS, snapshot);
    return update >= 0 && !is_listed(progress, KEPT_BEST, update) && !is_listed(progress, KEPT_LAST, update);
}

enum qkv_status qkv_checkpoint_save_last(struct training *training, struct qkv_error *error)
{
    enum qkv_status status = save(training, QKV_RUN_LAST, RESUMABLE, error);
    return status ? status : qkv_run_folder_remove(training, is_unlisted, error);
}

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

/* ---- the lists ---- */

static void insert(struct kept_list *list, int64_t place, struct kept kept)
{
    size_t size = (size_t)(list->count++ - place) * sizeof kept;
    memmove(&list->item[place + 1], &list->item[place], size);
    list->item[place] = kept;
}

static void erase(struct kept_list *list, int64_t place)
{
    size_t size = (size_t)(--list->count - place) * sizeof list->item[0];
    memmove(&list->item[place], &list->item[place + 1], size);
}

/* Whether the last item of an ascending list is the present update. */
static bool ends_now(const struct progress *progress, enum kept_in list)
{
    const struct kept_list *kept = &progress->kept[list];
    return kept->count && kept->item[kept->count - 1].update == progress->update;
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

/* Whether a score is better than that of a checkpoint or, where they are equal, its loss lower. */
static bool is_better(enum qkv_metric metric, double score, double loss, const struct kept *kept)
{
    if (qkv_metric_is_better(metric, score, kept->score)) return true;
    return loss < kept->loss && !qkv_metric_is_better(metric, kept->score, score);
}

enum qkv_status qkv_best_record(struct training *training, double score, double loss, bool *is_best,
                                struct qkv_error *error)
{
    const struct qkv_training_config *settings = &training->config->training;
    struct progress *progress = &training->progress;
    struct kept_list *best = &progress->kept[KEPT_BEST];
    int64_t max = settings->keep_best_ckpts, place = 0;
    QKV_BUG(max < 1 || max > MAX_KEPT, "%lld best checkpoints", (long long)max);
    if (best->count > max) best->count = max; /* a resumed run may keep fewer */
    while (place < best->count &&
           !is_better(settings->early_stopping_metric, score, loss, &best->item[place]))
        place++;
    *is_best = place == 0;
    note_early_end(training);
    if (place >= max) return QKV_OK;
    if (best->count == capacity_of(progress, max)) best->count--;
    insert(best, place, (struct kept){progress->update, score, loss});
    char name[NUMBERED_NAME_SIZE];
    qkv_numbered_name(name, NUMBERED_UPDATE, progress->update);
    if (save(training, name, VALUES, error)) return QKV_INVALID;
    if (!*is_best || link_best(training, name)) return QKV_OK;
    return save(training, QKV_RUN_BEST, VALUES, error);
}

/* Adds the present update to the list of the training.keep_last_ckpts last checkpoints, and writes its checkpoint. */
static enum qkv_status record_last(struct training *training, struct qkv_error *error)
{
    struct progress *progress = &training->progress;
    struct kept_list *last = &progress->kept[KEPT_LAST];
    int64_t max = training->config->training.keep_last_ckpts;
    QKV_BUG(max > MAX_KEPT, "%lld last checkpoints", (long long)max);
    if (max && !ends_now(progress, KEPT_LAST)) {
        char name[NUMBERED_NAME_SIZE];
        note_early_end(training);
        /* The file of a checkpoint that is among the best is written already. */
        if (!is_listed(progress, KEPT_BEST, progress->update) &&
            save(training, qkv_numbered_name(name, NUMBERED_UPDATE, progress->update), VALUES, error))
            return QKV_INVALID;
        if (last->count == MAX_KEPT + 1) erase(last, 0);
        insert(last, last->count, (struct kept){.update = progress->update});
    }
    while (last->count > capacity_of(progress, max)) erase(last, 0); /* a resumed run may keep fewer */
    return QKV_OK;
}

enum qkv_status qkv_checkpoint_keep(struct training *training, struct qkv_error *error)
{
    enum qkv_status status = record_last(training, error);
    return status ? status : qkv_checkpoint_save_last(training, error);
}

bool qkv_checkpoint_is_kept(const struct training *training)
{
    const struct qkv_training_config *settings = &training->config->training;
    return (!settings->keep_last_ckpts || ends_now(&training->progress, KEPT_LAST)) &&
           (!settings->snapshots || ends_now(&training->progress, KEPT_SNAPSHOTS));
}

/* ---- snapshots: checkpoints in half precision from the random weights to the last ones, evenly spaced in the logarithm of
 * 1 + update, because a model changes most at first ---- */

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
    const struct kept_list *snapshots = &progress->kept[KEPT_SNAPSHOTS];
    if (settings->updates && !settings->epochs)
        return is_planned(settings->updates, settings->snapshots, progress->update);
    if (!snapshots->count) return true;
    int64_t before = snapshots->item[snapshots->count - 1].update;
    return (double)(progress->update + 1) * GROWTH_UNDER >= (double)(before + 1) * GROWTH_OVER;
}

/* Index of the snapshot, other than the first and the last, whose two neighbours are closest to each other: the ratio of their
 * 1 + update is smallest. */
static int64_t closest(const struct kept_list *snapshots)
{
    const struct kept *item = snapshots->item;
    int64_t found = 1;
    double min = 0;
    for (int64_t i = 1; i + 1 < snapshots->count; i++) {
        double ratio = (double)(item[i + 1].update + 1) / (double)(item[i - 1].update + 1);
        if (i > 1 && ratio >= min) continue;
        found = i;
        min = ratio;
    }
    return found;
}

enum qkv_status qkv_snapshot_record(struct training *training, bool is_end, struct qkv_error *error)
{
    struct progress *progress = &training->progress;
    struct kept_list *snapshots = &progress->kept[KEPT_SNAPSHOTS];
    int64_t max = training->config->training.snapshots;
    if (!max || ends_now(progress, KEPT_SNAPSHOTS) || (!is_end && !is_due(training))) return QKV_OK;
    char name[NUMBERED_NAME_SIZE];
    qkv_numbered_name(name, NUMBERED_SNAPSHOT, progress->update);
    if (save(training, name, HALF, error)) return QKV_INVALID;
    /* The list has room for one more than it keeps, so that the new snapshot takes part in the choice. */
    insert(snapshots, snapshots->count, (struct kept){.update = progress->update});
    while (snapshots->count > max) erase(snapshots, closest(snapshots));
    return QKV_OK;
}

/* ---- the average of the best checkpoints, which testing.average asks for at the end of training ---- */

/* Number of checkpoints to average: testing.average, or fewer if a short training has kept fewer. */
static int64_t count_of(const struct training *training)
{
    int64_t count = training->config->testing.average, best = training->progress.kept[KEPT_BEST].count;
    return count < best ? count : best;
}

enum qkv_status qkv_final_average(struct training *training, struct qkv_train_average *average,
                                  struct qkv_error *error)
{
    struct qkv_error inner;
    int64_t count = count_of(training);
    if (!count) return QKV_OK;
    if (qkv_run_folder_is_locked(training, error)) return QKV_INVALID;
    const char *path = QKV_RUN_FILE(training->folder, QKV_RUN_AVERAGE);
    enum qkv_status status =
        qkv_run_average(training->folder, QKV_AVERAGE_BEST, count, "average", &average->checkpoints, error);
    if (status) return status;
    /* Overwrites the trained parameters, which are saved already. */
    if (qkv_checkpoint_load(path, &training->model->parameters, NULL, NULL, error)) return QKV_INVALID;
    status = qkv_evaluator_run(training->evaluator, &average->scores, &inner);
    if (status) {
        qkv_error_set(error, "%s: %s", path, inner.message);
        return status;
    }
    struct bytes line = qkv_log_line("average", training->progress.update);
    qkv_log_number(&line, "checkpoints", (double)count);
    qkv_log_scores(&line, &average->scores);
    return qkv_log_write(training, &line, error);
}

/* ---- resuming ---- */

/* Whether training is finished, except perhaps for the average of testing.average. The epoch must be planned. */
static bool is_finished(const struct training *training)
{
    const struct progress *progress = &training->progress;
    int64_t patience = training->config->training.patience;
    bool ends = qkv_training_is_at_end(training) || (patience && progress->waited >= patience);
    return ends && (!training->evaluator || progress->validated == progress->update);
}

/* Whether a file is the average of exactly those best checkpoints that would be averaged now. */
static bool is_of_best(const struct training *training, const char *path)
{
    struct qkv_safetensors file;
    struct qkv_error ignored;
    int64_t count = count_of(training), listed = 0;
    char key[32], name[NUMBERED_NAME_SIZE];
    if (qkv_safetensors_read(&file, path, false, &ignored)) return false;
    for (int64_t k = 0; k < count; k++) {
        snprintf(key, sizeof key, "average.%lld", (long long)k + 1);
        const char *averaged = qkv_safetensors_metadata(&file, key);
        for (int64_t i = 0; averaged && i < count; i++) {
            qkv_numbered_name(name, NUMBERED_UPDATE, training->progress.kept[KEPT_BEST].item[i].update);
            listed += !strcmp(averaged, name);
        }
    }
    snprintf(key, sizeof key, "average.%lld", (long long)count + 1);
    bool has_more = qkv_safetensors_metadata(&file, key);
    qkv_safetensors_release(&file);
    return listed == count && !has_more;
}

/* Keeps average.safetensors if training is finished and it is the average of the best checkpoints; otherwise removes it. */
static enum qkv_status restore_average(struct training *training, struct qkv_error *error)
{
    bool is_wanted = training->config->testing.average > 0, is_done = is_finished(training);
    if (is_done && !is_wanted) return QKV_OK; /* keeps one of `qkv average` */
    const char *path = QKV_RUN_FILE(training->folder, QKV_RUN_AVERAGE);
    if (is_done && is_of_best(training, path)) {
        training->kept_average.checkpoints = count_of(training);
        return QKV_OK;
    }
    if (unlinkat(dirfd(training->lock), QKV_RUN_AVERAGE, 0) != 0)
        return errno == ENOENT ? QKV_OK
                               : qkv_error_set(error, "%s: cannot be removed: %s", path, strerror(errno));
    if (!is_wanted)
        qkv_training_say(training, "average.safetensors is deleted, because training goes on: make a "
                                   "new one with qkv average when it ends");
    return QKV_OK;
}

/* If the run was finished but now has more to do, removes from the lists the checkpoint of an early end, and saves
 * last.safetensors. */
static enum qkv_status forget_early_end(struct training *training, struct qkv_error *error)
{
    struct progress *progress = &training->progress;
    if (!progress->early_end || qkv_training_is_at_end(training)) return QKV_OK;
    for (int list = KEPT_BEST; list <= KEPT_LAST; list++)
        for (int64_t i = progress->kept[list].count - 1; i >= 0; i--)
            if (progress->kept[list].item[i].update == progress->early_end) erase(&progress->kept[list], i);
    progress->early_end = progress->validated = 0;
    return save(training, QKV_RUN_LAST, RESUMABLE, error);
}

enum qkv_status qkv_checkpoints_restore(struct training *training, struct qkv_error *error)
{
    const struct kept_list *best = &training->progress.kept[KEPT_BEST];
    char name[NUMBERED_NAME_SIZE];
    if (forget_early_end(training, error) || restore_average(training, error) ||
        qkv_run_folder_trim_metrics(training, error))
        return QKV_INVALID;
    /* A killed run may have written best.safetensors for a validation that came after last.safetensors; the resumed run repeats
     * that validation. */
    if (best->count) link_best(training, qkv_numbered_name(name, NUMBERED_UPDATE, best->item[0].update));
    return qkv_run_folder_remove(training, is_unlisted, error);
}
