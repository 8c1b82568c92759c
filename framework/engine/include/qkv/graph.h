/* Tensors, parameters, and the graph that computes with them: build first, then run forward and backward (reverse-mode
 * autograd).
 *
 * A call of an op checks shapes and records a node; qkv/ops.def has the signature, the shapes and the formula of every op,
 * one row each. qkv_forward and qkv_backward run the recorded nodes. The graph keeps its first error: from then on every op
 * returns NULL, nothing runs, and every function accepts NULL for a tensor (its shape has rank 0, its name is "no tensor",
 * its value and gradient are NULL, its scalar NaN; reading and writing it does nothing), so code that builds a model needs
 * no checks, and its caller checks once before qkv_forward. A wrong call after that (backward before forward, a setting
 * that no longer fits) also becomes the graph's error, and qkv_graph_reset removes it.
 *
 * Example:
 *     struct qkv_tensor *qkv_relu(struct qkv_graph *, struct qkv_tensor *); // one of the ops of qkv/ops.h
 *     const double values[6] = {1, -2, 3, -4, 5, -6};
 *     double result[6], gradient[6];
 *     struct qkv_error error;
 *     struct qkv_graph *graph = qkv_graph_new(QKV_FLOAT32);
 *     struct qkv_tensor *x = qkv_variable(graph, QKV_SHAPE(2, 3));
 *     struct qkv_tensor *y = qkv_relu(graph, x);
 *     if (qkv_graph_check(graph, &error) == QKV_OK) {
 *         qkv_tensor_write(x, values);
 *         qkv_forward(graph);
 *         qkv_backward(graph, y, NULL);
 *         qkv_tensor_read(y, result);
 *         qkv_tensor_read_gradient(x, gradient);
 *     }
 *     qkv_graph_free(graph);
 *
 *     struct qkv_parameters parameters = {0};
 *     struct qkv_initial xavier = {QKV_INITIALIZER_XAVIER_UNIFORM, 1};
 *     const struct qkv_parameter *weight =
 *         qkv_parameters_add(&parameters, QKV_SHAPE(4, 2), xavier, "layer.%d.weight", 1);
 *     if (!qkv_parameters_allocate(&parameters, QKV_FLOAT32, NULL)) {
 *         qkv_parameters_initialize(&parameters, 42);
 *         printf("%s starts with %g\n", weight->name, qkv_parameter_get(&parameters, weight, 0));
 *     }
 *     qkv_parameters_release(&parameters);
 *
 * Nodes run in the order of their creation. Tensors belong to their graph and die with it or at its reset. Only one thread
 * at a time may use a graph; different threads may use different graphs. */
#ifndef QKV_GRAPH_H
#define QKV_GRAPH_H

#include "qkv/base.h"

#ifdef __cplusplus
#    include <initializer_list>
#endif

struct qkv_graph;
struct qkv_tensor;
struct qkv_workers;
struct qkv_panels;

/* ---- shapes ---- */

enum {
    QKV_MAX_RANK = 4,
    QKV_MAX_INPUTS = 5,
    QKV_MAX_BLOCKS = 8, /* most blocks of parameters bound to a graph at a time (qkv_graph_bind) */
    QKV_GROUP = 32,     /* columns per group: the op group_max returns the maximum of each group */
};

/* Sizes of the axes, outermost first. Tensors are dense and row-major. */
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

/* Number of elements: the product of all axes. 0 for an invalid shape: a rank outside 0 to 4, an axis below 1, or more than
 * 2^40 elements. Rank 0 has 1 element, but no tensor has rank 0. */
QKV_API int64_t qkv_shape_count(struct qkv_shape shape);

/* The sentences in the rows of a matrix. The matrix holds sentences of any lengths one after the other, without padding:
 * sentence i is rows start[i] .. start[i] + length[i] - 1. A count of 0 means one sentence that has all rows. An op copies
 * the arrays when it is called; see qkv_graph_rewind. */
struct qkv_segments {
    int64_t count;
    const int64_t *start, *length; /* [count] */
};

