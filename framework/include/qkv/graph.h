/* Tensors and the graph that computes them: built first, run afterwards.
 *
 * An op call (ops.h) records a node and checks shapes; qkv_forward and qkv_backward then run the recorded
 * nodes. All that can fail fails while building: running is total and allocates nothing. The first error
 * sticks in the graph; from then on every constructor returns NULL, and all of them accept NULL, so that code
 * that builds a model stays linear and its caller checks once, with qkv_graph_check.
 *
 *     struct qkv_graph *graph = qkv_graph_new(QKV_FLOAT32);
 *     struct qkv_tensor *x = qkv_variable(graph, QKV_SHAPE(2, 3)), *y = qkv_sum(graph, qkv_relu(graph, x),
 * QKV_ALL); if (qkv_graph_check(graph, &error)) ... qkv_tensor_write(x, values); qkv_forward(graph);
 *     qkv_backward(graph, y, NULL);
 *     qkv_tensor_read_gradient(x, gradient);
 *     qkv_graph_free(graph);
 *
 * Creation order is topological order. Tensors belong to their graph and die with it, or at its reset. A
 * graph belongs to one thread at a time. */
#ifndef QKV_GRAPH_H
#define QKV_GRAPH_H

#include "qkv/dtype.h"
#include "qkv/error.h"
#include "qkv/random.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#ifdef __cplusplus
#    include <initializer_list>
#endif

enum {
    QKV_MAX_RANK = 4,
    QKV_MAX_INPUTS = 5,
    QKV_GROUP = 32, /* numbers of which qkv_group_max finds the greatest */
};

/* Sizes of the axes, slowest first; tensors are dense and row-major. */
struct qkv_shape {
    int rank; /* 1 .. 4 */
    int64_t size[QKV_MAX_RANK];
};

/* QKV_SHAPE(rows, columns) */
#ifdef __cplusplus /* has no compound literals */
#    define QKV_SHAPE(...) (qkv_shape{(int)std::initializer_list<int64_t>{__VA_ARGS__}.size(), {__VA_ARGS__}})
#else
#    define QKV_SHAPE(...)                                                                                   \
        ((struct qkv_shape){(int)(sizeof((int64_t[]){__VA_ARGS__}) / sizeof(int64_t)), {__VA_ARGS__}})
#endif

/* The product of all axes. */
QKV_API int64_t qkv_shape_count(struct qkv_shape shape);

/* Which rows of a packed matrix are a sentence: rows start[i] .. start[i]+length[i]-1 are sentence i. A count
 * of 0 stands for one sentence of all rows. The arrays belong to the caller and must outlive the graph's
 * nodes. */
struct qkv_segments {
    int64_t count;
    const int64_t *start, *length;
};

struct qkv_graph;
struct qkv_tensor;
struct qkv_parameters;
struct qkv_parameter;
struct qkv_workers;

/* ---- the graph ---- */

/* NULL when there is no memory. New graphs record gradients and do not drop out.
 *
 * Sets the matrix library to one thread for the process: qkv splits work by sentences, two levels of threads
 * fight over the cores, and products must not depend on how many there are. */
QKV_API struct qkv_graph *qkv_graph_new(enum qkv_dtype dtype);
QKV_API void qkv_graph_free(struct qkv_graph *graph);

/* Forgets every tensor and the sticky error, but keeps memory and settings: the same work again calls malloc
 * zero times. */
QKV_API void qkv_graph_reset(struct qkv_graph *graph);

/* With true, tensors between variables and result share memory. The gradient of one takes that of another
 * whose backward has run, so that gradients take a few tensors' memory instead of as much as all values; and
 * where an op is the only one that uses a value, which no backward reads, its result is written over it; and
 * values that are cheap to make, of norms, share the memory of a few and are made again in backward. Only the
 * result, and the gradients of variables and parameters, can be read afterwards. Where the result has no
 * gradient, each value goes when the last node that reads it has run; the result stays, and what none reads.
 * Such a graph must be planned, when all of it is built and before qkv_forward, for the tensor that
 * qkv_backward will begin with; memory is reserved there, and the sticky error says where it is out. To be
 * set on an empty graph; kept over resets. */
