/* Schedules of the learning rate. */
#include "checkpoint/safetensors.h"
#include "optimize/optimize.h"

#include "core/numbers.h"

#include <math.h>

/* How far update `t` is on the way from the end of the warm-up (0) to the last update (1). */
static double progress(const struct qkv_schedule *schedule, double t)
{
    double start = schedule->warmup > 0 ? (double)schedule->warmup : 1, end = (double)schedule->updates;
    if (t <= start) return 0;
    return t < end ? (t - start) / (end - start) : 1;
}

static double decreased(const struct qkv_schedule *schedule, int64_t times)
{
    double rate = schedule->learning_rate * qkv_scalar_power(schedule->decrease_factor, (double)times);
    return rate > schedule->minimum ? rate : schedule->minimum;
}

/* From 0 to 1 during the warm-up, then 1. */
static double warmup_factor(const struct qkv_schedule *schedule, double t)
{
    return t < (double)schedule->warmup ? t / (double)schedule->warmup : 1;
}

/* ---- the formulas of optimizer.h, each <name>_rate; t: number of the update, from 1 ---- */

static double constant_rate(const struct qkv_schedule *schedule, double t, int64_t epochs)
{
    (void)epochs;
    return warmup_factor(schedule, t) * schedule->learning_rate;
}

static double noam_rate(const struct qkv_schedule *schedule, double t, int64_t epochs)
{
    (void)epochs;
    return schedule->factor * qkv_scalar_power((double)schedule->hidden_size, -0.5) *
           fmin(qkv_scalar_power(t, -0.5), t * qkv_scalar_power((double)schedule->warmup, -1.5));
}

static double inverse_sqrt_rate(const struct qkv_schedule *schedule, double t, int64_t epochs)
{
    (void)epochs;
    double lr = schedule->learning_rate, warmup = (double)schedule->warmup;
    return t < warmup ? lr * warmup_factor(schedule, t) : lr * sqrt(warmup / t);
}

static double linear_rate(const struct qkv_schedule *schedule, double t, int64_t epochs)
{
    (void)epochs;
    double lr = schedule->learning_rate, minimum = schedule->minimum;
    if (t < (double)schedule->warmup) return lr * warmup_factor(schedule, t);
    return minimum + (lr - minimum) * (1 - progress(schedule, t));
}

static double cosine_rate(const struct qkv_schedule *schedule, double t, int64_t epochs)
{
    (void)epochs;
    const double pi = 3.14159265358979323846;
    double lr = schedule->learning_rate, minimum = schedule->minimum;
    if (t < (double)schedule->warmup) return lr * warmup_factor(schedule, t);
    return minimum + (lr - minimum) * (1 + qkv_scalar_cos(pi * progress(schedule, t))) / 2;
}

static double exponential_rate(const struct qkv_schedule *schedule, double t, int64_t epochs)
{
    return warmup_factor(schedule, t) * decreased(schedule, epochs);
}

static double plateau_rate(const struct qkv_schedule *schedule, double t, int64_t epochs)
{
    (void)epochs;
    return warmup_factor(schedule, t) * decreased(schedule, schedule->plateau.decreases);
}

static const struct {
    double (*rate)(const struct qkv_schedule *schedule, double t, int64_t epochs);
    bool follows_validations;
} SCHEDULES[QKV_SCHEDULE_COUNT] = {
#define SCHEDULE(NAME, name, follows_validations, ...)                                                       \
    [QKV_SCHEDULE_##NAME] = {name##_rate, follows_validations},
#include "qkv/schedules.def"
};

static bool exists(const struct qkv_schedule *schedule)
{
    int kind = (int)schedule->kind;
    return kind >= 0 && kind < QKV_SCHEDULE_COUNT;
}

static bool follows_validations(const struct qkv_schedule *schedule)
{
    return exists(schedule) && SCHEDULES[schedule->kind].follows_validations;
}

double qkv_schedule_rate(const struct qkv_schedule *schedule, int64_t update, int64_t epochs)
{
    if (!exists(schedule)) return (double)NAN;
    return SCHEDULES[schedule->kind].rate(schedule, (double)update, epochs);
}

/* ---- validations ---- */

bool qkv_schedule_record_validation(struct qkv_schedule *schedule, double score, bool higher_is_better)
{
    if (!follows_validations(schedule)) return false;
    double best = schedule->plateau.best;
    bool is_better =
        !isnan(score) && (!schedule->plateau.has_best || (higher_is_better ? score > best : score < best));
    if (is_better) {
        schedule->plateau.has_best = true;
        schedule->plateau.best = score;
        schedule->plateau.waited = 0;
        return false;
    }
    if (++schedule->plateau.waited <= schedule->patience) return false;
    schedule->plateau.waited = 0;
    schedule->plateau.decreases++;
    return true;
}

void qkv_schedule_save(const struct qkv_schedule *schedule, struct qkv_state *state)
{
    if (!follows_validations(schedule)) return;
    qkv_state_set_integer(state, "schedule.plateau.seen", schedule->plateau.has_best);
    qkv_state_set_number(state, "schedule.plateau.best", schedule->plateau.best);
    qkv_state_set_integer(state, "schedule.plateau.waited", schedule->plateau.waited);
    qkv_state_set_integer(state, "schedule.plateau.decreases", schedule->plateau.decreases);
}

enum qkv_status qkv_schedule_restore(struct qkv_schedule *schedule, const struct qkv_state *state,
                                     struct qkv_error *error)
{
    if (!follows_validations(schedule)) return QKV_OK;
    int64_t has_best, waited, decreases;
    double best;
    if (qkv_state_get_count(state, "schedule.plateau.seen", &has_best, error) ||
        qkv_state_get_number(state, "schedule.plateau.best", &best, error) ||
        qkv_state_get_count(state, "schedule.plateau.waited", &waited, error) ||
        qkv_state_get_count(state, "schedule.plateau.decreases", &decreases, error))
        return QKV_INVALID;
    schedule->plateau.has_best = has_best != 0;
    schedule->plateau.best = best;
    schedule->plateau.waited = waited;
    schedule->plateau.decreases = decreases;
    return QKV_OK;
}
