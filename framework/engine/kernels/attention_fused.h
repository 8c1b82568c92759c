/* Code shared by the two kernels of the fused attention op: the geometry of a call, and blocks of query rows with the
 * ranges of keys that these rows see. A window only changes loop bounds: the keys of a block are the global keys and those
 * within the windows of its rows; other keys are not read. */
#ifndef QKV_KERNELS_ATTENTION_FUSED_H
#define QKV_KERNELS_ATTENTION_FUSED_H

#include "graph/attention_rule.h"
#include "kernels/attention.h"
#include "kernels/dropout.h"
#include "kernels/tiles.h"

struct attention {
    const struct qkv_options *options;
    const struct qkv_attention_rule *rule;
    int64_t query_rows, key_rows, heads, key_width, value_width;
    int64_t group;                              /* query heads that share a head of keys and values */
    int64_t query_ld, key_ld, value_ld, out_ld; /* row strides of the matrices, as in BLAS */
    int64_t longest_queries, longest_keys;      /* of a sentence */
    bool drops;                                 /* dropout applies */
    bool keep_weights; /* for backward, or because dropout negates the weights of all blocks in one pass */
    real scale;
    const real *query, *key, *value;
    struct mask mask;
    const struct qkv_tensor *bias;
};

/* One head of one sentence. */
struct head {
    struct sentence sentence;
    int64_t index; /* 0 .. H - 1 */
    /* Offsets in each matrix: first row of the sentence, first column of the head */
    int64_t query, key, value, out;
    int64_t ragged; /* offset of its [Tq, Tk] matrix in the ragged block: dropout masks depend on it */
};

/* Queries row .. row + rows - 1 of a sentence (from 0), and the keys of the sentence that they see: two ranges of
 * keys, the first of which may be empty. The scores and weights of a block are matrices [rows, columns]; the
 * columns of range 1 follow those of range 0. */
struct block {
    int64_t row, rows, columns;
    int64_t start[2], length[2]; /* of the ranges: first key (from 0) and number of keys */
};

static inline struct block block_at(const struct qkv_attention_rule *rule, const struct sentence *p,
                                    int64_t row, int64_t max_rows)
{
    int64_t position = p->keys - p->queries + row;
    if (!rule->window && !rule->causal)
        return (struct block){.row = row,
                              .rows = p->queries - row < max_rows ? p->queries - row : max_rows,
                              .columns = p->keys,
                              .length = {0, p->keys}};
    struct block b = {.row = row, .rows = p->queries - row < max_rows ? p->queries - row : max_rows};
    if (position < rule->global_tokens && b.rows > rule->global_tokens - position)
        b.rows = rule->global_tokens - position;
    struct qkv_visible_keys first = visible_to(rule, p, row), last = visible_to(rule, p, row + b.rows - 1);
    b.length[0] = first.global_end;
    b.start[1] = first.from;
    b.length[1] = last.to - first.from;
    b.columns = b.length[0] + b.length[1];
    return b;
}

/* The visible keys of row i of a block, as columns of the block. */
static inline struct qkv_visible_keys visible_in_block(const struct qkv_attention_rule *rule,
                                                       const struct sentence *p, const struct block *b,
                                                       int64_t i)
{
    struct qkv_visible_keys visible = visible_to(rule, p, b->row + i);
    int64_t shift = b->start[1] - b->length[0];
    visible.from -= shift;
    visible.to -= shift;
    return visible;
}

/* Rows of a block under a window: many, so that products are efficient, but not so many that the windows of
 * the first and the last row, all of whose keys the block computes, lie far apart. */
static inline int64_t window_rows(const struct qkv_attention_rule *rule)
{
    int64_t rows = rule->window / 2;
    return rows < 16 ? 16 : rows > 256 ? 256 : rows;
}

/* ---- distance terms of the scores ----
 *
 * The scratch begins with two tables [H, 2 M], where M is longest_keys, the number of keys of the longest sentence: the
 * distance terms of each head, and their gradients. Column M + d belongs to the keys d positions after the query. */

static inline bool needs_bias_gradient(const struct qkv_tensor *y)
{
    return y->input[4] && y->input[4]->needs_gradient;
}

/* Numbers of both tables. */
static inline int64_t distance_count(const struct attention *a)
{
    return qkv_attention_adds_distance(a->rule) ? 2 * a->heads * 2 * a->longest_keys : 0;
}

/* Column M of the row of head h. Callers index it with key position - query position, which may be
 * negative. Row H + h is the gradient of row h. */
static inline real *distance_row(const struct qkv_tensor *y, const struct attention *a, int64_t h)
{
    return (real *)y->graph->scratch + (2 * h + 1) * a->longest_keys;
}

static inline void distance_table(const struct qkv_tensor *y, const struct attention *a)
{
    int64_t maximum = a->longest_keys;
    for (int64_t h = 0; qkv_attention_adds_distance(a->rule) && h < a->heads; h++)
        for (int64_t d = -maximum; d < maximum; d++)
            distance_row(y, a, h)[d] = distance_term(y, a->bias, d, h);
}

static inline void distance_clear(const struct qkv_tensor *y, const struct attention *a)
{
    if (needs_bias_gradient(y))
        memset(distance_row(y, a, a->heads) - a->longest_keys, 0,
               (size_t)(distance_count(a) / 2) * sizeof(real));
}

/* dbias[bucket(d), h] += gradient[h, d] */
static inline void distance_backward(const struct qkv_tensor *y, const struct attention *a)
{
    if (!needs_bias_gradient(y)) return;
    real *gradient = gradient_of(y->input[4]);
    for (int64_t d = -a->longest_keys; d < a->longest_keys; d++) {
        int64_t bucket = qkv_attention_bucket(a->rule, d);
        for (int64_t h = 0; h < a->heads; h++)
            gradient[bucket * a->heads + h] += distance_row(y, a, a->heads + h)[d];
    }
}

/* ---- heads ---- */

/* A separate function: when it is inlined, the compiler divides even in the usual case of group 1. */
static NOINLINE int64_t shared_head(const struct attention *a, int64_t h)
{
    return h / a->group;
}

static inline struct head head_at(const struct attention *a, const struct sentence *p, int64_t h)
{
    int64_t shared = a->group == 1 ? h : shared_head(a, h);
    return (struct head){
        .sentence = *p,
        .index = h,
        .query = p->query * a->query_ld + h * a->key_width,
        .key = p->key * a->key_ld + shared * a->key_width,
        .value = p->key * a->value_ld + shared * a->value_width,
        .out = p->query * a->out_ld + h * a->value_width,
        .ragged = p->ragged + h * p->queries * p->keys,
    };
}

/* ---- the two kernels ---- */

struct qkv_attention_kernels {
    int64_t (*saved)(const struct attention *a);   /* size of y->saved */
    int64_t (*scratch)(const struct attention *a); /* size of the scratch */
    void (*forward)(struct qkv_tensor *y, const struct attention *a);
    void (*backward)(struct qkv_tensor *y, const struct attention *a);
    /* Computes the result from the weights in y->saved. NULL: they are not kept, and backward reads the result. */
    void (*mix)(struct qkv_tensor *y, const struct attention *a);
    /* Writes all weights before dropout into y->weights, a ragged block of zeros. */
    void (*unpack_weights)(struct qkv_tensor *y, const struct attention *a);
};

extern const struct qkv_attention_kernels VARIANT(qkv_attention_, exact), VARIANT(qkv_attention_, flash);

#endif
