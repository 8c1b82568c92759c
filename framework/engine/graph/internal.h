/* Functions of graphs and parameters that the rest of qkv needs, but programs do not. */
#pragma once

#include "qkv/graph.h"

enum qkv_dtype qkv_graph_dtype(const struct qkv_graph *graph);

/* Records a node of any op: all functions of ops.def call it. `inputs` has QKV_MAX_INPUTS entries, NULL where there is no
 * input. An input that the op does not have makes the graph fail, and so does an unknown op. */
struct qkv_tensor *qkv_node(struct qkv_graph *graph, enum qkv_op_id op, struct qkv_tensor *const *inputs,
                            const struct qkv_options *options);

/* The sums of qkv_cross_entropy_sums for one row (from 0). Only cross_entropy and linear_cross_entropy nodes without
 * gradient keep the sums of each row; for other nodes, and for a row out of range, both are NaN and the graph fails. */
void qkv_cross_entropy_row(const struct qkv_tensor *loss, int64_t row, double *negative_log_likelihood,
                           double *correct);

/* ---- parameters ---- */

/* The number of parameters that are frozen, without the gaps. */
int64_t qkv_parameters_frozen(const struct qkv_parameters *parameters);

/* Marks a declared matrix as an embedding table, whose rows are looked up by index. int8 then uses one scale per row
 * instead of one per column. Does nothing for NULL and for a parameter of another block. */
void qkv_parameters_mark_table(struct qkv_parameters *parameters, const struct qkv_parameter *table);

/* The first parameter whose slice of `block` (values, gradients or moments, laid out as the values) holds an
 * infinity or NaN; NULL if none does. */
const struct qkv_parameter *qkv_parameters_find_not_finite(const struct qkv_parameters *parameters,
                                                           const void *block);

/* ---- settings: all survive resets ---- */

/* With dropout on, embedding layers that are applied from now on drop complete rows with this probability (token cutoff,
 * Shen et al. 2020), in addition to other dropout; 0 in a new graph. NaN and 0 or less: off; 1 or more: the next embedding
 * layer makes the graph fail. */
void qkv_graph_set_token_cutoff(struct qkv_graph *graph, double rate);
double qkv_graph_token_cutoff(const struct qkv_graph *graph);

/* ---- measuring ---- */

/* Called for every node right after it has run, on the thread that runs the graph. It may read tensors, but must not run,
 * extend or reset the graph. */
struct qkv_observer {
    void (*ran)(void *context, const struct qkv_tensor *tensor, bool backward);
    void *context;
};

/* Sets the observer, which is copied; NULL removes it. Survives resets. */
void qkv_graph_observe(struct qkv_graph *graph, const struct qkv_observer *observer);

/* Cost of a node, computed from shapes. Attention counts as products of complete matrices, causal or not, as is
 * customary; with a window it counts the visible pairs of queries and keys. */
struct qkv_cost {
    double operations; /* multiplications and additions of matrix products; 0 for ops without products */
    /* Of operands, result and saved values; in backward an input's gradient counts like the input */
    double bytes;
};

/* Cost of the forward or the backward pass of a node. The fused cross entropies compute their gradients in forward, so
 * they count there. */
struct qkv_cost qkv_tensor_cost(const struct qkv_tensor *tensor, bool backward);

/* Most bytes that the graph has used between two resets. */
size_t qkv_graph_peak_bytes(const struct qkv_graph *graph);

/* ---- two graphs, one block of gradients ---- */

/* Two graphs on different threads compute gradients of the same parameters, whose sum goes to one block. The first graph
 * writes its gradients to the block. The second computes each gradient in separate memory and adds it when both are
 * complete: whichever graph runs faster, the sum has the same bits as if each graph had a block of its own and one block
 * were added to the other. The separate memory holds only the gradients on which backward works at a time. If the second
 * graph shares memory, it also stores them over the values that the loss has saved: call qkv_graph_rewind or build the
 * graph again before another qkv_backward. Bind both graphs to the same block, the first without `accumulate`, the second
 * with it.
 *
 * In qkv_backward the second graph waits for the first, which must complete qkv_backward or call qkv_graph_finish_pair; a
 * graph that fails completes nothing. So never start the second before the first, and call qkv_graph_finish_pair for a
 * first graph that has failed or will not run: otherwise the second waits forever. */
struct qkv_gradient_pair;

/* For one block of allocated parameters. NULL when memory runs out or they are not allocated. */
struct qkv_gradient_pair *qkv_gradient_pair_new(const struct qkv_parameters *parameters);
void qkv_gradient_pair_free(struct qkv_gradient_pair *pair);

/* Prepares the pair for two backward passes. No graph may run meanwhile. */
void qkv_gradient_pair_reset(struct qkv_gradient_pair *pair);

/* Makes the graph the first or the second of the pair; NULL (the default): it belongs to no pair. Survives resets. */
void qkv_graph_set_pair(struct qkv_graph *graph, struct qkv_gradient_pair *pair, bool is_second);

/* Declares that the graph adds nothing more to the gradients of its pair. */
void qkv_graph_finish_pair(struct qkv_graph *graph);

/* ---- matrices reordered for products ---- */

/* Copies of parameter matrices in the order in which the kernels read them (panels), for graphs that run
 * many times while parameters stay the same, as in decoding. A copy is made when a product first needs it, and
 * again when parameters->changes has changed. Graphs on any threads may share one struct qkv_panels. Results have the
 * same bits. */
struct qkv_panels;

/* For one block of allocated parameters. NULL when memory runs out or they are not allocated. */
struct qkv_panels *qkv_panels_new(const struct qkv_parameters *parameters);
void qkv_panels_free(struct qkv_panels *panels);

/* NULL (the default): products read the parameters directly. Survives resets. */
void qkv_graph_set_panels(struct qkv_graph *graph, struct qkv_panels *panels);

/* How the numbers of a matrix share scales when it is stored as int8. */

/* Scale i belongs to the numbers i * scale_step + j * step, j from 0 to count - 1: to a column of a weight [inputs,
 * outputs], which is an output; to a row of a table. */
struct qkv_int8_layout {
    int64_t scales, count, scale_step, step;
};

static inline struct qkv_int8_layout qkv_int8_layout_of(const struct qkv_parameter *matrix)
{
    int64_t rows = matrix->shape.size[0], columns = matrix->shape.size[1];
    if (matrix->is_table) return (struct qkv_int8_layout){rows, columns, columns, 1};
    return (struct qkv_int8_layout){columns, rows, 1, columns};
}

/* Lets qkv_forward split products with large matrices among `workers`. It computes on the caller's thread alone while the
 * workers are busy with other work, and with NULL (the default). Results have the same bits either way. Meant for graphs
 * that run one at a time. */
void qkv_graph_set_workers(struct qkv_graph *graph, struct qkv_workers *workers);