/* ---- parameters: named slices of one flat block ----
 * Optimizer steps, clipping, averaging and saving are loops over one array. Declare all parameters, then allocate once. To
 * compute with parameters, bind them to a graph: qkv_graph_bind, qkv_graph_parameter. To save them, and to load them from a
 * file of qkv or of another program, by name: qkv_checkpoint_save, qkv_parameters_load (checkpoint.h). */

/* Distribution of the initial values, scaled by `gain`:
 * - Xavier (Glorot and Bengio 2010) of [fan_in, fan_out]: uniform in +-sqrt(6 / (fan_in + fan_out)), or normal with
 *   the same variance;
 * - uniform in +-1; normal with standard deviation 1; zeros; ones, which ignores the gain;
 * - orthogonal (Saxe et al. 2014) of [n, k n]: k random orthogonal [n, n] matrices side by side;
 * - forget, of the [4 n] biases of an LSTM of width n: 1 for the biases of the forget gates (the second n), else 0. */
struct qkv_initial {
    enum qkv_initializer kind;
    double gain;
};

/* One named slice. Slices are aligned to 64 bytes in float32. */
struct qkv_parameter {
    const char *name; /* "encoder.1.self.query.weight" */
    struct qkv_shape shape;
    int64_t index;         /* in the list */
    int64_t offset, count; /* elements within the block */
    struct qkv_initial initial;
    bool is_table; /* a matrix whose rows are looked up by index */
    double rate;   /* factor of its learning rate, 1 at first; 0: frozen */
};

/* Caller's storage, all zero at first. */
struct qkv_parameters {
    enum qkv_dtype dtype;
    int64_t count, capacity;
    struct qkv_parameter **list;
    int64_t elements; /* of the block, with the gaps between aligned slices, which stay 0 */
    void *values;     /* [elements] of dtype; NULL before qkv_parameters_allocate */
    /* Number of writes to `values`. When it has changed, copies of the values (qkv_panels) are out of date, and qkv_backward
     * refuses what qkv_forward has computed with the old ones. Write to `values` directly only while no graph runs, and add
     * 1 afterwards. */
    uint64_t changes;
    enum qkv_precision
        products;             /* precision of linear layers' products; set by qkv_parameters_set_precision */
    bool failed;              /* a declaration was refused, or memory ran out while declaring */
    struct qkv_error error;   /* the first reason for that; empty: memory */
    double *square;           /* workspace for the largest orthogonal matrix; NULL if there is none */
    struct qkv_table *tables; /* constants of layers, such as sinusoids; NULL: none */
    struct qkv_arena arena;
};

/* Declares a parameter; the name is a printf format. The result is valid until release. NULL when memory runs out, the name
 * is empty, longer than 255 bytes or declared already (a checkpoint finds parameters by name) or begins with `__` or
 * `optimizer.` (names that checkpoints use), the shape is invalid (or not [n, k n] for orthogonal values), the initializer
 * is unknown or its gain is not finite, or the call comes after qkv_parameters_allocate. The parameters have then failed:
 * qkv_parameters_allocate returns the first such error, and qkv_graph_bind refuses them. */
QKV_API const struct qkv_parameter *qkv_parameters_add(struct qkv_parameters *parameters,
                                                       struct qkv_shape shape, struct qkv_initial initial,
                                                       const char *name, ...) QKV_PRINTF(4, 5);

/* Allocates the block of values, all zero. Fails when a declaration failed, when memory runs out, and at a second call. */
QKV_API enum qkv_status qkv_parameters_allocate(struct qkv_parameters *parameters, enum qkv_dtype dtype,
                                                struct qkv_error *error);

/* Sets all values to their initial distribution: a pure function of the seed and each parameter's index, equal in
 * both precisions up to rounding. */
QKV_API void qkv_parameters_initialize(struct qkv_parameters *parameters, uint64_t seed);

