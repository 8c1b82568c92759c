/* Private to explain: what a scene takes from a run. */
#ifndef QKV_EXPLAIN_LEARNED_H
#define QKV_EXPLAIN_LEARNED_H

#include "explain/walk.h"

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

/* Rows of the table of embeddings, scaled as the model does. `source`: words that are looked at. Fails (in
 * `failed`) for words that the run does not know. */
struct qkv_matrix qkv_learned_embeddings(struct learned *learned, struct walk *walk,
                                         const struct words *words, bool source);

/* The projections of an attention layer, in parts->*_weight, with heads and widths. */
enum qkv_status qkv_learned_weights(struct learned *learned, struct walk *walk, const struct qkv_tensor *x,
                                    const struct qkv_tensor *memory, struct attention_parts *parts);

/* What the attention of a recurrent decoder has learned: the weights of its score, in `parts`, and those of
 * the vector that is made of state and context. */
enum qkv_status qkv_learned_scored(const struct qkv_model *model, struct walk *walk,
                                   struct attention_parts *parts, struct projection *vector,
                                   struct qkv_error *error);

/* The same of any model and layer, by the names of its parameters: "encoder.1.self". */
enum qkv_status qkv_learned_projections(const struct qkv_model *model, const char *name, int64_t heads,
                                        struct walk *walk, struct attention_parts *parts,
                                        struct qkv_error *error);

#endif
