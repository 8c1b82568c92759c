/* Where the values and gradients of a graph stand whose tensors share memory. */
#include "graph/graph.h"

/* Memory for a gradient: working space that forward alone needed, as long as there is some, or new. */
static void *gradient_memory(struct qkv_graph *graph, int64_t count)
{
    enum { ALIGNED_NUMBERS = 16 };
    int64_t at = (graph->scratch_kept + ALIGNED_NUMBERS - 1) / ALIGNED_NUMBERS * ALIGNED_NUMBERS;
    if (at + count > graph->scratch_count)
        return qkv_arena_allocate(&graph->arena, (size_t)count * graph->size);
    graph->scratch_kept = at + count;
    return (char *)graph->scratch + (size_t)at * graph->size;
}

/* Takes the smallest piece that is large enough out of the list; NULL where none is. */
static struct qkv_piece *take_spare(struct qkv_piece **spares, int64_t count)
{
    struct qkv_piece **best = NULL;
    for (struct qkv_piece **at = spares; *at; at = &(*at)->next)
        if ((*at)->count >= count && (!best || (*at)->count < (*best)->count)) best = at;
    struct qkv_piece *piece = best ? *best : NULL;
    if (piece) *best = piece->next;
    return piece;
}

static void give_back(struct qkv_piece **spares, struct qkv_piece *piece)
{
    piece->next = *spares;
    *spares = piece;
}

/* Gives x a spare piece for its gradient, or new memory; false where there is none. */
static bool give_piece(struct qkv_tensor *x, struct qkv_piece **spares)
{
    x->piece = take_spare(spares, x->count);
    if (!x->piece) {
        x->own.count = x->count;
        x->own.memory = gradient_memory(x->graph, x->count);
        x->piece = &x->own;
    }
    x->gradient = x->piece->memory;
    if (!x->gradient)
        qkv_graph_fail(x->graph, "out of memory for a gradient of shape %s", qkv_shape_text(x->shape));
    return x->gradient != NULL;
}

void qkv_graph_share_memory(struct qkv_graph *graph, bool share)
{
    QKV_BUG(graph->first, "a graph that holds tensors cannot change where their gradients stand");
    graph->shares = share;
}

static bool wants_piece(const struct qkv_tensor *x)
{
    return x && x->needs_gradient && x->op != QKV_OP_leaf && !x->piece;
}

/* Backward cannot begin at the result: each value goes when the last node that reads it has run. */
static bool is_forward_only(const struct qkv_graph *graph)
{
    return !graph->planned->needs_gradient;
}

static bool may_be_taken(const struct qkv_tensor *x)
{
    const struct qkv_op *op = x->graph->ops[x->op];
    if (is_forward_only(x->graph)) return !op->in_place && x != x->graph->planned;
    return !x->lent && op->lends;
}

static struct qkv_tensor *input_to_take(const struct qkv_tensor *y)
{
    const struct qkv_op *const *ops = y->graph->ops;
    for (int i = 0; i < QKV_MAX_INPUTS; i++) {
        struct qkv_tensor *x = y->input[i];
        if (!x || x->op == QKV_OP_leaf || !(ops[y->op]->takes >> i & 1) || !may_be_taken(x)) continue;
        if (x->consumers == 1 && x->count == y->count && x->needs_gradient == y->needs_gradient) return x;
    }
    return NULL;
}

/* Whether x's value has its memory for a while only: in a graph that is forward only; else if backward makes
 * it again, because it is cheap to, and what it is made from is there. */
static bool is_lent(const struct qkv_tensor *x)
{
    const struct qkv_graph *graph = x->graph;
    if (x->aliased || x == graph->planned) return false;
    if (is_forward_only(graph)) return true;
    if (!graph->ops[x->op]->cheap) return false;
    for (int i = 0; i < QKV_MAX_INPUTS; i++)
        if (x->input[i] && x->input[i]->lent) return false;
    return true;
}

/* Where the value of such a tensor stands: in memory of one before it that forward has no more use for.
 * The tensors that backward makes again meet in the same memory in the opposite order, so that each has it to
 * itself from the first time that it is read there to the last. (Chen et al. 2016 do so with whole layers.)
 */
static void *lend_memory(struct qkv_tensor *x, struct qkv_piece **spares)
{
    x->lent = take_spare(spares, x->count);
    if (x->lent) return x->lent->memory;
    x->lent = &x->room;
    x->room.count = x->count;
    return x->room.memory = qkv_arena_allocate(&x->graph->arena, (size_t)x->count * x->graph->size);
}

/* Memory of inputs that no later node reads. */
static void return_memory(const struct qkv_tensor *y, struct qkv_piece **spares)
{
    for (int i = 0; i < QKV_MAX_INPUTS; i++) {
        struct qkv_tensor *x = y->input[i];
        bool again = false;
        for (int j = 0; j < i; j++) again = again || y->input[j] == x;
        if (x && x->lent && x->last_consumer == y && !again) give_back(spares, x->lent);
    }
}

/* Gives x the memory of the input that it takes, to return it in its place. */
static void write_over(struct qkv_tensor *x)
{
    x->value = x->over->value;
    if (!x->aliased && x != x->graph->planned) x->lent = x->over->lent;
    x->over->lent = NULL;
}

/* Goes through the graph as forward will. */
static bool give_values(struct qkv_graph *graph)
{
    struct qkv_piece *spares = NULL;
    for (struct qkv_tensor *x = graph->first; x; x = x->next) {
        if (x->op == QKV_OP_leaf) continue;
        if (graph->ops[x->op]->in_place)
            x->value = x->input[0]->value;
        else if ((x->over = input_to_take(x)))
            write_over(x);
        else if (is_lent(x))
            x->value = lend_memory(x, &spares);
        else
            x->value = qkv_arena_allocate(&graph->arena, (size_t)x->count * graph->size);
        if (!x->value) {
            qkv_graph_fail(graph, "out of memory for a tensor of shape %s", qkv_shape_text(x->shape));
            return false;
        }
        return_memory(x, &spares);
    }
    return true;
}

/* Goes through the graph as backward will: a node's inputs get memory before it runs, its own is spare
 * afterwards, or is that of the input whose value it has written over. */
void qkv_graph_plan(struct qkv_graph *graph, struct qkv_tensor *y)
{
    struct qkv_piece *spares = NULL;
    if (graph->failed || !y || !graph->shares) return;
    QKV_BUG(graph->planned, "a graph is planned twice");
    graph->planned = y;
    if (!give_values(graph) || (wants_piece(y) && !give_piece(y, &spares))) return;
    for (struct qkv_tensor *x = y; x; x = x->previous) {
        if (!x->piece) continue;
        if (x->over) {
            x->over->piece = x->piece;
            x->over->gradient = x->gradient;
        }
        for (int i = 0; i < QKV_MAX_INPUTS; i++)
            if (wants_piece(x->input[i]) && !give_piece(x->input[i], &spares)) return;
        if (!x->over) give_back(&spares, x->piece);
    }
}
