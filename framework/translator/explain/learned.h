/* Private to explain: the learned vectors and matrices of a run or a model. Lack of memory sets
 * walk->failed. */
#ifndef QKV_EXPLAIN_LEARNED_H
#define QKV_EXPLAIN_LEARNED_H

#include "explain/walk.h"

#include "qkv/layers.h"
#include "qkv/run.h"

/* The run that a scene names. */
struct learned {
    struct qkv_run run; /* float64; run.model is NULL when the scene needs no run */
    const struct qkv_scene *scene;
    struct qkv_arena *arena;
    struct qkv_error *error;
    bool failed; /* with the message in *error */
};

/* Opens the run, if the scene has learned embeddings or weights. */
enum qkv_status qkv_learned_open(struct learned *learned, const struct qkv_scene *scene,
                                 struct qkv_arena *arena, struct qkv_error *error);
void qkv_learned_close(struct learned *learned);

/* The embeddings of the words, scaled as in the model: [words, D]. source: the words of the source.
 * Sets learned->failed for a word that is not in the vocabulary. */
struct qkv_matrix qkv_learned_embeddings(struct learned *learned, struct walk *walk,
                                         const struct qkv_texts *words, bool source);

/* Sets the projections, heads and widths of the attention layer that the scene names. Fails when
 * the run has no such layer, or the widths of the vectors x and memory do not fit it. Either may be
 * NULL: not checked. */
enum qkv_status qkv_learned_weights(struct learned *learned, struct walk *walk, const struct qkv_tensor *x,
                                    const struct qkv_tensor *memory, struct attention_setup *setup);

/* The weight and bias of a dense layer. */
struct projection qkv_learned_projection(const struct qkv_model *model, struct walk *walk,
                                         const struct qkv_dense *dense);

/* Sets the projections, rule, silent heads and widths of multi-head attention. */
void qkv_learned_multi_head(const struct qkv_model *model, const struct qkv_multi_head *layer,
                            struct walk *walk, struct attention_setup *setup);

/* Sets the weights of the score of a recurrent decoder and the projection of the attentional
 * vector. */
void qkv_learned_single_head(const struct qkv_model *model, const struct qkv_attention_layers *layers,
                             struct walk *walk, struct attention_setup *setup,
                             struct projection *attentional);

/* The table of a position encoding: [positions, D]; rotary [positions, K]; relative [buckets, H].
 */
struct qkv_matrix qkv_position_table(const struct qkv_model *model, const struct qkv_positions *positions,
                                     struct walk *walk);

#endif
