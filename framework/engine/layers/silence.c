/* Silencing heads of attention: their context becomes 0. */
#include "layers/layer.h"
#include "qkv/ops.h"

bool *qkv_silence_new(struct qkv_parameters *parameters, int64_t heads)
{
    bool *is_silent = qkv_arena_zeroed(&parameters->arena, heads > 0 ? (size_t)heads : 1);
    if (!is_silent) parameters->failed = true;
    return is_silent;
}

bool qkv_silence_any(const bool *is_silent, int64_t heads)
{
    for (int64_t head = 0; is_silent && head < heads; head++)
        if (is_silent[head]) return true;
    return false;
}

struct qkv_tensor *qkv_silence_apply(const bool *is_silent, int64_t heads, struct qkv_graph *graph,
                                     struct qkv_tensor *context)
{
    if (!context || !qkv_silence_any(is_silent, heads)) return context;
    int64_t columns = qkv_tensor_shape(context).size[1];
    double *factors = qkv_graph_memory(graph, (size_t)columns * sizeof *factors);
    struct qkv_tensor *row = qkv_constant(graph, QKV_SHAPE(columns)); /* 0 for silent heads, else 1 */
    if (!factors || !row) return NULL;
    for (int64_t i = 0; i < columns; i++) factors[i] = is_silent[i / (columns / heads)] ? 0 : 1;
    qkv_tensor_write(row, factors);
    return qkv_multiply_row(graph, context, row);
}
