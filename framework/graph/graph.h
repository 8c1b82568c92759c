/* Internal structs and functions of graphs, tensors and ops, for framework/graph, framework/kernels
 * and framework/check. */
#ifndef QKV_GRAPH_GRAPH_H
#define QKV_GRAPH_GRAPH_H

#include "qkv/arena.h"
#include "qkv/graph.h"
#include "qkv/ops.h"

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
    bool touched;        /* its gradient has been written in this backward pass */
    bool recomputed;     /* plan.c: its value has been computed again in this backward pass */
    bool turn_done;      /* turns.c: this graph has added its part of the parameter's gradient */
    bool is_aliased;     /* the result of an alias op is stored in the same memory */
    bool keeps_no_value; /* plan.c: after forward, other values are stored in the memory of this one */
    const struct qkv_parameter *parameter; /* NULL unless it is a parameter's leaf */

    void *value, *gradient;
    struct qkv_graph *graph;
    struct qkv_tensor *next; /* in order of creation, as `previous` */
    struct qkv_tensor *input[QKV_MAX_INPUTS];
    void *saved;         /* what forward keeps for backward: saved_count numbers */
    void *weights;       /* attention: weights that qkv_op.weights has computed on demand; NULL: none yet */
    int64_t saved_count; /* set by the shape rule */
    int64_t scratch;     /* set by the shape rule: numbers of workspace that forward or backward needs */
    int64_t scratch_forward; /* workspace that only forward needs; backward may store gradients there */

    struct qkv_tensor *first_consumer; /* first node that uses this tensor; backward reaches it last */
    struct qkv_tensor *last_consumer;
    struct qkv_tensor *previous;
    int consumers;          /* uses as an input; a node that uses the tensor twice counts twice */
    uint32_t dropout_index; /* among the random nodes of the graph: selects the stream of random numbers */

    struct qkv_tensor *overwrites; /* plan.c: the input whose memory the value is written to; NULL: none */
    struct qkv_slot *value_slot, *gradient_slot;       /* plan.c: shared memory; NULL: memory of its own */
    struct qkv_slot own_value_slot, own_gradient_slot; /* plan.c: slots that were created for this tensor */

    const char *name;
    struct qkv_options options;
};

struct qkv_graph {
    enum qkv_dtype dtype;
    const struct qkv_op *const *ops; /* the table of this dtype for this machine */
    size_t size;                     /* bytes of a number */
    struct qkv_arena arena;
    struct qkv_tensor *first, *last;
    struct qkv_tensor *last_run;           /* the last node that forward has computed; NULL: none */
    void *scratch;                         /* workspace that all nodes use, one after the other */
    int64_t scratch_count, scratch_wanted; /* numbers that it holds; largest need of any node */
    int64_t scratch_kept; /* numbers at its start that backward uses: workspace, then gradients */

    bool gradients, has_dropout, failed;
    bool shares_memory;         /* see qkv_graph_share_memory */
    struct qkv_tensor *planned; /* the tensor that qkv_graph_plan was called for */
    struct qkv_random random;
    uint32_t dropout_count; /* random nodes so far */

    const struct qkv_parameters *parameters;
    /* [parameters->count] in the arena: the tensor of each parameter, or NULL if the graph does not
     * use it; NULL before the first qkv_graph_parameter */
    struct qkv_tensor **leaf;
    char *parameter_gradients; /* the caller's block, as parameters->values; NULL: parameters are constants */
    bool accumulate;           /* backward adds to parameter_gradients instead of overwriting */

    struct qkv_workers *workers; /* NULL: the caller's thread alone */
    struct qkv_turns *turns;     /* NULL: no other graph adds to the same gradients */
    int turn;                    /* position of this graph in the order of turns */
    bool turns_done;             /* the graph has ended its turns of all parameters */
    struct qkv_panels *panels;   /* NULL: products read parameters where they are stored */

    const char *scope;            /* name of the nodes that are created now; NULL: none */
    struct qkv_observer observer; /* `ran` is NULL: no observer */
    struct qkv_error error;
};

/* Shape of one input of a sample; rank 0: no input. 16-bit numbers, because every program contains
 * hundreds of samples. */
struct qkv_sample_input {
    int16_t rank, size[QKV_MAX_RANK];
};

/* Options of a sample, in fewer bytes than struct qkv_options: the fields that samples use, by the
 * same names. */
#define QKV_SAMPLE_OPTIONS(OPTION)                                                                           \
    OPTION(double, factor)                                                                                   \
    OPTION(double, epsilon)                                                                                  \
    OPTION(double, rate)                                                                                     \
    OPTION(double, smoothing)                                                                                \
    OPTION(const int32_t *, indices)                                                                         \
    OPTION(const int64_t *, first)                                                                           \
    OPTION(struct qkv_segments, segments)                                                                    \
    OPTION(struct qkv_segments, queries)                                                                     \
    OPTION(struct qkv_segments, keys)                                                                        \
    OPTION(int8_t, axis)                                                                                     \
    OPTION(int8_t, start)                                                                                    \
    OPTION(int8_t, length)                                                                                   \
    OPTION(int8_t, rows)                                                                                     \
    OPTION(int8_t, local_window)                                                                             \
    OPTION(int8_t, index_count)                                                                              \
    OPTION(bool, transpose_a)                                                                                \
    OPTION(bool, transpose_b)                                                                                \
    OPTION(bool, reverse)

