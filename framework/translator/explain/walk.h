/* Private to explain. A walk makes an explanation of one attention layer: it computes the layer op by op in a graph of its
 * own, and records each matrix as a step (explain/explain.h). There are two walks: through scenes (scene.c), and through the
 * layers of models (model.c, model_layer.c). This header declares the functions that add steps, the steps from the projections
 * to the output, which are the same in both (attention.c), and the learned matrices that both read (learned.c).
 *
 * Errors: lack of memory, and an error that has its message, set walk->failed; any other error fails walk->graph. qkv_walk_finish
 * reports both. */
#pragma once

#include "core/memory.h"
#include "explain/explain.h"
#include "report/words.h"

enum { WALK_MAX_STEPS = 64 };

/* Words that rows and columns of attention weights are merged into. */
struct merged_words {
    struct named_words rows, columns;
};

/* A walk under construction. Steps are added first; the values of tensors are read when the graph has run. */
struct walk {
    struct qkv_graph *graph; /* without gradients */
    struct qkv_arena *arena; /* of the explanation */
    bool failed;             /* out of memory, unless the error has a message */
    int64_t count;           /* steps */
    struct qkv_step step[WALK_MAX_STEPS];
    struct pending {                       /* how qkv_walk_finish reads the values of a step */
        const struct qkv_tensor *tensor;   /* NULL: the step has its values already */
        bool side_by_side;                 /* as in struct layout */
        const double *visible;             /* [rows, columns]: cells with 0 are shown as -inf; NULL: none */
        const struct merged_words *merged; /* the values are those of the step before, merged; NULL: no */
    } pending[WALK_MAX_STEPS];
};

/* A walk without steps that computes in `dtype`, in the arena; clears the error. NULL with a message when memory runs out. */
struct walk *qkv_walk_new(enum qkv_dtype dtype, struct qkv_arena *arena, struct qkv_error *error);

/* Frees the graph; the steps stay in the arena. */
void qkv_walk_free(struct walk *walk);

/* Zeroed memory in the arena of the walk; NULL when memory runs out. */
void *qkv_walk_memory(struct walk *walk, int64_t count, size_t size);

/* A formatted text in the arena; "" when memory runs out. */
#define qkv_walk_text(walk, ...) qkv_walk_made(walk, qkv_arena_format((walk)->arena, __VA_ARGS__))

/* The text; "" when memory ran out for it. */
const char *qkv_walk_made(struct walk *walk, const char *text);

/* Finds the rows whose name is `word`; if there are none and `word` is a number from 1, the row of that number. Stores row
 * numbers from 0 in `rows`, which must have space for words.count. Returns their number. */
int64_t qkv_walk_find_rows(struct qkv_texts words, const char *word, int32_t *rows);

/* A constant of the walk's graph. */
struct qkv_tensor *qkv_walk_constant(struct walk *walk, struct qkv_matrix matrix);

/* ---- adding steps ---- */

/* Rows and columns of a step: [rows, columns], or with heads [heads, rows, columns]. */
struct layout {
    struct qkv_texts rows,
        columns;       /* text NULL: numbered from 1; columns.count 0: as many as the tensor has */
    int64_t heads;     /* 0: one matrix that all heads share */
    bool side_by_side; /* the numbers are [rows, heads * columns], as those of queries */
};

/* Add a step with numbers of a tensor, or with values that are in the arena. title NULL: the name, with spaces. All texts must
 * live as long as the arena. Return the step, which is valid until the next one is added. */
struct qkv_step *qkv_walk_add_tensor(struct walk *walk, const char *name, const char *title,
                                     const char *formula, struct layout layout,
                                     const struct qkv_tensor *tensor);
struct qkv_step *qkv_walk_add_values(struct walk *walk, const char *name, const char *title,
                                     const char *formula, struct layout layout, const double *values);

/* Adds a step with a matrix [rows, columns], or with heads [rows, heads * columns]. */
struct qkv_step *qkv_walk_add_matrix(struct walk *walk, const char *name, const char *title,
                                     const char *formula, int64_t heads, struct qkv_matrix matrix);

/* Adds a step with the number of each token; `row` names the numbers. */
struct qkv_step *qkv_walk_add_tokens(struct walk *walk, const char *name, const char *title,
                                     const char *formula, const char *row, struct qkv_texts tokens,
                                     const double *numbers);

/* Adds a position table [positions, D] as a step. formula NULL: that of sinusoids. */
void qkv_walk_add_positions(struct walk *walk, const char *name, const char *formula,
                            struct qkv_matrix table);

/* Sets the rule by which the numbers of the last step were computed. x, y, z: names of the steps that they were computed from;
 * NULL: none. */
void qkv_walk_rule(struct walk *walk, enum qkv_step_rule rule, const char *x, const char *y, const char *z);

/* Runs the graph, reads the tensors and stores the steps in the explanation. */
enum qkv_status qkv_walk_finish(struct walk *walk, struct qkv_explanation *explanation,
                                struct qkv_error *error);

/* ---- products ---- */

