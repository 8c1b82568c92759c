/* Private: access to the last forced pass of a collector, for code that needs more than the weights. */
#ifndef QKV_REPORT_COLLECT_H
#define QKV_REPORT_COLLECT_H

#include "qkv/attention_collect.h"
#include "report/value_norms.h"

/* The parts of the last pass, valid until the next pass. */
const struct qkv_trace *qkv_attention_collector_trace(const struct qkv_attention_collector *collector);

/* Like qkv_attention_collector_measure_norms, but with norms that the caller owns, so that several collectors can share them.
 * NULL: maps hold weights. */
void qkv_attention_collector_set_norms(struct qkv_attention_collector *collector,
                                       const struct value_norms *norms);

#endif
