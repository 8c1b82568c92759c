/* Private: the pass that the maps of a collector came from, for those who want more of it than the weights.
 */
#ifndef QKV_REPORT_COLLECT_H
#define QKV_REPORT_COLLECT_H

#include "qkv/attention_collect.h"

/* Both are those of the last pass, and good until the next. */
struct qkv_graph *qkv_attention_collector_graph(const struct qkv_attention_collector *collector);
const struct qkv_trace *qkv_attention_collector_trace(const struct qkv_attention_collector *collector);

#endif
