/* New checkpoints made of those of a run: the average of some, and one in int8. */
#include "checkpoint/safetensors.h"
#include "core/file.h"
#include "core/memory.h"
#include "graph/internal.h"

#include "run/checkpoints.h"

#include <dirent.h>
#include <errno.h>
#include <sys/stat.h>
#include <unistd.h>

/* ---- averages ---- */

static const char *const CHOICES[] = {[QKV_AVERAGE_LAST] = "last", [QKV_AVERAGE_BEST] = "best"};
static const char *const CONFIG_KEYS[] = {
    [QKV_AVERAGE_LAST] = "training.keep_last_ckpts", [QKV_AVERAGE_BEST] = "training.keep_best_ckpts"};

/* The arguments and the working data of an average. */
struct averaging {
    /* Opened with last.safetensors; `run.model` then holds one checkpoint after the other */
    struct qkv_run run;
    enum qkv_average_choice choice;
    double *sum; /* [elements], of the block of parameters */
    struct qkv_average *average;
    struct qkv_error *error;
};

/* Refuses a name that is a path, or the name of a file that training writes. */
static enum qkv_status check_name(const char *name, struct qkv_error *error)
{
    bool of_training = !strcmp(name, "last") || !strcmp(name, "best") || qkv_numbered_is_reserved(name);
    if (!*name || strchr(name, '/') || *name == '.')
        return qkv_error_set(error, "'%s' cannot name a checkpoint: give a name, not a path", name);
    if (!of_training) return QKV_OK;
    return qkv_error_set(error, "'%s' is a checkpoint that training writes: give the average another name",
                         name);
}

/* Reads a number of the state of last.safetensors. */
static enum qkv_status read_count(const struct averaging *a, const char *key, int64_t *value)
{
    struct qkv_error inner;
    if (!qkv_state_get_count(&a->run.state, key, value, &inner)) return QKV_OK;
    return qkv_error_set(a->error, "%s: %s", a->run.checkpoint, inner.message);
}

/* Finds the updates of the `count` best or last checkpoints. last.safetensors lists them: the best ones from the best on, the
 * last ones in ascending order. */
static enum qkv_status choose(struct averaging *a, int64_t count)
{
    const char *choice = CHOICES[a->choice];
    int64_t kept = 0;
    char key[64];
    snprintf(key, sizeof key, "train.%s_count", choice);
    if (qkv_state_get(&a->run.state, key) && read_count(a, key, &kept)) return QKV_INVALID;
    if (count < 1 || count > QKV_AVERAGE_MAX)
        return qkv_error_set(a->error, "%lld checkpoints cannot be averaged: choose from 1 to %d",
                             (long long)count, QKV_AVERAGE_MAX);
    if (!kept)
        return qkv_error_set(a->error, "%s: has no %s checkpoints to average: train with %s", a->run.path,
                             choice, a->choice == QKV_AVERAGE_LAST ? CONFIG_KEYS[a->choice] : "data.dev");
    const struct qkv_training_config *training = &a->run.config.training;
    int64_t limit = a->choice == QKV_AVERAGE_LAST ? training->keep_last_ckpts : training->keep_best_ckpts;
    if (count > kept && count <= limit)
        return qkv_error_set(a->error,
                             "%s: has %lld %s checkpoint%s, but %lld are to be averaged: ask for fewer, "
                             "train longer, or lower training.validation_freq",
                             a->run.path, (long long)kept, choice, kept == 1 ? "" : "s", (long long)count);
    if (count > kept)
        return qkv_error_set(
            a->error,
            "%s: keeps %lld %s checkpoint%s, but %lld are to be averaged: ask for fewer, or raise %s",
            a->run.path, (long long)kept, choice, kept == 1 ? "" : "s", (long long)count,
            CONFIG_KEYS[a->choice]);
    int64_t skipped = a->choice == QKV_AVERAGE_LAST ? kept - count : 0;
    a->average->count = count;
    for (int64_t i = 0; i < count; i++) {
        snprintf(key, sizeof key, "train.%s.%lld.update", choice, (long long)(skipped + i + 1));
        if (read_count(a, key, &a->average->update[i])) return QKV_INVALID;
    }
    qsort(a->average->update, (size_t)count, sizeof a->average->update[0], qkv_by_update);
    return QKV_OK;
}