QKV_API void qkv_graph_share_memory(struct qkv_graph *graph, bool share);
QKV_API void qkv_graph_plan(struct qkv_graph *graph, struct qkv_tensor *y);

QKV_API enum qkv_dtype qkv_graph_dtype(const struct qkv_graph *graph);

/* With false, tensors built from now on have no gradients and ops save nothing for backward. */
QKV_API void qkv_graph_set_gradients(struct qkv_graph *graph, bool gradients);

/* Turns dropout on: masks are a pure function of `random` (seed, step) and of the order of the dropping
 * nodes; its stream is ignored. NULL turns dropout off. */
QKV_API void qkv_graph_set_dropout(struct qkv_graph *graph, const struct qkv_random *random);
QKV_API bool qkv_graph_drops_out(const struct qkv_graph *graph);

/* qkv_forward splits products with a large matrix among these workers, as decoding a single sentence wants
 * it; they must have nothing else to do meanwhile. NULL, as at first: the caller does it all. The same bits
 * either way; kept over resets. */
QKV_API void qkv_graph_set_workers(struct qkv_graph *graph, struct qkv_workers *workers);

/* QKV_INVALID with the sentence of the first thing that went wrong while building, or QKV_OK. */
QKV_API enum qkv_status qkv_graph_check(const struct qkv_graph *graph, struct qkv_error *error);

/* Makes the graph fail with a sentence (unless it has failed already); for layers and models. Returns NULL.
 */
QKV_API struct qkv_tensor *qkv_graph_fail(struct qkv_graph *graph, const char *format, ...) QKV_PRINTF(2, 3);

/* Memory for what the caller's nodes refer to, as segments and row numbers: lives as long as the graph's
 * tensors, zeroed. Where memory is out the graph fails and NULL is returned; as it is once the graph has
 * failed. */
QKV_API void *qkv_graph_memory(struct qkv_graph *graph, size_t size);

/* Names the nodes that are created from now on, for messages and look-up; returns the name so far, to be
 * restored. The text belongs to the caller and must outlive the nodes. */
QKV_API const char *qkv_graph_scope(struct qkv_graph *graph, const char *name);

/* Computes the nodes that were recorded since the last call. Does nothing in a graph that has failed. */
QKV_API void qkv_forward(struct qkv_graph *graph);

/* The next qkv_forward computes every node again, from what leaves, row numbers, segments and positions hold
 * by then. The caller sees to it that row numbers stay within their bounds and that no segment is longer than
 * it was when its nodes were built. For a graph without gradients that runs many times over, as a step of
 * decoding. */
QKV_API void qkv_graph_rewind(struct qkv_graph *graph);

/* Adds d(sum(y * cotangent)) / dx to the gradient of every x; other gradients of this graph are set, not
 * added to. `cotangent` holds as many numbers as y, NULL stands for ones. qkv_forward must have run. */
QKV_API void qkv_backward(struct qkv_graph *graph, struct qkv_tensor *y, const double *cotangent);

/* The first tensor (in order of creation) with a value that is not finite, or NULL; for diagnosing
 * divergence. */
QKV_API const struct qkv_tensor *qkv_graph_find_not_finite(const struct qkv_graph *graph);

/* ---- measuring ---- */

/* Who is told of every node right after it has run, on the graph's own thread. */
struct qkv_observer {
    void (*ran)(void *context, const struct qkv_tensor *tensor, bool backward);
    void *context;
};

/* From now on, over resets too, the graph tells this observer, which is copied; NULL: nobody, as at first. */
QKV_API void qkv_graph_observe(struct qkv_graph *graph, const struct qkv_observer *observer);

/* What running a node takes, counted from its shapes: attention as products of whole matrices, causal or not,
 * as is the custom; under a window what it lets the queries see. */
struct qkv_cost {
    double operations; /* multiplications and additions of its matrix products; 0 for ops without one */
    double bytes;      /* every operand and result read or written once */
};

/* Of its forward or of its backward pass. The fused loss makes its gradients, and so has its cost, in the
 * forward pass. */
QKV_API struct qkv_cost qkv_tensor_cost(const struct qkv_tensor *tensor, bool backward);

/* Bytes that the graph's arena has held at most between two resets. */
QKV_API size_t qkv_graph_peak_bytes(const struct qkv_graph *graph);

