/* The average of the best checkpoints, which testing.average asks for at the end of training. */
#include "train/training.h"

#include "checkpoint/safetensors.h"
#include "run/numbered.h"

#include "qkv/average.h"
#include "qkv/file.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

_Static_assert(MAX_BEST <= (int)QKV_AVERAGE_MAX, "more best checkpoints than an average can have");

static const char *path_of(struct training *training)
{
    return qkv_run_file(&training->arena, training->folder, QKV_RUN_AVERAGE);
}

/* Scores the checkpoint `path` on the dev set. Overwrites the trained parameters, which are saved already. */
static enum qkv_status score(struct training *training, const char *path, struct qkv_scores *scores,
                             struct qkv_error *error)
{
    struct qkv_error inner;
    if (qkv_checkpoint_load(path, &training->model->parameters, NULL, NULL, error)) return QKV_INVALID;
    enum qkv_status status = qkv_evaluator_run(training->evaluator, scores, &inner);
    if (status) qkv_error_set(error, "%s: %s", path, inner.message);
    return status;
}

/* Number of checkpoints to average: testing.average, or fewer if a short training has kept fewer. */
static int64_t count_of(const struct training *training)
{
    int64_t count = training->config->testing.average, best = training->progress.best_count;
    return count < best ? count : best;
}

enum qkv_status qkv_final_average(struct training *training, struct qkv_train_average *average,
                                  struct qkv_error *error)
{
    int64_t count = count_of(training);
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

/* ---- resuming ---- */

/* Whether a file is the average of exactly those best checkpoints that would be averaged now. */
static bool is_of_best(const struct training *training, const char *path)
{
    struct qkv_safetensors file;
    struct qkv_error ignored;
    const struct progress *progress = &training->progress;
    int64_t count = count_of(training), listed = 0;
    char key[32], name[NUMBERED_NAME_SIZE];
    if (qkv_safetensors_read(&file, path, false, &ignored)) return false;
    for (int64_t k = 0; k < count; k++) {
        snprintf(key, sizeof key, "average.%lld", (long long)k + 1);
        const char *averaged = qkv_safetensors_metadata(&file, key);
        for (int64_t i = 0; averaged && i < count; i++) {
            qkv_numbered_name(name, NUMBERED_UPDATE, progress->best[i].update);
            listed += !strcmp(averaged, name);
        }
    }
    snprintf(key, sizeof key, "average.%lld", (long long)count + 1);
    bool has_more = qkv_safetensors_metadata(&file, key);
    qkv_safetensors_release(&file);
    return listed == count && !has_more;
}

enum qkv_status qkv_final_average_restore(struct training *training, struct qkv_error *error)
{
    bool is_finished = qkv_training_is_finished(training);
    if (is_finished && !training->config->testing.average) return QKV_OK; /* keeps one of `qkv average` */
    const char *path = path_of(training);
    if (!path) return qkv_error_set(error, "out of memory");
    if (is_finished && is_of_best(training, path)) {
        training->kept_average.checkpoints = count_of(training);
        return QKV_OK;
    }
    const struct qkv_train_listener *listener = training->options->listener;
    if (unlink(path) == 0) {
        if (!training->config->testing.average && listener && listener->notice)
            listener->notice(listener->context,
                             "average.safetensors is deleted, because training goes on: make a "
                             "new one with qkv average when it ends");
        return QKV_OK;
    }
    if (errno == ENOENT) return QKV_OK;
    return qkv_error_set(error, "%s: cannot be removed: %s", path, strerror(errno));
}
