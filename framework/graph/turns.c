/* Turns: several graphs add their gradients to one block, to each parameter in the order of their
 * turns. The sum does not depend on the speed of the threads, and only one block is needed. Graphs
 * that run in parallel reach a parameter at about the same time: the second waits for one op of the
 * first, then stays one op behind. */
#include "graph/graph.h"

#include "qkv/parameters.h"

#include <sched.h>
#include <stdatomic.h>
#include <stdlib.h>

struct qkv_turns {
    int64_t count;
    atomic_int next[]; /* by parameter: the turn that may add to its gradient */
};

struct qkv_turns *qkv_turns_new(const struct qkv_parameters *parameters)
{
    struct qkv_turns *turns = calloc(1, sizeof *turns + (size_t)parameters->count * sizeof turns->next[0]);
    if (turns) turns->count = parameters->count;
    return turns;
}

void qkv_turns_free(struct qkv_turns *turns)
{
    free(turns);
}

void qkv_turns_reset(struct qkv_turns *turns)
{
    for (int64_t i = 0; i < turns->count; i++) atomic_store(&turns->next[i], 0);
}

void qkv_graph_set_turn(struct qkv_graph *graph, struct qkv_turns *turns, int turn)
{
    graph->turns = turns;
    graph->turn = turn;
}

static void wait_for_turn(const struct qkv_graph *graph, int64_t parameter)
{
    enum { SPINS = 2000 }; /* longer than an op takes, shorter than a time slice of the scheduler */
    atomic_int *next = &graph->turns->next[parameter];
    for (int spins = 0; atomic_load_explicit(next, memory_order_acquire) != graph->turn; spins++)
        if (spins > SPINS) sched_yield();
}

static void end_turn(const struct qkv_graph *graph, int64_t parameter)
{
    atomic_store_explicit(&graph->turns->next[parameter], graph->turn + 1, memory_order_release);
}

void qkv_turns_before(const struct qkv_tensor *y)
{
    for (int i = 0; y->graph->turns && i < QKV_MAX_INPUTS; i++) {
        const struct qkv_tensor *x = y->input[i];
        if (x && x->parameter && x->needs_gradient) wait_for_turn(y->graph, x->parameter->index);
    }
}

void qkv_turns_after(const struct qkv_tensor *y)
{
    for (int i = 0; y->graph->turns && i < QKV_MAX_INPUTS; i++) {
        struct qkv_tensor *x = y->input[i];
        if (!x || !x->parameter || !x->needs_gradient || x->first_consumer != y || x->turn_done) continue;
        x->turn_done = true;
        end_turn(y->graph, x->parameter->index);
    }
}

void qkv_graph_finish_turns(struct qkv_graph *graph)
{
    if (graph->turns_done) return;
    graph->turns_done = true;
    for (int64_t i = 0; graph->turns && i < graph->turns->count; i++) {
        if (graph->leaf && graph->leaf[i] && graph->leaf[i]->turn_done) continue;
        wait_for_turn(graph, i);
        end_turn(graph, i);
    }
}
