/* Private to explain: the walk through one attention layer of a model. The inputs of the layer are
 * copied from a forced pass (qkv/model.h); the walk computes everything after them op by op. */
#ifndef QKV_EXPLAIN_MODEL_WALK_H
#define QKV_EXPLAIN_MODEL_WALK_H

#include "explain/walk.h"

#include "qkv/attention_collect.h"
#include "qkv/layers.h"
#include "report/words.h"

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
    bool merges;                  /* adds the step word_weights, between these words: */
    struct named_words row_words, column_words;
    struct qkv_error *error;
};

enum qkv_status qkv_model_walk_no_memory(struct qkv_error *error);

/* A part of this attention layer in the forced pass, as a constant of the walk's graph; NULL when
 * memory is out or the layer has no such part. */
struct qkv_tensor *qkv_model_walk_part(struct model_walk *m, enum qkv_part_role role);

/* The followed rows of x; x itself when all rows are shown. */
struct qkv_tensor *qkv_model_walk_followed(struct model_walk *m, struct qkv_tensor *x);

/* Adds the steps before the first layer of a stack: tokens, embeddings, positions, inputs.
 * `source`: names them source_tokens and so on. */
void qkv_model_walk_inputs(struct model_walk *m, enum qkv_stack_id stack, bool source,
                           struct qkv_texts words);

/* explain/transformer_walk.c, explain/recurrent_walk.c */
enum qkv_status qkv_model_walk_transformer(struct model_walk *m);
enum qkv_status qkv_model_walk_recurrent(struct model_walk *m);

#endif
