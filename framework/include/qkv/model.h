/* A sequence-to-sequence model behind one interface, whatever network it is made of. */
#ifndef QKV_MODEL_H
#define QKV_MODEL_H

#include "qkv/attention_kind.h"
#include "qkv/batch.h"
#include "qkv/config.h"
#include "qkv/graph.h"
#include "qkv/parameters.h"

struct qkv_model;
struct qkv_decoding;

/* ---- attention of a forced pass ---- */

/* One attention layer of a pass: qkv_attention_weights_of reads the weights of `node`. */
struct qkv_attention_node {
    enum qkv_attention_kind kind;
    int64_t layer; /* from 1 */
    struct qkv_tensor *node;
    /* Recurrent networks: states that ask [Nt, H], what they look at [Ns, M], what came of both [Nt, H]. */
    const struct qkv_tensor *states, *memory, *found;
};

/* One an encoder layer and two a decoder layer, of 1000 each: what a config may ask for. */
enum { QKV_MOST_ATTENTIONS = 3000 };

/* Collects the attention layers of a pass, in order; caller's storage. */
struct qkv_trace {
    int64_t count;
    struct qkv_attention_node attention[QKV_MOST_ATTENTIONS];
};

/* ---- the interface of a network; models/<network>.c has one ---- */

/* Decoding, token by token; see qkv_decoding_* below. */
struct qkv_decoding_interface {
    size_t size; /* of the network's struct, which begins with a struct qkv_decoding; made all zero but for
                    that */
    enum qkv_status (*start)(struct qkv_decoding *decoding, const struct qkv_batch_view *batch, int64_t rows,
                             int64_t length, struct qkv_error *error);
    const struct qkv_next *(*step)(struct qkv_decoding *decoding, int64_t rows, const int32_t *ids,
                                   const int64_t *sentences, struct qkv_error *error);
    void (*reorder)(struct qkv_decoding *decoding, int64_t rows, const int64_t *parents);
};

struct qkv_network_interface {
    const char *name;

    /* Declares the network's parameters in model->parameters and returns its layers, in the parameters'
     * arena; NULL when memory is out. */
    void *(*declare)(struct qkv_model *model);

    /* Hidden states of the decoder, [Nt, D], for a batch whose target is given; trace may be NULL. */
    struct qkv_tensor *(*hidden)(const struct qkv_model *model, struct qkv_graph *graph,
                                 const struct qkv_batch_view *batch, struct qkv_trace *trace);

    const struct qkv_decoding_interface *decoding;
};

struct qkv_model {
    const struct qkv_network_interface *kind;
    struct qkv_model_config config;
    int32_t source_size, target_size; /* C of both vocabularies */
    struct qkv_parameters parameters;
    void *network;
    const struct qkv_parameter *output_weight, *output_bias; /* [D, C] or the tied table [C, D]; [C] */
    bool output_tied;
};

/* Makes a model with parameters of `dtype`, all zero. NULL with a sentence when memory is out. */
QKV_API struct qkv_model *qkv_model_new(const struct qkv_model_config *config, int32_t source_size,
                                        int32_t target_size, enum qkv_dtype dtype, struct qkv_error *error);
QKV_API void qkv_model_free(struct qkv_model *model);

/* The longest sentence, in tokens with </s>, that positions exist for on both sides. */
QKV_API int64_t qkv_model_longest(const struct qkv_model *model);

/* Records the loss of a batch: factor * sum over its target tokens of the smoothed cross entropy (nats). The
 * graph must be bound to model->parameters. trace may be NULL. */
QKV_API struct qkv_tensor *qkv_model_loss(const struct qkv_model *model, struct qkv_graph *graph,
                                          const struct qkv_batch_view *batch, double smoothing, double factor,
                                          struct qkv_trace *trace);

/* ---- decoding step by step, keys and values cached ---- */

/* NULL when memory is out. float32 models decode in float32. */
QKV_API struct qkv_decoding *qkv_decoding_new(const struct qkv_model *model);

/* From now on large products are split among these workers, which must have nothing else to do while decoding
 * runs: for a team that has but one batch to translate. NULL: the caller alone, as at first. Numbers are the
 * same bits either way. */
QKV_API void qkv_decoding_set_workers(struct qkv_decoding *decoding, struct qkv_workers *workers);

/* Decoding reads these panels of the model's parameters; see graph.h. NULL: none, as at first. */
QKV_API void qkv_decoding_read_panels(struct qkv_decoding *decoding, struct qkv_panels *panels);

/* Encodes the sources of a batch and makes room for `rows` hypotheses of at most `length` tokens. `sums`:
 * whether steps give log sums, too, without which only tokens behind the same row can be compared, but which
 * take time. */
QKV_API enum qkv_status qkv_decoding_start(struct qkv_decoding *decoding, const struct qkv_batch_view *batch,
                                           int64_t rows, int64_t length, bool sums, struct qkv_error *error);

/* Scores of what may come next behind each of the rows. */
struct qkv_next {
    enum qkv_dtype dtype;
    int64_t classes;       /* C */
    const void *logits;    /* [rows, C] */
    const void *group_max; /* [rows, runs]: the greatest logit of each run of QKV_GROUP */
    const void *sums;      /* [rows]: log sum exp(logits); NULL where it is not wanted */
};

static inline int64_t qkv_next_runs(const struct qkv_next *next)
{
    return (next->classes + QKV_GROUP - 1) / QKV_GROUP;
}

/* log p(token) = its logit - log sum exp(logits), nats; where there are sums. */
QKV_API double qkv_next_log_probability(const struct qkv_next *next, int64_t row, int32_t token);

/* Feeds one token to each hypothesis; sentences[i] is the source that row i translates. What is returned is
 * good until the next call; NULL with a sentence. */
QKV_API const struct qkv_next *qkv_decoding_step(struct qkv_decoding *decoding, int64_t rows,
                                                 const int32_t *ids, const int64_t *sentences,
                                                 struct qkv_error *error);

/* Row i continues what was row parents[i]; rows that are no one's parent are forgotten. */
QKV_API void qkv_decoding_reorder(struct qkv_decoding *decoding, int64_t rows, const int64_t *parents);
QKV_API void qkv_decoding_free(struct qkv_decoding *decoding);

#endif