/* Sets the rates of parameters by name: `rates` is "PATTERN=FACTOR ..." with white space between, such as "encoder.*=0.1
 * output.bias=0". In a pattern, * matches any text and ? any character (fnmatch); if several patterns match a name, the
 * last one counts. A parameter with the factor 0 is frozen: graphs compute no gradient for it, nor for nodes that depend on
 * frozen parameters and constants alone; optimizers do not change it, and it does not count in the norm of the gradient.
 * qkv_optimizer_init reads the rates. Fails, and changes no rate, if a pattern matches no parameter, a factor is not a
 * number of at least 0, every parameter would be frozen, or memory runs out. */
QKV_API enum qkv_status qkv_parameters_set_rates(struct qkv_parameters *parameters, const char *rates,
                                                 struct qkv_error *error);

/* Sets the precision in which graphs multiply by these parameters. int8: rounds the matrices in place, which cannot be
 * undone; from then on gradients are refused, even by a graph to which the parameters are already bound, as soon as it is
 * built again. float32: products are float32 and use the current contents of the matrices. Fails if the parameters are not
 * allocated, if they are float64 and the precision is not float32, or if they are not finite and it is int8. Call it before
 * building graphs that use the parameters. */
QKV_API enum qkv_status qkv_parameters_set_precision(struct qkv_parameters *parameters,
                                                     enum qkv_precision precision, struct qkv_error *error);

/* The number of parameters, without the gaps. */
QKV_API int64_t qkv_parameters_total(const struct qkv_parameters *parameters);

/* The parameter of that name, or NULL. */
QKV_API const struct qkv_parameter *qkv_parameters_find(const struct qkv_parameters *parameters,
                                                        const char *name);

/* Reads or writes element i, row-major; writing adds 1 to `changes`. If the block has no such element, reading returns NaN
 * and writing does nothing. */
QKV_API double qkv_parameter_get(const struct qkv_parameters *parameters,
                                 const struct qkv_parameter *parameter, int64_t i);
QKV_API void qkv_parameter_set(struct qkv_parameters *parameters, const struct qkv_parameter *parameter,
                               int64_t i, double value);

QKV_API void qkv_parameters_release(struct qkv_parameters *parameters);

/* ---- the graph ---- */

/* Creates a graph that records gradients and has dropout off. Returns NULL when memory runs out, or for an unknown dtype.
 *
 * Sets OpenBLAS to one thread for the whole process, unless qkv_set_openblas_single_threaded (base.h) has turned that
 * off: qkv runs sentences in parallel instead, and results must not depend on the number of threads. The graph and its
 * tensors change nothing else in the process. */
QKV_API struct qkv_graph *qkv_graph_new(enum qkv_dtype dtype);
QKV_API void qkv_graph_free(struct qkv_graph *graph); /* NULL is allowed */

/* Removes all tensors and the error, and keeps memory and settings: building the same graph again does not call malloc.
 * Pointers to the old tensors are invalid afterwards. */
QKV_API void qkv_graph_reset(struct qkv_graph *graph);

/* QKV_OK, or QKV_INVALID with the graph's first error. */
QKV_API enum qkv_status qkv_graph_check(const struct qkv_graph *graph, struct qkv_error *error);

/* Computes the nodes that were recorded since the last call, so that a second call in a row computes nothing: results stay
 * those of the old numbers, without an error, even if parameters or leaves have been written to; only qkv_backward refuses
 * that. To compute with new numbers, as in each update of a training, reset the graph and build it again, or call
 * qkv_graph_rewind. Does nothing in a graph that has failed. A graph that shares memory fails here if it has no plan
 * (qkv_graph_plan), and a rewound one if an array no longer fits its op. */
QKV_API void qkv_forward(struct qkv_graph *graph);

/* Makes the next qkv_forward compute every node again, with the current contents of parameters, variables, constants, and
 * the arrays that were passed to ops (indices, labels, segments, first positions). It copies and checks all arrays again,
 * so they must still exist and have the same number of elements. Without this call, later changes to the arrays have no
 * effect. Indices must lie within their bounds, no segment may be longer than the longest one was when its op was called,
 * and results must keep their shapes (the shape of attention scores and weights follows from the segments); otherwise the
 * graph fails. Meant for graphs that run many times, such as a decoding step. */