/* ---- tensors without an op ---- */

/* A tensor to be written by the caller, all zero at first. Constants get no gradient, variables do. */
QKV_API struct qkv_tensor *qkv_constant(struct qkv_graph *graph, struct qkv_shape shape);
QKV_API struct qkv_tensor *qkv_variable(struct qkv_graph *graph, struct qkv_shape shape);

/* A constant in the caller's memory (numbers of the graph's dtype), not copied; it must outlive the nodes. */
QKV_API struct qkv_tensor *qkv_wrap(struct qkv_graph *graph, struct qkv_shape shape, void *memory);

/* Ties the graph to a parameter block: qkv_graph_parameter then gives its parameters as tensors. Gradients are written
 * into `gradients`, laid out as the values; NULL: parameters are constants. With `accumulate`, gradients are
 * added to what the block holds; else qkv_backward sets those of all parameters, to zero where the graph does
 * not use them. Kept over resets. */
QKV_API void qkv_graph_bind(struct qkv_graph *graph, const struct qkv_parameters *parameters, void *gradients,
                            bool accumulate);

/* For graphs that are bound to one gradient block and run on threads of their own: each adds its part of a
 * parameter's gradient when its turn has come, in the order of their numbers, 0 .. n-1. Number 0 is bound
 * without `accumulate`, or with it where the block holds something already; the others with it. All of them
 * must come to the end of qkv_backward, or pass their turns on, or those behind wait for ever; so a graph
 * must not start before the ones of lower number. */
struct qkv_turns;
QKV_API struct qkv_turns *
qkv_turns_new(const struct qkv_parameters *parameters); /* NULL when memory is out */
QKV_API void qkv_turns_free(struct qkv_turns *turns);
/* Number 0 is next; while no graph runs. */
QKV_API void qkv_turns_reset(struct qkv_turns *turns);
/* Kept over resets; NULL: the block is this graph's alone, as at first. */
QKV_API void qkv_graph_take_turns(struct qkv_graph *graph, struct qkv_turns *turns, int number);
/* Waits for every turn that the graph has not had yet and passes it on, nothing added. */
QKV_API void qkv_graph_pass_turns(struct qkv_graph *graph);

/* For graphs that run again and again while the parameters do not change, as in decoding: their matrices are
 * copied into the order in which products read them when the first product wants them, and again when
 * parameters->changes tells that they have changed; for all graphs that share the panels, on any threads. The
 * same bits as without. */
struct qkv_panels;
QKV_API struct qkv_panels *
qkv_panels_new(const struct qkv_parameters *parameters); /* NULL when memory is out */
QKV_API void qkv_panels_free(struct qkv_panels *panels);
/* Kept over resets; NULL: parameters are read where they stand, as at first. */
QKV_API void qkv_graph_read_panels(struct qkv_graph *graph, struct qkv_panels *panels);

/* The parameter as a tensor of this graph, the same one at each call. */
QKV_API struct qkv_tensor *qkv_graph_parameter(struct qkv_graph *graph,
                                               const struct qkv_parameter *parameter);

/* ---- reading and writing ---- */

QKV_API struct qkv_shape qkv_tensor_shape(const struct qkv_tensor *tensor);
QKV_API int64_t qkv_tensor_count(const struct qkv_tensor *tensor);

/* The scope that the tensor was created in, or the name of its op. */
QKV_API const char *qkv_tensor_name(const struct qkv_tensor *tensor);
QKV_API const char *qkv_tensor_op(const struct qkv_tensor *tensor);

/* Numbers of the graph's dtype, row-major. The gradient is NULL where none is kept. */
QKV_API void *qkv_tensor_value(struct qkv_tensor *tensor);
QKV_API void *qkv_tensor_gradient(struct qkv_tensor *tensor);

/* Copies with conversion; arrays hold qkv_tensor_count numbers. */
QKV_API void qkv_tensor_write(struct qkv_tensor *tensor, const double *values);
QKV_API void qkv_tensor_read(const struct qkv_tensor *tensor, double *values);
QKV_API void qkv_tensor_read_gradient(const struct qkv_tensor *tensor, double *gradient);

/* The only number of a tensor of one, or the first. */
QKV_API double qkv_tensor_scalar(const struct qkv_tensor *tensor);

#endif
