/* Where the gradients of a graph whose gradients share memory stand. */
#include "graph/graph.h"

/* Gives x the smallest spare piece that is large enough, or new memory; false where there is none. */
static bool give_piece(struct qkv_tensor *x, struct qkv_piece **spares)
{
    struct qkv_piece **best = NULL;
    for (struct qkv_piece **at = spares; *at; at = &(*at)->next)
        if ((*at)->count >= x->count && (!best || (*at)->count < (*best)->count)) best = at;
    if (best) {
        x->piece = *best;
        *best = x->piece->next;
    } else {
        x->own.count = x->count;
        x->own.memory = qkv_arena_allocate(&x->graph->arena, (size_t)x->count * x->graph->size);
        x->piece = &x->own;
    }
    x->gradient = x->piece->memory;
    if (!x->gradient)
        qkv_graph_fail(x->graph, "out of memory for a gradient of shape %s", qkv_shape_text(x->shape));
    return x->gradient != NULL;
}

void qkv_graph_share_gradients(struct qkv_graph *graph, bool share)
{
    QKV_BUG(graph->first, "a graph that holds tensors cannot change where their gradients stand");
    graph->shares = share;
}

static bool wants_piece(const struct qkv_tensor *x)
{
    return x && x->needs_gradient && x->op != QKV_OP_leaf && !x->piece;
}

/* Goes through the graph as backward will: a node's inputs get memory before it runs, its own is spare
 * afterwards. */
void qkv_graph_plan(struct qkv_graph *graph, struct qkv_tensor *y)
{
    struct qkv_piece *spares = NULL;
    if (graph->failed || !y || !graph->shares) return;
    QKV_BUG(graph->planned, "a graph is planned twice");
    graph->planned = y;
    if (wants_piece(y) && !give_piece(y, &spares)) return;
    for (struct qkv_tensor *x = y; x; x = x->previous) {
        if (!x->piece) continue;
        for (int i = 0; i < QKV_MAX_INPUTS; i++)
            if (wants_piece(x->input[i]) && !give_piece(x->input[i], &spares)) return;
        x->piece->next = spares;
        spares = x->piece;
    }
}
