#include "qkv/run.h"

#include "config/path.h"
#include "qkv/file.h"
#include "run/listing.h"
#include "run/provenance.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

const char *qkv_run_file(struct qkv_arena *arena, const char *folder, const char *name)
{
    return qkv_arena_format(arena, "%s/%s", folder, name);
}

enum qkv_status qkv_run_format_check(const char *folder, struct qkv_error *error)
{
    struct qkv_arena arena = {0};
    char text[16] = "", *end;
    const char *path = qkv_run_file(&arena, folder, QKV_RUN_FORMAT_FILE);
    bool exists = path && qkv_path_exists(path);
    FILE *file = exists ? qkv_file_stream(path, true, error) : NULL;
    qkv_arena_release(&arena);
    if (!path) return qkv_error_set(error, "out of memory for run %s", folder);
    if (!exists) return QKV_OK; /* version 1 */
    if (!file) return QKV_INVALID;
    text[fread(text, 1, sizeof text - 1, file)] = '\0';
    int code = ferror(file) ? errno : 0;
    fclose(file);
    if (code)
        return qkv_error_set(error, "%s/%s: cannot be read: %s", folder, QKV_RUN_FORMAT_FILE, strerror(code));
    long format = strtol(text, &end, 10);
    if (end == text || *end != '\n' || format < 1)
        return qkv_error_set(error, "%s/%s: must hold a number, the version of the run's format", folder,
                             QKV_RUN_FORMAT_FILE);
    if (format <= QKV_RUN_FORMAT) return QKV_OK;
    return qkv_error_set(error,
                         "%s: is a run of format %ld, but this qkv reads formats up to %d: use a newer qkv",
                         folder, format, QKV_RUN_FORMAT);
}

/* Reports that there is no such run. Suggests runs/<folder>, where `qkv train` makes runs, if that exists. */
static enum qkv_status no_such_run(const char *folder, struct qkv_arena *arena, struct qkv_error *error)
{
    const char *meant = qkv_arena_format(arena, "runs/%s", folder);
    return qkv_error_set(error,
                         meant && qkv_path_exists(meant) ? "%s: there is no such run; did you mean %s"
                                                         : "%s: there is no such run",
                         folder, meant);
}

/* Reports that a run is no folder. If the file is a config, names its run. */
static enum qkv_status not_a_folder(const char *path, struct qkv_arena *arena, struct qkv_error *error)
{
    struct qkv_config config;
    struct qkv_messages messages;
    if (!qkv_path_is_yaml(path) || qkv_config_read(&config, arena, path, NULL, 0, &messages))
        return qkv_error_set(error, "%s: is a file, but a run is a folder", path);
    return qkv_error_set(error, "%s: is a config, but a run is a folder; its run is %s%s", path,
                         config.training.model_dir,
                         qkv_path_exists(config.training.model_dir) ? "" : ", which does not exist yet");
}

/* Reports that a folder is not a run. If it holds runs, as that of `qkv sweep` does, names one. */
static enum qkv_status not_a_run(const char *folder, struct qkv_arena *arena, struct qkv_error *error)
{
    const char *inside = qkv_find_run_inside(arena, folder);
    if (inside) return qkv_error_set(error, "%s: not a run, but it holds runs, such as %s", folder, inside);
    return qkv_error_set(error, "%s: not a run: it holds no %s; `qkv train` makes runs", folder,
                         QKV_RUN_CONFIG);
}

enum qkv_status qkv_run_read_config(const char *folder, struct qkv_config *config, struct qkv_arena *arena,
                                    struct qkv_error *error)
{
    struct stat status;
    if (!qkv_path_exists(folder)) return no_such_run(folder, arena, error);
    if (stat(folder, &status)) return qkv_error_set(error, "%s: %s", folder, strerror(errno));
    if (!S_ISDIR(status.st_mode)) return not_a_folder(folder, arena, error);
    const char *path = qkv_run_file(arena, folder, QKV_RUN_CONFIG);
    if (!path) return qkv_error_set(error, "out of memory for run %s", folder);
    if (!qkv_path_exists(path)) return not_a_run(folder, arena, error);
    if (qkv_run_format_check(folder, error) || qkv_file_check(path, error)) return QKV_INVALID;
    struct qkv_messages messages = {0};
    if (!qkv_config_read(config, arena, path, NULL, 0, &messages)) return QKV_OK;
    return qkv_error_set(error, "%s", messages.count ? messages.text[0] : path);
}

