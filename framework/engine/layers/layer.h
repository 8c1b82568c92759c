/* Declarations that the files of layers/ share. */
#pragma once

#include "core/choices.h"
#include "qkv/layers.h"

/* `initial`; the gain of the initializers normal and uniform (enum qkv_initializer) is divided by sqrt(inputs),
 * so that a gain means the same for every width. */
struct qkv_initial qkv_initial_scaled(struct qkv_initial initial, int64_t inputs);

/* Declares a dense layer named "<name>.<part>". */
void qkv_dense_init_part(struct qkv_dense *dense, struct qkv_parameters *parameters,
                         const struct qkv_dense_options *options, const char *name, const char *part);

/* Makes the parameters fail if `value` is not a value of the option's enum: "encoder.norm: there is no norm 99". */
void qkv_require_choice(struct qkv_parameters *parameters, const char *name, const char *option,
                        const struct qkv_value_names *names, int value);

/* Whether any head is ablated; false if is_ablated is NULL. */
bool qkv_ablation_any(const bool *is_ablated, int64_t heads);

/* Sets the columns of the ablated heads to 0: context [Nq, H V]. Adds nothing to the graph where no head is ablated. */
struct qkv_tensor *qkv_ablation_apply(const bool *is_ablated, int64_t heads, struct qkv_graph *graph,
                                      struct qkv_tensor *context);

/* The number of columns of `parts` (at least 1) parts, side by side, of `width` columns each; `width` if that is below 1, and
 * INT64_MAX if the product is larger. Declaring a parameter with a size that no tensor can have fails. */
static inline int64_t qkv_side_by_side(int64_t parts, int64_t width)
{
    return width < 1 ? width : width > INT64_MAX / parts ? INT64_MAX : parts * width;
}
