/* Public access to tensors: shapes, values, gradients, attention weights, sums of the loss. */
#include "graph/graph.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

struct qkv_shape qkv_tensor_shape(const struct qkv_tensor *tensor)
{
    return tensor ? tensor->shape : (struct qkv_shape){0};
}

int64_t qkv_tensor_count(const struct qkv_tensor *tensor)
{
    return tensor ? tensor->count : 0;
}

const char *qkv_tensor_name(const struct qkv_tensor *tensor)
{
    return !tensor ? "no tensor" : tensor->name ? tensor->name : qkv_op_name(tensor->op);
}

const char *qkv_tensor_op(const struct qkv_tensor *tensor)
{
    return tensor ? qkv_op_name(tensor->op) : "no tensor";
}

void *qkv_tensor_value(struct qkv_tensor *tensor)
{
    return tensor ? tensor->value : NULL;
}

void *qkv_tensor_gradient(struct qkv_tensor *tensor)
{
    return tensor ? tensor->gradient : NULL;
}

bool qkv_is_computed(const struct qkv_tensor *y)
{
    const struct qkv_tensor *last = y->graph->last_run;
    if (!last) return false;
    for (const struct qkv_tensor *x = last->next; x; x = x->next)
        if (x == y) return false;
    return true;
}

/* Returns whether `memory` of the tensor exists; if not, the graph fails. */
static bool has_memory(const struct qkv_tensor *tensor, const void *memory, const char *what)
{
    if (!tensor) return false;
    if (!memory)
        qkv_graph_fail(tensor->graph, "%s (%s) keeps no %s", qkv_tensor_name(tensor), qkv_tensor_op(tensor),
                       what);
    return memory != NULL;
}

static void read_numbers(const struct qkv_tensor *tensor, const void *from, const char *what, double *to)
{
    bool is_there = has_memory(tensor, from, what);
    for (int64_t i = 0; i < tensor->count; i++) {
        to[i] = (double)NAN;
        if (is_there) to[i] = qkv_dtype_get(tensor->graph->dtype, from, i);
    }
}

void qkv_tensor_read(const struct qkv_tensor *tensor, double *values)
{
    if (tensor) read_numbers(tensor, tensor->value, "value before qkv_graph_plan", values);
}

void qkv_tensor_read_gradient(const struct qkv_tensor *tensor, double *gradient)
{
    if (tensor) read_numbers(tensor, tensor->gradient, "gradient", gradient);
}

void qkv_tensor_write(struct qkv_tensor *tensor, const double *values)
{
    if (!tensor || !has_memory(tensor, tensor->value, "value before qkv_graph_plan")) return;
    for (int64_t i = 0; i < tensor->count; i++)
        qkv_dtype_set(tensor->graph->dtype, tensor->value, i, values[i]);
    if (tensor->op == QKV_OP_leaf && qkv_is_computed(tensor)) tensor->graph->leaf_written = true;
}

double qkv_tensor_scalar(const struct qkv_tensor *tensor)
{
    if (!tensor || !has_memory(tensor, tensor->value, "value before qkv_graph_plan")) return (double)NAN;
    return qkv_dtype_get(tensor->graph->dtype, tensor->value, 0);
}

/* ---- further results of attention and loss nodes ---- */

/* Whether no value of the set has been overwritten in forward (qkv_graph_share_memory). */
static bool keeps_values(const struct qkv_tensor *y, unsigned values)
{
    for (int i = 0; i < QKV_MAX_INPUTS; i++)
        if (values & QKV_INPUT(i) && y->input[i] && y->input[i]->is_overwritten) return false;
    return !(values & QKV_RESULT && y->is_overwritten);
}

const void *qkv_attention_weights_of(const struct qkv_tensor *attention, int64_t sentence, int64_t head,
                                     int64_t *rows, int64_t *columns)
{
    const struct qkv_op *op = attention ? attention->graph->ops[attention->op] : NULL;
    if (!op || !op->weights || attention->graph->failed || !qkv_is_computed(attention)) return NULL;
    const struct qkv_options *options = &attention->options;
    /* Without segments, the rows of query and key are one sentence. Only the op `attention` allows that, and its
     * inputs 0 and 1 are query and key. */
    const struct qkv_tensor *query = attention->input[0], *key = attention->input[1];
    int64_t query_rows = query ? query->shape.size[0] : 0, key_rows = key ? key->shape.size[0] : 0;
    if (sentence < 0 || sentence >= qkv_segment_count(&options->queries) || head < 0 ||
        head >= options->attention.heads)
        return NULL;
    int64_t at = 0;
    for (int64_t s = 0; s <= sentence; s++) {
        *rows = qkv_segment_length(&options->queries, s, query_rows);
        *columns = qkv_segment_length(&options->keys, s, key_rows);
        at += (s < sentence ? options->attention.heads : head) * *rows * *columns;
    }
    if (!keeps_values(attention, op->weights_read)) return NULL;
    /* Casts const away: weights that are computed on demand are cached in the node. */
    const char *weights = op->weights((struct qkv_tensor *)(uintptr_t)attention);
    return weights ? weights + (size_t)at * attention->graph->size : NULL;
}

