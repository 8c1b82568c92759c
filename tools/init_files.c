#include "init_files.h"

#include "config.h"

#include "core/file.h"
#include "qkv/file.h"

#include <errno.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

void init_paths_make(struct init_paths *paths, const char *folder, const struct init_names *names)
{
    char part[256];
    for (int p = 0; p < QKV_PAIRS_PARTS; p++)
        snprintf(paths->path[p], sizeof paths->path[p], "%s%s", folder,
                 init_part_file(part, names, (enum qkv_pairs_part)p));
    snprintf(paths->path[QKV_PAIRS_PARTS], sizeof paths->path[0], "%s", names->file);
}

enum qkv_status init_files_check(const struct init_paths *paths, const struct qkv_pairs *pairs,
                                 bool overwrite, struct qkv_error *error)
{
    struct stat there;
    for (int f = 0; f < INIT_FILES; f++) {
        const char *path = paths->path[f];
        for (int side = 0; pairs && side < 2; side++)
            if (qkv_is_same_file(path, pairs->path[side]))
                return qkv_error_set(
                    error,
                    "%s: is the file that the pairs come from and would be replaced; give the config "
                    "another name with -o",
                    path);
        if (!overwrite && !lstat(path, &there))
            return qkv_error_set(
                error, "%s: exists already; replace it with --overwrite, or name another config with -o",
                path);
    }
    return QKV_OK;
}

void init_part_write(FILE *file, const struct init_data *data, enum qkv_pairs_part part, int64_t max)
{
    int64_t written = 0;
    for (int64_t i = 0; i < data->pairs->count && written < max; i++) {
        if (data->part[i] != part) continue;
        fprintf(file, "%s\t%s\n", qkv_pairs_text(data->pairs, i, 0), qkv_pairs_text(data->pairs, i, 1));
        written++;
    }
}

enum qkv_status init_files_try(const struct init_paths *paths, struct qkv_error *error)
{
    /* The file, or the first folder above it that is still missing. */
    char path[sizeof paths->path[0]];
    snprintf(path, sizeof path, "%s", paths->path[QKV_PAIRS_PARTS]);
    for (char *slash = strrchr(path, '/'); slash && slash > path; slash = strrchr(path, '/')) {
        *slash = '\0';
        if (!qkv_path_exists(path)) continue;
        *slash = '/';
        break;
    }
    struct qkv_file_writer writer;
    if (qkv_file_begin(&writer, path, error)) return QKV_INVALID;
    qkv_file_abandon(&writer);
    return QKV_OK;
}

static enum qkv_status make_folder_of(const char *path, struct qkv_error *error)
{
    char folder[4096];
    const char *slash = strrchr(path, '/');
    if (!slash || slash == path) return QKV_OK;
    snprintf(folder, sizeof folder, "%.*s", (int)(slash - path), path);
    return qkv_folder_make(folder, error);
}

enum qkv_status init_files_write(const struct init_paths *paths, const struct init_plan *plan,
                                 const struct init_data *data, const struct init_names *names,
                                 struct qkv_error *error)
{
    struct qkv_file_writer writer[INIT_FILES] = {{0}};
    bool existed[INIT_FILES];
    int committed = 0;
    enum qkv_status status = make_folder_of(paths->path[QKV_PAIRS_PARTS], error);
    for (int f = 0; f < INIT_FILES && !status; f++) {
        existed[f] = qkv_path_exists(paths->path[f]);
        status = qkv_file_begin(&writer[f], paths->path[f], error);
        if (status) break;
        if (f < QKV_PAIRS_PARTS)
            init_part_write(writer[f].file, data, (enum qkv_pairs_part)f, data->pairs->count);
        else
            init_config_write(writer[f].file, plan, names);
    }
    /* A full disk is noticed here, before the first file gets its final name. */
    for (int f = 0; f < INIT_FILES && !status; f++)
        if (fflush(writer[f].file) || ferror(writer[f].file))
            status = qkv_error_set(error, "%s: cannot be written: %s", paths->path[f], strerror(errno));
    for (; committed < INIT_FILES && !status; committed += !status)
        status = qkv_file_commit(&writer[committed], error);
    for (int f = 0; f < INIT_FILES; f++) qkv_file_abandon(&writer[f]);
    for (int f = 0; f < committed && status; f++)
        if (!existed[f]) unlink(paths->path[f]);
    return status;
}
