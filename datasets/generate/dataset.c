#include "datasets/generate/dataset.h"
#include "core/memory.h"

#include <errno.h>

enum qkv_status dataset_files_end(struct dataset_files *files, enum qkv_status status,
                                  struct qkv_error *error)
{
    for (int i = 0; i < files->count; i++) {
        if (!status) status = qkv_file_commit(&files->writer[i], error);
        qkv_file_abandon(&files->writer[i]);
    }
    return status;
}

enum qkv_status dataset_files_begin(struct dataset_files *files, const struct dataset_request *request,
                                    const char *const *names, int count, struct qkv_error *error)
{
    struct stat there;
    struct qkv_arena arena = {0};
    enum qkv_status status = QKV_OK;
    QKV_BUG(count > MAX_DATASET_FILES, "a data set has %d files", count);
    *files = (struct dataset_files){0};
    if (!*request->folder) return qkv_error_set(error, "the name of the output folder is empty");
    for (int step = 0; step < 2 * count && !status; step++) { /* first looks for all, then begins all */
        bool begins = step >= count;
        if (step == count && (status = qkv_folder_make(request->folder, error))) break;
        const char *slash = request->folder[strlen(request->folder) - 1] == '/' ? "" : "/";
        const char *path = qkv_arena_format(&arena, "%s%s%s", request->folder, slash, names[step % count]);
        if (!path)
            status = qkv_no_memory(error);
        else if (begins)
            status = qkv_file_begin(&files->writer[files->count], path, error);
        else if (!request->overwrite && !lstat(path, &there))
            status = qkv_error_set(error, "%s: exists already; --overwrite replaces it", path);
        files->count += begins && !status;
    }
    qkv_arena_release(&arena);
    return status ? dataset_files_end(files, status, error) : QKV_OK;
}

enum qkv_status dataset_line_check(const struct qkv_file_writer *writer, struct qkv_error *error)
{
    if (!ferror(writer->file)) return QKV_OK;
    return qkv_error_set(error, "%s: cannot be written: %s", writer->path, strerror(errno));
}
