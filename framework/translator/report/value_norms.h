/* Private to report: norms of transformed value vectors (Kobayashi et al. 2020). */
#ifndef QKV_REPORT_VALUE_NORMS_H
#define QKV_REPORT_VALUE_NORMS_H

#include "qkv/attention_map.h"
#include "qkv/model.h"

/* The attention layers of a model, by kind. With v a value and W the rows of the output projection that belong to a head,
 * norm(v W)^2 = v G v for G = W W^T; this holds G of each head. */
struct value_norms {
    const struct qkv_model *model;
    struct norm_layers {
        int count; /* 0: the model has no such attention, or its norms are not wanted */
        struct norm_layer *layer;
    } of_kind[QKV_ATTENTION_KINDS];
    struct qkv_arena arena;
};

struct norm_layer {
    int64_t heads, groups; /* of queries, and of keys and values */
    int64_t width;         /* V: of the value of a head */
    const double *gram;    /* [heads, V, V] */
};

/* kinds: bits 1u << kind. Norms that are all zero can be released. Fails, with nothing to release, when memory runs out, and when
 * the network has no layer that multiplies the context of a head (qkv_model_head_rows). */
enum qkv_status qkv_value_norms_init(struct value_norms *norms, const struct qkv_model *model, unsigned kinds,
                                     struct qkv_error *error);
void qkv_value_norms_release(struct value_norms *norms);

/* Replaces the maps of reports by maps of weights times norms, in the arena; the norms must have the kinds of these maps. The
 * reports must be all reports of one pass, in its order, made by a collector, so that their maps fit the sentences; trace: of
 * that pass. Fails when memory runs out, and when the network has not recorded QKV_PART_VALUE for the layer of a map. */
enum qkv_status qkv_value_norms_apply(const struct value_norms *norms, const struct qkv_trace *trace,
                                      int64_t count, struct qkv_attention_report *reports,
                                      struct qkv_arena *arena, struct qkv_error *error);

#endif
