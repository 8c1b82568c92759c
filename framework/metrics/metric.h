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
    /* The numbers of a segment whose sums over segments give the score: how many (`statistics`), those of the segment that
     * was added last (`last`), and the score of such sums, as if their segments had been added (`score_of`). */
    int (*statistics)(const void *state);
    void (*last)(const void *state, double *statistics);
    double (*score_of)(const void *state, const double *statistics);
    /* Fills in the numbers behind the score, at most QKV_METRIC_DETAILS; returns how many. NULL: none. */
    int (*details)(const void *state, struct qkv_metric_detail *details);
    /* The title where it depends on the options. NULL: the one of the row. */
    void (*title)(const void *state, char *text, size_t size);
    void (*signature)(const void *state, char *text, size_t size); /* NULL: none */
    void (*release)(void *state);
};

#define METRIC(...)
#define TEXT_METRIC(NAME, name, ...) extern const struct qkv_text_metric qkv_text_metric_##name;
#include "qkv/metrics.def"

#endif
