/* Internal structs and functions of graphs, tensors and ops, for the engine, and for what builds networks of
 * its ops. */
#pragma once

#include "graph/internal.h"

#include <stdatomic.h>

/* Largest number of elements of a tensor: products of axes and sizes in bytes stay within int64_t. */
#define QKV_MAX_ELEMENTS ((int64_t)1 << 40)

/* Memory that several tensors use, one after the other. */
struct qkv_slot {
    struct qkv_slot *next_free;
    void *memory;
    int64_t capacity; /* numbers of the graph's dtype */
};

/* A node: the result of an op, or a leaf (constant, variable, parameter). `value`, `gradient` and
 * `saved` hold numbers of the graph's dtype. */
struct qkv_tensor {
    enum qkv_op_id op;
    struct qkv_shape shape;
    int64_t count;       /* elements */
    bool needs_gradient; /* depends on a variable or a parameter with gradient */
    bool touched;        /* backward adds to the numbers in `gradient`; false: it overwrites them */
    bool recomputed;     /* plan.c: its value has been computed again in this backward pass */
    bool is_aliased;     /* the result of an alias op is stored in the same memory */
    bool is_overwritten; /* plan.c: after forward, its memory may hold the value of another tensor */
    bool reads_arrays;   /* tensor.c: the op has indices, segments or a first position */
    const struct qkv_parameter *parameter; /* NULL unless it is a parameter's leaf */
    const struct qkv_binding *binding;     /* of a parameter's leaf: the block that the parameter is in */

    void *value, *gradient;
    struct qkv_graph *graph;
    struct qkv_tensor *next; /* in order of creation, as `previous` */
    struct qkv_tensor *input[QKV_MAX_INPUTS];
    void *saved;            /* what forward keeps for backward: saved_count numbers */
    void *forward_gradient; /* see qkv_op.forward_gradient */
    void *weights;       /* attention: weights that qkv_op.weights has computed on demand; NULL: none yet */
    int64_t saved_count; /* set by the shape rule */
    int64_t scratch;     /* set by the shape rule: numbers of workspace that forward or backward needs */
    int64_t scratch_forward; /* workspace for forward if that is more than `scratch`; see scratch_kept */
    int64_t kept_indices;    /* tensor.c: number of indices that the graph has copied */
    /* Set by the shape rule: the result is kept for backward, which reads it, or to which computing it again would cost too
     * much. For ops in which this depends on shapes or options; others declare it in struct qkv_op. */
    bool keeps_result;

    struct qkv_tensor *first_consumer; /* first node with gradient that uses it; backward reaches it last */
    struct qkv_tensor *last_consumer;
    struct qkv_tensor *previous;
    int consumers;          /* uses as an input; a node that uses the tensor twice counts twice */
    uint32_t dropout_index; /* random nodes that precede it: selects its stream of random numbers */

    struct qkv_tensor *overwrites; /* plan.c: the input whose memory the value is written to; NULL: none */
    /* plan.c: the slots in which value and gradient are stored; NULL: memory outside all slots (of its own, of an
     * aliased or overwritten input) */
    struct qkv_slot *value_slot, *gradient_slot;
    struct qkv_slot new_value_slot, new_gradient_slot; /* plan.c: used if no free slot was large enough */

    const char *name; /* of the parameter, or of the scope; NULL: neither. Not unique */
    struct qkv_options options;
};

/* A block of parameters that is bound to a graph. */
struct qkv_binding {
    const struct qkv_parameters *parameters;
    char *gradients;  /* laid out as parameters->values; NULL: the parameters are constants */
    bool accumulate;  /* backward adds to `gradients` instead of overwriting them */
    bool is_reusable; /* qkv_graph_reuse_gradients */
    /* [parameters->count] in the arena: the leaf of each parameter, or NULL if the graph does not use it; NULL before
     * the first qkv_graph_parameter */
    struct qkv_tensor **leaf;
    bool is_read;     /* a forward since the last reset or rewind has read parameters of the block */
    uint64_t changes; /* parameters->changes at the first such forward */
};

/* Which gradients backward has completed, for a thread that reads them while backward is still running. */
struct qkv_progress {
    const struct qkv_parameters *parameters;
    atomic_bool *is_complete; /* [parameters->count]; NULL: not recorded */
};