QKV_API void qkv_graph_rewind(struct qkv_graph *graph);

/* Computes d(sum(cotangent * y)) / dx for every x that needs a gradient: zero where y does not depend on x, so all zero if
 * y is a constant. `cotangent` holds one number for each element of y; NULL means all ones. Overwrites the gradients of
 * earlier calls, except those of parameters that were bound with `accumulate`.
 *
 * The graph fails if y is NULL, y is a tensor of another graph, or qkv_forward has not computed y. Ops read some values
 * again, so write to parameters and leaves only after this call: otherwise gradients mix old and new numbers. The graph
 * fails, too, if a bound block that it uses has other `changes` than when qkv_forward read its parameters
 * first since the last reset or rewind, as after an optimizer step; blocks that the graph does not use may change. The same
 * holds for a leaf that qkv_tensor_write has written since qkv_forward read it; other writes, to the memory of
 * qkv_tensor_value and qkv_wrap, are not detected. */
QKV_API void qkv_backward(struct qkv_graph *graph, struct qkv_tensor *y, const double *cotangent);

/* ---- leaves ---- */

/* Tensors that the caller writes, zero at first. Variables get a gradient, constants do not. */
QKV_API struct qkv_tensor *qkv_constant(struct qkv_graph *graph, struct qkv_shape shape);
QKV_API struct qkv_tensor *qkv_variable(struct qkv_graph *graph, struct qkv_shape shape);

/* A constant in the caller's memory, which holds one number of the graph's dtype for each element of the shape, is aligned
 * for that type, and must outlive the nodes. What is written there after qkv_forward takes effect only after
 * qkv_graph_rewind. The graph fails if `memory` is NULL. */
QKV_API struct qkv_tensor *qkv_wrap(struct qkv_graph *graph, struct qkv_shape shape, void *memory);

/* Makes a block of parameters available to qkv_graph_parameter. `gradients` has the layout of parameters->values:
 * [parameters->elements] numbers of the graph's dtype, zeros at first; NULL makes all parameters constants (frozen).
 * qkv_backward overwrites the gradients of all parameters, with zero for parameters that the graph does not use; with
 * `accumulate` it adds to the contents of `gradients` instead. Both blocks belong to the caller and must live as long as
 * they are bound.
 *
 * Each further call binds another block, up to QKV_MAX_BLOCKS: for example one of frozen and one of trained parameters.
 * Bindings survive resets, but the first call after a reset, before qkv_graph_parameter, replaces all of them. The graph
 * fails if the parameters are not allocated, have another dtype, or are in use with other gradients. */
QKV_API void qkv_graph_bind(struct qkv_graph *graph, const struct qkv_parameters *parameters, void *gradients,
                            bool accumulate);

/* Returns the tensor of a bound parameter: the same tensor at each call. Returns NULL if `parameter` is NULL, such as the
 * bias of a layer without bias. The graph fails if no bound block holds the parameter. */
QKV_API struct qkv_tensor *qkv_graph_parameter(struct qkv_graph *graph,
                                               const struct qkv_parameter *parameter);

/* ---- reading and writing tensors ---- */

QKV_API struct qkv_shape qkv_tensor_shape(const struct qkv_tensor *tensor);
QKV_API int64_t qkv_tensor_count(const struct qkv_tensor *tensor); /* elements */

/* The name of the parameter; for other tensors the name of the scope in which they were created, or without a scope the
 * name of the op. */
QKV_API const char *qkv_tensor_name(const struct qkv_tensor *tensor);
QKV_API const char *qkv_tensor_op(const struct qkv_tensor *tensor); /* "matmul"; "leaf" for leaves */

