/* The run folder: lock, config, lines of metrics.jsonl. */
#include "train/training.h"

#include "core/file.h"
#include "core/memory.h"
#include "core/system.h"
#include "core/text.h"
#include "metrics/metric.h"
#include "run/training_log.h"

#include <cjson/cJSON.h>
#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <stdarg.h>
#include <sys/file.h>
#include <unistd.h>

/* True for the names of files that a run writes. */
static bool is_run_file(const char *name)
{
    for (int i = 0; i < RUN_FILES; i++)
        if (!strcmp(name, qkv_run_files[i])) return true;
    return qkv_numbered_is_reserved(name) && qkv_ends_in(name, ".safetensors");
}

/* True for the names of temporary files that a killed run leaves: <name>.<process>.<number>.tmp (file.h), and
 * the link best.safetensors.tmp (checkpoints.c). */
static bool is_temporary(const char *name)
{
    char final_name[256];
    if (!strcmp(name, QKV_RUN_BEST ".tmp")) return true;
    if (strlen(name) >= sizeof final_name || !qkv_ends_in(name, ".tmp")) return false;
    strcpy(final_name, name);
    for (int parts = 0; parts < 3; parts++) {
        char *dot = strrchr(final_name, '.');
        if (!dot || (parts > 0 && (!dot[1] || dot[1 + strspn(dot + 1, "0123456789")]))) return false;
        *dot = '\0';
    }
    return is_run_file(final_name);
}

/* Whether a file of the folder, which has the name of one of a run, was written by qkv: the folder has the file of the format;
 * or else by its beginning, or, where that is not special, by the files that a run writes before it. *code becomes the errno
 * of a file that cannot be read. */
static bool is_written_by_qkv(int folder, const char *name, int *code)
{
    char begin[4096] = "";
    bool is_model = qkv_ends_in(name, ".safetensors"), is_vocabulary = qkv_ends_in(name, ".vocabulary"),
         is_format = !strcmp(name, QKV_RUN_FORMAT_FILE);
    if (!is_format && is_written_by_qkv(folder, QKV_RUN_FORMAT_FILE, code)) return true;
    if (!is_model && !is_vocabulary && !is_format) /* config.yaml comes after the format */
        return strcmp(name, QKV_RUN_CONFIG) && is_written_by_qkv(folder, QKV_RUN_SOURCE, code);
    int descriptor = openat(folder, name, O_RDONLY | O_CLOEXEC);
    FILE *file = descriptor < 0 ? NULL : fdopen(descriptor, "rb");
    size_t size = file ? fread(begin, 1, sizeof begin - 1, file) : 0;
    if ((!file || ferror(file)) && errno != ENOENT) *code = errno;
    if (file)
        fclose(file);
    else if (descriptor >= 0)
        close(descriptor);
    if (is_format) return isdigit((unsigned char)begin[0]);
    if (is_vocabulary) return !strncmp(begin, "<unk>\n", 6);
    return size > 8 && strstr(begin + 8, "\"qkv."); /* behind the size of the header */
}

/* What a folder holds of a run. */
struct contents {
    char name[NAME_MAX + 1]; /* of one of its files; "": none */
    bool has_last;           /* last.safetensors is one of them */
    bool has_model;          /* a checkpoint is one of them */
};

/* Refuses a file of a run that is not a regular file: reading a FIFO would wait for ever. */
static enum qkv_status list_run_files(struct training *training, struct contents *contents,
                                      struct qkv_error *error)
{
    DIR *folder = opendir(training->folder);
    enum qkv_status status = QKV_OK;
    *contents = (struct contents){0};
    if (!folder && (errno == ENOENT || errno == ENOTDIR)) return QKV_OK; /* making it will report why */
    if (!folder) return qkv_error_set(error, "%s: cannot be opened: %s", training->folder, strerror(errno));
    for (struct dirent *entry; !status && (errno = 0, entry = readdir(folder));) {
        const char *name = entry->d_name;
        if (!is_run_file(name)) continue;
        snprintf(contents->name, sizeof contents->name, "%s", name);
        contents->has_last = contents->has_last || !strcmp(name, QKV_RUN_LAST);
        contents->has_model = contents->has_model || qkv_ends_in(name, ".safetensors");
        const char *path = QKV_RUN_FILE(training->folder, name);
        status = qkv_file_check(path, error);
        int code = 0;
        if (!status && training->options->overwrite && !is_written_by_qkv(dirfd(folder), name, &code))
            status =
                code ? qkv_error_set(error, "%s: cannot be read: %s", path, strerror(code))
                     : qkv_error_set(error,
                                     "%s: no run of qkv wrote this file, so --overwrite does not replace it: "
                                     "move it, or choose another training.model_dir",
                                     path);
        struct stat there;
        if (status && fstatat(dirfd(folder), name, &there, AT_SYMLINK_NOFOLLOW) && errno == ENOENT)
            status = QKV_OK; /* another process, which trains the run, has removed it since */
    }
    if (!status && errno)
        status = qkv_error_set(error, "%s: cannot be read: %s", training->folder, strerror(errno));
    closedir(folder);
    return status;
}

