/* Private to report and the tools: how attention mixes the tokens of a pair from layer to layer (flow.c). */
#pragma once

#include "qkv/base.h"

#include <stdbool.h>
#include <stdint.h>

/* A step in which each row becomes a mixture of rows: `keep` of the row itself, and 1 - keep of those that `own` and `other`
 * name. S: source tokens, T: tokens that the decoder reads. */
struct mixing {
    bool of_source;      /* changes the rows of the source; false: those of the target */
    double keep;         /* the share of the residual connection */
    const double *own;   /* [S, S], or [T, T]; NULL: none */
    const double *other; /* [T, S]: of targets, from the current rows of the source; NULL: none */
};

struct mixings {
    int64_t sources, targets; /* S and T */
    int64_t count;
    const struct mixing *step; /* [count], from the lowest layer */
};

/* Attention rollout and attention flow (Abnar and Zuidema 2020). result [T, S + T]: how much of each row of the target, after
 * the last step, comes from each token: the share of it, or the maximum flow between both, where the shares of each step are
 * capacities. False when memory runs out. */
bool qkv_rollout(const struct mixings *mixings, double *result);
bool qkv_flow(const struct mixings *mixings, double *result);
