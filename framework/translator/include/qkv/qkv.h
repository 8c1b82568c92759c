/* All public headers of qkv, for programs that prefer one include; each header is the manual of its module.
 *
 * Example:
 *     struct qkv_graph *graph = qkv_graph_new(QKV_FLOAT32);
 *     struct qkv_tensor *x = qkv_variable(graph, QKV_SHAPE(3));
 *     printf("qkv %s: %lld numbers\n", qkv_version(), (long long)qkv_tensor_count(x));
 *     qkv_graph_free(graph);
 *
 * engine.h is the engine alone: read its headers first. Then, for translation, config.h, corpus.h, model.h, run.h,
 * trainer.h, attention_map.h.
 * docs/library.md lists functions by task, and explains for all of them which arguments may be NULL and which process-wide
 * state a call changes. */
#ifndef QKV_QKV_H
#define QKV_QKV_H

#include "qkv/attention_map.h"
#include "qkv/config.h"
#include "qkv/corpus.h"
#include "qkv/engine.h"
#include "qkv/model.h"
#include "qkv/run.h"
#include "qkv/trainer.h"

#endif