enum qkv_status qkv_run_folder_check(struct training *training, struct qkv_error *error)
{
    struct contents contents;
    const char *folder = training->folder, *name = contents.name;
    if (qkv_config_check_run_paths(training->config, folder, error)) return QKV_INVALID;
    if (list_run_files(training, &contents, error)) return QKV_INVALID;
    bool can_resume = contents.has_last;
    if (training->options->resume && can_resume) {
        struct qkv_data_config ignored;
        return qkv_run_format_read(folder, &ignored, error);
    }
    if (training->options->resume)
        return qkv_error_set(error, "%s: nothing to resume: there is no %s; start %s", folder, QKV_RUN_LAST,
                             contents.has_model ? "a run of another name from its model with --from"
                             : *name            ? "again with --overwrite"
                                                : "without --resume");
    if (training->options->overwrite || !*name) return QKV_OK;
    if (can_resume)
        return qkv_error_set(error,
                             "%s: holds a run already; continue it with --resume or replace it with "
                             "--overwrite",
                             folder);
    if (contents.has_model)
        return qkv_error_set(
            error,
            "%s: holds a model, but no %s to continue from; choose another name for the run, "
            "or replace it with --overwrite",
            folder, QKV_RUN_LAST);
    return qkv_error_set(
        error, "%s: is an incomplete run: it has %s, but no %s to continue from; replace it with --overwrite",
        folder, name, QKV_RUN_LAST);
}

enum { MOVED = -1 };

/* Compares the path with the folder that was locked. Returns 0, MOVED, or the errno of a call that failed. */
static int compare_with_lock(const struct training *training)
{
    struct stat locked, there;
    while (fstat(dirfd(training->lock), &locked))
        if (errno != EINTR) return errno;
    while (stat(training->folder, &there))
        if (errno != EINTR) return errno == ENOENT || errno == ENOTDIR ? MOVED : errno;
    return locked.st_dev == there.st_dev && locked.st_ino == there.st_ino ? 0 : MOVED;
}

bool qkv_run_folder_is_moved(const struct training *training)
{
    return compare_with_lock(training) == MOVED;
}

enum qkv_status qkv_run_folder_is_locked(const struct training *training, struct qkv_error *error)
{
    int code = compare_with_lock(training);
    if (!code) return QKV_OK;
    if (code != MOVED)
        return qkv_error_set(error, "%s: cannot be read: %s", training->folder, strerror(code));
    return qkv_error_set(error,
                         "%s: this folder was moved, replaced or removed while the run was trained in it, so "
                         "training stops; a folder that was moved holds what was saved before: continue it "
                         "with --resume and its new name as training.model_dir",
                         training->folder);
}

enum qkv_status qkv_run_folder_lock(struct training *training, struct qkv_error *error)
{
    if (!training->options->resume && qkv_folder_make(training->folder, error)) return QKV_INVALID;
    training->lock = opendir(training->folder);
    if (!training->lock)
        return qkv_error_set(error, "%s: cannot be opened: %s", training->folder, strerror(errno));
    /* On a file system without locks flock fails with another code; training then runs without a lock. */
    if (flock(dirfd(training->lock), LOCK_EX | LOCK_NB) == 0 || errno != EWOULDBLOCK)
        return qkv_run_folder_is_locked(training, error) ? QKV_INVALID
                                                         : qkv_run_folder_check(training, error);
    return qkv_error_set(error,
                         "%s: another process trains this run now; wait for it, or choose another "
                         "training.model_dir",
                         training->folder);
}

