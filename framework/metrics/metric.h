/* What a metric of texts provides: metrics/<name>.c defines qkv_text_metric_<name>, for its TEXT_METRIC row of
 * qkv/metrics.def. */
#ifndef QKV_METRICS_METRIC_H
#define QKV_METRICS_METRIC_H

#include "qkv/metrics.h"

struct qkv_text_metric {
    size_t size; /* of the accumulator, `state`, which is all zero before `init` */
    void (*init)(void *state, const struct qkv_text_options *options);
    enum qkv_status (*add)(void *state, const char *hypothesis, const char *const *references, int64_t count,
                           struct qkv_error *error);
    double (*score)(const void *state);
    void (*signature)(const void *state, char *text, size_t size); /* NULL: none */
    void (*release)(void *state);
};

#define METRIC(...)
#define TEXT_METRIC(NAME, name, ...) extern const struct qkv_text_metric qkv_text_metric_##name;
#include "qkv/metrics.def"

#endif
