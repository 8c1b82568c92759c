#include "init_measure.h"

#include "init_files.h"

#include "framework/engine/core/temporary.h"

#include "qkv/arena.h"

#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { DEV_PAIRS = 64 /* pairs that are translated to time a validation */ };
static const double SECONDS = 3;

/* The folder of a measurement and its files: the parts, then the config. */
struct trial {
    char folder[PATH_MAX], path[INIT_FILES][2 * PATH_MAX];
};

/* Makes an empty folder. Until remove_folder, a signal that ends the process removes it with the files. */
static enum qkv_status make_folder(struct trial *trial, const struct init_names *names,
                                   struct qkv_error *error)
{
    const char *temporary = getenv("TMPDIR");
    char part[256];
    for (int number = 0;; number++) {
        snprintf(trial->folder, sizeof trial->folder, "%s/qkv-init-%ld.%d",
                 temporary && *temporary ? temporary : "/tmp", (long)getpid(), number);
        qkv_temporary_add(trial->folder);
        if (!mkdir(trial->folder, 0700)) break;
        int reason = errno;
        qkv_temporary_forget(trial->folder);
        if (reason != EEXIST)
            return qkv_error_set(error, "%s: cannot be made: %s", trial->folder, strerror(reason));
    }
    for (int f = 0; f < INIT_FILES; f++) {
        const char *name =
            f < QKV_PAIRS_PARTS ? init_part_file(part, names, (enum qkv_pairs_part)f) : "config.yaml";
        snprintf(trial->path[f], sizeof trial->path[f], "%s/%s", trial->folder, name);
        qkv_temporary_add(trial->path[f]);
    }
    return QKV_OK;
}

static void remove_folder(const struct trial *trial)
{
    for (int f = 0; f < INIT_FILES; f++) {
        unlink(trial->path[f]);
        qkv_temporary_forget(trial->path[f]);
    }
    rmdir(trial->folder);
    qkv_temporary_forget(trial->folder);
}

static enum qkv_status write_file(const struct trial *trial, int f, const struct init_plan *plan,
                                  const struct init_data *data, const struct init_names *names,
                                  struct qkv_error *error)
{
    FILE *file = fopen(trial->path[f], "wb");
    if (!file) return qkv_error_set(error, "%s: cannot be written: %s", trial->path[f], strerror(errno));
    if (f < QKV_PAIRS_PARTS)
        init_part_write(file, data, (enum qkv_pairs_part)f,
                        f == QKV_PAIRS_TRAIN ? data->pairs->count : DEV_PAIRS);
    else
        init_config_write(file, plan, names);
    bool failed = fflush(file) || ferror(file);
    int reason = errno;
    fclose(file);
    return failed ? qkv_error_set(error, "%s: cannot be written: %s", trial->path[f], strerror(reason))
                  : QKV_OK;
}

static enum qkv_status measure_with(const char *path, int threads, struct qkv_train_cost *cost,
                                    struct qkv_error *error)
{
    struct qkv_arena arena = {0};
    struct qkv_config config;
    struct qkv_messages messages;
    enum qkv_status status = qkv_config_read(&config, &arena, path, NULL, 0, &messages);
    if (status)
        qkv_error_set(error, "%s", messages.text[0]);
    else
        status = qkv_train_measure(&config, threads, SECONDS, cost, error);
    qkv_arena_release(&arena);
    return status;
}

enum qkv_status init_measure(const struct init_plan *plan, const struct init_data *data,
                             const struct init_names *names, int threads, struct qkv_train_cost *cost,
                             struct qkv_error *error)
{
    static struct trial trial; /* a signal handler may read the paths */
    struct init_plan measured = *plan;
    measured.updates = 1000; /* an arbitrary number: training is only measured, not finished */
    if (make_folder(&trial, names, error)) return QKV_INVALID;
    enum qkv_status status = QKV_OK;
    for (int f = 0; f < INIT_FILES && !status; f++)
        status = write_file(&trial, f, &measured, data, names, error);
    if (!status) status = measure_with(trial.path[QKV_PAIRS_PARTS], threads, cost, error);
    remove_folder(&trial);
    int64_t dev = data->count[QKV_PAIRS_DEV];
    if (dev > DEV_PAIRS) cost->seconds_per_validation *= (double)dev / DEV_PAIRS;
    return status;
}
