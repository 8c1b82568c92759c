/* Private: the networks of qkv, functions that find a network, and the parts of models that programs do not need. */
#pragma once

#include "qkv/model.h"

extern const struct qkv_network_interface qkv_network_transformer, qkv_network_recurrent,
    qkv_network_decoder_only;

/* The network that a config chooses. NULL with a message when it names one that is not registered. */
const struct qkv_network_interface *qkv_network_of(const struct qkv_model_config *config,
                                                   struct qkv_error *error);

/* Reads `model.settings` into model->settings, in the arena of the parameters. */
enum qkv_status qkv_network_read_settings(struct qkv_model *model, struct qkv_error *error);

/* Whether the model is a decoder alone that translates. Without words of a source, it is a language model. */
static inline bool qkv_has_prefix(const struct qkv_model *model)
{
    return model->config.decoder.type == QKV_NETWORK_DECODER_ONLY && model->source_size > QKV_SPECIALS;
}

/* Makes a tensor of the encoder's graph a constant of the decoder's graph, without a copy. */
static inline struct qkv_tensor *qkv_decoding_from_encoder(const struct qkv_decoding *decoding,
                                                           struct qkv_tensor *x)
{
    return x ? qkv_wrap(decoding->decoder, qkv_tensor_shape(x), qkv_tensor_value(x)) : NULL;
}

/* ---- parts of a pass ---- */

/* The mask of `times` * `count` keys in which 0 hides the keys of masked tokens: masked[count], `times` times; NULL: nothing
 * is masked. */
struct qkv_tensor *qkv_key_mask(struct qkv_graph *graph, const bool *masked, int64_t count, int64_t times);

/* Returns the part with this role of an attention layer (`layer` from 1), or of a stack, or its layer (0: of none).
 * NULL when the pass has no such part. qkv_trace_attention finds only the roles INPUT to RESIDUAL. */
const struct qkv_part *qkv_trace_attention(const struct qkv_trace *trace, enum qkv_part_role role,
                                           enum qkv_attention_kind attention, int64_t layer);
const struct qkv_part *qkv_trace_stack(const struct qkv_trace *trace, enum qkv_part_role role,
                                       enum qkv_stack_id stack, int64_t layer);

/* Whether `node` is a part of the pass with this role. */
bool qkv_trace_has(const struct qkv_trace *trace, enum qkv_part_role role, const struct qkv_tensor *node);

/* ---- the layers of a model ---- */

/* The greatest sentence length, in tokens with </s>, for which both stacks have positions; INT32_MAX when
 * neither has a table of positions. */
int64_t qkv_model_max_length(const struct qkv_model *model);

/* qkv_model_attention returns the layers of attention layer `layer` (from 1), all NULL when the model has no such layer.
 * qkv_model_inputs returns the layers that turn the tokens of a stack into vectors, NULL when the model has no such stack
 * or a program's own network does not provide them. */
struct qkv_attention_layers qkv_model_attention(const struct qkv_model *model, enum qkv_attention_kind kind,
                                                int64_t layer);
struct qkv_input_layers qkv_model_inputs(const struct qkv_model *model, enum qkv_stack_id stack);

/* Some rows of a matrix of parameters. */
struct qkv_rows {
    const struct qkv_parameter *parameter;
    int64_t first, count;
};

/* Finds the rows that multiply the context of a head: rows of the output projection, or in a recurrent network the last
 * rows of the layer that makes the attentional vector. Returns false if the model has no such head, or no such layer after
 * it. */
bool qkv_model_head_rows(const struct qkv_model *model, struct qkv_head head, struct qkv_rows *rows);

/* ---- the loss ---- */

/* The objective of a config; the caller sets guided.links. */
struct qkv_objective qkv_objective_from_config(const struct qkv_training_config *training);

/* Adds the output layer to the graph: hidden states [N, D] -> logits [N, C]. */
struct qkv_tensor *qkv_model_logits(const struct qkv_model *model, struct qkv_graph *graph,
                                    struct qkv_tensor *hidden);

/* ---- decoding ---- */

/* Fails for an ensemble without models or with a model that is NULL, and when two models have vocabularies of different
 * sizes. */
enum qkv_status qkv_ensemble_check(struct qkv_ensemble ensemble, struct qkv_error *error);

/* The decoding of model i of an ensemble, owned by `decoding`. For the decoding of one model, i = 0 returns `decoding`
 * itself. NULL when there is no such model. */
struct qkv_decoding *qkv_decoding_member(struct qkv_decoding *decoding, int64_t i);

/* Splits large products among these workers from now on, for a program that decodes a single batch.
 * The workers must be idle while decoding runs. NULL (the default): the calling thread computes
 * alone. The results are the same bits either way. */
void qkv_decoding_set_workers(struct qkv_decoding *decoding, struct qkv_workers *workers);

/* Multiplies with these copies of the model's matrices, packed for speed (qkv_panels_new in graph.h), which must outlive
 * the decoding. A copy is renewed when the parameters have changed (qkv_parameters.changes). NULL (the default): multiplies
 * with the parameters. Has no effect on an ensemble: set the panels of each member instead (qkv_decoding_member). */
void qkv_decoding_set_panels(struct qkv_decoding *decoding, struct qkv_panels *panels);

/* ---- configs ---- */

/* Fails when the network that a config names is not registered or does not have its settings, or, if the config names none,
 * when model.encoder.type is unknown. Reads no other key, so the config need not be finished (qkv_config_finish).
 * qkv_model_new checks this, too; call it to find out earlier, as qkv_train does before it reads any text. */
enum qkv_status qkv_network_check(const struct qkv_model_config *config, struct qkv_error *error);

/* ---- search ---- */

/* Fails when an option is out of range. */
enum qkv_status qkv_search_options_check(const struct qkv_search_options *options, struct qkv_error *error);

/* Makes a decoding that works as that of a network without `decoding`: simple and slow, to test a faster decoding against.
 * Otherwise as qkv_decoding_new. */
struct qkv_decoding *qkv_decoding_new_plain(const struct qkv_model *model);

/* Groups of tokens in group_max; the last may have fewer than QKV_GROUP tokens. */
static inline int64_t qkv_next_groups(const struct qkv_next_scores *next)
{
    return next->classes > 0 ? (next->classes - 1) / QKV_GROUP + 1 : 0;
}
