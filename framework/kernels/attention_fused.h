/* What the two kernels of the fused attention op share: the geometry of a call, and the blocks of query rows
 * that they work on, each with the few runs of keys that its rows see. A window is loop bounds here: the keys
 * of a block are those within its rows' windows and the global ones, nothing else is touched. */
#ifndef QKV_KERNELS_ATTENTION_FUSED_H
#define QKV_KERNELS_ATTENTION_FUSED_H

#include "kernels/attention.h"
#include "kernels/dropout.h"
#include "kernels/tiles.h"

struct attention {
    const struct qkv_options *options;
    const struct qkv_attention_rule *rule;
    int64_t query_rows, key_rows, heads, key_width, value_width;
    int64_t group; /* heads that share keys and values */
    int64_t query_ld, key_ld, value_ld, out_ld;
    int64_t longest_queries, longest_keys; /* of a sentence */
    bool drops;
    bool keep_weights; /* for backward, or all at once for dropout */
    real scale;
    const real *query, *key, *value, *mask;
    const struct qkv_tensor *bias;
};

/* One head of one sentence: what its pointers would be, as offsets. */
struct head {
    struct sentence sentence;
    int64_t head, query, key, value, out;
    int64_t block; /* of its Tq x Tk numbers in the whole ragged block: what dropout counts by */
};

/* Query rows row .. row+rows-1 and the keys that they see: two runs, of which the first may be empty. In a
 * matrix of the block, the columns of run 1 follow those of run 0. */
struct block {
    int64_t row, rows, columns;
    int64_t start[2], length[2];
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

/* Rows of a block under a window: enough for the products to be efficient, few enough that the block's keys
 * are not many more than a row's. */
static inline int64_t window_rows(const struct qkv_attention_rule *rule)
{
    int64_t rows = rule->window / 2;
    return rows < 16 ? 16 : rows > 256 ? 256 : rows;
}

/* ---- what distance adds, by head and distance: [H, 2 L] at the start of the scratch, L the longest
 * sentence, distance d at d + L; and behind it its gradient ---- */

static inline bool needs_bias_gradient(const struct qkv_tensor *y)
{
    return y->input[4] && y->input[4]->needs_gradient;
}

static inline int64_t distance_count(const struct attention *a)
{
    return qkv_attention_adds_distance(a->rule) ? 2 * a->heads * 2 * a->longest_keys : 0;
}

/* What is added to the scores of head h, by key position less query position; the gradient for h + H. */
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

/* Apart, because the compiler divides all the same where it finds the division beside the usual case. */
static NOINLINE int64_t shared_head(const struct attention *a, int64_t h)
{
    return h / a->group;
}

static inline struct head head_at(const struct attention *a, const struct sentence *p, int64_t h)
{
    int64_t shared = a->group == 1 ? h : shared_head(a, h);
    return (struct head){
        .sentence = *p,
        .head = h,
        .query = p->query * a->query_ld + h * a->key_width,
        .key = p->key * a->key_ld + shared * a->key_width,
        .value = p->key * a->value_ld + shared * a->value_width,
        .out = p->query * a->out_ld + h * a->value_width,
        .block = p->block + h * p->queries * p->keys,
    };
}

/* ---- the two kernels ---- */

struct qkv_attention_kernels {
    int64_t (*saved)(const struct attention *a);   /* numbers to keep for backward */
    int64_t (*scratch)(const struct attention *a); /* numbers to work with */
    void (*forward)(struct qkv_tensor *y, const struct attention *a);
    void (*backward)(struct qkv_tensor *y, const struct attention *a);
    void (*unpack_weights)(struct qkv_tensor *y,
                           const struct attention *a); /* the weights into y->weights, all 0 so far */
};

extern const struct qkv_attention_kernels VARIANT(qkv_attention_, exact), VARIANT(qkv_attention_, flash);

#endif
