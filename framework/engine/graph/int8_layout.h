/* How the numbers of a matrix share scales when it is stored as int8. */
#ifndef QKV_GRAPH_INT8_LAYOUT_H
#define QKV_GRAPH_INT8_LAYOUT_H

#include "qkv/graph.h"

/* Scale i belongs to the numbers i * scale_step + j * step, j from 0 to count - 1: to a column of a weight [inputs,
 * outputs], which is an output; to a row of a table. */
struct qkv_int8_layout {
    int64_t scales, count, scale_step, step;
};

static inline struct qkv_int8_layout qkv_int8_layout_of(const struct qkv_parameter *matrix)
{
    int64_t rows = matrix->shape.size[0], columns = matrix->shape.size[1];
    if (matrix->is_table) return (struct qkv_int8_layout){rows, columns, columns, 1};
    return (struct qkv_int8_layout){columns, rows, 1, columns};
}

#endif
