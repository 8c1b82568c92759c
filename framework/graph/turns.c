/* Turns: several graphs add their gradients to one block, to each parameter in the order of their
 * turn numbers. The sum does not depend on the speed of the threads, and only one block is needed. Graphs
 * that run in parallel reach a parameter at about the same time: the second waits for one op of the
 * first, then stays one op behind. */
#include "graph/graph.h"

#include "qkv/parameters.h"

#include <sched.h>
#include <stdatomic.h>
#include <stdlib.h>

struct qkv_turns {
    const struct qkv_parameters *parameters;
    atomic_int next[]; /* by parameter: number of the graph whose turn it is to add to the gradient */
};

struct qkv_turns *qkv_turns_new(const struct qkv_parameters *parameters)
{
    if (!parameters->values) return NULL; /* more parameters may still be declared */
    struct qkv_turns *turns = calloc(1, sizeof *turns + (size_t)parameters->count * sizeof turns->next[0]);
    if (turns) turns->parameters = parameters;
    return turns;
}

void qkv_turns_free(struct qkv_turns *turns)
{
    free(turns);
}

void qkv_turns_reset(struct qkv_turns *turns)
{
    for (int64_t i = 0; i < turns->parameters->count; i++) atomic_store(&turns->next[i], 0);
}

void qkv_graph_set_turn(struct qkv_graph *graph, struct qkv_turns *turns, int turn)
{
    if (turns && turn < 0) {
        qkv_graph_fail(graph, "qkv_graph_set_turn: the turn is %d, but must not be negative", turn);
        return;
    }
    graph->turns = turns;
    graph->turn = turn;
}

static void wait_for_turn(const struct qkv_graph *graph, int64_t index)
{
    enum { SPINS = 2000 }; /* take longer than an op, and less than a time slice of the scheduler */
    atomic_int *next = &graph->turns->next[index];
    for (int spins = 0; atomic_load_explicit(next, memory_order_acquire) != graph->turn; spins++)
        if (spins > SPINS) sched_yield();
}

static void end_turn(const struct qkv_graph *graph, int64_t index)
{
    atomic_store_explicit(&graph->turns->next[index], graph->turn + 1, memory_order_release);
}

/* Whether x is a parameter to whose gradient the graphs add in turn. */
static bool has_turns(const struct qkv_tensor *x)
{
    return x && x->binding && x->needs_gradient && x->binding->parameters == x->graph->turns->parameters;
}

void qkv_turns_before(const struct qkv_tensor *y)
{
    for (int i = 0; y->graph->turns && i < QKV_MAX_INPUTS; i++) {
        const struct qkv_tensor *x = y->input[i];
        if (has_turns(x)) wait_for_turn(y->graph, x->parameter->index);
    }
}

void qkv_turns_after(const struct qkv_tensor *y)
{
    for (int i = 0; y->graph->turns && i < QKV_MAX_INPUTS; i++) {
        struct qkv_tensor *x = y->input[i];
        if (!has_turns(x) || x->first_consumer != y || x->turn_done) continue;
        x->turn_done = true;
        end_turn(y->graph, x->parameter->index);
    }
}

void qkv_graph_finish_turns(struct qkv_graph *graph)
{
    if (graph->turns_done) return;
    graph->turns_done = true;
    if (!graph->turns) return;
    const struct qkv_binding *binding = qkv_binding_of(graph, graph->turns->parameters);
    struct qkv_tensor **leaf = binding ? binding->leaf : NULL;
    for (int64_t i = 0; i < graph->turns->parameters->count; i++) {
        if (leaf && leaf[i] && leaf[i]->turn_done) continue;
        wait_for_turn(graph, i);
        end_turn(graph, i);
    }
}
