/* The samples of ops: the shapes and options with which the gradient check calls each op, and mistakes that each op must
 * refuse. <name>.c has those of the ops in kernels/<name>.c:
 *
 *     OP_SAMPLES(relu, SAMPLES({"matrix", INPUTS(SHAPE(3, 5))}), NULL);
 *
 * They are not in kernels/, because kernels are compiled for each instruction set, and programs without a gradient check
 * need none. */
#pragma once

#include "qkv/graph.h"

/* An op called with certain shapes and options: one that must work, which the gradient check runs,
 * or one that must be refused with `message`. A list ends with a sample whose `name` is NULL. */
struct qkv_sample {
    const char *name;
    struct qkv_shape input[QKV_MAX_INPUTS]; /* rank 0: none */
    const struct qkv_options *options;      /* NULL: all 0 */
    const char *message;                    /* of bad samples: text that the error must contain */
    float low, high;  /* inputs are drawn from [low, high] if low < high, else from +-[0.1, 1] */
    uint8_t constant; /* bit i: input i gets no gradient */
    uint8_t binary;   /* bit i: input i holds only 0 and 1 */
};

/* The samples of an op; `bad` may be NULL. */
struct qkv_op_samples {
    const struct qkv_sample *good, *bad;
};

#define OP(name, parameters, inputs, options) extern const struct qkv_op_samples qkv_samples_##name;
#include "qkv/ops.def"
#undef OP

/* Defines the samples of an op. */
#define OP_SAMPLES(op, good, bad) const struct qkv_op_samples qkv_samples_##op = {good, bad}

/* A list of samples, as an argument of OP_SAMPLES. */
#define SAMPLES(...) ((const struct qkv_sample[]){__VA_ARGS__, {0}})

/* The inputs of a sample: INPUTS(SHAPE(3, 5), {0}, SHAPE(5)); {0}: an input that is NULL. */
#define INPUTS(...) .input = {__VA_ARGS__}

#define SHAPE(...)                                                                                           \
    {                                                                                                        \
        sizeof((int64_t[]){__VA_ARGS__}) / sizeof(int64_t),                                                  \
        {                                                                                                    \
            __VA_ARGS__                                                                                      \
        }                                                                                                    \
    }

/* The options of a sample: OPTIONS(.factor = 2). */
#define OPTIONS(...) (&(const struct qkv_options){__VA_ARGS__})

/* The attention rule of a sample: OPTIONS(ATTENTION(.heads = 2)). */
#define ATTENTION(...) .attention = {__VA_ARGS__}

/* Arrays and options that samples of several files share. */

/* Sentences of 3, 1 and 2 rows; in OVERLAPPING, the first one has a row of the second. */
static const int64_t STARTS[] = {0, 3, 4}, LENGTHS[] = {3, 1, 2}, OVERLAPPING_LENGTHS[] = {4, 1, 2};
#define SENTENCES   .segments = {3, STARTS, LENGTHS}
#define OVERLAPPING .segments = {3, STARTS, OVERLAPPING_LENGTHS}

/* Attention: sentences whose keys are others than their queries, and sentences whose keys are their queries. */
static const int64_t QUERY_STARTS[] = {0, 2, 3}, QUERY_LENGTHS[] = {2, 1, 3};
static const int64_t KEY_STARTS[] = {0, 1, 5}, KEY_LENGTHS[] = {1, 4, 3};
static const int64_t SQUARE_STARTS[] = {0, 3}, SQUARE_LENGTHS[] = {3, 3};
#define RAGGED .queries = {3, QUERY_STARTS, QUERY_LENGTHS}, .keys = {3, KEY_STARTS, KEY_LENGTHS}
#define SELF   .queries = {3, QUERY_STARTS, QUERY_LENGTHS}, .keys = {3, QUERY_STARTS, QUERY_LENGTHS}
#define SQUARE .queries = {2, SQUARE_STARTS, SQUARE_LENGTHS}, .keys = {2, SQUARE_STARTS, SQUARE_LENGTHS}

static const struct qkv_options TWO_HEADS = {ATTENTION(.heads = 2), RAGGED};
static const struct qkv_options TWO_HEADS_SELF = {ATTENTION(.heads = 2), SELF};
static const struct qkv_options TWO_HEADS_SQUARE = {ATTENTION(.heads = 2), SQUARE};

/* Class of each row, for the losses; there are 4 classes. */
static const int32_t LABELS[] = {2, 0, 2, 3, 1};
