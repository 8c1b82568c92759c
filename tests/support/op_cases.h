/* Random inputs and options of any op, such that the op accepts them. */
#pragma once

#include "support.h"

enum { CASE_SENTENCES = 4, CASE_INDICES = 1 << 14 };

struct case_segments {
    int64_t start[CASE_SENTENCES], length[CASE_SENTENCES];
};

/* One case. `options` points into the struct, which must therefore not be copied. */
struct op_case {
    enum qkv_op_id op;
    struct qkv_shape input[QKV_MAX_INPUTS]; /* rank 0: NULL */
    unsigned constant;                      /* bit i: input i gets no gradient */
    unsigned mask;                          /* bit i: input i is a mask */
    double low, high;                       /* inputs are drawn from here */
    bool drops;                             /* in a graph with dropout */
    /* Rounding errors that float32 makes in the gradient of each input by its formula; 0: those of few numbers. */
    double noise[QKV_MAX_INPUTS];
    struct qkv_options options;

    struct case_segments segments, queries, keys;
    int64_t first[CASE_SENTENCES];
    int32_t indices[CASE_INDICES];
};

/* Starts the sequence of draw. */
void draw_from(uint64_t seed);

/* A random number in 0 .. bound - 1. */
uint64_t draw(uint64_t bound);

/* Makes a case of the op. largest: of most axes. */
void make_op_case(struct op_case *test, enum qkv_op_id op, int64_t largest);

/* Creates the inputs, variables unless they are constant, and writes their values, which are the same
 * in every graph. */
void make_case_inputs(struct qkv_graph *graph, const struct op_case *test,
                      struct qkv_tensor *inputs[QKV_MAX_INPUTS]);