/* Reads the two sums at offset `at` of the numbers that a cross-entropy node has saved (kernels/loss.c describes their
 * layout). -1: the node has not saved them. */
static void read_sums(const struct qkv_tensor *loss, int64_t at, double *negative_log_likelihood,
                      double *correct)
{
    *negative_log_likelihood = *correct = (double)NAN;
    if (!loss || loss->graph->failed) return;
    bool has_sums = loss->op == QKV_OP_cross_entropy || loss->op == QKV_OP_linear_cross_entropy ||
                    loss->op == QKV_OP_paired_cross_entropy || loss->op == QKV_OP_attention_loss;
    const char *refusal = !has_sums                ? " is no cross entropy"
                          : !qkv_is_computed(loss) ? ": qkv_forward has not computed its sums"
                          : at < 0                 ? " keeps no sums of this row"
                                                   : NULL;
    if (refusal) {
        qkv_graph_fail(loss->graph, "%s (%s)%s", qkv_tensor_name(loss), qkv_tensor_op(loss), refusal);
        return;
    }
    *negative_log_likelihood = qkv_dtype_get(loss->graph->dtype, loss->saved, at);
    *correct = qkv_dtype_get(loss->graph->dtype, loss->saved, at + 1);
}

void qkv_cross_entropy_sums(const struct qkv_tensor *loss, double *negative_log_likelihood, double *correct)
{
    read_sums(loss, 0, negative_log_likelihood, correct);
}

void qkv_cross_entropy_row(const struct qkv_tensor *loss, int64_t row, double *negative_log_likelihood,
                           double *correct)
{
    int64_t rows = loss && loss->input[0] ? loss->input[0]->shape.size[0] : 0;
    bool is_kept = row >= 0 && row < rows && !loss->needs_gradient &&
                   loss->op != QKV_OP_paired_cross_entropy && loss->op != QKV_OP_attention_loss;
    read_sums(loss, is_kept ? loss->saved_count - 2 * (rows - row) : -1, negative_log_likelihood, correct);
}

/* Copies of the arrays that callers pass to ops: segments, indices, first positions. A node reads the copies, so changes to
 * the caller's arrays after the call of the op have no effect on forward and backward. Only a rewound graph reads the
 * arrays again, and checks them again. */

struct qkv_array {
    struct qkv_array *next; /* the one that was copied before */
    const void *source;     /* the caller's array */
    void *copy;
    size_t bytes;
};

/* A copy of the same array with the same contents, among the newest: most ops of a layer have the same segments. */
static const struct qkv_array *find_copy(const struct qkv_graph *graph, const void *source, size_t bytes)
{
    enum { NEWEST = 8 };
    const struct qkv_array *array = graph->arrays;
    for (int i = 0; array && i < NEWEST; i++, array = array->next)
        if (array->source == source && array->bytes == bytes && !memcmp(array->copy, source, bytes))
            return array;
    return NULL;
}

/* A copy of `count` elements; NULL when memory runs out, which makes the graph fail. */
static const void *keep(struct qkv_graph *graph, const void *source, int64_t count, size_t element_size)
{
    size_t bytes = (size_t)count * element_size;
    const struct qkv_array *known = find_copy(graph, source, bytes);
    if (known) return known->copy;
    struct qkv_array *array = qkv_arena_allocate(&graph->arena, sizeof *array);
    void *copy = qkv_arena_allocate(&graph->arena, bytes);
    if (!array || !copy) return qkv_graph_fail(graph, "out of memory for an array of %zu bytes", bytes);
    memcpy(copy, source, bytes);
    *array = (struct qkv_array){graph->arrays, source, copy, bytes};
    graph->arrays = array;
    return copy;
}

static bool keep_segments(struct qkv_tensor *y, struct qkv_segments *segments)
{
    int64_t count = segments->count;
    if (count < 1 || !segments->start || !segments->length)
        return true; /* the shape rule refuses what is wrong */
    if (count > QKV_MAX_ELEMENTS) return qkv_refuse(y, "there are %lld segments", (long long)count);
    segments->start = keep(y->graph, segments->start, count, sizeof *segments->start);
    segments->length = keep(y->graph, segments->length, count, sizeof *segments->length);
    y->reads_arrays = true;
    return segments->start && segments->length;
}

