/* The inside of graph and tensor, for the engine and the kernels. */
#ifndef QKV_GRAPH_GRAPH_H
#define QKV_GRAPH_GRAPH_H

#include "qkv/arena.h"
#include "qkv/graph.h"
#include "qkv/ops.h"

/* Memory that gradients share. */
struct qkv_piece {
    struct qkv_piece *next; /* in the list of spare ones */
    void *memory;
    int64_t count; /* numbers */
};

/* A node. `value`, `gradient` and `saved` hold numbers of the graph's dtype. */
struct qkv_tensor {
    enum qkv_op_id op;
    struct qkv_shape shape;
    int64_t count;
    bool needs_gradient; /* some variable or parameter stands above it */
    bool touched;        /* its gradient has been written in this backward pass */
    const struct qkv_parameter *parameter;

    void *value, *gradient;
    struct qkv_piece own,
        *piece;          /* plan.c: memory that was made for this tensor, and that its gradient stands in */
    void *saved;         /* what forward keeps for backward: saved_count numbers */
    void *weights;       /* attention: what the op's `weights` has made */
    int64_t saved_count; /* set by the shape rule */
    int64_t scratch;     /* set by the shape rule: numbers that forward or backward need while they run */
    int64_t scratch_forward; /* the same where forward alone needs them: later, gradients may stand there */
    struct qkv_tensor *first_consumer; /* the last one that backward comes to */
    struct qkv_tensor *last_consumer;
    bool passed;                  /* a parameter's gradient: the turn has been passed on */
    int consumers;                /* inputs of other nodes that are this one */
    struct qkv_tensor *over;      /* plan.c: the input whose memory this one has taken */
    struct qkv_piece room, *lent; /* plan.c: memory that was made for this value, and that it stands in, where
                                     others stand before and after it: backward makes it again */
    bool made_again;              /* in this backward pass */
    bool aliased;                 /* the value of a node that is in_place stands in the same memory */
    uint32_t ordinal;             /* counts the dropping nodes of a graph: the sub-stream of their masks */

    struct qkv_tensor *input[QKV_MAX_INPUTS];
    struct qkv_options options;
    const char *name;
    struct qkv_graph *graph;
    struct qkv_tensor *next, *previous; /* in order of creation */
};

struct qkv_graph {
    enum qkv_dtype dtype;
    const struct qkv_op *const *ops; /* the table of this dtype for this machine */
    size_t size;                     /* of a number */
    struct qkv_arena arena;
    struct qkv_tensor *first, *last, *computed; /* computed: the last node that forward has run */
    void *scratch;
    int64_t scratch_count, scratch_wanted;
    int64_t scratch_kept; /* at its start: what backward needs, then the gradients that stand in it */

    bool gradients, drops_out, failed;
    bool shares;                /* tensors between leaves and result share memory */
    struct qkv_tensor *planned; /* what they were planned for */
    struct qkv_random random;
    uint32_t dropping;

    const struct qkv_parameters *parameters;
    struct qkv_tensor *
        *leaf; /* [parameters->count] in the arena; NULL before the first qkv_graph_parameter */
    char *parameter_gradients;
    bool accumulate;

    struct qkv_workers *workers; /* NULL: the caller's thread alone */
    struct qkv_turns *turns;     /* NULL: the gradients are this graph's alone */
    int number;
    bool passed;               /* all of its turns */
    struct qkv_panels *panels; /* NULL: parameters are read where they stand */

    const char *scope;
    struct qkv_observer observer; /* its `ran` is NULL while nobody watches */
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
    OPTION(struct qkv_segments, queries)                                                                     \
    OPTION(struct qkv_segments, keys)                                                                        \
    OPTION(int8_t, axis)                                                                                     \
    OPTION(int8_t, start)                                                                                    \
    OPTION(int8_t, length)                                                                                   \
    OPTION(int8_t, heads)                                                                                    \
    OPTION(int8_t, key_value_heads)                                                                          \
    OPTION(int8_t, window)                                                                                   \
    OPTION(int8_t, global_tokens)                                                                            \
    OPTION(int8_t, distance)                                                                                 \
    OPTION(int8_t, index_count)                                                                              \
    OPTION(uint8_t, kernel)                                                                                  \
    OPTION(bool, transpose_a)                                                                                \
    OPTION(bool, transpose_b)                                                                                \
    OPTION(bool, causal)                                                                                     \
    OPTION(bool, alibi)                                                                                      \
    OPTION(bool, reverse)

struct qkv_sample_options {
#define OPTION(type, name) type name;
    QKV_SAMPLE_OPTIONS(OPTION)
#undef OPTION
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

/* All that the engine knows of an op; one a precision and instruction set. */
struct qkv_op {
    const char *name;
    int inputs;
    unsigned optional; /* bit i: input i may be NULL */
    bool drops;        /* draws random numbers: gets a sub-stream of its own */
    bool in_place;     /* the value of the result is that of input 0 */
    bool lends;        /* backward does not read the result: the op that alone uses it may write over it */
    unsigned takes; /* bit i: the result may be written over input i, which backward does not read either, and
                       its gradient over that of the result */
    bool cheap; /* to make from inputs that are kept: where tensors share memory, backward makes it again */

    /* Sets y->shape, saved_count and scratch from inputs and options, or returns qkv_refuse(y, "..."). As the
     * samples, only in what qkv_op_rule gives. */
    bool (*shape)(struct qkv_tensor *y);
    void (*forward)(struct qkv_tensor *y);
    void (*backward)(struct qkv_tensor *y); /* NULL: the op has no gradient */

    /* Attention: all weights, sentence by sentence and head by head [Tq, Tk], made in the graph's arena where
     * forward did not keep them as such; NULL when memory is out. */
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

/* The table of ops for a precision, the fastest that this machine runs. */
const struct qkv_op *const *qkv_registry(enum qkv_dtype dtype);

/* The row that carries the op's shape rule and samples. */
const struct qkv_op *qkv_op_rule(enum qkv_op_id op);

#endif
