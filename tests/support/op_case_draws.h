/* What the files that draw cases share. */
#pragma once

#include "support.h"

#include "op_cases.h"

/* A random number in low .. high. */
int64_t between(int64_t low, int64_t high);

/* Sizes: small ones, ones around the width of vectors, and any. */
int64_t draw_size(int64_t largest);
struct qkv_shape draw_shape(int64_t largest);

void draw_indices(struct op_case *test, int64_t count, int64_t bound);

/* Gives `count` segments, whose lengths are set, rows of their own, in any order and with gaps. Returns the number of
 * rows. */
int64_t place_apart(struct case_segments *segments, int64_t count);

/* The same with rows that segments share. */
int64_t place_shared(struct case_segments *segments, int64_t count);

/* A case of an op of attention. */
void draw_attention(struct op_case *test, int64_t largest);
