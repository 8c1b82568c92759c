/* Tensors, parameters, and the graph that computes with them: build first, then run forward and backward (reverse-mode
 * autograd).
 *
 * A call of an op checks shapes and records a node. All ops are listed below under "ops", with the shapes of their
 * arguments and results; qkv/ops.def has the formula of each. There, a row OP(NAME, (parameters), ...) declares
 *     struct qkv_tensor *qkv_NAME(struct qkv_graph *graph, parameters);
 * qkv_forward and qkv_backward run the recorded nodes. The graph keeps its first error: from then on every op
 * returns NULL, nothing runs, and every function accepts NULL for a tensor (its shape has rank 0, its name is "no tensor",
 * its value and gradient are NULL, its scalar NaN; reading and writing it does nothing), so code that builds a model needs
 * no checks, and its caller checks once before qkv_forward. A wrong call after that (backward before forward, a setting
 * that no longer fits) also becomes the graph's error, and qkv_graph_reset removes it.
 *
 * Example:
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
    QKV_MAX_INPUTS = 6,
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

/* Copies the gradient of the parameter of that name, row-major, from a block of gradients (qkv_graph_bind): as many numbers
 * as the parameter has elements. Fails if no parameter has that name, or if they are not allocated.
 *
 *     qkv_backward(graph, loss, NULL);
 *     qkv_parameters_read_gradient(&parameters, gradients, "hidden.weight", numbers, &error); */
QKV_API enum qkv_status qkv_parameters_read_gradient(const struct qkv_parameters *parameters,
                                                     const void *gradients, const char *name,
                                                     double *gradient, struct qkv_error *error);

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
 * fails if the parameters are not allocated, have another dtype, or are in use with other gradients.
 *
 *     qkv_graph_bind(graph, &encoder, NULL, false);              // frozen
 *     qkv_graph_bind(graph, &decoder, gradients, false);         // and trained: both blocks are bound
 *     ...                                                        // build, qkv_forward, qkv_backward
 *     qkv_graph_reset(graph);                                    // for the next batch: both are bound still
 *     ...
 *     qkv_graph_reset(graph);
 *     qkv_graph_bind(graph, &encoder, encoder_gradients, false); // now only the encoder is bound:
 *     qkv_graph_bind(graph, &decoder, gradients, false);         // bind the decoder again, too */
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

