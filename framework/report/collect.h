/* Private: the last forced pass of a collector, for a program that needs more of it than the
 * weights. */
#ifndef QKV_REPORT_COLLECT_H
#define QKV_REPORT_COLLECT_H

#include "qkv/attention_collect.h"
#include "report/value_norms.h"

/* The parts of the last pass, valid until the next pass. */
const struct qkv_trace *qkv_attention_collector_trace(const struct qkv_attention_collector *collector);

/* As qkv_attention_collector_measure_norms, with norms that the caller keeps, such as those that several collectors share. NULL:
 * weights. */
void qkv_attention_collector_set_norms(struct qkv_attention_collector *collector,
                                       const struct value_norms *norms);

#endif
