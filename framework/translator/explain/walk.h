/* Private to explain. A walk makes an explanation of one attention layer: it computes the layer op
 * by op in a graph of its own, and records each matrix as a step (qkv/explanation.h). There are
 * three walks: through scenes (scene_walk.c), and through the models of transformer_walk.c and
 * recurrent_walk.c. This header declares the functions that add steps, and the steps from the
 * projections to the output, which are the same in all walks.
 *
 * Errors: lack of memory sets walk->failed, any other error fails walk->graph; qkv_walk_finish
 * reports both. */
#ifndef QKV_EXPLAIN_WALK_H
#define QKV_EXPLAIN_WALK_H

#include "qkv/explain.h"
#include "qkv/ops.h"

enum { WALK_MAX_STEPS = 64 };

/* A walk under construction. Steps are added first; the values of tensors are read when the graph
 * has run. */
struct walk {
    struct qkv_graph *graph; /* without gradients */
    struct qkv_arena *arena; /* of the explanation */
    bool failed;             /* out of memory */
    int64_t count;           /* steps */
    struct qkv_step step[WALK_MAX_STEPS];
    struct pending { /* how qkv_walk_finish reads the values of a step, as in struct new_step */
        const struct qkv_tensor *tensor; /* NULL: the step has its values already */
        bool side_by_side;
        const double *visible; /* [rows, columns]; NULL: every cell */
    } pending[WALK_MAX_STEPS];
};

/* A walk without steps that computes in `dtype`, in the arena. NULL with a message when memory runs out. */
struct walk *qkv_walk_new(enum qkv_dtype dtype, struct qkv_arena *arena, struct qkv_error *error);

/* Frees the graph; the steps stay in the arena. */
void qkv_walk_free(struct walk *walk);

/* Zeroed memory in the arena of the walk; NULL when memory runs out. */
void *qkv_walk_memory(struct walk *walk, int64_t count, size_t size);

/* A text in the arena; "" when memory runs out. */
const char *qkv_walk_text(struct walk *walk, const char *format, ...) QKV_PRINTF(2, 3);

/* The names of positions: "0", "1", ... */
struct qkv_texts qkv_walk_positions(struct walk *walk, int64_t count);

/* Finds the rows whose name is `word`; if there are none and `word` is a number from 1, the row of
 * that number. Stores row numbers from 0 in `rows`, which must have space for words.count. Returns
 * their number. */
int64_t qkv_walk_find_rows(struct qkv_texts words, const char *word, int32_t *rows);

/* A constant of the walk's graph. */
struct qkv_tensor *qkv_walk_constant(struct walk *walk, struct qkv_matrix matrix);

/* Adds a step that shows a matrix with numbered rows. heads: see struct new_step. The texts of all
 * steps must live as long as the arena of the walk. */
void qkv_walk_add_matrix(struct walk *walk, const char *name, const char *title, const char *formula,
                         struct qkv_matrix matrix, int64_t heads);

/* Adds a step that shows a tensor [rows, any] without heads. */
void qkv_walk_add_tensor(struct walk *walk, const char *name, const char *title, const char *formula,
                         const struct qkv_tensor *tensor, struct qkv_texts rows);

/* Any other step. Its numbers are in one of `tensor`, `matrix` and `values`. */
struct new_step {
    const char *name, *title, *formula;
    const char *same_as; /* name of an earlier step with the same numbers; NULL: none */
    enum qkv_step_content content;
    int64_t heads;            /* 0: one matrix that all heads share */
    struct qkv_texts rows;    /* count 0, for a matrix: numbered */
    struct qkv_texts columns; /* count 0: numbered, as many as there are */

    struct qkv_matrix matrix; /* [rows, columns]; with heads [rows, heads * columns] */
    const double *values;     /* [rows, columns], with heads [heads, rows, columns]; in the arena */
    const struct qkv_tensor *tensor;
    bool side_by_side;     /* layout of tensor: [rows, heads * columns], as queries; false: head after head */
    const double *visible; /* [rows, columns]: cells with 0 are shown as -inf; NULL: none */
};
void qkv_walk_add(struct walk *walk, const struct new_step *step);

