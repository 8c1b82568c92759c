/* Private to models/: the networks of qkv, and functions that find a network. */
#ifndef QKV_MODELS_NETWORK_H
#define QKV_MODELS_NETWORK_H

#include "qkv/network.h"

extern const struct qkv_network_interface qkv_network_transformer, qkv_network_recurrent;
extern const struct qkv_decoding_interface qkv_plain_decoding;

/* The network that a config chooses. NULL with a message when it names one that is not registered. */
const struct qkv_network_interface *qkv_network_of(const struct qkv_model_config *config,
                                                   struct qkv_error *error);

/* Reads `model.settings` into model->settings, in the arena of the parameters. */
enum qkv_status qkv_network_read_settings(struct qkv_model *model, struct qkv_error *error);

/* The loss of guided alignment on a batch (struct qkv_guided_alignment), times factor: [1]. `trace`: of the pass. NULL when
 * the graph has failed, as for a head that the network does not have. */
struct qkv_tensor *qkv_guided_alignment_loss(const struct qkv_model *model, struct qkv_graph *graph,
                                             const struct qkv_batch_view *batch,
                                             const struct qkv_guided_alignment *guided, double factor,
                                             const struct qkv_trace *trace);

#endif
