/* A head without its rows of the output projection: what silencing it must equal. */
#pragma once

#include "support.h"

/* Multiplies the rows of a head in its output projection, which in a recurrent network is part of the attentional
 * vector. A head mask of this value would do the same (Michel et al. 2019). */
void scale_head(struct qkv_model *model, struct qkv_head head, double factor);

/* Writes run/zeroed.safetensors: the best checkpoint of run with the rows of the named heads, which
 * have commas between them, set to 0. */
void save_zeroed(const char *heads);
