/* Private: Attention step by step: every matrix between the words and the output of one attention layer,
 * with its formula and shape. The ops of the models compute the numbers, in float64, so an
 * explanation shows what really runs.
 *
 * A scene is one attention layer with its words, vectors and matrices, described in a YAML file. `qkv explain --reference`
 * prints its keys, which are the fields of struct qkv_scene.
 *
 * Example:
 *     struct qkv_arena arena = {0};
 *     struct qkv_scene scene;
 *     struct qkv_messages messages;
 *     struct qkv_explanation explanation;
 *     struct qkv_error error;
 *     if (!qkv_scene_read(&scene, &arena, "configs/seeds/general_attention.yaml", NULL, NULL, 0, &messages) &&
 *         !qkv_explain_scene(&scene, &arena, &explanation, &error))
 *         printf("%lld steps\n", (long long)explanation.step_count);
 *     qkv_arena_release(&arena);
 *
 * Names of the steps, in order; a step is left out when the layer has no such matrix:
 *
 * - words: tokens, embeddings, positions, inputs; for cross-attention also source_tokens,
 *   source_embeddings and so on; for a layer of a model also its inputs: layer_inputs, and memory
 *   for cross-attention.
 * - projections: query_weights, query_bias, key_weights, ..., queries, normed_queries (QK-norm), rotated_queries (rotary
 *   positions), keys, normed_keys, rotated_keys, values.
 * - scores: score_weights (or score_query, score_key, score_vector), scores, scaled_scores (divided
 *   by sqrt(K)), capped_scores (with a soft cap), distance_bias, biased_scores (scaled_scores plus distance_bias), mask,
 *   masked_scores, sinks (the score of the sink of each head).
 * - result of attention: weights, word_weights (for a model, on request; it then has the content QKV_STEP_WEIGHTS instead
 *   of weights, so that pictures show it and the best head is chosen by it), context, with an output gate also
 *   output_gate_weights, output_gate_bias, output_gate and gated_context, concatenated (the heads side by side),
 *   output_weights, output_bias, output, sum.
 * - for a layer of a transformer: residual (the hidden states to which the output is added, if a norm stands before the
 *   layer), attention_sum, attention_norm; then, unless cross-attention of the same layer follows, feed forward:
 *   inner_inputs, inner_weights, inner_bias, inner, activated, outer_weights, outer_bias, outer, layer_sum, layer_output;
 *   if it is gated, after inner gate_weights, gate_bias and gate, of which activated is made, and after that gated; after the
 *   last layer final_norm.
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
#pragma once

#include "report/steps.h"

/* ---- scenes ---- */

enum qkv_distribution { QKV_SAMPLE_NORMAL, QKV_SAMPLE_UNIFORM, QKV_SAMPLE_INTEGERS, QKV_SAMPLE_XAVIER };
enum qkv_vectors_from {
    QKV_VECTORS_GIVEN,     /* `values`: a row for each word */
    QKV_VECTORS_RANDOM,    /* drawn: a row for each distinct word */
    QKV_VECTORS_LEARNED,   /* embeddings: rows of the embedding table of a run */
    QKV_VECTORS_LETTERS,   /* embeddings: a is 1, b is 2, and so on; one letter a component, then zeros */
    QKV_VECTORS_PROJECTED, /* queries, keys, values: inputs times a matrix */
};
enum qkv_weights_from { QKV_WEIGHTS_RANDOM, QKV_WEIGHTS_GIVEN, QKV_WEIGHTS_LEARNED, QKV_WEIGHTS_NONE };
enum qkv_bias { QKV_BIAS_NONE, QKV_BIAS_ZEROS, QKV_BIAS_RANDOM };
enum qkv_score {
    QKV_SCENE_SCORE_SCALED_DOT, /* q k / sqrt(K) */
    QKV_SCENE_SCORE_DOT,        /* q k */
    QKV_SCENE_SCORE_GENERAL,    /* q W k (Luong et al. 2015) */
    QKV_SCENE_SCORE_ADDITIVE,   /* v tanh(q W + k U) (Bahdanau et al. 2015) */
    QKV_SCENE_SCORE_LENGTH      /* ln(letters of the word with the key) */
};
enum qkv_scene_mask {
    QKV_MASK_NONE,
    QKV_MASK_CAUSAL,  /* no word sees a later word */
    QKV_MASK_PADDING, /* no word sees the word `mask.padding` */
    QKV_MASK_BOOLEAN, /* `mask.values`: 1 visible, 0 hidden */
    QKV_MASK_ADDED,   /* `mask.values` is added to the scaled scores; -infinity hides */
};