/* A tensor, its letter in formulas, and the step that shows it (NULL: none). */
struct shown {
    struct qkv_tensor *tensor;
    const char *letter, *step;
};

/* x W + b. */
struct projection {
    struct qkv_matrix weight, bias; /* [inputs, outputs], [1, outputs]; rows 0: absent */
};

/* The step `name` = x W_index + b_index, whose weights are the steps <weights>_weights and <weights>_bias. */
struct product {
    const char *name, *title, *letter; /* letter NULL: the formula does not name the result */
    const char *weights, *index;
    const struct projection *projection; /* without weights the product is x itself */
    int64_t heads;
    struct qkv_texts rows;
};

/* Adds the steps of the weights. */
void qkv_walk_add_weights(struct walk *walk, const struct product *product);

/* Adds the step of the product, and returns it. */
struct shown qkv_walk_add_product(struct walk *walk, const struct product *product, struct shown x);

/* ---- attention.c: the steps of attention ---- */

/* One attention layer and the words that go through it. Nq words with queries, Nk words with keys; D width, H heads, G heads of
 * keys and values, K and V key and value width per head, Q query width per head, A hidden width of additive scores and of
 * position predictors; P = H Nq Nk: a [Nq, Nk] matrix per head, head after head. */
struct attention_setup {
    struct qkv_texts query_words, key_words;

    struct shown x, memory;                 /* [Nq, D], [Nk, D]: the inputs of the projections */
    struct qkv_tensor *query, *key, *value; /* given instead of projected; NULL: projected */
    struct projection query_projection, key_projection, value_projection, output_projection;
    struct qkv_matrix query_norm, key_norm; /* gains of QK-norm, [1, K]; no rows: none */
    double norm_epsilon;
    struct qkv_matrix sink;            /* [1, H]: scores of sinks; no rows: none */
    struct projection gate_projection; /* of x: the output gate; without weights, there is none */

    struct qkv_attention_rule rule; /* heads and distance terms; masks come from visible and added_mask */
    int64_t key_width, value_width;

    /* [Nq], [Nk]: positions of the query words and of the key words; NULL: 0, 1, ... */
    const int32_t *positions, *key_positions;
    struct qkv_matrix rotation;      /* [positions, K]: sines and cosines of rotary positions */
    struct qkv_matrix distance_bias; /* [buckets, H]; no rows: none */

    enum qkv_score score;
    /* Weights of scores, the rows of head 0 first: [H Q, K]; [H Q, A], [H K, A], [H, A] */
    struct qkv_matrix general, additive_query, additive_key, additive_vector;
    struct qkv_matrix concat_weight; /* one head: additive_query above additive_key, shown as one matrix */
    struct position_predictor {      /* local-p (Luong et al. 2015, 3.2), one head; weight.rows 0: none */
        struct qkv_matrix weight, vector; /* [Q, A], [A, 1] */
        int64_t window;                   /* keys on each side of the predicted position */
    } predictor;
    const double *length_scores; /* [Nq, Nk], for QKV_SCENE_SCORE_LENGTH */

    const double *visible;             /* [Nq, Nk]: 1 visible, 0 hidden; NULL: all visible */
    const double *added_mask;          /* [Nq, Nk]: added to the scores; NULL: nothing */
    const char *mask_note;             /* NULL: none */
    const bool *ablated;               /* [heads]: heads whose context counts as 0; NULL: none */
    const struct merged_words *merged; /* adds the step word_weights; NULL: no */
};

struct attention_result {
    struct qkv_attention layout; /* heads and segments, for ops on the weights */
    struct qkv_tensor *weights;  /* [P] */
    struct qkv_tensor *value;    /* [Nk, G V] */
    struct qkv_tensor *context;  /* [Nq, H V]; 0 for ablated heads */
    struct shown output;         /* [Nq, D]; all NULL: no output projection */
};

/* Adds all steps from the projections to the output. */
struct attention_result qkv_walk_attention(struct walk *walk, const struct attention_setup *setup);

/* ---- learned.c: the vectors and matrices of models ---- */

struct projection qkv_learned_projection(const struct qkv_model *model, struct walk *walk,
                                         const struct qkv_dense *dense);

/* Sets the projections, rule, ablated heads and widths of multi-head attention. */
void qkv_learned_multi_head(const struct qkv_model *model, const struct qkv_multi_head *layer,
                            struct walk *walk, struct attention_setup *setup);

/* Sets the weights of the score of a recurrent decoder. */
void qkv_learned_single_head(const struct qkv_model *model, const struct qkv_single_head_attention *layer,
                             struct walk *walk, struct attention_setup *setup);

/* The table of a position encoding: [positions, D]; rotary [positions, K]; relative [buckets, H]. */
struct qkv_matrix qkv_learned_positions(const struct qkv_model *model, const struct qkv_positions *positions,
                                        struct walk *walk);

/* Sinusoids for `rows` positions. */
struct qkv_matrix qkv_walk_sinusoids(struct walk *walk, int64_t rows, int64_t width, double base);