/* ======== ops ========
 * Functions that record a node in a graph and return its result. Formulas and sources of all ops are in ops.def, one row
 * each; every op is struct qkv_tensor *qkv_<op>(struct qkv_graph *graph, ...). An overview with the shapes of tensors; `?`:
 * NULL is allowed; `...`: any number of leading axes:
 *
 *     matmul(a [..., m, k], b [..., k, n], transpose_a, transpose_b) -> [..., m, n]
 *     linear(x [..., I], weight [I, O], bias [O]?, transpose_weight) -> [..., O]
 *     add, subtract, multiply, divide, minimum, maximum(a, b) -> the shape of both
 *     add_row, multiply_row(x [..., D], row [D]), multiply_column(x [..., D], column [..., 1]) -> [..., D]
 *     where(condition, a, b) -> the shape of all
 *     relu, gelu, gelu_tanh, silu, tanh, sigmoid, exp, log, sqrt, abs(x), scale(x, factor), add_scalar(x, addend),
 *         clamp(x, lowest, highest), pow(x, exponent), dropout, dropout_rows(x, rate) -> the shape of x
 *     softmax, log_softmax(x [..., C]) -> [..., C];  log_sum_exp(x [..., C]) -> [..., 1]
 *     segment_softmax(x [N, D], segments) -> [N, D];  group_max(x [..., C]) -> [..., ceil(C / QKV_GROUP)]
 *     layer_norm(x [..., D], gain [D]?, bias [D]?, epsilon), rms_norm(x [..., D], gain [D]?, epsilon) -> [..., D]
 *     embedding(table [C, D], ids, count, factor), gather_rows(x [N, D], rows, count) -> [count, D]
 *     add_positions(x [N, D], table [P, D], segments, first?), rotate(x [N, H K], table [P, K], segments, first?) -> as x
 *     scatter_rows(x [M, D], numbers, rows) -> [rows, D];  store_rows(target [N, D], x [M, D], numbers) -> target
 *     reshape(x, shape) -> shape;  detach(x) -> as x;  permute(x, permutation);  concat(a, b, axis)
 *     slice(x, axis, start, length);  broadcast(x, shape) -> shape;  cumulative_sum(x, axis) -> as x
 *     sum, mean, min, max, argmin, argmax(x, axis) -> without that axis, or [1]
 *     top_k, top_k_indices(x [..., C], k) -> [..., k];  neighbours(x [N, D], segments, first, count) -> [N, count D]
 *     cross_entropy(logits [N, C], labels, smoothing, factor) -> [1]
 *     linear_cross_entropy(x [N, D], weight [D, C], bias [C]?, transpose_weight, labels, smoothing, factor) -> [1]
 *     paired_cross_entropy(first [N, D], second [N, D], weight [D, C], bias [C]?, transpose_weight, labels, smoothing,
 *         consistency, one_sided, factor) -> [1]
 *     rnn(gates [N, H], weight [H, H], initial [sentences, H]?, segments, reverse) -> [N, H]
 *     gru(gates [N, 3 H], weight [H, 3 H], bias [H]?, initial [sentences, H]?, segments, reverse) -> [N, H]
 *     lstm(gates [N, 4 H], weight [H, 4 H], initial [sentences, 2 H]?, segments, reverse) -> [N, 2 H]
 *     attention(query [Nq, H K], key [Nk, G K], value [Nk, G V], mask [Tq, Tk] or [Nk]?, attention) -> [Nq, H V]
 *     attention_scores(query [Nq, H K], key [Nk, G K], attention) -> [P], a score for each head and pair of a sentence
 *     attention_weights(scores [P], mask?, attention) -> [P];  attention_mix(weights [P], value [Nk, G V], attention) ->
 *         [Nq, H V];  attention_loss(scores [P], target [P], attention, factor) -> [1]
 *     attention_additive(query [Nq, K], key [Nk, K], vector [K], attention) -> [P]
 *     attention_local(scores [P], center [Nq, 1], attention, window), attention_arrange(x [M], numbers, attention) -> [P]
 *
 * Example:
 *     struct qkv_graph *graph = qkv_graph_new(QKV_FLOAT32);
 *     struct qkv_tensor *x = qkv_variable(graph, QKV_SHAPE(8, 4)), *weight = qkv_variable(graph, QKV_SHAPE(4, 2));
 *     struct qkv_tensor *hidden = qkv_relu(graph, qkv_linear(graph, x, weight, NULL, false));
 *     struct qkv_tensor *loss = qkv_mean(graph, qkv_multiply(graph, hidden, hidden), QKV_ALL);
 *     qkv_forward(graph);
 *     qkv_backward(graph, loss, NULL);
 *     qkv_graph_free(graph);
 *
 * An op returns NULL, and the graph fails, when shapes do not fit, an index is out of bounds, an input belongs to
 * another graph, or memory runs out.
 *
 * Segments (struct qkv_segments) mean the same in every op. A count of 0 is one sentence that has all rows. Segments may be
 * in any order, have gaps between them, and have length 0. They must not overlap, except the key segments of attention:
 * sentences may share keys, whose gradients are then summed over these sentences. Rows outside all segments are 0 in the
 * result, except where the op adds something to its input (add_positions, rotate): there they are copied. */

/* ---- the rule of attention: every property of multi-head attention that is not a tensor, as one value ----
 * Layers and ops keep copies of it. To add a variant of attention, add a field here. */

/* How fused attention is computed. The results are the same except for rounding. */
enum qkv_attention_kernel {
    QKV_KERNEL_AUTO,  /* flash for long sentences, exact for short ones: whichever is faster */
    QKV_KERNEL_EXACT, /* keeps the weights: memory grows with the square of the length, or with the window */
    QKV_KERNEL_FLASH, /* keeps two numbers per row and head, recomputes the weights (Dao et al. 2022) */
};

/* What the values of an attention mask mean. */
enum qkv_mask_values {
    QKV_MASK_VALUES_BINARY,   /* 1: the key may be seen; 0: it is hidden. As PyTorch's boolean masks */
    QKV_MASK_VALUES_ADDITIVE, /* 0: the key may be seen; -infinity: it is hidden. As PyTorch's float masks */
};

