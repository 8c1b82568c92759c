/* Attention rollout and attention flow: how layers of attention mix the tokens of a pair. */
#include "report/attribution.h"

#include "core/memory.h"

#include <math.h>

/* result [rows, columns] += factor * weights [rows, inner] times x [inner, columns]; weights NULL: adds nothing. */
static void add_product(double factor, const double *weights, int64_t rows, int64_t inner, const double *x,
                        int64_t columns, double *result)
{
    for (int64_t i = 0; weights && i < rows; i++)
        for (int64_t j = 0; j < inner; j++)
            for (int64_t c = 0; c < columns; c++)
                result[i * columns + c] += factor * weights[i * inner + j] * x[j * columns + c];
}

bool qkv_rollout(const struct mixings *mixings, double *result)
{
    const int64_t count[] = {mixings->targets, mixings->sources}, columns = count[0] + count[1];
    struct qkv_arena arena = {0};
    double *rows[2]; /* of the target, and of the source: the share of each token */
    for (int side = 0; side < 2; side++) {
        rows[side] = qkv_arena_zeros(&arena, count[side] * columns, sizeof **rows);
        for (int64_t i = 0; rows[side] && i < count[side]; i++)
            rows[side][i * columns + (side ? 0 : count[1]) + i] = 1;
    }
    for (int64_t s = 0; s < mixings->count && !arena.failed; s++) {
        const struct mixing *step = &mixings->step[s];
        int side = step->of_source;
        double *mixed = qkv_arena_zeros(&arena, count[side] * columns, sizeof *mixed);
        for (int64_t i = 0; mixed && i < count[side] * columns; i++) mixed[i] = step->keep * rows[side][i];
        if (!mixed) break;
        add_product(1 - step->keep, step->own, count[side], count[side], rows[side], columns, mixed);
        add_product(1 - step->keep, step->other, count[0], count[1], rows[1], columns, mixed);
        rows[side] = mixed;
    }
    bool is_done = !arena.failed;
    if (is_done) memcpy(result, rows[0], (size_t)(count[0] * columns) * sizeof *result);
    qkv_arena_release(&arena);
    return is_done;
}

/* ---- flow ---- */

/* Pipes between nodes: edge e and its reverse e ^ 1. The edges that leave a node form a list. */
struct network {
    int64_t nodes, edges;
    int32_t *first, *next, *to;
    double *capacity, *left; /* left: what may still flow */
    int32_t *level, *at;     /* [nodes]: distance from the source of the flow; the edge to try next */
};

static void add_edge(struct network *network, int64_t from, int64_t to, double capacity)
{
    if (!(capacity > 0)) return;
    for (int reverse = 0; reverse < 2; reverse++) {
        int32_t edge = (int32_t)network->edges++;
        network->to[edge] = (int32_t)(reverse ? from : to);
        network->capacity[edge] = reverse ? 0 : capacity;
        network->next[edge] = network->first[reverse ? to : from];
        network->first[reverse ? to : from] = edge;
    }
}

static void add_edges(struct network *network, const double *weights, double factor, int64_t from,
                      int64_t rows, int64_t to, int64_t columns)
{
    for (int64_t i = 0; weights && i < rows * columns; i++)
        add_edge(network, from + i / columns, to + i % columns, factor * weights[i]);
}

enum { SMALLEST = 1000000000 }; /* 1 / SMALLEST is no flow: rounding errors */

/* Sets the distances of all nodes from `from`; returns whether `to` can be reached. queue: [nodes]. */
static bool find_levels(struct network *network, int32_t from, int32_t to, int32_t *queue)
{
    int64_t head = 0, tail = 0;
    for (int64_t i = 0; i < network->nodes; i++) network->level[i] = -1;
    network->level[from] = 0;
    queue[tail++] = from;
    while (head < tail) {
        int32_t node = queue[head++];
        for (int32_t e = network->first[node]; e >= 0; e = network->next[e]) {
            if (network->left[e] * SMALLEST < 1 || network->level[network->to[e]] >= 0) continue;
            network->level[network->to[e]] = network->level[node] + 1;
            queue[tail++] = network->to[e];
        }
    }
    return network->level[to] >= 0;
}

