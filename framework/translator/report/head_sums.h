/* Private to report: the sums that heads.c computes for each head. */
#ifndef QKV_REPORT_HEAD_SUMS_H
#define QKV_REPORT_HEAD_SUMS_H

#include "qkv/alignment.h"
#include "qkv/heads.h"
#include "report/forced.h"

/* Sums over sentences. */
struct head_sums {
    double entropy, sharpness, previous, same, next, special; /* over `rows` rows */
    int64_t rows;
    double norm; /* over norm_rows rows */
    int64_t norm_rows;
    double copied; /* over copied_rows rows, which can see a word with the same text */
    int64_t copied_rows;
    struct qkv_alignment_result counted[QKV_READINGS]; /* links */
    double variation[QKV_READINGS];                    /* over variation_rows rows, which have gold links */
    int64_t variation_rows[QKV_READINGS];
    double gradient; /* |d loss / d mask|, loss in nats of a sentence */
};

/* The maps of a sentence pair. */
struct head_maps {
    const struct forced_pair *pair;    /* maps of weights, in the order of qkv_model_head */
    struct qkv_attention_report norms; /* the same maps times norms of values */
    const struct qkv_alignment *gold;  /* NULL: none */
    bool measures_norms;               /* measure `norms` instead of weights */
};

/* head_rows.c: adds the maps of a pair to sums [maps]. Fails when memory runs out, and when links do not fit the pair. */
enum qkv_status qkv_head_sums_add(const struct head_maps *maps, struct qkv_arena *arena,
                                  struct head_sums *sums, struct qkv_error *error);

/* Adds `more` to `sums`. */
void qkv_head_sums_merge(struct head_sums *sums, const struct head_sums *more);

/* Sets the measures that follow from sums. `tokens`: target tokens of all sentences. */
void qkv_head_sums_finish(const struct head_sums *sums, int64_t tokens, double value[QKV_HEAD_MEASURES]);

/* ---- head_gradient.c ---- */

/* Gradients of the loss of single sentences with respect to a mask of each head. For one thread at a time. */
struct head_gradients {
    const struct qkv_model *model;
    struct qkv_graph *graph;
    void *parameters; /* gradients of the parameters */
    struct qkv_batch batch;
};

/* A struct that is all zero can be released. Fails when memory runs out. */
enum qkv_status qkv_head_gradients_init(struct head_gradients *gradients, const struct qkv_model *model,
                                        struct qkv_error *error);
void qkv_head_gradients_release(struct head_gradients *gradients);

/* Sets gradient [heads] to d loss / d mask for the sum of the cross entropy over the target tokens of a sentence, in nats. The
 * mask of a head is 1 and multiplies its context. Fails when the sentence has more tokens than the model has positions, and
 * when memory runs out. */
enum qkv_status qkv_head_gradients_of(struct head_gradients *gradients, struct qkv_ids source,
                                      struct qkv_ids target, double *gradient, struct qkv_error *error);

#endif
