/* Private to explain: the walk through one attention layer of a model. The inputs of the layer are copied from a forced pass
 * (qkv/model.h); the walk computes everything after them op by op. */
#ifndef QKV_EXPLAIN_MODEL_WALK_H
#define QKV_EXPLAIN_MODEL_WALK_H

#include "explain/walk.h"

#include "qkv/attention_map.h"

struct model_walk {
    const struct qkv_model *model;
    enum qkv_attention_kind kind;
    int layer; /* from 1 */
    struct qkv_attention_layers layers;
    const struct qkv_trace *trace; /* of the forced pass */
    const struct qkv_attention_pair *pair;
    struct walk *walk;
    struct qkv_texts query_words; /* names of the rows of the weights; cross-attention: decoder outputs */
    struct qkv_texts key_words;   /* names of the columns of the weights */
    struct qkv_texts input_words; /* tokens that the stack of the queries reads; decoder: <s>, then targets */
    const int32_t *followed_rows; /* [query_words.count]; NULL: all rows */
    int64_t heads;                /* set by the walk through the layer */
    const struct qkv_vocabulary *target_vocabulary; /* NULL: no logits */
    struct merged_words words;                      /* with names only if the step word_weights is wanted */
    struct qkv_error *error;
};

/* Add all steps of an attention layer, and of what follows it (model_layer.c). The network has recorded the parts of the pass
 * that they read (model.c checks it). */
void qkv_model_walk_transformer(struct model_walk *m);
void qkv_model_walk_recurrent(struct model_walk *m);

#endif
