#include "datasets/generate/dataset_files.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

/* folder/name on the heap, or NULL. */
static char *path_of(const char *folder, const char *name)
{
    size_t size = strlen(folder) + strlen(name) + 2;
    char *path = malloc(size);
    if (path) snprintf(path, size, "%s%s%s", folder, folder[strlen(folder) - 1] == '/' ? "" : "/", name);
    return path;
}

static enum qkv_status refuse_existing(const struct dataset_request *request, const char *name,
                                       struct qkv_error *error)
{
    struct stat there;
    char *path = path_of(request->folder, name);
    if (!path) return qkv_error_set(error, "%s: out of memory", request->folder);
    enum qkv_status status = QKV_OK;
    if (!lstat(path, &there))
        status = qkv_error_set(error, "%s: exists already; --overwrite replaces it", path);
    free(path);
    return status;
}

enum qkv_status dataset_files_begin(struct dataset_files *files, const struct dataset_request *request,
                                    const char *const *names, int count, struct qkv_error *error)
{
    QKV_BUG(count > MAX_DATASET_FILES, "a data set has %d files", count);
    *files = (struct dataset_files){0};
    if (!*request->folder) return qkv_error_set(error, "the name of the output folder is empty");
    for (int i = 0; i < count && !request->overwrite; i++)
        if (refuse_existing(request, names[i], error)) return QKV_INVALID;
    if (qkv_folder_make(request->folder, error)) return QKV_INVALID;
    for (int i = 0; i < count; i++) {
        char *path = path_of(request->folder, names[i]);
        enum qkv_status status = path ? qkv_file_begin(&files->writer[i], path, error)
                                      : qkv_error_set(error, "%s: out of memory", request->folder);
        free(path);
        if (status) {
            dataset_files_abandon(files);
            return status;
        }
        files->count++;
    }
    return QKV_OK;
}

enum qkv_status dataset_files_commit(struct dataset_files *files, struct qkv_error *error)
{
    enum qkv_status status = QKV_OK;
    for (int i = 0; i < files->count && !status; i++) status = qkv_file_commit(&files->writer[i], error);
    dataset_files_abandon(files);
    return status;
}

enum qkv_status dataset_line_check(const struct qkv_file_writer *writer, struct qkv_error *error)
{
    if (!ferror(writer->file)) return QKV_OK;
    return qkv_error_set(error, "%s: cannot be written: %s", writer->path, strerror(errno));
}

void dataset_files_abandon(struct dataset_files *files)
{
    for (int i = 0; i < files->count; i++) qkv_file_abandon(&files->writer[i]);
    files->count = 0;
}
