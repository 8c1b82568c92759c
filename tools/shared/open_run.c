#include "open_run.h"

#include "run/checkpoints.h"

enum qkv_status open_run(struct qkv_run *run, const char *path, const char *checkpoint, enum qkv_dtype dtype,
                         const char *refusal, struct qkv_error *error)
{
    enum qkv_status status = qkv_run_open(run, path, checkpoint, dtype, error);
    if (status || !refusal || run->sides.has_source) return status;
    qkv_run_release(run);
    return qkv_error_set(error, "%s: is a language model, which %s", path, refusal);
}

enum qkv_status refuse_translation(const struct command *command, const char *run, const char *links,
                                   struct qkv_error *error)
{
    const char *option = translation_option(command);
    if (links)
        return qkv_error_set(error, "%s: is a language model, which has no source words: leave out --links",
                             run);
    return option ? qkv_error_set(error, "%s: is a language model, which does not translate: leave out --%s",
                                  run, option)
                  : QKV_OK;
}

enum qkv_status find_snapshots(struct qkv_run *run, int64_t **updates, int64_t *count,
                               struct qkv_error *error)
{
    if (qkv_snapshots_find(run, updates, count, error)) return QKV_INVALID;
    if (*count >= 2) return QKV_OK;
    return qkv_error_set(error,
                         "%s: has no snapshots of its training: train it again with them, by `qkv train "
                         "CONFIG -s training.snapshots=16 --overwrite`",
                         run->path);
}
