#include "qkv/quantize.h"

#include "qkv/run.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

/* Makes the folder. One that exists must be empty. */
static enum qkv_status make_folder(const char *path, struct qkv_error *error)
{
    bool exists = qkv_path_exists(path);
    if (exists && rmdir(path)) /* removes an empty folder only */
        return qkv_error_set(error, "%s: exists already: name a new folder", path);
    return qkv_folder_make(path, error);
}

static enum qkv_status copy_stream(FILE *from, struct qkv_file_writer *to, const char *path,
                                   struct qkv_error *error)
{
    char bytes[1 << 14];
    size_t size;
    while ((size = fread(bytes, 1, sizeof bytes, from)) > 0) fwrite(bytes, 1, size, to->file);
    if (!ferror(from)) return qkv_file_commit(to, error);
    int code = errno;
    qkv_file_abandon(to);
    return qkv_error_set(error, "%s: cannot be read: %s", path, strerror(code));
}

/* Copies a file of the run, if the run has it. */
static enum qkv_status copy_file(struct qkv_run *run, const char *name, const char *output,
                                 struct qkv_error *error)
{
    struct qkv_file_writer writer;
    const char *from = qkv_run_file(&run->arena, run->path, name),
               *to = qkv_run_file(&run->arena, output, name);
    if (!from || !to) return qkv_error_set(error, "out of memory for run %s", run->path);
    if (!qkv_path_exists(from)) return QKV_OK;
    FILE *file = qkv_file_stream(from, true, error);
    if (!file) return QKV_INVALID;
    enum qkv_status status = qkv_file_begin(&writer, to, error);
    if (!status) status = copy_stream(file, &writer, from, error);
    fclose(file);
    return status;
}

/* The files that are copied. The config comes last, because its presence makes the folder a run. */
static const char *const COPIED[] = {QKV_RUN_FORMAT_FILE,   QKV_RUN_SOURCE,       QKV_RUN_TARGET,
                                     QKV_RUN_SOURCE_CODES,  QKV_RUN_TARGET_CODES, QKV_RUN_SOURCE_PIECES,
                                     QKV_RUN_TARGET_PIECES, QKV_RUN_METRICS,      QKV_RUN_CONFIG};
enum { COPIED_COUNT = sizeof COPIED / sizeof COPIED[0] };

/* Removes what was written before a failure, so that the same call can be repeated. */
static void remove_folder(struct qkv_run *run, const char *output, const char *best)
{
    unlink(best);
    for (int i = 0; i < COPIED_COUNT; i++) {
        const char *path = qkv_run_file(&run->arena, output, COPIED[i]);
        if (path) unlink(path);
    }
    rmdir(output);
}

static enum qkv_status write_run(struct qkv_run *run, const char *output, struct qkv_error *error)
{
    const char *best = qkv_run_file(&run->arena, output, QKV_RUN_BEST);
    if (!best) return qkv_error_set(error, "out of memory for run %s", output);
    if (make_folder(output, error)) return QKV_INVALID;
    enum qkv_status status = qkv_checkpoint_save_int8(best, &run->model->parameters, &run->state, error);
    for (int i = 0; i < COPIED_COUNT && !status; i++) status = copy_file(run, COPIED[i], output, error);
    if (status) remove_folder(run, output, best);
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
