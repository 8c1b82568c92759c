#include "curves.h"

#include "train/overfitting.h"

#include <math.h>

/* ---- the records of one run ---- */

struct record {
    struct qkv_log_place place;
    double value;
};

static int64_t record_count(const struct recorded_run *run, enum quantity quantity)
{
    return quantity < QUANTITY_SCORES ? run->log.intervals : run->log.validations;
}

static struct record record_at(const struct recorded_run *run, enum quantity quantity, int64_t i)
{
    if (quantity >= QUANTITY_SCORES) {
        const struct qkv_log_validation *validation = &run->log.validation[i];
        return (struct record){validation->place, validation->score[quantity - QUANTITY_SCORES]};
    }
    const struct qkv_log_interval *interval = &run->log.interval[i];
    double loss = isfinite(interval->cross_entropy) ? interval->cross_entropy : interval->loss;
    return (struct record){interval->place, quantity == QUANTITY_LOSS            ? loss
                                            : quantity == QUANTITY_LEARNING_RATE ? interval->learning_rate
                                                                                 : interval->gradient_norm};
}

static double x_of(const struct qkv_log_place *place, enum curve_axis axis)
{
    return axis == CURVE_TIME ? place->seconds : axis == CURVE_TOKENS ? place->tokens : place->update;
}

/* Finds the record of an update. The search begins at *from, and sets *from to the index where it ended. */
static bool find_update(const struct recorded_run *run, enum quantity quantity, double update, int64_t *from,
                        struct record *found)
{
    for (; *from < record_count(run, quantity); ++*from) {
        *found = record_at(run, quantity, *from);
        if (found->place.update >= update) return found->place.update <= update;
    }
    return false;
}

/* ---- curves ---- */

/* Adds the point of an update, unless a run of the group has no record of it. */
static void add_point(const struct run_set *set, const struct run_group *group, enum quantity quantity,
                      enum curve_axis axis, double update, int64_t from[RUN_SET_MAX], struct curve *curve)
{
    double x = 0, sum = 0, squares = 0, runs = group->runs;
    double value[RUN_SET_MAX];
    for (int i = 0; i < group->runs; i++) {
        struct record record;
        if (!find_update(&set->run[group->run[i]], quantity, update, &from[i], &record)) return;
        x += x_of(&record.place, axis);
        sum += value[i] = record.value;
    }
    if (!isfinite(x) || !isfinite(sum)) return;
    double mean = sum / runs;
    for (int i = 0; i < group->runs; i++) squares += (value[i] - mean) * (value[i] - mean);
    int64_t n = curve->count++;
    curve->update[n] = update;
    curve->x[n] = x / runs;
    curve->y[n] = mean;
    if (!curve->low) return;
    double deviation = sqrt(squares / (runs - 1));
    curve->low[n] = fmax(mean - deviation, 0);
    curve->high[n] = mean + deviation;
}

bool curve_read(struct run_set *set, int g, enum quantity quantity, enum curve_axis axis, struct curve *curve)
{
    const struct run_group *group = &set->group[g];
    const struct recorded_run *first = &set->run[group->run[0]];
    int64_t count = record_count(first, quantity), from[RUN_SET_MAX] = {0};
    double *memory = qkv_arena_allocate(&set->arena, (size_t)(5 * count + 1) * sizeof *memory);
    *curve = (struct curve){0};
    if (!memory) return false;
    curve->update = memory;
    curve->x = memory + count;
    curve->y = memory + 2 * count;
    curve->low = group->runs > 1 ? memory + 3 * count : NULL;
    curve->high = group->runs > 1 ? memory + 4 * count : NULL;
    for (int64_t i = 0; i < count; i++)
        add_point(set, group, quantity, axis, record_at(first, quantity, i).place.update, from, curve);
    return true;
}

bool curve_is_smoothed(const struct run_set *set, int g)
{
    const struct recorded_run *run = &set->run[set->group[g].run[0]];
    const struct qkv_training_config *training = &run->config.training;
    bool records = run->log.intervals && isfinite(run->log.interval[run->log.intervals - 1].cross_entropy);
    return !records && (training->label_smoothing > 0 || training->r_drop > 0 || training->simcut > 0 ||
                        training->guided_alignment > 0);
}

int64_t curve_best(struct run_set *set, int g)
{
    enum qkv_metric metric = set->run[set->group[g].run[0]].config.training.early_stopping_metric;
    struct curve curve;
    int64_t best = -1;
    if (!curve_read(set, g, (enum quantity)(QUANTITY_SCORES + (int)metric), CURVE_UPDATES, &curve)) return -1;
    for (int64_t i = 0; i < curve.count; i++)
        if (best < 0 || qkv_metric_is_better(metric, curve.y[i], curve.y[best])) best = i;
    return best;
}

int64_t curve_overfits(const struct curve *train, const struct curve *dev)
{
    struct qkv_overfitting overfitting = {0};
    int64_t at = 0;
    double mean = (double)NAN;
    for (int64_t i = 0; i < dev->count; i++) {
        double sum = 0, count = 0;
        for (; at < train->count && train->update[at] <= dev->update[i]; at++, count++) sum += train->y[at];
        if (count > 0) mean = sum / count; /* otherwise the mean of the previous interval is still valid */
        if (!isfinite(mean)) continue;
        if (!qkv_overfitting_add(&overfitting, (int64_t)dev->update[i], mean, dev->y[i])) continue;
        for (int64_t best = 0; best < dev->count; best++)
            if ((int64_t)dev->update[best] == overfitting.best_update) return best;
    }
    return -1;
}
