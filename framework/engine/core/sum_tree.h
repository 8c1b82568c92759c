/* The order in which parts of a sum are added, where its bits must not depend on threads, processes or memory: the gradients and
 * losses of shards. It is a binary tree: part 1 is added to part 0, 3 to 2, 5 to 4 and so on; then the sum at 2 to that at 0, 6 to
 * 4; then 4 to 0. A sum without a neighbour moves up unchanged.
 *
 * A node of the tree is known by its first part and its width, a power of two: it is the sum of the parts from `first` to below
 * `first` + `width`, as far as there are so many. Its children have half the width. */
#ifndef QKV_CORE_SUM_TREE_H
#define QKV_CORE_SUM_TREE_H

#include <stdbool.h>

/* An addition: of the node that begins at part `from` to the node of the same width that begins at part `to`. */
struct qkv_addition {
    int to, from;
};

/* Goes to the next addition of `count` parts, from {0}, which is before the first one. False: the sum is at part 0. */
static inline bool qkv_sum_tree_next(struct qkv_addition *addition, int count)
{
    int width = addition->from - addition->to;
    addition->to += 2 * width;
    addition->from += 2 * width;
    if (!width || addition->from >= count) *addition = (struct qkv_addition){0, width ? 2 * width : 1};
    return addition->from < count;
}

/* The first part of the sibling of a node, which has the same parent: the node may be its left or its right child. */
static inline int qkv_sum_tree_sibling(int first, int width)
{
    return first ^ width;
}

/* The first part of the parent of a node. */
static inline int qkv_sum_tree_parent(int first, int width)
{
    return first & ~width;
}

#endif
