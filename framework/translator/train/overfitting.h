/* The rule by which training notices, and `qkv plot` marks, that a model overfits: three validations in a row whose loss
 * is well above the lowest one, while the loss of training has fallen since then. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

/* What the rule remembers; all zero at first. */
struct qkv_overfitting {
    int64_t best_update; /* of the validation with the lowest loss, after which overfitting begins; 0: none */
    double best_dev, best_train; /* losses there, nats per token */
    double dev, train;           /* losses at the last validation */
    int64_t risen;               /* last validations in a row that show overfitting */
};

/* Adds a validation: the loss of data.dev, and the mean loss of training since the validation before, both in nats per
 * token. True when the model overfits since best_update. */
bool qkv_overfitting_add(struct qkv_overfitting *overfitting, int64_t update, double train, double dev);
