/* Private: paired bootstrap resampling (Koehn 2004): tests whether one system is better than another or the difference of their
 * scores is chance. The same translated segments are drawn again and again, with replacement, and every draw is scored for
 * each system.
 *
 * The first system is the one that all others are compared with. Samples, p values and intervals are those of sacreBLEU 2
 * with NumPy for the same seed, except that sacreBLEU rounds scores to float32. */
#ifndef QKV_METRICS_BOOTSTRAP_H
#define QKV_METRICS_BOOTSTRAP_H

#include "qkv/metrics.h"

struct qkv_bootstrap;

/* NULL, with a message, when `systems` is below 1 or memory runs out. */
struct qkv_bootstrap *qkv_bootstrap_new(const struct qkv_text_options *options, int systems,
                                        struct qkv_error *error);

/* Adds one segment: the translation of each system, and its `count` references. After a failure the object can only be
 * freed. Keeps some 150 bytes for each system. */
enum qkv_status qkv_bootstrap_add(struct qkv_bootstrap *bootstrap, const char *const *translations,
                                  const char *const *references, int64_t count, struct qkv_error *error);

/* Draws `samples` samples, each with as many segments as were added. Fails without segments or samples, or when memory is
 * out. */
enum qkv_status qkv_bootstrap_run(struct qkv_bootstrap *bootstrap, int64_t samples, uint32_t seed,
                                  struct qkv_error *error);

/* One metric of one system. */
struct qkv_bootstrap_result {
    double score;          /* of all segments */
    double mean, interval; /* of the samples: mean and half of the 95 % interval: mean +- interval */
    /* Probability of a difference from the first system at least this large under the null hypothesis that the
     * systems are equal; 1 for the first system. With equal scores it is 1/(samples + 1), its lowest value, and has
     * no meaning. */
    double p_value;
};

/* The results of the last run; all zero before it, and for a system or text metric that does not exist. */
struct qkv_bootstrap_result qkv_bootstrap_result(const struct qkv_bootstrap *bootstrap, int system,
                                                 enum qkv_metric metric);

/* The accumulator of a system, for titles, signatures and details; NULL for a system that does not exist. */
const struct qkv_scorer *qkv_bootstrap_scorer(const struct qkv_bootstrap *bootstrap, int system);

void qkv_bootstrap_free(struct qkv_bootstrap *bootstrap);

#endif
