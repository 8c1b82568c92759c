#include "train/overfitting.h"

enum { PATIENCE = 3 }; /* validations in a row that show overfitting */

/* A validation shows overfitting if, since the best validation, the loss of the dev set has risen by RISE nats and by the
 * share RELATIVE_RISE, and the loss of training has fallen to FALL of its value then. Smaller changes are noise. */
static const double RISE = 0.1, RELATIVE_RISE = 0.03, FALL = 0.97;

bool qkv_overfitting_add(struct qkv_overfitting *overfitting, int64_t update, double train, double dev)
{
    if (!overfitting->best_update || dev < overfitting->best_dev) {
        *overfitting = (struct qkv_overfitting){update, dev, train, dev, train, .risen = 0};
        return false;
    }
    overfitting->dev = dev;
    overfitting->train = train;
    double rise = dev - overfitting->best_dev;
    bool risen = rise >= RISE && rise >= RELATIVE_RISE * overfitting->best_dev;
    overfitting->risen = risen && train <= FALL * overfitting->best_train ? overfitting->risen + 1 : 0;
    return overfitting->risen >= PATIENCE;
}

bool qkv_overfitting_stuck(const struct qkv_overfitting *overfitting)
{
    return overfitting->train <= FALL * overfitting->best_train && overfitting->train < overfitting->dev;
}