/* In every field but `heads`, 0 means that the property is not set; {.heads = H} is plain attention.
 *
 * Positions: the queries of a sentence have the last positions of its keys. With Tq queries and Tk >= Tq keys, query i has
 * position p = Tk - Tq + i; key j has position j. The score of the pair in head h is
 *     scale * query . key - slope_h |p - j| + bias[bucket(j - p), h]
 * With a soft cap c, the first term is c tanh(scale * query . key / c). */
struct qkv_attention_rule {
    int64_t heads; /* H, query heads; at least 1 */
    /* G, heads of keys and values: H / G consecutive query heads share one (Ainslie et al. 2023); 0: H */
    int64_t key_value_heads;
    bool causal; /* p sees no key after p */
    /* p sees keys p - window .. p + window (Beltagy et al. 2020, whose w is twice this; causal: Jiang et
     * al. 2023); 0: all keys */
    int64_t window;
    /* Number of positions at the beginning of each sentence that see all keys and are seen by all queries,
     * except where causality forbids it (Beltagy et al. 2020, with shared projections). Needs a window; 0:
     * none */
    int64_t global_tokens;
    bool alibi;           /* subtract slope_h |p - j| (Press et al. 2022) */
    int64_t buckets;      /* add a learned bias per distance bucket and head (Raffel et al. 2020); 0: none */
    int64_t max_distance; /* with buckets: all distances from here on share the last bucket */
    double scale;         /* of the scores; 0: 1 / sqrt(key width) (Vaswani et al. 2017) */
    double soft_cap;      /* bound of scale * query . key (Gemma Team 2024: Gemma 2); 0: none */
    double dropout;       /* rate of dropout on the weights, in graphs with dropout */
    enum qkv_attention_kernel kernel;
    enum qkv_mask_values mask_values; /* of the mask, if there is one */
};

/* ---- arguments of ops ---- */

enum { QKV_ALL = -1 }; /* as an axis: all axes */

/* Axes in the order of the result of qkv_permute: QKV_AXES(1, 0) transposes a matrix. */
struct qkv_axes {
    int count, axis[QKV_MAX_RANK];
};

#ifdef __cplusplus /* has no compound literals */
#    define QKV_AXES(...) (qkv_axes{(int)std::initializer_list<int>{__VA_ARGS__}.size(), {__VA_ARGS__}})
#else
#    define QKV_AXES(...)                                                                                    \
        ((struct qkv_axes){(int)(sizeof((int[]){__VA_ARGS__}) / sizeof(int)), {__VA_ARGS__}})
#endif

/* Arguments of an op other than tensors; each row of ops.def sets the fields that its op uses. Arrays belong to
 * the caller. The node reads copies of them, and copies them again only in a rewound graph (qkv_graph_rewind). */
struct qkv_options {
    double factor;          /* scale, embedding, the cross entropies: the result is multiplied by it */
    double addend;          /* add_scalar */
    double exponent;        /* pow */
    double lowest, highest; /* clamp */
    double epsilon;         /* layer_norm, rms_norm: added to the variance or mean square */
    double rate;            /* dropout, dropout_rows: probability of 0 */
    double smoothing;       /* the cross entropies: of labels */
    double consistency;     /* paired_cross_entropy: weight of the divergences */
    bool one_sided;         /* paired_cross_entropy: see ops.def */
    int64_t axis; /* concat, slice, cumulative_sum; sum, mean, min, max and others also take QKV_ALL */
    int64_t start, length; /* slice, neighbours: elements start .. start + length - 1; top_k: length */
    int64_t rows;          /* scatter_rows: rows of the result */
    int64_t local_window;  /* attention_local: keys on each side of the center */
    struct qkv_attention_rule attention;
    struct qkv_shape shape;
    struct qkv_axes permutation;
    bool transpose_a, transpose_b, reverse;
    const int32_t *indices;
    int64_t index_count;
    const int64_t *first;         /* a number for each sentence: the position of its first row; NULL: 0 */
    struct qkv_segments segments; /* sentences of the rows, of ops other than attention */
    struct qkv_segments queries, keys; /* attention: sentences of the query rows and of the key rows */
};

/* Argument of the attention ops: the rule, the tensors that it needs, and the sentences. Sentence i of
 * `queries` attends to sentence i of `keys`. */
