/* Attention step by step: every matrix between the words and the output of one attention layer, with its
 * formula and shape. The numbers are computed by the ops that models are made of, in float64, so what is
 * explained is what runs.
 *
 *     struct qkv_explanation explanation;
 *     if (qkv_explain_scene(&scene, &arena, &explanation, &error)) ...
 *     qkv_explanation_write(&explanation, 1, qkv_format_find("html"), NULL, "scene.html", &error);
 *
 * Steps in order, each only where there is such a thing: tokens, embeddings, positions, inputs (and
 * source_tokens, ... of what is looked at), layer_inputs, memory, query_weights, key_weights, value_weights
 * (and query_bias, ...), queries, turned_queries, keys, turned_keys, values, score_weights (or score_query,
 * score_key, score_vector), scores, scaled_scores, distance_bias, placed_scores, mask, masked_scores,
 * weights, context, joined, output_weights, output_bias, output, sum.
 *
 * Of a recurrent decoder the words that are looked at come first, up to memory, the states of the encoder;
 * then tokens, embeddings, fed (what each step takes in of the one before it), states, which ask, and from
 * queries on the same; local-p has place_weights, place_vector, places and nearness before the weights. Its
 * joined are state and context, its output the vector that is made of them (Luong et al. 2015, equation 5).
 */
#ifndef QKV_EXPLAIN_H
#define QKV_EXPLAIN_H

#include "qkv/attention_collect.h"
#include "qkv/explanation.h"
#include "qkv/scene.h"

/* Walks through a scene. Fails where a run that it names cannot be opened or does not fit, and out of memory.
 */
QKV_API enum qkv_status qkv_explain_scene(const struct qkv_scene *scene, struct qkv_arena *arena,
                                          struct qkv_explanation *explanation, struct qkv_error *error);

/* Walks through one attention layer of a model while it reads a sentence pair (forced, without dropout): the
 * numbers that qkv_attention_collect sees, and all those on the way. Rows of cross attention are named by the
 * word that the step outputs. The model must be float64. `layer`: from 1; 0: the last of that kind. `follow`
 * (may be NULL): only these rows ask. Fails for a layer or a kind of attention that there is not, and as
 * qkv_attention_collect does. */
QKV_API enum qkv_status qkv_explain_model(const struct qkv_model *model,
                                          const struct qkv_attention_pair *pair, enum qkv_attention_kind kind,
                                          int layer, const struct qkv_texts *follow, struct qkv_arena *arena,
                                          struct qkv_explanation *explanation, struct qkv_error *error);

#endif
