/* The walk through one attention layer, of a scene or for the sentence that the page shows: an explanation (qkv/explain.h) as flat
 * arrays. */
#ifndef QKV_PAGE_WALK_H
#define QKV_PAGE_WALK_H

#include "page/module/translation.h"

#include "qkv/explain.h"

/* Integers that describe a step: heads, rows, columns; whether it holds attention weights or probabilities (1), token ids
 * (2) or other numbers (0); whether terms make its numbers; whether its rows and columns have names. */
enum { PAGE_STEP_INTEGERS = 7 };

/* Caller's storage, all zero at first; valid until the next call. Texts are lists as in struct page_view. */
struct page_walk {
    struct qkv_arena arena, term_arena;
    struct qkv_explanation explanation;
    const char *names, *titles, *formulas, *notes;
    const char *words; /* of rows, then of columns, step by step; only those of steps that have names */
    int32_t *steps;    /* [step_count * PAGE_STEP_INTEGERS] */
    float *values;     /* of all steps, one after another, head after head; -infinity: masked */
    int64_t step_count, value_count;
    const char *term_names;
    double *terms;    /* [term_count * 3]: x, y and value, as struct qkv_term */
    double result[2]; /* the number, and the sum of its terms */
    int64_t term_count;
};

/* Walks through an attention layer (from 1) with the sentence pair that `t` shows. */
enum qkv_status page_walk_layer(struct page_walk *walk, const struct page_translation *t,
                                enum qkv_attention_kind kind, int layer, struct qkv_error *error);

/* Walks through a scene. */
enum qkv_status page_walk_scene(struct page_walk *walk, const struct qkv_scene *scene,
                                struct qkv_error *error);

/* Finds the terms of a number; all are counted from 0. A number that is not there has none. */
enum qkv_status page_walk_number(struct page_walk *walk, int step, int head, int row, int column,
                                 struct qkv_error *error);

#endif
