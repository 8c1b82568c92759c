/* Attention step by step: every matrix between the words and the output of one attention layer,
 * with its formula and shape. The ops of the models compute the numbers, in float64, so an
 * explanation shows what really runs.
 *
 * Example:
 *     struct qkv_arena arena = {0};
 *     struct qkv_scene scene;
 *     struct qkv_messages messages;
 *     struct qkv_explanation explanation;
 *     struct qkv_error error;
 *     if (!qkv_scene_read(&scene, &arena, "configs/seeds/general_attention.yaml", NULL, 0, &messages) &&
 *         !qkv_explain_scene(&scene, &arena, &explanation, &error))
 *         qkv_explanation_write(&explanation, 1, qkv_format_find("html"), NULL, "scene.html", &error);
 *     qkv_arena_release(&arena);
 *
 * Names of the steps, in order; a step is left out when the layer has no such matrix:
 *
 * - words: tokens, embeddings, positions, inputs; for cross-attention also source_tokens,
 *   source_embeddings and so on; for a layer of a model also its inputs: layer_inputs, and memory
 *   for cross-attention.
 * - projections: query_weights, query_bias, key_weights, ..., queries, rotated_queries (rotary
 *   positions), keys, rotated_keys, values.
 * - scores: score_weights (or score_query, score_key, score_vector), scores, scaled_scores (divided
 *   by sqrt(K)), distance_bias, biased_scores (scaled_scores plus distance_bias), mask,
 *   masked_scores.
 * - result of attention: weights, word_weights (for a model, on request; it then has the content QKV_STEP_WEIGHTS instead
 *   of weights, so that pictures show it and the best head is chosen by it), context, concatenated (the heads side by
 *   side), output_weights, output_bias, output, sum.
 * - for a layer of a transformer: residual (the hidden states to which the output is added, if a norm stands before the
 *   layer), attention_sum, attention_norm; then, unless cross-attention of the same layer follows, feed forward:
 *   inner_inputs, inner_weights, inner_bias, inner, activated, outer_weights, outer_bias, outer, layer_sum, layer_output;
 *   after the last layer final_norm.
 * - after the last layer of a decoder: word_vectors, word_bias, logits and probabilities of the most probable words of each
 *   row, chosen (the most probable one).
 *
 * A recurrent decoder begins with the source words up to memory, the states of the encoder; then come tokens, embeddings,
 * previous_attentional (input feeding: the previous attentional vector) and decoder_states (the hidden states of the
 * decoder, from which queries are made); from queries on, the steps are the same. The score local-p (Luong et al. 2015,
 * 3.2) adds predictor_weights, predictor_vector (the position predictor), predicted_positions and gaussian_window (a
 * Gaussian around these positions) before the weights. concatenated is state and context side by side, pre_activation and
 * output the attentional vector before and after tanh (Luong et al. 2015, equation 5).
 */
#ifndef QKV_EXPLAIN_H
#define QKV_EXPLAIN_H

#include "qkv/attention_collect.h"
#include "qkv/explanation.h"
#include "qkv/scene.h"
#include "qkv/vocabulary.h"

/* Explains a scene. The explanation is in the arena and points into the scene, which must outlive it. Fails when a run that
 * the scene names cannot be opened or does not fit the scene, and when memory runs out. */
QKV_API enum qkv_status qkv_explain_scene(const struct qkv_scene *scene, struct qkv_arena *arena,
                                          struct qkv_explanation *explanation, struct qkv_error *error);

/* Which attention layer of a model to explain. */
struct qkv_explain_options {
    enum qkv_attention_kind kind;
    int layer;               /* from 1; 0: the last layer with this kind of attention */
    struct qkv_texts follow; /* show only these rows, each a word or a number from 1; count 0: all rows */
    /* Adds the step word_weights: weights between words, as qkv_attention_merge_words makes them. `follow` may then also name
     * such words, and a token selects all tokens of its word. NULL: no such step. */
    const struct qkv_attention_words *words;
    /* Names of the words in the steps logits, probabilities and chosen; NULL: the steps end with the last layer. */
    const struct qkv_vocabulary *target_vocabulary;
};

/* Explains one attention layer of a model in a forced pass over a sentence pair, without dropout. The weights are those of
 * qkv_attention_collect. Rows of cross-attention are named after the word that the decoder step outputs. All numbers are
 * computed in the precision of the model, float64 or float32. The explanation is in the arena; its title, label and model
 * are NULL. Fails when the model has no such attention layer, when `follow` matches no row, when a program's own network
 * does not record the necessary parts (qkv_trace_record in network.h), and as qkv_attention_collect does. */
QKV_API enum qkv_status qkv_explain_model(const struct qkv_model *model,
                                          const struct qkv_attention_pair *pair,
                                          const struct qkv_explain_options *options, struct qkv_arena *arena,
                                          struct qkv_explanation *explanation, struct qkv_error *error);

#endif
