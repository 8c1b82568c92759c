/* Private to explain: making the steps of a walk, and the part that all walks share. */
#ifndef QKV_EXPLAIN_WALK_H
#define QKV_EXPLAIN_WALK_H

#include "qkv/explain.h"
#include "qkv/ops.h"

enum { WALK_MOST_STEPS = 40 };

/* A walk that is being made. Steps are noted first and read when the graph has run. */
struct walk {
    struct qkv_graph *graph; /* float64 */
    struct qkv_arena *arena; /* of what is noted */
    bool failed;             /* out of memory */
    const double *visible;   /* [Nq, Nk] of the mask; NULL: none */
    int64_t count;
    struct qkv_step step[WALK_MOST_STEPS];
    struct noted {
        const struct qkv_tensor *tensor; /* NULL: the values are there already */
        bool beside; /* heads stand beside each other, [rows, heads columns]; else one by one */
    } noted[WALK_MOST_STEPS];
};

/* Words that name rows or columns. */
struct words {
    int64_t count;
    const char *const *text;
};
static inline struct words qkv_walk_numbered(int64_t count)
{
    return (struct words){count, NULL};
}

/* 0, 1, ...: names of positions; in the arena. */
struct words qkv_walk_counted(struct walk *walk, int64_t count);

struct projection {
    struct qkv_matrix weight, bias; /* no rows: none */
};

/* The matrices of an attention layer and the sentence that goes through it. */
struct attention_parts {
    struct words query_words, key_words;
    /* What is projected, [Nq, D] and [Nk, D], and what is not: queries, keys, values that are given, NULL to
     * make them of the inputs. */
    struct qkv_tensor *x, *memory, *query, *key, *value;
    const char *x_name, *memory_name; /* in formulas: "X", "M" */
    const char *x_step, *memory_step; /* where they were noted; NULL: nowhere */
    struct projection query_weight, key_weight, value_weight, output_weight;
    int64_t heads, key_width, value_width;
    int64_t query_width;        /* 0: key_width */
    int64_t key_value_heads;    /* heads of keys and values; 0: heads */
    struct qkv_matrix rotation; /* [positions, K]: sines and cosines of rotary positions; no rows: none */
    bool causal, alibi;         /* as struct qkv_attention, for what is added by distance */
    const int32_t *positions;   /* [Nq]: of the words that ask; NULL: 0, 1, ... */
    struct qkv_matrix distance_bias; /* [buckets, H]; no rows: none */
    int64_t distance;
    enum qkv_score score;
    int64_t hidden_width;                                                     /* A */
    struct qkv_matrix general, additive_query, additive_key, additive_vector; /* head below head */
    struct qkv_matrix joint; /* one head: additive_query above additive_key, shown as one; no rows: apart */
    struct place {
        struct qkv_matrix weight, vector; /* [query width, K], [K, 1]; no rows: no place is predicted */
        int64_t window;
    } place;                       /* local-p (Luong et al. 2015), one head */
    struct qkv_matrix lengths;     /* [Nq, Nk] scores of QKV_SCORE_LENGTH */
    const double *visible, *added; /* [Nq, Nk]; NULL: everyone, nothing */
    const char *mask_note;
};

/* A walk without steps in the arena, with a graph. NULL with a sentence when memory is out. */
struct walk *qkv_walk_new(struct qkv_arena *arena, struct qkv_error *error);

/* Frees the graph; the steps stay in the arena. */
void qkv_walk_free(struct walk *walk);

/* Notes a step. Heads: see struct noted; `tensor` NULL: `values` are there. Formula and note live as long as
 * the arena. */
struct qkv_step *qkv_walk_add_step(struct walk *walk, const char *name, const char *title,
                                   const char *formula, struct words rows, struct words columns);
void qkv_walk_add_tensor(struct walk *walk, const char *name, const char *title, const char *formula,
                         const struct qkv_tensor *tensor, int64_t heads, bool beside, struct words rows,
                         struct words columns);
void qkv_walk_add_matrix(struct walk *walk, const char *name, const char *title, const char *formula,
                         struct qkv_matrix matrix, int64_t heads, struct words rows);

/* A text in the arena, "" where memory is out, which sticks. */
const char *qkv_walk_text(struct walk *walk, const char *format, ...) QKV_PRINTF(2, 3);

/* Memory of the arena, NULL where it is out, which sticks. */
void *qkv_walk_memory(struct walk *walk, int64_t count, size_t size);

/* A constant tensor of a matrix. */
struct qkv_tensor *qkv_walk_constant(struct walk *walk, struct qkv_matrix matrix);

/* What comes of it: weights [P], values [Nk, H V], context [Nq, H V]. */
struct attention_result {
    struct qkv_attention layout;
    struct qkv_tensor *weights, *value, *context;
};

/* explain/scores.c: the scores, head by head a [Nq, Nk] matrix: [P]. */
struct qkv_tensor *qkv_walk_scores(struct walk *walk, const struct attention_parts *parts,
                                   struct qkv_tensor *query, struct qkv_tensor *key,
                                   struct qkv_attention layout);

/* The weights that local-p makes of them: parts->place. */
struct qkv_tensor *qkv_walk_place(struct walk *walk, const struct attention_parts *parts,
                                  struct qkv_tensor *query, struct qkv_tensor *scores,
                                  struct qkv_attention layout);

/* input W + b, or the input itself where there is no W: [N, H width] */
struct qkv_tensor *qkv_walk_project(struct walk *walk, struct qkv_tensor *input,
                                    const struct projection *projection);

/* Records and notes everything from the projections to the output. */
struct attention_result qkv_walk_attention(struct walk *walk, const struct attention_parts *parts);

/* Runs the graph, reads all that was noted and fills the explanation's steps. */
enum qkv_status qkv_walk_finish(struct walk *walk, struct qkv_explanation *explanation,
                                struct qkv_error *error);

#endif
