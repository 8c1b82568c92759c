/* Private: access to the statistics of a scorer, for the bootstrap. */
#ifndef QKV_METRICS_SCORER_H
#define QKV_METRICS_SCORER_H

#include "metrics/metric.h"

struct qkv_statistics {
    int width;                       /* numbers of each */
    double last[QKV_STATISTICS_MAX]; /* of the segment that was added last */
    double next[QKV_STATISTICS_MAX]; /* of the segment that is being added */
    double sums[QKV_STATISTICS_MAX];
};

/* The score of a text metric for sums of its statistics. */
double qkv_scorer_score_of(const struct qkv_scorer *scorer, int m, const double *sums);

#endif
