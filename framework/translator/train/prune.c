/* Removes checkpoints that are in no list. */
#include "train/training.h"

#include "run/numbered.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>

enum qkv_status qkv_training_prune(const struct training *training, const char *prefix,
                                   bool (*is_listed)(const struct progress *progress, int64_t update),
                                   struct qkv_error *error)
{
    DIR *folder = opendir(training->folder);
    if (!folder) return qkv_error_set(error, "%s: %s", training->folder, strerror(errno));
    enum qkv_status status = QKV_OK;
    for (struct dirent *entry; !status && (errno = 0, entry = readdir(folder));) {
        int64_t update = qkv_numbered_update(entry->d_name, prefix);
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
