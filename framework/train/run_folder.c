/* The run folder: lock, config, metrics.jsonl. */
#include "train/training.h"

#include "qkv/file.h"

#include <cjson/cJSON.h>
#include <dirent.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <unistd.h>

static const char *file_of(struct training *training, const char *name)
{
    return qkv_run_file(&training->arena, training->folder, name);
}

static bool ends_in(const char *text, const char *end)
{
    size_t length = strlen(text), end_length = strlen(end);
    return length >= end_length && !strcmp(text + length - end_length, end);
}

/* True for the names of files that a run writes. */
static bool is_run_file(const char *name)
{
    static const char *const NAMES[] = {QKV_RUN_FORMAT_FILE, QKV_RUN_CONFIG, QKV_RUN_SOURCE, QKV_RUN_TARGET,
                                        QKV_RUN_METRICS,     QKV_RUN_LAST,   QKV_RUN_BEST};
    for (size_t i = 0; i < sizeof NAMES / sizeof NAMES[0]; i++)
        if (!strcmp(name, NAMES[i])) return true;
    return !strncmp(name, "update-", 7) && ends_in(name, ".safetensors");
}

/* True for the names of temporary files that a killed run leaves: <name>.<process>.<number>.tmp (file.h), and
 * the link best.safetensors.tmp (best_checkpoints.c). */
static bool is_temporary(const char *name)
{
    char final_name[256];
    if (!strcmp(name, QKV_RUN_BEST ".tmp")) return true;
    if (strlen(name) >= sizeof final_name || !ends_in(name, ".tmp")) return false;
    strcpy(final_name, name);
    for (int parts = 0; parts < 3; parts++) {
        char *dot = strrchr(final_name, '.');
        if (!dot || (parts > 0 && (!dot[1] || dot[1 + strspn(dot + 1, "0123456789")]))) return false;
        *dot = '\0';
    }
    return is_run_file(final_name);
}

enum qkv_status qkv_run_folder_check(struct training *training, struct qkv_error *error)
{
    const char *last = file_of(training, QKV_RUN_LAST);
    if (!last) return qkv_error_set(error, "out of memory");
    if (training->options->resume) {
        if (qkv_path_exists(last)) return qkv_run_format_check(training->folder, error);
        return qkv_error_set(error, "%s: nothing to resume: there is no %s; start without --resume",
                             training->folder, QKV_RUN_LAST);
    }
    if (training->options->overwrite) return QKV_OK;
    DIR *folder = opendir(training->folder);
    if (!folder) return QKV_OK; /* making or locking the folder will say why */
    enum qkv_status status = QKV_OK;
    for (struct dirent *entry; !status && (entry = readdir(folder));)
        if (is_run_file(entry->d_name))
            status =
                qkv_error_set(error,
                              "%s: holds a run already (%s); continue it with --resume or replace it with "
                              "--overwrite",
                              training->folder, entry->d_name);
    closedir(folder);
    return status;
}

enum qkv_status qkv_run_folder_lock(struct training *training, struct qkv_error *error)
{
    if (!training->options->resume && qkv_folder_make(training->folder, error)) return QKV_INVALID;
    training->lock = opendir(training->folder);
    if (!training->lock)
        return qkv_error_set(error, "%s: cannot be opened: %s", training->folder, strerror(errno));
    /* On a file system without locks flock fails with another code; training then runs without a lock. */
    if (flock(dirfd(training->lock), LOCK_EX | LOCK_NB) == 0 || errno != EWOULDBLOCK)
        return qkv_run_folder_check(training, error);
    return qkv_error_set(error,
                         "%s: another process trains this run now; wait for it, or choose another "
                         "training.model_dir",
                         training->folder);
}

enum qkv_status qkv_run_folder_clear(struct training *training, struct qkv_error *error)
{
    enum qkv_status status = QKV_OK;
    rewinddir(training->lock);
    for (struct dirent *entry; !status && (entry = readdir(training->lock));) {
        bool of_old_run = is_run_file(entry->d_name) && !training->options->resume;
        if (!of_old_run && !is_temporary(entry->d_name)) continue;
        const char *path = file_of(training, entry->d_name);
        if (!path) return qkv_error_set(error, "out of memory");
        if (unlink(path) != 0)
            status = qkv_error_set(error, "%s: cannot be removed: %s", path, strerror(errno));
    }
    return status;
}

enum qkv_status qkv_run_folder_describe(struct training *training, struct qkv_error *error)
{
    struct qkv_file_writer writer;
    const char *path = file_of(training, QKV_RUN_CONFIG), *format = file_of(training, QKV_RUN_FORMAT_FILE);
    if (!path || !format) return qkv_error_set(error, "out of memory");
    if (qkv_file_begin(&writer, format, error)) return QKV_INVALID;
    fprintf(writer.file, "%d\n", QKV_RUN_FORMAT);
    if (qkv_file_commit(&writer, error)) return QKV_INVALID;
    if (qkv_file_begin(&writer, path, error)) return QKV_INVALID;
    qkv_config_write(training->config, writer.file, true); /* failed writes show at commit */
    return qkv_file_commit(&writer, error);
}

enum qkv_status qkv_run_folder_trim_metrics(struct training *training, struct qkv_error *error)
{
    const char *path = file_of(training, QKV_RUN_METRICS);
    FILE *old = path ? fopen(path, "r") : NULL;
    if (!old) return QKV_OK;
    struct qkv_file_writer writer;
    enum qkv_status status = qkv_file_begin(&writer, path, error);
    char *line = NULL;
    size_t capacity = 0;
    while (!status && getline(&line, &capacity, old) > 0) {
        cJSON *object = strchr(line, '\n') ? cJSON_Parse(line) : NULL;
        const cJSON *update = cJSON_GetObjectItemCaseSensitive(object, "update");
        if (cJSON_IsNumber(update) && update->valuedouble <= (double)training->progress.update)
            fputs(line, writer.file);
        cJSON_Delete(object);
    }
    free(line);
    fclose(old);
    return status ? status : qkv_file_commit(&writer, error);
}

/* Appends a complete line or nothing: on a full disk, truncates the file to its old length. */
static int append_line(const char *path, const char *text)
{
    FILE *file = fopen(path, "ab");
    if (!file) return errno;
    off_t before = fseeko(file, 0, SEEK_END) ? -1 : ftello(file);
    int code = fprintf(file, "%s\n", text) < 0 || fflush(file) ? errno : 0;
    if (code && before >= 0 && ftruncate(fileno(file), before))
        before = -1; /* part of the line stays; qkv_run_folder_trim_metrics drops it on resuming */
    if (fclose(file) && !code) code = errno;
    return code;
}

enum qkv_status qkv_run_folder_log(struct training *training, struct cJSON *line, struct qkv_error *error)
{
    const char *path = file_of(training, QKV_RUN_METRICS);
    char *text = cJSON_PrintUnformatted(line);
    cJSON_Delete(line);
    int code = path && text ? append_line(path, text) : ENOMEM;
    cJSON_free(text);
    if (!code) return QKV_OK;
    return qkv_error_set(error, "%s: cannot be written: %s", path ? path : QKV_RUN_METRICS, strerror(code));
}
