/* The learning rate of each update: a pure function of the number of the update and, for two kinds, of what
 * has happened so far (finished epochs, validations).
 *
 * With t the number of the update, from 1; w the warm-up; lr the learning_rate of the config, and min its
 * floor:
 *
 *     constant      lr
 *     noam          factor D^-0.5 min(t^-0.5, t w^-1.5)   Vaswani et al. 2017, as in Joey NMT; ignores lr
 *     inverse_sqrt  lr sqrt(w / t)                        the same shape with its peak at lr
 *     linear        min + (lr - min) (1 - p)
 *     cosine        min + (lr - min) (1 + cos(pi p)) / 2  Loshchilov and Hutter 2017, without restarts
 *     exponential   max(min, lr decrease_factor^e)        e: finished epochs
 *     plateau       max(min, lr decrease_factor^k)        k: decreases, see qkv_schedule_validated
 *
 * where p runs from 0 at the end of the warm-up (at update 1 without one) to 1 at the last update, and stays.
 *
 * Every kind warms up where learning_rate_warmup is above 0: up to update w, what stands above is replaced by
 * lr t / w for inverse_sqrt, linear and cosine, and multiplied by t / w for constant, exponential and
 * plateau; noam has it built in. During the warm-up a rate may lie below the floor. noam and inverse_sqrt
 * need a warm-up, linear and cosine the number of updates; the config refuses to go without. */
#ifndef QKV_SCHEDULE_H
#define QKV_SCHEDULE_H

#include "qkv/checkpoint.h"
#include "qkv/config.h"

/* Caller's storage. */
struct qkv_schedule {
    enum qkv_schedule_kind kind;
    double learning_rate, factor, minimum, decrease_factor;
    int64_t warmup, updates, patience, hidden_size;

    /* What plateau has seen; a checkpoint keeps it. */
    struct {
        bool seen;         /* whether `best` is set */
        double best;       /* best score of a validation so far */
        int64_t waited;    /* validations since then, or since the last decrease */
        int64_t decreases; /* k */
    } plateau;
};

/* Takes the settings from the config. `hidden_size` is D, the width of the model. */
QKV_API void qkv_schedule_init(struct qkv_schedule *schedule, const struct qkv_training_config *config,
                               int64_t hidden_size);

/* The learning rate of update number `update` (from 1), when `epochs` epochs are finished (0 during the
 * first). */
QKV_API double qkv_schedule_rate(const struct qkv_schedule *schedule, int64_t update, int64_t epochs);

/* Tells the result of a validation; only plateau listens. When more than learning_rate_patience validations
 * in a row have not brought a new best (strictly better; NaN never is), the rate is decreased and the count
 * starts again: what PyTorch's ReduceLROnPlateau does with a threshold of 0. Returns whether the rate was
 * decreased. */
QKV_API bool qkv_schedule_validated(struct qkv_schedule *schedule, double score, bool higher_is_better);

/* Puts what plateau has seen into a checkpoint's state, under `schedule.*`, and takes it from there. Other
 * kinds have nothing to keep. Restoring fails, and changes nothing, when a number is missing or is none. */
QKV_API void qkv_schedule_save(const struct qkv_schedule *schedule, struct qkv_state *state);
QKV_API enum qkv_status qkv_schedule_restore(struct qkv_schedule *schedule, const struct qkv_state *state,
                                             struct qkv_error *error);

#endif
