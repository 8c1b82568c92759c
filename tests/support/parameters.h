/* Parameters for tests that need a few, of whatever values. */
#pragma once

#include "support.h"

static const struct qkv_initial NORMAL __attribute__((unused)) = {QKV_INITIALIZER_NORMAL, 1},
                                       ONES __attribute__((unused)) = {QKV_INITIALIZER_ONES, 1},
                                       ZEROS __attribute__((unused)) = {QKV_INITIALIZER_ZEROS, 1};

/* Allocates what was declared, and gives it its initial values. */
static inline void make_parameters(struct qkv_parameters *parameters, enum qkv_dtype dtype, uint64_t seed)
{
    expect_done(qkv_parameters_allocate(parameters, dtype, &error));
    qkv_parameters_initialize(parameters, seed);
}

/* Declares one parameter, the last, allocates all and gives them their initial values. */
static inline const struct qkv_parameter *last_parameter(struct qkv_parameters *parameters,
                                                         enum qkv_dtype dtype, struct qkv_shape shape,
                                                         struct qkv_initial initial, const char *name)
{
    const struct qkv_parameter *parameter = qkv_parameters_add(parameters, shape, initial, "%s", name);
    make_parameters(parameters, dtype, 1);
    return parameter;
}
