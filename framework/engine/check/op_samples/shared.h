/* Arrays and options that samples of several files share. */
#ifndef QKV_CHECK_OP_SAMPLES_SHARED_H
#define QKV_CHECK_OP_SAMPLES_SHARED_H

#include "check/op_samples/op_samples.h"

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

static const struct qkv_sample_options TWO_HEADS = {ATTENTION(.heads = 2), RAGGED};
static const struct qkv_sample_options TWO_HEADS_SELF = {ATTENTION(.heads = 2), SELF};
static const struct qkv_sample_options TWO_HEADS_SQUARE = {ATTENTION(.heads = 2), SQUARE};

/* Class of each row, for the losses; there are 4 classes. */
static const int32_t LABELS[] = {2, 0, 2, 3, 1};

#endif