/* Loads a checkpoint, whose numbers must be finite. */
static enum qkv_status load(struct averaging *a, const char *name, struct qkv_state *state)
{
    struct qkv_run *run = &a->run;
    struct qkv_parameters *parameters = &run->model->parameters;
    const char *path = QKV_RUN_FILE(run->path, name);
    if (qkv_run_load(run, path, state, a->error)) return QKV_INVALID;
    const struct qkv_parameter *parameter = qkv_parameters_find_not_finite(parameters, parameters->values);
    if (!parameter) return QKV_OK;
    qkv_error_set(a->error, "%s: %s holds infinity or NaN, so it cannot be averaged", path, parameter->name);
    return QKV_FAILED;
}

/* Sets the parameters of the model to the mean of the checkpoints. `state` becomes the state of the newest one, plus the names
 * of the checkpoints that were averaged. */
static enum qkv_status compute_mean(struct averaging *a, struct qkv_state *state)
{
    const struct qkv_average *average = a->average;
    struct qkv_parameters *parameters = &a->run.model->parameters;
    float *values = parameters->values;
    char key[32], name[NUMBERED_NAME_SIZE];
    for (int64_t k = 0; k < average->count; k++) {
        qkv_state_release(state);
        qkv_numbered_name(name, NUMBERED_UPDATE, average->update[k]);
        enum qkv_status status = load(a, name, state);
        if (status) return status;
        for (int64_t i = 0; i < parameters->elements; i++) a->sum[i] += (double)values[i];
    }
    for (int64_t i = 0; i < parameters->elements; i++)
        values[i] = (float)(a->sum[i] / (double)average->count);
    parameters->changes++;
    qkv_state_set(state, "average.choice", CHOICES[a->choice]);
    qkv_state_set_integer(state, "average.count", average->count);
    for (int64_t k = 0; k < average->count; k++) {
        snprintf(key, sizeof key, "average.%lld", (long long)k + 1);
        qkv_numbered_name(name, NUMBERED_UPDATE, average->update[k]);
        qkv_state_set(state, key, name);
    }
    return QKV_OK;
}

static enum qkv_status average_and_save(struct averaging *a, int64_t count, const char *name)
{
    struct qkv_parameters *parameters = &a->run.model->parameters;
    struct qkv_state state = {0};
    if (choose(a, count)) return QKV_INVALID;
    const char *path = qkv_arena_format(&a->run.arena, "%s/%s.safetensors", a->run.path, name);
    a->sum = calloc((size_t)parameters->elements, sizeof *a->sum);
    enum qkv_status status = path && a->sum ? compute_mean(a, &state) : qkv_no_memory(a->error);
    if (!status) status = qkv_checkpoint_save(path, parameters, NULL, &state, a->error);
    qkv_state_release(&state);
    free(a->sum);
    return status;
}

enum qkv_status qkv_run_average(const char *run, enum qkv_average_choice choice, int64_t count,
                                const char *name, struct qkv_average *average, struct qkv_error *error)
{
    struct averaging averaging = {.choice = choice, .average = average, .error = error};
    *average = (struct qkv_average){0};
    if (check_name(name, error)) return QKV_INVALID;
    if (choice != QKV_AVERAGE_LAST && choice != QKV_AVERAGE_BEST)
        return qkv_error_set(error, "there is no choice %d of checkpoints to average", (int)choice);
    enum qkv_status status = qkv_run_open(&averaging.run, run, QKV_RUN_LAST, QKV_FLOAT32, error);
    if (status) return status;
    status = average_and_save(&averaging, count, name);
    qkv_run_release(&averaging.run);
    return status;
}

/* ---- quantised runs ---- */

