/* Averages the parameters of several checkpoints of one run, as Vaswani et al. 2017 do before testing: the mean often
 * translates better than each of the checkpoints.
 *
 * Example:
 *     struct qkv_error error = {""};
 *     struct qkv_average average;
 *     if (qkv_run_average("runs/toy_en_es", QKV_AVERAGE_BEST, 3, "average", &average, &error))
 *         fprintf(stderr, "%s\n", error.message);
 *     else
 *         printf("mean of %lld checkpoints\n", (long long)average.count);
 */
#ifndef QKV_AVERAGE_H
#define QKV_AVERAGE_H

#include "qkv/base.h"

#include <stdint.h>

/* Which checkpoints to average. */
enum qkv_average_choice {
    QKV_AVERAGE_LAST, /* the last ones: training keeps training.keep_last_ckpts */
    QKV_AVERAGE_BEST, /* the best ones by training.early_stopping_metric: training keeps training.keep_best_ckpts */
};

enum { QKV_AVERAGE_MAX = 64 }; /* most checkpoints of an average */

struct qkv_average {
    int64_t count;                   /* checkpoints */
    int64_t update[QKV_AVERAGE_MAX]; /* [count]: their updates, ascending */
};

/* Writes the checkpoint `<name>.safetensors` of the run folder `run`: the mean of `count` checkpoints, number by number,
 * computed in float64 in the order of their updates and rounded once to float32, so that it has the same bits on every
 * processor. Memory does not grow with `count`. The file has no moments. Its metadata is that of the newest
 * checkpoint, with `average.choice` (last or best), `average.count`, and `average.1`, `average.2`, ...: the files, in
 * the order of their updates. qkv_run_open opens it like every other checkpoint.
 *
 * An existing file of that name is replaced. Fails, and writes nothing, when the folder is not a run; when it keeps
 * fewer than `count` such checkpoints (last.safetensors lists them), or `count` is not from 1 to QKV_AVERAGE_MAX; when a
 * checkpoint is missing, damaged, or of another model; and when `name` is a path, or a name that training writes: last,
 * best, update-N, snapshot-N. QKV_FAILED: a checkpoint holds infinity or NaN. */
QKV_API enum qkv_status qkv_run_average(const char *run, enum qkv_average_choice choice, int64_t count,
                                        const char *name, struct qkv_average *average,
                                        struct qkv_error *error);

#endif
