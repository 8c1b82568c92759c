/* Checks of segments, for the shape rules of ops. */
#include "graph/graph.h"

#include <stdlib.h>

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