/* Makes the folder. One that exists must be empty. */
static enum qkv_status make_folder(const char *path, struct qkv_error *error)
{
    int reason = rmdir(path) ? errno : ENOENT; /* removes an empty folder only */
    if (reason == ENOENT || !qkv_path_exists(path)) return qkv_folder_make(path, error);
    if (reason != ENOTEMPTY && reason != EEXIST && reason != ENOTDIR && reason != EINVAL)
        return qkv_error_set(error, "%s: %s", path, strerror(reason));
    return qkv_error_set(
        error, "%s: exists already: name a new folder, or give --overwrite for a quantised run", path);
}

/* Copies a file of the run, if the run has it. */
static enum qkv_status copy_file(const struct qkv_run *run, const char *name, const char *output,
                                 struct qkv_error *error)
{
    struct qkv_file_writer writer = {0};
    char bytes[1 << 14];
    const char *from = QKV_RUN_FILE(run->path, name);
    struct stat there;
    if (stat(from, &there))
        return errno == ENOENT ? QKV_OK
                               : qkv_error_set(error, "%s: cannot be read: %s", from, strerror(errno));
    FILE *file = qkv_file_stream(from, true, error);
    if (!file) return QKV_INVALID;
    enum qkv_status status = qkv_file_begin(&writer, QKV_RUN_FILE(output, name), error);
    for (size_t size; !status && (size = fread(bytes, 1, sizeof bytes, file)) > 0;)
        fwrite(bytes, 1, size, writer.file);
    if (!status && ferror(file))
        status = qkv_error_set(error, "%s: cannot be read: %s", from, strerror(errno));
    if (!status) status = qkv_file_commit(&writer, error);
    qkv_file_abandon(&writer);
    fclose(file);
    return status;
}

enum { QUANTIZED_FILES = RUN_FILES_COPIED + 1 }; /* with the checkpoint */

/* Removes what was written before a failure, so that the same call can be repeated: the checkpoint and the config first, the
 * format last. */
static void remove_folder(const char *output)
{
    for (int i = QUANTIZED_FILES - 1; i >= 0; i--) unlink(QKV_RUN_FILE(output, qkv_run_files[i]));
    rmdir(output);
}

/* Whether a folder is one that quantizing has written and holds nothing else. */
static bool is_quantized(const char *folder)
{
    DIR *entries = opendir(folder);
    bool is_ours = entries;
    for (struct dirent *entry; is_ours && (entry = readdir(entries));) {
        const char *name = entry->d_name;
        bool known = !strcmp(name, ".") || !strcmp(name, "..");
        for (int i = 0; i < QUANTIZED_FILES; i++) known = known || !strcmp(name, qkv_run_files[i]);
        is_ours = known;
    }
    if (entries) closedir(entries);
    return is_ours;
}

enum qkv_status qkv_run_remove_quantized(const char *path, const char *output, struct qkv_error *error)
{
    struct stat run, folder;
    if (stat(output, &folder)) return QKV_OK; /* making it tells what is wrong */
    if (!stat(path, &run) && run.st_dev == folder.st_dev && run.st_ino == folder.st_ino)
        return qkv_error_set(error, "%s: is the run itself: name another folder", output);
    if (!is_quantized(output))
        return qkv_error_set(error, "%s: is not the folder of a quantised run: name another one", output);
    remove_folder(output);
    return QKV_OK;
}

static enum qkv_status write_run(const struct qkv_run *run, const char *output, struct qkv_error *error)
{
    const char *best = QKV_RUN_FILE(output, QKV_RUN_BEST);
    if (make_folder(output, error)) return QKV_INVALID;
    enum qkv_status status = qkv_checkpoint_save_int8(best, &run->model->parameters, &run->state, error);
    for (int i = 0; i < RUN_FILES_COPIED && !status; i++)
        status = copy_file(run, qkv_run_files[i], output, error);
    if (status) remove_folder(output);
    return status;
}

enum qkv_status qkv_run_quantize(const char *path, const char *checkpoint, const char *output,
                                 struct qkv_error *error)
{
    struct qkv_run run;
    enum qkv_status status = qkv_run_open(&run, path, checkpoint, QKV_FLOAT32, error);
    if (status) return status;
    status = write_run(&run, output, error);
    qkv_run_release(&run);
    return status;
}
