/* Copies of the arrays that callers pass to ops: segments, indices, first positions. A node reads the copies, so changes to
 * the caller's arrays after the call of the op have no effect on forward and backward. Only a rewound graph reads the
 * arrays again, and checks them again. */
#include "graph/graph.h"

#include <string.h>

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
    options->first = keep(y->graph, options->first, 1, sizeof *options->first);
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