/* One of the sections embeddings, source_embeddings, queries, keys and values. */
struct qkv_vectors_config {
    enum qkv_vectors_from from;
    struct qkv_matrix values;
    int64_t width; /* 0: as `values` or the run; for queries and keys H * K, for values H * V */
    enum qkv_distribution draw;
    int64_t below; /* integers: 0 .. below-1 */
};

/* Nq: number of words with queries (`tokens`); Nk: number of words with keys and values (`source`, or without a source
 * `tokens`: self-attention); D: width of their vectors; H: number of heads; K and V: key and value width per head; A: hidden
 * width of additive scores. */
struct qkv_scene {
    const char *name, *about;
    struct qkv_texts tokens, source, follow;
    struct {
        int64_t seed;
    } random;
    struct {
        const char *path, *checkpoint; /* "": none */
        int64_t layer;                 /* from 1 */
        enum qkv_attention_kind kind;
    } run;
    struct qkv_vectors_config embeddings, source_embeddings;
    struct {
        enum qkv_position_kind type;
        double base;
        int64_t rows; /* rows of the table that are shown; 0: one per word */
    } positions;
    struct qkv_vectors_config queries, keys, values;
    struct {
        enum qkv_weights_from from;
        enum qkv_distribution draw;
        int64_t below; /* integers: 0 .. below-1 */
        enum qkv_bias bias;
        struct qkv_matrix query, key, value, output; /* [D, H K], [D, H K], [D, H V], [H V, any] */
        struct qkv_matrix score, score_query, score_key, score_vector; /* [H K, K]; [H K, A] twice; [H, A] */
    } weights;
    struct {
        enum qkv_score score;
        int64_t heads, key_width, value_width, hidden_width;
        bool output;    /* random weights: project the joined heads back to D */
        int64_t window; /* greatest distance of a word that a word sees; 0: any */
    } attention;
    struct {
        enum qkv_scene_mask type;
        struct qkv_matrix values; /* [Nq, Nk] */
        const char *padding;
    } mask;
    struct {
        int64_t components; /* leading components of each context row to add up; 0: no sum */
        bool distinct;      /* count a repeated word once */
    } sum;

    /* Not keys of the file: qkv_scene_read computes these fields, and widths that the file leaves 0. */
    int64_t query_count;
    const int32_t *query_rows;             /* [query_count]: tokens with queries: those to follow, or all */
    int64_t width, source_width;           /* D of tokens and source; 0: known only when the run is open */
    const struct qkv_scene_places *places; /* lines of the YAML keys, for messages */
};

/* Reads a scene, with overrides "random.seed=7", as qkv_config_read reads a config: collects all errors of the file in
 * `messages`. text: the contents of the file, UTF-8 with a NUL at its end, if they are in memory (then `path` only names it in
 * messages); NULL: the file is read. Checks everything that does not need the run: keys, counts, widths and shapes. The texts
 * and matrices of the scene are in the arena. On QKV_INVALID the scene must not be used. */
enum qkv_status qkv_scene_read(struct qkv_scene *scene, struct qkv_arena *arena, const char *path,
                               const char *text, const char *const *overrides, int override_count,
                               struct qkv_messages *messages);

/* Explains a scene. The explanation is in the arena and points into the scene, which must outlive it. Fails when a run that
 * the scene names cannot be opened or does not fit the scene, and when memory runs out. */
enum qkv_status qkv_explain_scene(const struct qkv_scene *scene, struct qkv_arena *arena,
                                  struct qkv_explanation *explanation, struct qkv_error *error);

/* ---- models ---- */

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
 * does not record the necessary parts (qkv_trace_record in model.h), and as qkv_attention_collect does. */
enum qkv_status qkv_explain_model(const struct qkv_model *model, const struct qkv_attention_pair *pair,
                                  const struct qkv_explain_options *options, struct qkv_arena *arena,
                                  struct qkv_explanation *explanation, struct qkv_error *error);
