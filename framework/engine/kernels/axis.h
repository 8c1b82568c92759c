/* Code shared by ops along one axis. */
#ifndef QKV_KERNELS_AXIS_H
#define QKV_KERNELS_AXIS_H

#include "kernels/kernel.h"

/* The sizes of a tensor seen as [outer, axis, inner], where `axis` is one of its axes, `outer` the
 * product of the axes before it and `inner` of those after it. */
struct view {
    int64_t outer, axis, inner;
};

static inline struct view view_along(struct qkv_shape shape, int64_t axis)
{
    struct view view = {1, 1, 1};
    for (int i = 0; i < shape.rank; i++) {
        if (i < axis)
            view.outer *= shape.size[i];
        else if (i == axis)
            view.axis = shape.size[i];
        else
            view.inner *= shape.size[i];
    }
    return view;
}

static inline bool check_axis(struct qkv_tensor *y)
{
    int64_t axis = y->options.axis, rank = y->input[0]->shape.rank;
    if (axis >= 0 && axis < rank) return true;
    return qkv_refuse(y, "axis is %lld, but input is %s", (long long)axis,
                      qkv_shape_text(y->input[0]->shape));
}

/* The shape of a sum over an axis, which is removed (from a vector: [D] -> [1]), or over all of them. */
static inline bool reduced_shape(struct qkv_tensor *y)
{
    struct qkv_shape x = y->input[0]->shape;
    if (y->options.axis == QKV_ALL || x.rank == 1) {
        if (x.rank == 1 && y->options.axis != QKV_ALL && !check_axis(y)) return false;
        y->shape = QKV_SHAPE(1);
        return true;
    }
    if (!check_axis(y)) return false;
    y->shape.rank = x.rank - 1;
    for (int i = 0; i < y->shape.rank; i++) y->shape.size[i] = x.size[i < y->options.axis ? i : i + 1];
    return true;
}

/* The input of a reduction, viewed as [outer, axis, inner]. */
static inline struct view reduced_view(const struct qkv_tensor *y)
{
    const struct qkv_tensor *x = y->input[0];
    return y->options.axis == QKV_ALL ? (struct view){1, x->count, 1} : view_along(x->shape, y->options.axis);
}

#endif
