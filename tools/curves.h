/* Curves of the values that runs record while they train. Runs that differ only in their seed give one curve, their mean. */
#ifndef QKV_TOOLS_CURVES_H
#define QKV_TOOLS_CURVES_H

#include "run_set.h"

/* A recorded quantity: of training, or the score of the dev set by the metric `quantity - QUANTITY_SCORES`. */
enum quantity { QUANTITY_LOSS, QUANTITY_LEARNING_RATE, QUANTITY_GRADIENT_NORM, QUANTITY_SCORES };

enum curve_axis { CURVE_UPDATES, CURVE_TOKENS, CURVE_TIME };

/* [count]; y is the mean over seeds, low and high the ends of its standard deviation. low NULL: one run. */
struct curve {
    int64_t count;
    double *update, *x, *y, *low, *high;
};

/* Reads a curve of a group, in its arena. It has the updates for which all runs of the group have a number. Scores are
 * shares or points as recorded. False: no memory. */
bool curve_read(struct run_set *set, int group, enum quantity quantity, enum curve_axis axis,
                struct curve *curve);

/* Curves show the training loss without label smoothing, if the run has recorded it. True when a group has not, although its
 * objective is not the plain cross-entropy. */
bool curve_is_smoothed(const struct run_set *set, int group);

/* The point of the best validation, by training.early_stopping_metric; -1: none. */
int64_t curve_best(struct run_set *set, int group);

/* The point of the curve of the dev loss after which the model overfits, by the rule of train/overfitting.h; -1: none.
 * `train` is the curve of the loss of training. */
int64_t curve_overfits(const struct curve *train, const struct curve *dev);

#endif
