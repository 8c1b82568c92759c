/* The average of the best checkpoints, which testing.average asks for at the end of training. */
#include "train/training.h"

#include "qkv/average.h"
#include "qkv/file.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>

_Static_assert(MOST_BEST <= (int)QKV_AVERAGE_MOST, "more best checkpoints than an average can have");

static const char *path_of(struct training *training)
{
    return qkv_run_file(&training->arena, training->folder, QKV_RUN_AVERAGE);
}

/* Scores the checkpoint `path` on the dev set. The trained parameters are saved already and needed no more. */
static enum qkv_status score(struct training *training, const char *path, struct qkv_scores *scores,
                             struct qkv_error *error)
{
    struct qkv_error inner;
    if (qkv_checkpoint_load(path, &training->model->parameters, NULL, NULL, error)) return QKV_INVALID;
    enum qkv_status status = qkv_evaluator_run(training->evaluator, scores, &inner);
    if (status) qkv_error_set(error, "%s: %s", path, inner.message);
    return status;
}

enum qkv_status qkv_final_average(struct training *training, struct qkv_train_average *average,
                                  struct qkv_error *error)
{
    int64_t count = training->config->testing.average, best = training->progress.best_count;
    if (count > best) count = best; /* a short training has fewer validations */
    if (!count) return QKV_OK;
    const char *path = path_of(training);
    if (!path) return qkv_error_set(error, "out of memory");
    enum qkv_status status =
        qkv_run_average(training->folder, QKV_AVERAGE_BEST, count, "average", &average->checkpoints, error);
    if (!status) status = score(training, path, &average->scores, error);
    if (status) return status;
    struct log_line line = qkv_log_line("average", training->progress.update);
    qkv_log_number(&line, "checkpoints", (double)count);
    qkv_log_scores(&line, &average->scores);
    return qkv_log_write(training, &line, error);
}

enum qkv_status qkv_final_average_remove(struct training *training, struct qkv_error *error)
{
    if (!training->config->testing.average) return QKV_OK;
    const char *path = path_of(training);
    if (!path) return qkv_error_set(error, "out of memory");
    if (unlink(path) == 0 || errno == ENOENT) return QKV_OK;
    return qkv_error_set(error, "%s: cannot be removed: %s", path, strerror(errno));
}
