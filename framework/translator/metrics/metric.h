/* The functions of a metric that compares texts. For each TEXT_METRIC row of qkv/metrics.def,
 * metrics/<name>.c defines one struct, qkv_text_metric_<name>. */
#ifndef QKV_METRICS_METRIC_H
#define QKV_METRICS_METRIC_H

#include "qkv/metrics.h"

struct qkv_text_metric {
    size_t size;    /* of the accumulator `state` in bytes; its bytes are all zero before `init` */
    size_t scratch; /* offset in `state` of the arena that `add` works in */
    void (*init)(void *state, const struct qkv_text_options *options);
    enum qkv_status (*add)(void *state, const char *hypothesis, const char *const *references, int64_t count,
                           struct qkv_error *error);
    double (*score)(const void *state);
    /* Statistics of a segment are numbers whose sums over segments determine the score. `statistics` returns how many there
     * are, `last` those of the segment that was added last, and `score_of` the score for sums of statistics. */
    int (*statistics)(const void *state);
    void (*last)(const void *state, double *statistics);
    double (*score_of)(const void *state, const double *statistics);
    /* Writes the numbers that the score was computed from, at most QKV_METRIC_DETAILS; returns how many. NULL: none. */
    int (*details)(const void *state, struct qkv_metric_detail *details);
    /* Writes the title, if it depends on the options. NULL: the title of the row. */
    void (*title)(const void *state, char *text, size_t size);
    void (*signature)(const void *state, char *text, size_t size); /* NULL: none */
    void (*release)(void *state);
};

#define METRIC(...)
#define TEXT_METRIC(NAME, name, ...) extern const struct qkv_text_metric qkv_text_metric_##name;
#include "qkv/metrics.def"

#endif