static enum qkv_status remove_file(const struct training *training, const char *name, struct qkv_error *error)
{
    if (!unlinkat(dirfd(training->lock), name, 0) || errno == ENOENT) return QKV_OK;
    return qkv_error_set(error, "%s/%s: cannot be removed: %s", training->folder, name, strerror(errno));
}

enum qkv_status qkv_run_folder_remove(const struct training *training,
                                      bool is_removed(const struct training *training, const char *name),
                                      struct qkv_error *error)
{
    enum qkv_status status = QKV_OK;
    rewinddir(training->lock);
    for (struct dirent *entry; !status && (errno = 0, entry = readdir(training->lock));)
        if (is_removed(training, entry->d_name)) status = remove_file(training, entry->d_name, error);
    if (!status && errno)
        status = qkv_error_set(error, "%s: cannot be read: %s", training->folder, strerror(errno));
    return status;
}

static bool is_left_over(const struct training *training, const char *name)
{
    bool of_old_run =
        !training->options->resume && is_run_file(name) && strcmp(name, QKV_RUN_FORMAT_FILE) != 0;
    return of_old_run || is_temporary(name);
}

enum qkv_status qkv_run_folder_clear(struct training *training, struct qkv_error *error)
{
    bool resume = training->options->resume;
    /* First: --resume must not take what a killed process left for a run. */
    enum qkv_status status = resume ? QKV_OK : remove_file(training, QKV_RUN_LAST, error);
    if (!status) status = qkv_run_folder_remove(training, is_left_over, error);
    /* Last: without it, what a killed process left of the run would be read as format 1. */
    return status || resume ? status : remove_file(training, QKV_RUN_FORMAT_FILE, error);
}

enum qkv_status qkv_run_folder_write_format(struct training *training, struct qkv_error *error)
{
    struct qkv_file_writer writer;
    const char *path = QKV_RUN_FILE(training->folder, QKV_RUN_FORMAT_FILE);
    if (qkv_file_begin(&writer, path, error)) return QKV_INVALID;
    fprintf(writer.file, "%d\n", training->config->data.src.plain_marks ? 1 : QKV_RUN_FORMAT);
    return qkv_file_commit(&writer, error);
}

enum qkv_status qkv_run_folder_write_config(struct training *training, struct qkv_error *error)
{
    struct qkv_file_writer writer;
    const char *path = QKV_RUN_FILE(training->folder, QKV_RUN_CONFIG);
    if (qkv_file_begin(&writer, path, error)) return QKV_INVALID;
    errno = 0;
    enum qkv_status status = qkv_config_write_run(training->config, writer.file, training->folder);
    int code = errno;
    if (!status || ferror(writer.file)) return qkv_file_commit(&writer, error); /* says why a write failed */
    qkv_file_abandon(&writer);
    return qkv_error_set(error, "%s: cannot be written: %s", path, code ? strerror(code) : "out of memory");
}

/* Whether a line of metrics.jsonl, of kind average, describes the average that is kept. If so, stores its score. */
static bool keeps_average(struct training *training, const cJSON *line)
{
    struct kept_average *kept = &training->kept_average;
    const char *metric = qkv_metric_info(training->config->training.early_stopping_metric)->key;
    double score = qkv_json_number(line, metric);
    if (!kept->checkpoints || isnan(score) ||
        qkv_json_number(line, "update") != (double)training->progress.update ||
        qkv_json_number(line, "checkpoints") != (double)kept->checkpoints)
        return false;
    kept->is_scored = true;
    kept->score = score;
    return true;
}

/* Whether the last checkpoint was saved after the change of the learning rate that a line describes. */
static bool has_rate(const struct training *training, const cJSON *line)
{
    double update = qkv_json_number(line, "update"), rate = qkv_json_number(line, "rate");
    return !isnan(update) && !isnan(rate) &&
           (update < (double)training->progress.update || fabs(rate - training->rate.before) <= 0);
}

/* Copies the lines up to the current update, but the line of an average only if that is kept. Sets seconds_before. Returns 0
 * or an errno. */