bool qkv_keep_arrays(struct qkv_tensor *y)
{
    struct qkv_options *options = &y->options;
    bool has_segments = options->segments.count || options->queries.count || options->keys.count;
    if (!has_segments && !options->first) return true;
    if (!keep_segments(y, &options->segments) || !keep_segments(y, &options->queries) ||
        !keep_segments(y, &options->keys))
        return false;
    if (!options->first) return true;
    const struct qkv_segments *segments = &options->segments;
    int64_t count = segments->start && segments->length && segments->count > 1 ? segments->count : 1;
    options->first = keep(y->graph, options->first, count, sizeof *options->first);
    y->reads_arrays = true;
    return options->first != NULL;
}

bool qkv_keep_indices(struct qkv_tensor *y, int64_t count)
{
    if (y->graph->checks_again)
        return count <= y->kept_indices ||
               qkv_refuse(y, "reads %lld indices, but had %lld when it was called", (long long)count,
                          (long long)y->kept_indices);
    if (count < 0 || count > QKV_MAX_ELEMENTS)
        return qkv_refuse(y, "there are %lld indices", (long long)count);
    y->options.indices = keep(y->graph, y->options.indices, count, sizeof *y->options.indices);
    y->kept_indices = count;
    y->reads_arrays = true;
    return y->options.indices != NULL;
}

/* Whether the node still has enough memory for its arrays: runs the shape rule on a copy of the node. */
static bool still_fits(const struct qkv_tensor *y)
{
    struct qkv_tensor again = *y;
    again.shape = (struct qkv_shape){0};
    again.saved_count = again.scratch = again.scratch_forward = 0;
    if (!qkv_op_rule(y->op)->shape(&again)) return false;
    if (!qkv_same_shape(&again, y))
        return qkv_refuse(&again, "the result would have another shape than when the op was called");
    return (again.saved_count <= y->saved_count && again.scratch <= y->scratch &&
            again.scratch_forward <= y->scratch_forward) ||
           qkv_refuse(&again, "the segments need more memory than those that the op was called with");
}

bool qkv_read_arrays_again(struct qkv_graph *graph)
{
    for (const struct qkv_array *array = graph->arrays; array; array = array->next)
        memcpy(array->copy, array->source, array->bytes);
    if (graph->trusts_arrays) return true;
    graph->checks_again = true;
    bool fits = true;
    for (const struct qkv_tensor *y = graph->first; y && fits; y = y->next)
        if (y->reads_arrays) fits = still_fits(y);
    graph->checks_again = false;
    return fits;
}

/* Checks of segments, for the shape rules of ops. */

bool qkv_check_segments(struct qkv_tensor *y, const struct qkv_segments *segments, int64_t rows,
                        const char *what)
{
    if (segments->count < 0)
        return qkv_refuse(y, "there are %lld segments of %s", (long long)segments->count, what);
    if (segments->count && (!segments->start || !segments->length))
        return qkv_refuse(y, "the segments of %s have no array of starts or lengths", what);
    for (int64_t i = 0; i < segments->count; i++) {
        int64_t start = segments->start[i], length = segments->length[i];
        if (start < 0 || length < 0)
            return qkv_refuse(y, "segment %lld of %s starts at row %lld and has %lld rows", (long long)i,
                              what, (long long)start, (long long)length);
        if (length <= rows && start <= rows - length) continue;
        int64_t last = start > INT64_MAX - length ? INT64_MAX : start + length - 1;
        return qkv_refuse(y, "segment %lld of %s is rows %lld to %lld, but there are %lld rows", (long long)i,
                          what, (long long)start, (long long)last, (long long)rows);
    }
    return true;
}

static int compare_starts(const void *a, const void *b)
{
    const int64_t *x = a, *y = b;
    return (x[0] > y[0]) - (x[0] < y[0]);
}

bool qkv_check_disjoint(struct qkv_tensor *y, const struct qkv_segments *segments, const char *what)
{
    int64_t end = 0, ordered = 0, count = 0;
    for (; ordered < segments->count && segments->start[ordered] >= end; ordered++)
        end = segments->start[ordered] + segments->length[ordered];
    if (ordered == segments->count) return true; /* the usual case: segments in the order of their rows */
    int64_t(*sorted)[3] = malloc((size_t)segments->count * sizeof *sorted);
    if (!sorted) return qkv_refuse(y, "out of memory for the check of %s", what);
    for (int64_t i = 0; i < segments->count; i++) {
        if (!segments->length[i]) continue;
        sorted[count][0] = segments->start[i];
        sorted[count][1] = segments->start[i] + segments->length[i];
        sorted[count++][2] = i;
    }
    qsort(sorted, (size_t)count, sizeof *sorted, compare_starts);
    bool are_disjoint = true;
    for (int64_t i = 1; i < count && are_disjoint; i++)
        if (sorted[i][0] < sorted[i - 1][1])
            are_disjoint = qkv_refuse(y, "segments %lld and %lld of %s share row %lld, but must not overlap",
                                      (long long)sorted[i - 1][2], (long long)sorted[i][2], what,
                                      (long long)sorted[i][0]);
    free(sorted);
    return are_disjoint;
}