/* Adds a note to the last step: a sentence for the reader, or NULL for none. */
void qkv_walk_note(struct walk *walk, const char *note);

/* Sets the rule by which the numbers of the last step were computed (enum qkv_step_rule). x, y, z: names of the steps that they
 * were computed from; NULL: none. */
void qkv_walk_rule(struct walk *walk, enum qkv_step_rule rule, const char *x, const char *y, const char *z);

/* Runs the graph, reads the tensors and stores the steps in the explanation. */
enum qkv_status qkv_walk_finish(struct walk *walk, struct qkv_explanation *explanation,
                                struct qkv_error *error);

/* ---- the steps of attention ---- */

/* x W + b. */
struct projection {
    struct qkv_matrix weight, bias; /* [inputs, outputs], [1, outputs]; rows 0: absent */
};

/* input W + b, [N, outputs]; the input itself when there is no W. */
struct qkv_tensor *qkv_walk_project(struct walk *walk, struct qkv_tensor *input,
                                    const struct projection *projection);

/* One attention layer and the words that go through it. Nq words with queries, Nk words with keys;
 * D width, H heads, G heads of keys and values, K and V key and value width per head, Q query width
 * per head, A hidden width of additive scores and of position predictors; P = H Nq Nk: a [Nq, Nk]
 * matrix per head, head after head. */
struct attention_setup {
    struct qkv_texts query_words, key_words;

    struct qkv_tensor *x, *memory;          /* [Nq, D], [Nk, D]: the inputs of the projections */
    const char *x_name, *memory_name;       /* in formulas: "X", "M" */
    const char *x_step, *memory_step;       /* the steps that hold them; NULL: none */
    struct qkv_tensor *query, *key, *value; /* given instead of projected; NULL: projected */
    struct projection query_projection, key_projection, value_projection, output_projection;

    struct qkv_attention_rule rule; /* heads and distance terms; masks come from visible and added_mask */
    int64_t key_width, value_width;
    int64_t query_width; /* Q; 0: key_width */

    const int32_t *positions;        /* [Nq]: positions of the query words; NULL: 0, 1, ... */
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
    struct qkv_matrix length_scores; /* [Nq, Nk], for QKV_SCENE_SCORE_LENGTH */

    const double *visible;    /* [Nq, Nk]: 1 visible, 0 hidden; NULL: all visible */
    const double *added_mask; /* [Nq, Nk]: added to the scores; NULL: nothing */
    const char *mask_note;    /* NULL: none */
    const bool *silent;       /* [heads]: heads whose context counts as 0; NULL: none */
};

struct attention_result {
    struct qkv_attention layout; /* heads and segments, for ops on the weights */
    struct qkv_tensor *weights;  /* [P] */
    struct qkv_tensor *value;    /* [Nk, G V] */
    struct qkv_tensor *context;  /* [Nq, H V]; 0 for silent heads */
    struct qkv_tensor *output;   /* [Nq, D]; NULL: no output projection */
};

/* explain/attention.c: adds all steps from the projections to the output. */
struct attention_result qkv_walk_attention(struct walk *walk, const struct attention_setup *setup);

/* explain/scores.c: computes the scores [P] and adds their steps. */
struct qkv_tensor *qkv_walk_scores(struct walk *walk, const struct attention_setup *setup,
                                   struct qkv_tensor *query, struct qkv_tensor *key,
                                   struct qkv_attention layout);

/* explain/scores.c: computes the weights of local-p, [P], from the scores and setup->predictor, and
 * adds their steps. */
struct qkv_tensor *qkv_walk_local_weights(struct walk *walk, const struct attention_setup *setup,
                                          struct qkv_tensor *query, struct qkv_tensor *scores,
                                          struct qkv_attention layout);

/* Like qkv_explain_scene, but computes in `dtype`. */
enum qkv_status qkv_walk_scene(enum qkv_dtype dtype, const struct qkv_scene *scene, struct qkv_arena *arena,
                               struct qkv_explanation *explanation, struct qkv_error *error);

#endif