static int copy_metrics(struct training *training, FILE *from, FILE *to)
{
    char *line = NULL;
    size_t capacity = 0;
    int code = 0;
    errno = 0;
    while (!code && getline(&line, &capacity, from) > 0) {
        cJSON *object = strchr(line, '\n') ? cJSON_Parse(line) : NULL;
        if (!object && errno == ENOMEM) code = ENOMEM; /* cJSON does not say why it fails */
        const char *kind = cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(object, "kind"));
        bool is_dropped = kind && ((!strcmp(kind, "average") && !keeps_average(training, object)) ||
                                   (!strcmp(kind, "rate") && !has_rate(training, object)));
        if (!is_dropped && qkv_json_number(object, "update") <= (double)training->progress.update) {
            double seconds = qkv_json_number(object, "seconds");
            if (!isnan(seconds)) training->seconds_before = seconds;
            fputs(line, to);
        }
        cJSON_Delete(object);
    }
    if (!code && !feof(from)) code = errno; /* a failed read, or no memory for the line */
    free(line);
    return code;
}

enum qkv_status qkv_run_folder_trim_metrics(struct training *training, struct qkv_error *error)
{
    const char *path = training->metrics;
    FILE *old = fopen(path, "r");
    if (!old && errno == ENOENT) return QKV_OK;
    if (!old) return qkv_error_set(error, "%s: cannot be read: %s", path, strerror(errno));
    struct qkv_file_writer writer;
    if (qkv_file_begin(&writer, path, error)) {
        fclose(old);
        return QKV_INVALID;
    }
    int code = copy_metrics(training, old, writer.file);
    fclose(old);
    if (!code) return qkv_file_commit(&writer, error);
    qkv_file_abandon(&writer);
    return qkv_error_set(error, "%s: cannot be read: %s", path, strerror(code));
}

/* Appends the complete line of an object to metrics.jsonl, or nothing: on a full disk, truncates the file to its old length.
 * text: without the brace at its end. */
static int append_line(const struct training *training, const char *text)
{
    int descriptor =
        openat(dirfd(training->lock), QKV_RUN_METRICS, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0666);
    FILE *file = descriptor < 0 ? NULL : fdopen(descriptor, "ab");
    if (!file) return errno;
    off_t before = fseeko(file, 0, SEEK_END) ? -1 : ftello(file);
    int code = fprintf(file, "%s}\n", text) < 0 || fflush(file) ? errno : 0;
    if (code && before >= 0 && ftruncate(fileno(file), before))
        code = errno; /* part of the line stays; qkv_run_folder_trim_metrics drops it on resuming */
    if (fclose(file) && !code) code = errno;
    return code;
}

struct bytes qkv_log_line(const char *kind, int64_t update)
{
    struct bytes line = {0};
    qkv_bytes_format(&line, "{\"kind\":\"%s\",\"update\":%lld", kind, (long long)update);
    return line;
}

void qkv_log_number(struct bytes *line, const char *key, double value)
{
    char text[QKV_NUMBER_SIZE] = "null";
    if (isfinite(value)) qkv_number_format(text, value);
    qkv_bytes_format(line, ",\"%s\":%s", key, text);
}

void qkv_log_scores(struct bytes *line, const struct qkv_scores *scores)
{
    for (int m = 0; m < QKV_METRIC_COUNT; m++) {
        const struct qkv_metric_info *info = qkv_metric_info((enum qkv_metric)m);
        bool is_known = scores->counts.translated || qkv_metric_is_of_references((enum qkv_metric)m);
        if (!info->on_request && is_known) qkv_log_number(line, info->key, scores->value[m]);
    }
    if (!scores->counts.translated)
        qkv_log_number(line, QKV_BITS_PER_CHARACTER,
                       qkv_bits_per(&scores->counts, scores->counts.characters));
}

void qkv_log_seconds(struct bytes *line, const struct training *training)
{
    qkv_log_number(line, "seconds", training->seconds_before + qkv_clock_seconds() - training->begun);
}

enum qkv_status qkv_log_write(struct training *training, struct bytes *line, struct qkv_error *error)
{
    int code = line->failed ? ENOMEM : append_line(training, line->data);
    free(line->data);
    if (!code) return qkv_run_folder_is_locked(training, error);
    return qkv_error_set(error, "%s: cannot be written: %s", training->metrics, strerror(code));
}

void qkv_training_say(const struct training *training, const char *format, ...)
{
    const struct qkv_train_listener *listener = training->options->listener;
    struct qkv_error sentence;
    char text[sizeof sentence.message];
    va_list arguments;
    if (!listener || !listener->notice) return;
    va_start(arguments, format);
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    qkv_error_set(&sentence, "%s", text);
    listener->notice(listener->context, sentence.message);
}