struct qkv_graph {
    enum qkv_dtype dtype;
    const struct qkv_op *const *ops; /* by enum qkv_op_id: the table of this dtype for this machine */
    size_t size;                     /* bytes of one number, not of the graph */
    struct qkv_arena arena;
    struct qkv_tensor *first, *last;
    struct qkv_tensor *last_run;           /* the last node that forward has computed; NULL: none */
    void *scratch;                         /* workspace that all nodes use, one after the other */
    int64_t scratch_count, scratch_wanted; /* numbers in the workspace; largest need of any node */
    /* Numbers at the start of the workspace that are in use during backward: the workspace of backward, then
     * gradients, which plan.c stores in the part that only forward needs as workspace. */
    int64_t scratch_kept;
    bool guards_scratch; /* an access past the workspace of an op ends the program: qkv_arena_guard */

    bool needs_gradients, has_dropout, failed;
    bool lacks_kernels;         /* QKV_KERNELS is invalid: the graph fails, also after a reset */
    bool shares_memory;         /* see qkv_graph_share_memory */
    struct qkv_tensor *planned; /* the tensor that qkv_graph_plan was called for */
    struct qkv_random random;
    uint32_t dropout_count; /* random nodes so far */
    double token_cutoff;    /* see qkv_graph_set_token_cutoff */

    struct qkv_binding binding[QKV_MAX_BLOCKS]; /* nodes.c */
    int binding_count;
    bool replaces_bindings; /* the next qkv_graph_bind replaces all bindings, instead of adding one */

    struct qkv_array *arrays; /* tensor.c: copies of the callers' arrays, the newest first; NULL: none */
    bool rewound;             /* the next forward reads the callers' arrays again */
    bool leaf_written;        /* qkv_tensor_write has changed a leaf that forward had read */
    bool trusts_arrays;       /* the next forward does not check these arrays */
    bool checks_again;        /* shape rules run again to check arrays: they must not copy them */

    struct qkv_workers *workers;    /* NULL: the caller's thread alone */
    struct qkv_gradient_pair *pair; /* NULL: no other graph adds to the same gradients */
    bool is_second;                 /* the graph of the pair that adds to the gradients of the other one */
    struct qkv_progress progress;   /* of backward */
    struct qkv_panels *panels;      /* NULL: products read parameters where they are stored */

    const char *scope;            /* name of the nodes that are created now; NULL: none */
    struct qkv_observer observer; /* `ran` is NULL: no observer */
    struct qkv_error error;
};

/* Sets of values, for the declarations of ops: QKV_INPUT(0) | QKV_INPUT(2) | QKV_RESULT. */
#define QKV_INPUT(i) (1u << (i))
#define QKV_RESULT   (1u << QKV_MAX_INPUTS)

/* The graph's description of an op: one struct per precision and instruction set.
 *
 * plan.c derives from backward_reads, elementwise, alias and recompute which tensors may share memory, and the gradient
 * check (check/declarations.c) tests these declarations on the samples. A superfluous value in backward_reads costs memory.
 * A missing value there, or a superfluous input in elementwise, makes gradients wrong in graphs that share memory, and
 * fails the check. */
struct qkv_op {
    const char *name;
    int inputs;
    unsigned optional; /* inputs that may be NULL */
    bool random;       /* draws random numbers: each node gets its own stream */

    unsigned backward_reads; /* inputs and result whose values backward reads, apart from `saved` */
    /* Inputs whose element i affects only element i of the result. The op must work when its result is stored in the
     * memory of such an input. If backward does not read that input, it must also work when the input's gradient is
     * stored in the memory of the result's gradient. */
    unsigned elementwise;
    /* Inputs whose gradient backward updates with at most one addition per element, of a number that it has computed
     * completely before. So, if the gradient of the result is 1, adding in place has the same bits as computing the
     * gradient in separate memory and adding it afterwards. */
    unsigned accumulates_once;
    /* INPUT(i): forward computes the gradient of that input, assuming that the gradient of the result is 1, and stores it
     * in tensor->forward_gradient. */
    unsigned forward_gradient;
    unsigned alias;        /* INPUT(0): the result is stored in the memory of input 0 (reshape, store_rows) */
    bool stops_gradient;   /* detach: the result needs no gradient, whatever the inputs need */
    unsigned weights_read; /* values that `weights` reads after forward */

    /* Sets y->shape, saved_count, scratch and scratch_forward from inputs and options, or returns qkv_refuse(y, "...").
     * Runs again when a rewound graph reads the caller's arrays again (tensor.c). NULL, except in the structs
     * that qkv_op_rule returns. */
    bool (*shape)(struct qkv_tensor *y);
    void (*forward)(struct qkv_tensor *y);
    void (*backward)(struct qkv_tensor *y); /* NULL: the op has no gradient */
    /* Computes the result again, from values in backward_reads and `saved`, which it leaves as they are. Backward calls it for
     * results that are not kept. NULL: it would take too long, so results are kept. */
    void (*recompute)(struct qkv_tensor *y);

