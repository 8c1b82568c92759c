#include "init_measure.h"

#include "init_files.h"

#include "qkv/arena.h"

#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { DEV_PAIRS = 64 /* that are translated to time a validation */ };
static const double SECONDS = 3;

/* Writes one file of the folder. */
static enum qkv_status write_file(const char *folder, const char *name, const struct init_plan *plan,
                                  const struct init_data *data, const struct init_names *names,
                                  struct qkv_error *error)
{
    char path[2 * PATH_MAX], part[256];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    FILE *file = fopen(path, "wb");
    if (!file) return qkv_error_set(error, "%s: cannot be written: %s", path, strerror(errno));
    int64_t most[QKV_PAIRS_PARTS] = {data->pairs->count, DEV_PAIRS, DEV_PAIRS};
    bool is_part = false;
    for (int p = 0; p < QKV_PAIRS_PARTS; p++) {
        if (strcmp(name, init_part_file(part, names, (enum qkv_pairs_part)p)) != 0) continue;
        init_part_write(file, data, (enum qkv_pairs_part)p, most[p]);
        is_part = true;
    }
    if (!is_part) init_config_write(file, plan, names);
    bool failed = fflush(file) || ferror(file);
    int reason = errno;
    fclose(file);
    return failed ? qkv_error_set(error, "%s: cannot be written: %s", path, strerror(reason)) : QKV_OK;
}

/* Removes the folder and the files of those names. */
static void remove_folder(const char *folder, char file[INIT_FILES][256])
{
    char path[2 * PATH_MAX];
    for (int f = 0; f < INIT_FILES; f++) {
        snprintf(path, sizeof path, "%s/%s", folder, file[f]);
        unlink(path);
    }
    rmdir(folder);
}

static enum qkv_status measure_in(const char *folder, const char *config, int threads,
                                  struct qkv_train_cost *cost, struct qkv_error *error)
{
    struct qkv_arena arena = {0};
    struct qkv_config read;
    struct qkv_messages messages;
    char path[2 * PATH_MAX];
    snprintf(path, sizeof path, "%s/%s", folder, config);
    enum qkv_status status = qkv_config_read(&read, &arena, path, NULL, 0, &messages);
    if (status)
        qkv_error_set(error, "%s", messages.text[0]);
    else
        status = qkv_train_measure(&read, threads, SECONDS, cost, error);
    qkv_arena_release(&arena);
    return status;
}

enum qkv_status init_measure(const struct init_plan *plan, const struct init_data *data,
                             const struct init_names *names, int threads, struct qkv_train_cost *cost,
                             struct qkv_error *error)
{
    const char *temporary = getenv("TMPDIR");
    char folder[PATH_MAX], file[INIT_FILES][256];
    struct init_plan trial = *plan;
    snprintf(folder, sizeof folder, "%s/qkv-init-XXXXXX", temporary && *temporary ? temporary : "/tmp");
    if (!mkdtemp(folder)) return qkv_error_set(error, "%s: cannot be made: %s", folder, strerror(errno));
    for (int p = 0; p < QKV_PAIRS_PARTS; p++) init_part_file(file[p], names, (enum qkv_pairs_part)p);
    snprintf(file[QKV_PAIRS_PARTS], sizeof file[0], "config.yaml");
    trial.updates = 1000; /* any: training is measured, not finished */
    enum qkv_status status = QKV_OK;
    for (int f = 0; f < INIT_FILES && !status; f++)
        status = write_file(folder, file[f], &trial, data, names, error);
    if (!status) status = measure_in(folder, file[QKV_PAIRS_PARTS], threads, cost, error);
    remove_folder(folder, file);
    int64_t dev = data->count[QKV_PAIRS_DEV];
    if (dev > DEV_PAIRS) cost->seconds_per_validation *= (double)dev / DEV_PAIRS;
    return status;
}