struct qkv_attention {
    struct qkv_attention_rule rule;
    struct qkv_tensor *bias; /* [rule.buckets, rule.heads] if the rule has buckets, else NULL */
    struct qkv_segments queries, keys;
    /* [rule.heads]: for each head, the score of a sink, which takes part in the softmax of every row, but has no value: the
     * weights of a row sum to less than 1 (gpt-oss, OpenAI 2025; a score of 0: softmax off by one, Miller 2023). NULL: none */
    struct qkv_tensor *sink;
};

#define QKV_UNWRAP(...) __VA_ARGS__
#define QKV_NO_OPTIONS  .factor = 0
/* Options of the ops with an argument `attention`. */
#define QKV_ATTENTION_OPTIONS                                                                                \
    .attention = attention.rule, .queries = attention.queries, .keys = attention.keys

enum qkv_op_id {
    QKV_OP_leaf,
#define OP(name, parameters, inputs, options) QKV_OP_##name,
#include "qkv/ops.def"
#undef OP
    QKV_OP_COUNT
};

#define OP(name, parameters, inputs, options)                                                                \
    QKV_API struct qkv_tensor *qkv_##name(struct qkv_graph *graph, QKV_UNWRAP parameters);
#include "qkv/ops.def"
#undef OP

/* Concatenates `count` tensors along `axis` in order; the other axes must be equal. With count 1 it returns the tensor
 * itself. Returns NULL, and the graph fails, if count is below 1. Copies each number log2(count) times. */
QKV_API struct qkv_tensor *qkv_concat_all(struct qkv_graph *graph, struct qkv_tensor *const *tensors,
                                          int64_t count, int64_t axis);

/* Convolution over the rows of each sentence (cross-correlation, as in PyTorch): x [N, I], weight [width I, O], bias [O] or
 * NULL -> [N, O]. Row i of the result is the bias plus the rows i + first .. i + first + width - 1 of its sentence, times
 * the blocks 0 .. width - 1 of I rows of the weight; rows outside the sentence count as zeros. first = -(width / 2) looks
 * to both sides; first = 1 - width never looks ahead, which a decoder needs (Gehring et al. 2017). */
QKV_API struct qkv_tensor *qkv_convolution(struct qkv_graph *graph, struct qkv_tensor *x,
                                           struct qkv_tensor *weight, struct qkv_tensor *bias,
                                           struct qkv_segments segments, int64_t first);

/* Name of an op: "matmul"; "unknown op" for any other number. */
QKV_API const char *qkv_op_name(enum qkv_op_id op);

/* Attention weights of one head of one sentence (both from 0), after qkv_forward: [rows, columns] of the graph's
 * dtype, row-major, with a row for each query and a column for each key of the sentence. They are in the graph's memory, and
 * valid until it runs again, is reset or freed. For nodes of the ops attention (weights before dropout),
 * attention_weights, attention_local and attention_arrange.
 *
 * Weights that the kernel did not keep (flash attention, windows) are computed at the first call: make it before the
 * optimizer changes a bias of the scores. NULL when there is no such sentence or head, when the node has no weights,
 * before qkv_forward, when memory runs out, when the graph has failed, when it shares memory and has overwritten the operands,
 * or when weights must be computed that read a variable or parameter directly (such as the bias), and a variable or
 * parameter of the graph has been written since qkv_forward; rows and columns are then arbitrary. */
QKV_API const void *qkv_attention_weights_of(const struct qkv_tensor *attention, int64_t sentence,
                                             int64_t head, int64_t *rows, int64_t *columns);

/* Sums over all rows of a cross_entropy, linear_cross_entropy or paired_cross_entropy node, after qkv_forward, without
 * smoothing, consistency and factor: the negative log-likelihood in nats, and the number of rows whose most probable class
 * is the label. For a paired_cross_entropy node these are the means of both passes, or with one_sided the values of the
 * first pass. For an attention_loss node they are the sum of its rows, and 0. Both are NaN, and the graph fails, if `loss`
 * is another op or qkv_forward has not computed it. */
QKV_API void qkv_cross_entropy_sums(const struct qkv_tensor *loss, double *negative_log_likelihood,
                                    double *correct);

#endif