    /* Attention: returns all weights, sentence by sentence and head by head, each block [Tq, Tk]. If forward has not kept
     * them, computes them in the graph's arena. NULL when memory runs out. */
    const void *(*weights)(struct qkv_tensor *y);
};

/* Allocates the memory of a new tensor whose shape and count are set, and appends it to the graph's nodes. Returns the
 * tensor, or NULL when the graph fails. */
struct qkv_tensor *qkv_append_node(struct qkv_tensor *tensor);

/* A tensor in the graph's arena, with the current scope as its name; NULL when memory runs out. */
struct qkv_tensor *qkv_tensor_new(struct qkv_graph *graph, enum qkv_op_id op);

/* tensor.c: replaces the segments and the first position among y's options by copies in the graph's memory. Returns
 * false, with the graph's error set, if they cannot be copied. */
bool qkv_keep_arrays(struct qkv_tensor *y);

/* tensor.c: replaces y->options.indices, of which the op reads `count`, by a copy. Called by shape rules. */
bool qkv_keep_indices(struct qkv_tensor *y, int64_t count);

/* tensor.c: copies all arrays of the callers again and, unless the graph trusts them, runs the shape rules of the nodes
 * that read them. Returns false, with the graph's error set, if a node does not fit its arrays. */
bool qkv_read_arrays_again(struct qkv_graph *graph);

/* run.c: qkv_graph_rewind without the check of the arrays. For the library's own decoding, which guarantees that indices
 * are within their bounds and segments do not grow; the check would take a tenth of a step of a small model. */
void qkv_graph_rewind_unchecked(struct qkv_graph *graph);

/* nodes.c: the binding of `parameters`; NULL: they are not bound to the graph. */
struct qkv_binding *qkv_binding_of(struct qkv_graph *graph, const struct qkv_parameters *parameters);

/* nodes.c: notes the `changes` of each bound block that the graph uses, unless they are noted already. Called by each
 * forward, so that they are those of the first forward that has read the block; forgotten by a reset and a rewind. */
void qkv_note_parameters(struct qkv_graph *graph);
void qkv_forget_parameters(struct qkv_graph *graph);

/* nodes.c: whether a block has changed since it was noted. */
bool qkv_parameters_changed(const struct qkv_graph *graph);

/* nodes.c: sets the gradients of parameters that the graph does not use to zero. */
void qkv_clear_unused_gradients(const struct qkv_graph *graph);

/* nodes.c: lets qkv_graph_plan store values in the gradients of these bound parameters; nothing may read the gradients
 * until backward has computed them. Holds until the parameters are bound again. */
void qkv_graph_reuse_gradients(struct qkv_graph *graph, const struct qkv_parameters *parameters);

/* run.c: makes backward set is_complete of each parameter as soon as its gradient no longer changes. Parameters that no
 * node computes a gradient for are not marked; when backward has ended, all gradients are complete. Survives resets. Before,
 * qkv_graph_set_pair must be called if at all: it sets the progress of the first graph of a pair, for which the second waits. */
void qkv_graph_set_progress(struct qkv_graph *graph, struct qkv_progress progress);

/* nodes.c: the values that must be available, as forward computed them, when backward comes to node y. */
unsigned qkv_backward_reads(const struct qkv_tensor *y);

/* nodes.c: the input that the op declares as forward_gradient; NULL if it declares none, or if that input or the result needs
 * no gradient. */
struct qkv_tensor *qkv_early_input(const struct qkv_tensor *y);

/* Whether an input of y with a smaller index is the same tensor as input i. */
static inline bool qkv_is_repeated_input(const struct qkv_tensor *y, int i)
{
    for (int j = 0; j < i; j++)
        if (y->input[j] == y->input[i]) return true;
    return false;
}

/* gradient_pair.c: called before and after the backward of node y (qkv_pair_before also for a parameter y where backward
 * starts) in the second graph of a pair. Before, it prepares the gradients of the parameters that y reads. After, it adds those
 * that are complete. */
void qkv_pair_before(struct qkv_tensor *y);
void qkv_pair_after(const struct qkv_tensor *y);

/* The packed copy of the parameter matrix `weight`, `bytes` large, from the graph's panels. Calls `pack` if there is no
 * copy of the current values yet. NULL when the graph has no panels, `weight` is not a parameter or the block of copies is
 * full; the caller then reads `weight` directly. */