struct qkv_sample_options {
#define OPTION(type, name) type name;
    QKV_SAMPLE_OPTIONS(OPTION)
#undef OPTION
    const struct qkv_attention_rule *attention; /* NULL: all 0 */
    struct qkv_sample_input shape;
    int8_t permutation[QKV_MAX_RANK];
};

/* An op called with certain shapes and options: one that must work, which the gradient check runs,
 * or one that must be refused with `message`. A list ends with a sample whose `name` is NULL. */
struct qkv_sample {
    const char *name;
    struct qkv_sample_input input[QKV_MAX_INPUTS];
    const struct qkv_sample_options *options; /* NULL: all 0 */
    const char *message;                      /* of bad samples: text that the error must contain */
    float low, high;  /* inputs are drawn from +-[0.1, 1], or from [low, high] where these differ */
    uint8_t constant; /* bit i: input i gets no gradient */
    uint8_t binary;   /* bit i: input i holds only 0 and 1 */
};

/* Sets of values, for the declarations of ops: INPUT(0) | INPUT(2) | RESULT. */
#define QKV_INPUT(i) (1u << (i))
#define QKV_RESULT   (1u << QKV_MAX_INPUTS)

/* All that the engine knows of an op: one struct per precision and instruction set.
 *
 * The declarations say what an op reads; plan.c derives from them which tensors may share memory, and the
 * gradient check (check/declarations.c) proves them. A value too many in backward_reads costs memory. A
 * value too few there, or an input too many in elementwise, makes gradients wrong where memory is shared, and fails
 * the check. */
struct qkv_op {
    const char *name;
    int inputs;
    unsigned optional; /* inputs that may be NULL */
    bool random;       /* draws random numbers: each node gets a stream of its own */

    unsigned backward_reads; /* inputs and result whose values backward reads, apart from `saved` */
    unsigned
        elementwise; /* inputs of which element i alone affects element i of the result. Forward may write
                                the result over such an input, and backward, unless it reads that input, the
                                input's gradient over the result's. */
    unsigned alias;  /* INPUT(0): the result is stored in the memory of input 0 (reshape, store_rows) */
    bool recompute;  /* cheap: backward may compute the result again instead of keeping it */
    unsigned weights_read; /* values that `weights` reads after forward */

    /* Sets y->shape, saved_count and scratch from inputs and options, or returns qkv_refuse(y,
     * "..."). Only the structs that qkv_op_rule returns have it, and the samples. */
    bool (*shape)(struct qkv_tensor *y);
    void (*forward)(struct qkv_tensor *y);
    void (*backward)(struct qkv_tensor *y); /* NULL: the op has no gradient */

    /* Attention: all weights, sentence by sentence and head by head, each block [Tq, Tk]. Computes
     * them into the graph's arena if forward has not kept them. NULL when memory is out. */
    const void *(*weights)(struct qkv_tensor *y);
    const struct qkv_sample *good, *bad;
};

/* turns.c: called before and after the backward of node y. Before: waits for this graph's turn at
 * the parameters that y reads. After: ends the turn of those whose gradient is complete. */
void qkv_turns_before(const struct qkv_tensor *y);
void qkv_turns_after(const struct qkv_tensor *y);

/* The packed copy of the parameter matrix `weight`, `bytes` large, from the graph's panels. Calls
 * `pack` if there is no copy of the present values yet. NULL when the graph has no panels, `weight`
 * is not a parameter or the block of copies is full: the caller then reads `weight` itself. */
const void *qkv_panels_of(const struct qkv_tensor *weight, bool transposed, size_t bytes,
                          void (*pack)(const struct qkv_tensor *weight, bool transposed, void *panels));

/* Makes the graph fail with `op (scope): sentence`; returns false. For shape rules. */
bool qkv_refuse(struct qkv_tensor *y, const char *format, ...) QKV_PRINTF(2, 3);

/* "[2, 3]"; good until the fourth next call on this thread. */
const char *qkv_shape_text(struct qkv_shape shape);

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

static inline bool qkv_same_shape(const struct qkv_tensor *a, const struct qkv_tensor *b)
{
    if (a->shape.rank != b->shape.rank) return false;
    for (int i = 0; i < a->shape.rank; i++)
        if (a->shape.size[i] != b->shape.size[i]) return false;
    return true;
}

/* Number of sentences; first row and number of rows of sentence i. `rows` is the number of rows of
 * the matrix, which counts where `segments` is empty: one sentence of all rows. */
static inline int64_t qkv_segment_count(const struct qkv_segments *segments)
{
    return segments->count ? segments->count : 1;
}

static inline int64_t qkv_segment_start(const struct qkv_segments *segments, int64_t i)
{
    return segments->count ? segments->start[i] : 0;
}

static inline int64_t qkv_segment_length(const struct qkv_segments *segments, int64_t i, int64_t rows)
{
    return segments->count ? segments->length[i] : rows;
}

/* ---- defined in kernels/registry.c; graph/ calls no other function of kernels/ ---- */

/* Table of the ops of a precision, indexed by enum qkv_op_id: the fastest variant that this
 * processor can run, or the variant that the environment variable QKV_KERNELS names. */
const struct qkv_op *const *qkv_registry(enum qkv_dtype dtype);

/* The op with its shape rule and samples; only one variant has them. */
const struct qkv_op *qkv_op_rule(enum qkv_op_id op);

#endif
