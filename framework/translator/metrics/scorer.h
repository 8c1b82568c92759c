/* Private: access to the accumulators of a scorer, for the bootstrap. */
#ifndef QKV_METRICS_SCORER_H
#define QKV_METRICS_SCORER_H

#include "metrics/metric.h"

/* The functions of metric `m`; NULL when the scorer does not compute it, or no text was added. */
const struct qkv_text_metric *qkv_scorer_metric(const struct qkv_scorer *scorer, int m);

#endif