const void *qkv_panels_of(const struct qkv_tensor *weight, bool transposed, size_t bytes,
                          void (*pack)(const struct qkv_tensor *weight, bool transposed, void *panels));

/* Makes the graph fail with `op (scope): sentence`; returns false. For shape rules. */
bool qkv_refuse(struct qkv_tensor *y, const char *format, ...) QKV_PRINTF(2, 3);

/* parameters.c: makes the parameters fail. qkv_parameters_allocate returns the message of the first call. */
void qkv_parameters_refuse(struct qkv_parameters *parameters, const char *format, ...) QKV_PRINTF(2, 3);

/* A matrix of constants that a layer needs, in the precision of the layer's parameters. */
struct qkv_table {
    struct qkv_table *next; /* of the same parameters */
    int64_t rows, columns;
    double base;
    void (*fill)(const struct qkv_table *table); /* computes `values` from the other fields */
    enum qkv_dtype dtype;                        /* of `values` */
    void *values;                                /* [rows, columns]; NULL before qkv_parameters_allocate */
};

/* parameters.c: a table that qkv_parameters_allocate will fill, or at once if it has run already. Equal tables are one.
 * NULL, and the parameters fail, when memory runs out. */
const struct qkv_table *qkv_parameters_add_table(struct qkv_parameters *parameters, struct qkv_table table);

/* parameters.c: must be called after all values were replaced: the new values are not rounded to int8, even if the old ones
 * were. */
void qkv_parameters_replaced(struct qkv_parameters *parameters);

/* graph.c: the name of input i of an op, as ops.def spells it, such as "weight"; not terminated, but `length` long. */
const char *qkv_op_input_name(enum qkv_op_id op, int i, int *length);

/* graph.c: what a shape that no tensor can have should have, for messages: "at most 2^40 elements". */
const char *qkv_shape_fault(struct qkv_shape shape);

/* "[2, 3]". The fourth following call on this thread overwrites the text. */
const char *qkv_shape_text(struct qkv_shape shape);

/* tensor.c: whether the last forward has computed y; false for nodes that were recorded after it. */
bool qkv_is_computed(const struct qkv_tensor *y);

/* A tensor as a matrix: rows are the product of all axes but the last; columns are the last
 * axis. */
static inline int64_t qkv_rows(const struct qkv_tensor *x)
{
    int64_t rows = 1;
    for (int i = 0; i < x->shape.rank - 1; i++) rows *= x->shape.size[i];
    return rows;
}

static inline int64_t qkv_columns(const struct qkv_tensor *x)
{
    return x->shape.size[x->shape.rank - 1];
}

static inline bool qkv_are_equal(struct qkv_shape a, struct qkv_shape b)
{
    bool equal = a.rank == b.rank;
    for (int i = 0; equal && i < a.rank; i++) equal = a.size[i] == b.size[i];
    return equal;
}

static inline bool qkv_same_shape(const struct qkv_tensor *a, const struct qkv_tensor *b)
{
    return qkv_are_equal(a->shape, b->shape);
}

/* Number of sentences. Empty segments (count 0) mean one sentence of all rows. */
static inline int64_t qkv_segment_count(const struct qkv_segments *segments)
{
    return segments->count ? segments->count : 1;
}

/* First row of sentence i. */
static inline int64_t qkv_segment_start(const struct qkv_segments *segments, int64_t i)
{
    return segments->count ? segments->start[i] : 0;
}

/* Number of rows of sentence i of a matrix of `rows` rows. */
static inline int64_t qkv_segment_length(const struct qkv_segments *segments, int64_t i, int64_t rows)
{
    return segments->count ? segments->length[i] : rows;
}

/* tensor.c: refuses segments that do not lie within the rows. what: whose segments they are, in messages. */
bool qkv_check_segments(struct qkv_tensor *y, const struct qkv_segments *segments, int64_t rows,
                        const char *what);

/* Refuses segments that have rows in common. They must have passed qkv_check_segments. */
bool qkv_check_disjoint(struct qkv_tensor *y, const struct qkv_segments *segments, const char *what);

/* ---- defined in kernels/registry.c; graph/ calls no other function of kernels/ ---- */

/* Table of the ops of a precision, indexed by enum qkv_op_id: the fastest variant that this
 * processor can run, or the variant that the environment variable QKV_KERNELS names. */
const struct qkv_op *const *qkv_registry(enum qkv_dtype dtype);

/* QKV_INVALID when QKV_KERNELS names no variant. */
enum qkv_status qkv_kernels_check(struct qkv_error *error);

/* The op with its shape rule; only one variant has it. */
const struct qkv_op *qkv_op_rule(enum qkv_op_id op);
