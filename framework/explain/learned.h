/* Private to explain: what a scene takes from a run. */
#ifndef QKV_EXPLAIN_LEARNED_H
#define QKV_EXPLAIN_LEARNED_H

#include "explain/walk.h"

#include "qkv/layers.h"
#include "qkv/run.h"

struct learned {
    struct qkv_run run; /* float64 */
    const struct qkv_scene *scene;
    struct qkv_arena *arena;
    struct qkv_error *error;
    bool failed;
};

/* Opens the run that a scene names, where it learns anything. */
enum qkv_status qkv_learned_open(struct learned *learned, const struct qkv_scene *scene,
                                 struct qkv_arena *arena, struct qkv_error *error);
void qkv_learned_close(struct learned *learned);

/* Rows of the table of embeddings, scaled as the model does. `source`: words that are looked at.
 * Fails (in `failed`) for words that the run does not know. */
struct qkv_matrix qkv_learned_embeddings(struct learned *learned, struct walk *walk,
                                         const struct qkv_texts *words, bool source);

/* The projections of an attention layer, in setup->*_weight, with heads and widths. */
enum qkv_status qkv_learned_weights(struct learned *learned, struct walk *walk, const struct qkv_tensor *x,
                                    const struct qkv_tensor *memory, struct attention_setup *setup);

/* The projections of multi-head attention, in setup->*_weight, with heads and widths. Like the
 * functions below, sets walk->failed when memory is out. */
void qkv_learned_multi_head(const struct qkv_model *model, const struct qkv_multi_head *layer,
                            struct walk *walk, struct attention_setup *setup);

/* The weights of the score of a recurrent decoder, in `setup`, and those of the attentional vector.
 */
void qkv_learned_single_head(const struct qkv_model *model, const struct qkv_attention_layers *layers,
                             struct walk *walk, struct attention_setup *setup,
                             struct projection *attentional);

/* The table of a position encoding: [positions, D], rotary [positions, K], relative [buckets, H].
 */
struct qkv_matrix qkv_position_table(const struct qkv_model *model, const struct qkv_positions *positions,
                                     struct walk *walk);

#endif
