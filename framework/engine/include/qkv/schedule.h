/* The learning rate of each update: a function of the update number and, for two of the schedules, of the finished epochs
 * or validations.
 *
 * Example:
 *     struct qkv_schedule schedule = {
 *         .kind = QKV_SCHEDULE_INVERSE_SQRT, .learning_rate = 1e-3, .warmup = 4000};
 *     printf("%g\n", qkv_schedule_rate(&schedule, 1, 0));
 *
 * A schedule is one row of qkv/schedules.def and one formula in framework/engine/optimize/schedule.c. With t the number
 * of the update, from 1; w the updates of the warm-up; D the width of the model; and of the struct: lr its
 * learning_rate, min its minimum:
 *
 *     constant      lr
 *     noam          factor D^-0.5 min(t^-0.5, t w^-1.5)   Vaswani et al. 2017, as in Joey NMT; ignores lr
 *     inverse_sqrt  lr sqrt(w / t)                        the same shape with its peak at lr
 *     linear        min + (lr - min) (1 - p)
 *     cosine        min + (lr - min) (1 + cos(pi p)) / 2  Loshchilov and Hutter 2017, without restarts
 *     exponential   max(min, lr decrease_factor^e)        e: finished epochs
 *     plateau       max(min, lr decrease_factor^k)        k: decreases, see qkv_schedule_record_validation
 *
 * p grows from 0 at the end of the warm-up (at update 1 without one) to 1 at the last update, and stays 1.
 *
 * During a warm-up (updates before w), inverse_sqrt, linear and cosine are lr t / w; constant, exponential and plateau are
 * multiplied by t / w; noam has a warm-up of its own. During a warm-up the rate may be below min. noam and inverse_sqrt
 * need a warm-up, linear and cosine the number of updates. A struct that a program fills in is not checked: without a
 * warm-up inverse_sqrt returns 0, and with a hidden size of 0 noam returns
 * infinity. */
#ifndef QKV_SCHEDULE_H
#define QKV_SCHEDULE_H

#include "qkv/base.h"
#include "qkv/checkpoint.h"

/* Caller's storage, which the caller fills in, but for `plateau`, which begins all zero. A field that the formula of the kind
 * does not have is not read. */
struct qkv_schedule {
    enum qkv_schedule_kind kind;
    /* In the formulas: lr, factor, min, decrease_factor */
    double learning_rate, factor, minimum, decrease_factor;
    int64_t warmup, updates; /* in updates: w, and the length of the training */
    int64_t patience;        /* in validations */
    int64_t hidden_size;     /* D */

    /* Validations so far, for schedules that follow them (plateau); a checkpoint keeps this. */
    struct {
        bool has_best;
        double best;       /* best score of a validation so far */
        int64_t waited;    /* validations since the best one, or since the last decrease */
        int64_t decreases; /* k */
    } plateau;
};

/* The learning rate of update number `update` (from 1), when `epochs` epochs are finished (0 during the first). NaN for an
 * unknown kind. */
QKV_API double qkv_schedule_rate(const struct qkv_schedule *schedule, int64_t update, int64_t epochs);

/* Records the score of a validation; has an effect only on schedules that follow validations. After more than
 * patience validations in a row without a new best score (strictly better; NaN never is), the
 * rate decreases and the count starts again, as in PyTorch's ReduceLROnPlateau with threshold 0. Returns true
 * when the rate decreases. */
QKV_API bool qkv_schedule_record_validation(struct qkv_schedule *schedule, double score,
                                            bool higher_is_better);

/* Saves the record of validations in the state of a checkpoint, under `schedule.*`, and restores it. Schedules
 * that do not follow validations save nothing. Restoring fails, and changes nothing, when a value is missing
 * or is not a number. */
QKV_API void qkv_schedule_save(const struct qkv_schedule *schedule, struct qkv_state *state);
QKV_API enum qkv_status qkv_schedule_restore(struct qkv_schedule *schedule, const struct qkv_state *state,
                                             struct qkv_error *error);

#endif
