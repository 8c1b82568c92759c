/* All public headers of the engine: tensors, gradients, layers, optimizers, checkpoints. The engine is a library of its own
 * (`pkg-config --cflags --libs qkv-engine`), which needs no other library than BLAS. qkv/qkv.h has the translator as well.
 *
 * Example:
 *     struct qkv_graph *graph = qkv_graph_new(QKV_FLOAT32);
 *     struct qkv_tensor *x = qkv_variable(graph, QKV_SHAPE(3));
 *     printf("qkv %s: %lld numbers\n", qkv_version(), (long long)qkv_tensor_count(x));
 *     qkv_graph_free(graph);
 *
 * Suggested reading order: graph.h with ops.def (tensors, parameters and ops); layers.h; base.h;
 * gradcheck.h; optimizer.h, checkpoint.h (training any loss).
 */
#ifndef QKV_ENGINE_H
#define QKV_ENGINE_H

#include "qkv/base.h"
#include "qkv/checkpoint.h"
#include "qkv/gradcheck.h"
#include "qkv/graph.h"
#include "qkv/layers.h"
#include "qkv/optimizer.h"
#include "qkv/version.h"

#endif