enum qkv_status qkv_run_merges(const char *folder, struct qkv_data_config *data, struct qkv_bpe *bpe[2],
                               struct qkv_error *error)
{
    static const char *const names[2] = {QKV_RUN_SOURCE_CODES, QKV_RUN_TARGET_CODES},
                             *const pieces[2] = {QKV_RUN_SOURCE_PIECES, QKV_RUN_TARGET_PIECES};
    struct qkv_text_config *texts[2] = {&data->src, &data->trg};
    struct qkv_arena arena = {0};
    bool failed = false;
    for (int side = 0; side < 2; side++) {
        bpe[side] = NULL;
        if (failed || texts[side]->level != QKV_LEVEL_BPE) continue;
        const char *path = qkv_run_file(&arena, folder, names[side]);
        const char *kept = qkv_run_file(&arena, folder, pieces[side]);
        texts[side]->bpe = bpe[side] = path && kept ? qkv_bpe_load(path, error) : NULL;
        failed = !bpe[side];
        if (!path || !kept) qkv_error_set(error, "out of memory for run %s", folder);
        if (!failed && texts[side]->bpe_min_freq > 0) failed = qkv_bpe_load_pieces(bpe[side], kept, error);
    }
    qkv_arena_release(&arena);
    return failed ? QKV_INVALID : QKV_OK;
}

static const char *choose_checkpoint(struct qkv_run *run, const char *wanted)
{
    if (wanted && strchr(wanted, '/')) return wanted;
    if (wanted) {
        const char *given = qkv_run_file(&run->arena, run->path, wanted);
        const char *complete = given ? qkv_arena_format(&run->arena, "%s.safetensors", given) : NULL;
        return complete && !qkv_path_exists(given) && qkv_path_exists(complete) ? complete : given;
    }
    const char *average = qkv_run_file(&run->arena, run->path, QKV_RUN_AVERAGE);
    if (run->config.testing.average && average && qkv_path_exists(average)) return average;
    const char *best = qkv_run_file(&run->arena, run->path, QKV_RUN_BEST);
    return best && qkv_path_exists(best) ? best : qkv_run_file(&run->arena, run->path, QKV_RUN_LAST);
}

/* Reports that the run has no checkpoint of this name, or none at all (NULL). */
static enum qkv_status no_such_checkpoint(struct qkv_run *run, const char *wanted, struct qkv_error *error)
{
    const char *names = wanted ? qkv_list_checkpoints(&run->arena, run->path) : NULL;
    if (!names)
        return qkv_error_set(error, "%s: holds no checkpoint: training has not saved one yet", run->path);
    return qkv_error_set(error, "%s: there is no checkpoint %s; it has %s", run->path, wanted, names);
}

static enum qkv_status open_parts(struct qkv_run *run, const char *checkpoint, enum qkv_dtype dtype,
                                  struct qkv_error *error)
{
    if (qkv_run_read_config(run->path, &run->config, &run->arena, error)) return QKV_INVALID;
    const char *source = qkv_run_file(&run->arena, run->path, QKV_RUN_SOURCE);
    const char *target = qkv_run_file(&run->arena, run->path, QKV_RUN_TARGET);
    run->checkpoint = choose_checkpoint(run, checkpoint);
    if (!source || !target || !run->checkpoint)
        return qkv_error_set(error, "out of memory for run %s", run->path);
    bool is_path = checkpoint && strchr(checkpoint, '/'); /* loading it reports why it cannot be read */
    if (!is_path && !qkv_path_exists(run->checkpoint)) return no_such_checkpoint(run, checkpoint, error);
    if (qkv_vocabulary_load(&run->source, source, error) || qkv_vocabulary_load(&run->target, target, error))
        return QKV_INVALID;
    if (qkv_run_merges(run->path, &run->config.data, run->bpe, error)) return QKV_INVALID;
    run->model = qkv_model_new(&run->config.model, run->source.size, run->target.size, dtype, error);
    if (!run->model) return QKV_INVALID;
    struct qkv_parameters *parameters = &run->model->parameters;
    enum qkv_status status = qkv_checkpoint_load(run->checkpoint, parameters, NULL, &run->state, error);
    /* Check even if loading failed: a changed config key explains more than a tensor of another shape. */
    if (qkv_provenance_check(&run->state, &run->config, QKV_KEYS_FIXED_BY_MODEL, &run->source, &run->target,
                             run->checkpoint, error))
        return QKV_INVALID;
    if (status) return status;
    const struct qkv_parameter *parameter = qkv_parameters_find_not_finite(parameters, parameters->values);
    if (!parameter) return QKV_OK;
    qkv_error_set(
        error,
        "%s: %s holds infinity or NaN, so the model computes nothing: choose another checkpoint of the "
        "run, or train it again with a lower training.learning_rate",
        run->checkpoint, parameter->name);
    return QKV_FAILED;
}

enum qkv_status qkv_run_open(struct qkv_run *run, const char *path, const char *checkpoint,
                             enum qkv_dtype dtype, struct qkv_error *error)
{
    *run = (struct qkv_run){0};
    run->path = qkv_arena_string(&run->arena, path);
    if (!run->path) return qkv_error_set(error, "out of memory for run %s", path);
    enum qkv_status status = open_parts(run, checkpoint, dtype, error);
    if (status) qkv_run_release(run);
    return status;
}

void qkv_run_release(struct qkv_run *run)
{
    qkv_model_free(run->model);
    qkv_vocabulary_release(&run->source);
    qkv_vocabulary_release(&run->target);
    for (int side = 0; side < 2; side++) qkv_bpe_free(run->bpe[side]);
    qkv_state_release(&run->state);
    qkv_arena_release(&run->arena);
    *run = (struct qkv_run){0};
}
