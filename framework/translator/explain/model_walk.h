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
    const struct qkv_vocabulary *target_vocabulary; /* NULL: no logits */
    bool merges;                                    /* adds the step word_weights, between these words: */
    struct named_words row_words, column_words;
    struct qkv_error *error;
};

enum qkv_status qkv_model_walk_no_memory(struct qkv_error *error);

/* explain/model_parts.c: fails when the network has not recorded a part of the pass, or does not provide a layer, that the walk
 * reads; the message names it. Call it before any row is left out (followed_rows). */
enum qkv_status qkv_model_walk_check(const struct model_walk *m);

/* A part of this attention layer in the forced pass, as a constant of the walk's graph; NULL when
 * memory runs out or the layer has no such part. */
struct qkv_tensor *qkv_model_walk_part(struct model_walk *m, enum qkv_part_role role);

/* The followed rows of x; x itself when all rows are shown. */
struct qkv_tensor *qkv_model_walk_followed(struct model_walk *m, struct qkv_tensor *x);

/* Adds the steps before the first layer of a stack: tokens, embeddings, positions, inputs.
 * `source`: names them source_tokens and so on. */
void qkv_model_walk_inputs(struct model_walk *m, enum qkv_stack_id stack, bool source,
                           struct qkv_texts words);

/* Sets the mask of `setup`, if there is one: keys that the rule of the layer hides, and masked tokens of the source. rule
 * NULL: there is no rule that hides keys. */
void qkv_model_walk_mask(struct model_walk *m, const struct qkv_attention_rule *rule,
                         struct attention_setup *setup);

/* explain/output_walk.c: adds the steps of a transformer after attention, up to the words if the layer is the last of the
 * decoder. x: inputs of the layer; output: of attention. */
void qkv_model_walk_rest_of_layer(struct model_walk *m, struct qkv_tensor *x, struct qkv_tensor *output);

/* explain/output_walk.c: adds the steps from the last hidden states, which are shown by `step`, to the chosen words. */
void qkv_model_walk_words(struct model_walk *m, struct qkv_tensor *hidden, const char *step,
                          const char *letter);

/* explain/transformer_walk.c, explain/recurrent_walk.c */
enum qkv_status qkv_model_walk_transformer(struct model_walk *m);
enum qkv_status qkv_model_walk_recurrent(struct model_walk *m);

#endif