/* Sends up to `limit` from a node on, along edges that lead one level further; returns how much flows. */
static double push(struct network *network, int32_t node, int32_t to, double limit)
{
    double sent = 0;
    if (node == to) return limit;
    for (; network->at[node] >= 0; network->at[node] = network->next[network->at[node]]) {
        int32_t e = network->at[node], other = network->to[e];
        if (network->left[e] * SMALLEST < 1 || network->level[other] != network->level[node] + 1) continue;
        double part = push(network, other, to, fmin(limit - sent, network->left[e]));
        network->left[e] -= part;
        network->left[e ^ 1] += part;
        sent += part;
        if ((limit - sent) * SMALLEST < 1) break;
    }
    return sent;
}

/* The maximum flow between two nodes (Dinic 1970): sends what fits along the shortest ways, until there is no way. */
static double maximum_flow(struct network *network, int32_t from, int32_t to, int32_t *queue)
{
    double flow = 0, sent = 1;
    memcpy(network->left, network->capacity, (size_t)network->edges * sizeof *network->left);
    while (sent > 0 && find_levels(network, from, to, queue)) {
        memcpy(network->at, network->first, (size_t)network->nodes * sizeof *network->at);
        flow += sent = push(network, from, to, 1e9);
    }
    return flow;
}

/* Makes the nodes of each step, which take from those before. Returns the first node of the rows of the target after the last
 * step. The tokens are the first nodes: sources, then targets. */
static int64_t build(const struct mixings *mixings, struct network *network)
{
    const int64_t count[] = {mixings->targets, mixings->sources};
    int64_t rows[] = {count[1], 0}, after = count[0] + count[1];
    for (int64_t s = 0; s < mixings->count; s++) {
        const struct mixing *step = &mixings->step[s];
        int side = step->of_source;
        for (int64_t i = 0; i < count[side]; i++) add_edge(network, after + i, rows[side] + i, step->keep);
        add_edges(network, step->own, 1 - step->keep, after, count[side], rows[side], count[side]);
        add_edges(network, step->other, 1 - step->keep, after, count[0], rows[1], count[1]);
        rows[side] = after;
        after += count[side];
    }
    return rows[0];
}

bool qkv_flow(const struct mixings *mixings, double *result)
{
    const int64_t targets = mixings->targets, sources = mixings->sources, columns = sources + targets;
    struct qkv_arena arena = {0};
    int64_t nodes = columns, edges = 0;
    for (int64_t s = 0; s < mixings->count; s++) {
        int64_t rows = mixings->step[s].of_source ? sources : targets;
        nodes += rows;
        edges += 2 * rows * (1 + columns);
    }
    struct network network = {
        .nodes = nodes,
        .first = qkv_arena_array(&arena, nodes, sizeof *network.first),
        .level = qkv_arena_array(&arena, nodes, sizeof *network.level),
        .at = qkv_arena_array(&arena, nodes, sizeof *network.at),
        .next = qkv_arena_array(&arena, edges, sizeof *network.next),
        .to = qkv_arena_array(&arena, edges, sizeof *network.to),
        .capacity = qkv_arena_array(&arena, edges, sizeof *network.capacity),
        .left = qkv_arena_array(&arena, edges, sizeof *network.left),
    };
    int32_t *queue = qkv_arena_array(&arena, nodes, sizeof *queue);
    if (!arena.failed) {
        for (int64_t i = 0; i < nodes; i++) network.first[i] = -1;
        int64_t last = build(mixings, &network);
        for (int64_t i = 0; i < targets * columns; i++)
            result[i] = maximum_flow(&network, (int32_t)(last + i / columns), (int32_t)(i % columns), queue);
    }
    bool is_done = !arena.failed;
    qkv_arena_release(&arena);
    return is_done;
}
