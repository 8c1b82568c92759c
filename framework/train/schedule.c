#include "qkv/schedule.h"

#include <math.h>

void qkv_schedule_init(struct qkv_schedule *schedule, const struct qkv_training_config *config,
                       int64_t hidden_size)
{
    *schedule = (struct qkv_schedule){
        .kind = config->scheduling,
        .learning_rate = config->learning_rate,
        .factor = config->learning_rate_factor,
        .minimum = config->learning_rate_min,
        .decrease_factor = config->decrease_factor,
        .warmup = config->learning_rate_warmup,
        .updates = config->updates,
        .patience = config->learning_rate_patience,
        .hidden_size = hidden_size,
    };
}

/* How far update `t` is on the way from the end of the warm-up (0) to the last update (1). */
static double progress(const struct qkv_schedule *schedule, double t)
{
    double start = schedule->warmup > 0 ? (double)schedule->warmup : 1, end = (double)schedule->updates;
    if (t <= start) return 0;
    return t < end ? (t - start) / (end - start) : 1;
}

static double decreased(const struct qkv_schedule *schedule, int64_t times)
{
    double rate = schedule->learning_rate * pow(schedule->decrease_factor, (double)times);
    return rate > schedule->minimum ? rate : schedule->minimum;
}

double qkv_schedule_rate(const struct qkv_schedule *schedule, int64_t update, int64_t epochs)
{
    const double pi = 3.14159265358979323846;
    double lr = schedule->learning_rate, minimum = schedule->minimum;
    double t = (double)update, warmup = (double)schedule->warmup;
    double warm = t < warmup ? t / warmup : 1;
    switch (schedule->kind) {
    case QKV_SCHEDULE_CONSTANT:
        break;
    case QKV_SCHEDULE_NOAM:
        return schedule->factor * pow((double)schedule->hidden_size, -0.5) *
               fmin(pow(t, -0.5), t * pow(warmup, -1.5));
    case QKV_SCHEDULE_INVERSE_SQRT:
        return t < warmup ? lr * warm : lr * sqrt(warmup / t);
    case QKV_SCHEDULE_LINEAR:
        return t < warmup ? lr * warm : minimum + (lr - minimum) * (1 - progress(schedule, t));
    case QKV_SCHEDULE_COSINE:
        return t < warmup ? lr * warm : minimum + (lr - minimum) * (1 + cos(pi * progress(schedule, t))) / 2;
    case QKV_SCHEDULE_EXPONENTIAL:
        return warm * decreased(schedule, epochs);
    case QKV_SCHEDULE_PLATEAU:
        return warm * decreased(schedule, schedule->plateau.decreases);
    }
    return warm * lr;
}

bool qkv_schedule_validated(struct qkv_schedule *schedule, double score, bool higher_is_better)
{
    if (schedule->kind != QKV_SCHEDULE_PLATEAU) return false;
    double best = schedule->plateau.best;
    bool progressed =
        !isnan(score) && (!schedule->plateau.seen || (higher_is_better ? score > best : score < best));
    if (progressed) {
        schedule->plateau.seen = true;
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
    if (schedule->kind != QKV_SCHEDULE_PLATEAU) return;
    qkv_state_set_integer(state, "schedule.plateau.seen", schedule->plateau.seen);
    qkv_state_set_number(state, "schedule.plateau.best", schedule->plateau.best);
    qkv_state_set_integer(state, "schedule.plateau.waited", schedule->plateau.waited);
    qkv_state_set_integer(state, "schedule.plateau.decreases", schedule->plateau.decreases);
}

enum qkv_status qkv_schedule_restore(struct qkv_schedule *schedule, const struct qkv_state *state,
                                     struct qkv_error *error)
{
    if (schedule->kind != QKV_SCHEDULE_PLATEAU) return QKV_OK;
    int64_t seen, waited, decreases;
    double best;
    if (qkv_state_get_integer(state, "schedule.plateau.seen", &seen, error) ||
        qkv_state_get_number(state, "schedule.plateau.best", &best, error) ||
        qkv_state_get_integer(state, "schedule.plateau.waited", &waited, error) ||
        qkv_state_get_integer(state, "schedule.plateau.decreases", &decreases, error))
        return QKV_INVALID;
    schedule->plateau.seen = seen != 0;
    schedule->plateau.best = best;
    schedule->plateau.waited = waited;
    schedule->plateau.decreases = decreases;
    return QKV_OK;
}