/* Copy all elements and convert between double and the graph's dtype. Arrays hold qkv_tensor_count numbers. If the tensor
 * keeps no gradient, or has no value yet because qkv_graph_plan has not been called, they read NaN, write nothing, and the
 * graph fails. Values that qkv_forward, and gradients that qkv_backward, has not computed yet are arbitrary. What is written
 * after qkv_forward has an effect only in a rewound graph (qkv_graph_rewind). */
QKV_API void qkv_tensor_write(struct qkv_tensor *tensor, const double *values);
QKV_API void qkv_tensor_read(const struct qkv_tensor *tensor, double *values);
QKV_API void qkv_tensor_read_gradient(const struct qkv_tensor *tensor, double *gradient);

/* The first element: the value of a loss. */
QKV_API double qkv_tensor_scalar(const struct qkv_tensor *tensor);

/* The tensor's own memory: numbers of the graph's dtype, row-major, valid until the graph is reset or freed. The gradient is
 * NULL if none is kept. */
QKV_API void *qkv_tensor_value(struct qkv_tensor *tensor);
QKV_API void *qkv_tensor_gradient(struct qkv_tensor *tensor);

/* The first tensor in order of creation whose value holds NaN or infinity; NULL: none. Shows where training diverges. */
QKV_API const struct qkv_tensor *qkv_graph_find_not_finite(const struct qkv_graph *graph);

/* ---- for layers and models ---- */

/* Sets the graph's error, unless it has one already. Returns NULL, so that callers can write `return
 * qkv_graph_fail(...)`. */
QKV_API struct qkv_tensor *qkv_graph_fail(struct qkv_graph *graph, const char *format, ...) QKV_PRINTF(2, 3);

/* Returns zeroed memory that lives as long as the tensors, for data that nodes refer to (segments, indices). Returns NULL
 * when the graph has failed, or when memory runs out, which makes it fail. */
QKV_API void *qkv_graph_memory(struct qkv_graph *graph, size_t size);

/* Sets the name of the nodes that are created from now on, for messages and qkv_tensor_name. Returns the previous name, so
 * that the caller can restore it. The text belongs to the caller and must outlive the nodes. A reset sets the name to
 * NULL. */
QKV_API const char *qkv_graph_scope(struct qkv_graph *graph, const char *name);

/* ---- settings: all survive resets ---- */

/* Whether tensors that are created from now on get gradients; true in a new graph. With false, ops save nothing for
 * backward, and no gradient flows through them, even if their inputs need one. This does not apply to parameters: a
 * parameter needs a gradient if its block has gradients, even when it is first used while this is false. To stop the
 * gradient at one tensor, use the op detach. */
QKV_API void qkv_graph_set_gradients(struct qkv_graph *graph, bool gradients);

/* Turns dropout on, or off with NULL. The masks are a pure function of seed, step and the order of the dropout nodes; the
 * stream of `random` is ignored. Ops reserve memory for masks, so turning dropout on or off in a graph that holds tensors
 * makes the graph fail; so does changing the seed or step between qkv_forward and the next rewind or reset. */
QKV_API void qkv_graph_set_dropout(struct qkv_graph *graph, const struct qkv_random *random);
QKV_API bool qkv_graph_has_dropout(const struct qkv_graph *graph);

/* Lets tensors between leaves and result share memory; off at first. Call it on a graph without tensors (after creation or
 * reset). Such a graph needs one call of qkv_graph_plan, after its last op and before qkv_forward; y is the tensor that
 * qkv_backward will start from, or the result if there is no backward pass. The graph fails without that call, when tensors
 * are added after it, and when memory runs out.
 *
 * Results are written over inputs that are not read again, cheap values (norms) are computed again in backward,
 * and a gradient's memory is free once it has been propagated; training needs less than half the memory, and the
 * bits stay the same. Only the result, and gradients of variables and parameters, can be read afterwards: other
 * tensors hold arbitrary numbers. In a graph without gradients, results that no node reads can be read as well. */
QKV_API void qkv_graph_share_memory(struct qkv_graph *graph, bool share);
QKV_API void qkv_graph_plan(struct qkv_graph *graph, struct qkv_tensor *y);

#endif
