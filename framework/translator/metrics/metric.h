/* The functions of a metric that compares texts. For each TEXT_METRIC row of qkv/metrics.def, metrics/<name>.c defines one
 * struct, qkv_text_metric_<name>. A metric counts numbers for each segment, its statistics, whose sums over all segments
 * determine the score; the scorer (scores.c) adds them up. */
#ifndef QKV_METRICS_METRIC_H
#define QKV_METRICS_METRIC_H

#include "qkv/metrics.h"

enum { QKV_STATISTICS_MAX = 3 * QKV_CHRF_ORDERS }; /* of any metric */

struct qkv_text_metric {
    /* Refuses options that are out of range. NULL: all are allowed. */
    enum qkv_status (*check)(const struct qkv_text_options *options, struct qkv_error *error);
    int (*width)(const struct qkv_text_options *options); /* how many statistics there are */
    /* Computes the statistics of a segment with `count` references (1 or more). False when memory, which it takes from the
     * arena, runs out. */
    bool (*compare)(const struct qkv_text_options *options, struct qkv_arena *arena, const char *hypothesis,
                    const char *const *references, int64_t count, double *statistics);
    double (*score)(const struct qkv_text_options *options, const double *sums);
    /* Writes the numbers that the score was computed from, at most QKV_METRIC_DETAILS; returns how many. NULL: none. */
    int (*details)(const struct qkv_text_options *options, const double *sums,
                   struct qkv_metric_detail *details);
    /* Writes the title, if it depends on the options. NULL: the title of the row. */
    void (*title)(const struct qkv_text_options *options, char *text, size_t size);
    /* Writes the part of the signature that is the metric's own, such as `eff:no|tok:13a`; returns whether case counts. */
    bool (*sign)(const struct qkv_text_options *options, char *text, size_t size);
};

#define METRIC(...)
#define TEXT_METRIC(NAME, name, ...) extern const struct qkv_text_metric qkv_text_metric_##name;
#include "qkv/metrics.def"

#endif
