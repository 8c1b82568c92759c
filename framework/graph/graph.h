/* The inside of graph and tensor, for the engine and the kernels. */
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

/* A node: the result of an op, or a leaf (constant, variable, parameter). `value`, `gradient` and `saved` hold
 * numbers of the graph's dtype. */
struct qkv_tensor {
    enum qkv_op_id op;
    struct qkv_shape shape;
    int64_t count;       /* elements */
    bool needs_gradient; /* depends on a variable or a parameter with gradient */
    bool touched;        /* its gradient has been written in this backward pass */
    bool recomputed;     /* plan.c: its value has been computed again in this backward pass */
    bool turn_done;      /* turns.c: a parameter's gradient is complete, the next graph may add to it */
    bool is_aliased;     /* the result of an alias op is stored in the same memory */
    bool keeps_no_value; /* plan.c: after forward, other values are stored in the memory of this one */
    const struct qkv_parameter *parameter; /* NULL unless it is a parameter's leaf */

    void *value, *gradient;
    void *saved;             /* what forward keeps for backward: saved_count numbers */
    void *weights;           /* attention: the weights that the op's `weights` computed on demand */
    int64_t saved_count;     /* set by the shape rule */
    int64_t scratch;         /* set by the shape rule: numbers of workspace that forward or backward needs */
    int64_t scratch_forward; /* the same for forward alone: during backward, gradients are stored there */

    struct qkv_tensor *first_consumer; /* first node that uses this tensor; backward reaches it last */
    struct qkv_tensor *last_consumer;
    int consumers;          /* uses as an input; a node that uses the tensor twice counts twice */
    uint32_t dropout_index; /* among the random nodes of the graph: selects the stream of random numbers */

    struct qkv_tensor *overwrites; /* plan.c: the input whose memory the value is written to; NULL: none */
    struct qkv_slot *value_slot, *gradient_slot;       /* plan.c: shared memory; NULL: memory of its own */
    struct qkv_slot own_value_slot, own_gradient_slot; /* plan.c: slots that were created for this tensor */

    struct qkv_tensor *input[QKV_MAX_INPUTS];
    struct qkv_options options;
    const char *name;
    struct qkv_graph *graph;
    struct qkv_tensor *next, *previous; /* in order of creation */
};

struct qkv_graph {
    enum qkv_dtype dtype;
    const struct qkv_op *const *ops; /* the table of this dtype for this machine */
    size_t size;                     /* bytes of a number */
    struct qkv_arena arena;
    struct qkv_tensor *first, *last;
    struct qkv_tensor *last_run; /* the last node that forward has computed; NULL: none */
    void *scratch;
    int64_t scratch_count, scratch_wanted;
    int64_t scratch_kept; /* numbers at its start in use during backward: workspace, then gradients */

    bool gradients, has_dropout, failed;
    bool shares_memory;         /* see qkv_graph_share_memory */
    struct qkv_tensor *planned; /* the tensor that qkv_graph_plan was called for */
    struct qkv_random random;
    uint32_t dropout_count; /* random nodes so far */

    const struct qkv_parameters *parameters;
    struct qkv_tensor *
        *leaf; /* [parameters->count] in the arena; NULL before the first qkv_graph_parameter */
    char *parameter_gradients;
    bool accumulate;

    struct qkv_workers *workers; /* NULL: the caller's thread alone */
    struct qkv_turns *turns;     /* NULL: no other graph adds to the same gradients */
    int turn;                    /* position of this graph in the order of turns */
    bool turns_done;             /* all of its turns */
    struct qkv_panels *panels;   /* NULL: products read parameters where they are stored */

    const char *scope;
    struct qkv_observer observer; /* its `ran` is NULL while there is none */
    struct qkv_error error;
};

/* One input of a sample, or none (rank 0). Small numbers: every program carries hundreds of samples. */
struct qkv_sample_input {
    int16_t rank, size[QKV_MAX_RANK];
};

/* Options of a sample in few bytes: those of struct qkv_options that samples have, by the same names. */
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

/* An op called with certain shapes and options: one that must work, which the gradient check runs, or one
 * that must be refused with `message`. A list ends with a sample whose `name` is NULL. */
struct qkv_sample {
    const char *name;
    struct qkv_sample_input input[QKV_MAX_INPUTS];
    const struct qkv_sample_options *options; /* NULL: all 0 */
    const char *message;                      /* of bad samples: what the error must contain */
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
 * gradient check (check/declarations.c) proves them. A set that names too much costs memory; a set that lacks
 * a value, or an `elementwise` too many, makes gradients wrong where memory is shared, and fails the check. */
struct qkv_op {
    const char *name;
    int inputs;
    unsigned optional; /* inputs that may be NULL */
    bool random;       /* draws random numbers: each node gets a stream of its own */

    unsigned backward_reads; /* inputs and result whose values backward reads; `saved` is apart */
    unsigned
        elementwise; /* inputs of which element i alone affects element i of the result. Forward may write
                                the result over such an input, and backward, unless it reads that input, the
                                input's gradient over the result's. */
    unsigned alias;  /* INPUT(0): the result is stored in the memory of input 0 (reshape, store_rows) */
    bool recompute;  /* cheap: backward may compute the result again instead of keeping it */
    unsigned weights_read; /* values that `weights` reads after forward */

    /* Sets y->shape, saved_count and scratch from inputs and options, or returns qkv_refuse(y, "..."). As the
     * samples, only in what qkv_op_rule gives. */
    bool (*shape)(struct qkv_tensor *y);
    void (*forward)(struct qkv_tensor *y);
    void (*backward)(struct qkv_tensor *y); /* NULL: the op has no gradient */

    /* Attention: all weights, sentence by sentence and head by head [Tq, Tk], computed into the graph's arena
     * where forward did not keep them as such; NULL when memory is out. */
    const void *(*weights)(struct qkv_tensor *y);
    const struct qkv_sample *good, *bad;
};

/* turns.c: around the backward of a node. */
void qkv_turns_before(const struct qkv_tensor *y);
void qkv_turns_after(const struct qkv_tensor *y);

/* The matrix of parameters `weight`, as `make` has once brought `bytes` of it into the order of a product.
 * NULL where the graph reads no panels, `weight` is no parameter, or memory is out: then it is read where it
 * stands. */
const void *qkv_panels_of(const struct qkv_tensor *weight, bool transposed, size_t bytes,
                          void (*make)(const struct qkv_tensor *weight, bool transposed, void *panels));

/* Makes the graph fail with `op (scope): sentence`; returns false. For shape rules. */
bool qkv_refuse(struct qkv_tensor *y, const char *format, ...) QKV_PRINTF(2, 3);

/* "[2, 3]"; good until the fourth next call on this thread. */
const char *qkv_shape_text(struct qkv_shape shape);

/* Product of all axes but the last, and the last. */
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

/* Sentence i of `segments` over a matrix of `rows` rows. */
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

/* ---- what kernels/registry.c defines: graph/ sees kernels/ through these two functions only ---- */

/* The ops of a precision, by enum qkv_op_id: of the fastest variant that this processor runs, or of the one that the
 * environment variable QKV_KERNELS names. */
const struct qkv_op *const *qkv_registry(enum qkv_dtype dtype);

/* The op with its shape rule and samples, which only one variant carries. */
const struct qkv_op *qkv_op_rule(enum qkv_op_id op);

#endif
