/* Functions of ops.h that are made of several ops. */
#include "graph/graph.h"

struct qkv_tensor *qkv_concat_all(struct qkv_graph *graph, struct qkv_tensor *const *tensors, int64_t count,
                                  int64_t axis)
{
    if (count < 1) return qkv_graph_fail(graph, "concat_all: there are %lld tensors", (long long)count);
    if (count == 1) return tensors[0];
    int64_t half = count / 2;
    struct qkv_tensor *first = qkv_concat_all(graph, tensors, half, axis),
                      *second = qkv_concat_all(graph, tensors + half, count - half, axis);
    return qkv_concat(graph, first, second, axis);
}

struct qkv_tensor *qkv_convolution(struct qkv_graph *graph, struct qkv_tensor *x, struct qkv_tensor *weight,
                                   struct qkv_tensor *bias, struct qkv_segments segments, int64_t first)
{
    if (!x || !weight)
        return qkv_graph_fail(graph, "convolution: %s is NULL", x ? "the weight" : "the input");
    struct qkv_shape input = x->shape, shape = weight->shape;
    if (input.rank != 2 || shape.rank != 2 || shape.size[0] % input.size[1])
        return qkv_graph_fail(graph,
                              "convolution: input is %s, but weight is %s, whose rows must be a multiple of "
                              "the input's columns",
                              qkv_shape_text(input), qkv_shape_text(shape));
    struct qkv_tensor *rows = qkv_neighbours(graph, x, segments, first, shape.size[0] / input.size[1]);
    return qkv_linear(graph, rows, weight, bias, false);
}
