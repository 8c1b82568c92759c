/* Removes checkpoints that are in no list. */
#include "train/training.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

/* The update of a file `<prefix>N.safetensors`; -1 for other names. */
static int64_t update_of(const char *name, const char *prefix)
{
    size_t length = strlen(prefix);
    long long update = 0;
    int end = 0;
    if (strncmp(name, prefix, length) != 0) return -1;
    sscanf(name + length, "%lld.safetensors%n", &update, &end);
    return end && !name[length + (size_t)end] ? update : -1;
}

enum qkv_status qkv_training_prune(const struct training *training, const char *prefix,
                                   bool (*is_listed)(const struct progress *progress, int64_t update),
                                   struct qkv_error *error)
{
    DIR *folder = opendir(training->folder);
    if (!folder) return qkv_error_set(error, "%s: %s", training->folder, strerror(errno));
    enum qkv_status status = QKV_OK;
    for (struct dirent *entry; !status && (errno = 0, entry = readdir(folder));) {
        int64_t update = update_of(entry->d_name, prefix);
        if (update < 0 || is_listed(&training->progress, update)) continue;
        if (unlinkat(dirfd(folder), entry->d_name, 0) != 0)
            status = qkv_error_set(error, "%s/%s: cannot be removed: %s", training->folder, entry->d_name,
                                   strerror(errno));
    }
    if (!status && errno)
        status = qkv_error_set(error, "%s: cannot be read: %s", training->folder, strerror(errno));
    closedir(folder);
    return status;
}
