/* Private to explain: a visit to an attention layer of a model, and what the walks through layers share. */
#ifndef QKV_EXPLAIN_VISIT_H
#define QKV_EXPLAIN_VISIT_H

#include "explain/walk.h"

#include "qkv/attention_collect.h"

struct visit {
    const struct qkv_model *model;
    enum qkv_attention_kind kind;
    int layer;                                /* from 1 */
    struct qkv_graph *pass;                   /* of the forced pass */
    const struct qkv_attention_node *visited; /* the layer in it */
    struct qkv_attention_report report;       /* its words */
    struct walk *walk;
    struct words rows, columns; /* words that ask and that are looked at */
    struct words inputs;        /* those that the asking side reads */
    const int32_t *asking;      /* rows to follow; NULL: all */
    int64_t asking_count;
    int64_t heads; /* set by the walk through the layer */
    struct qkv_error *error;
};

enum qkv_status qkv_visit_no_memory(struct qkv_error *error);

/* A tensor of the pass as a matrix; no rows for NULL. */
struct qkv_matrix qkv_visit_matrix(struct visit *v, const struct qkv_tensor *tensor);

/* The same as a constant of the walk's graph. */
struct qkv_tensor *qkv_visit_copy(struct visit *v, const struct qkv_tensor *tensor);

/* The rows of x that are followed. */
struct qkv_tensor *qkv_visit_asking(struct visit *v, struct qkv_tensor *x);

/* Notes tokens, embeddings and positions of one side. */
void qkv_visit_front(struct visit *v, bool encoder, bool source, struct words words);

/* explain/recurrent.c: the walk through the attention of a recurrent decoder. */
enum qkv_status qkv_visit_recurrent(struct visit *v);

#endif
