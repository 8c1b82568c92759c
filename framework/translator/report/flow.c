/* Attention rollout and attention flow: how layers of attention mix the tokens of a pair. */
#include "report/attribution.h"
#include "report/words.h"

#include "core/memory.h"

#include <math.h>

/* From a node to one before it, of which it takes a share. Edge e ^ 1 is the reverse of e. */
struct edge {
    int32_t to, next; /* next: of the list of edges that leave the same node; -1: none */
    double capacity;  /* the share; of a reverse 0 */
    double left;      /* what may still flow */
};

struct node {
    int32_t first;  /* edge; -1: none */
    int32_t level;  /* distance from where the flow begins; -1: it does not reach the node */
    int32_t at;     /* the edge to try next */
    int32_t queued; /* of the queue of nodes: any node */
};

struct mixture {
    struct qkv_arena *arena;
    int64_t rows[2],
        present[2]; /* of the target, and of the source: how many, and the first of the present ones */
    int64_t nodes, edges;
    struct node *node;
    struct edge *edge;
};

static void add_nodes(struct mixture *m, int64_t count)
{
    for (int64_t i = 0; i < count; i++) m->node[m->nodes++].first = -1;
}

struct mixture *qkv_mixture_new(struct qkv_arena *arena, int64_t sources, int64_t targets, int64_t layers)
{
    const int64_t columns = sources + targets;
    struct mixture *m = qkv_arena_allocate(arena, sizeof *m);
    if (!m) return NULL;
    *m = (struct mixture){.arena = arena,
                          .rows = {targets, sources},
                          .present = {sources, 0},
                          .node = qkv_arena_array(arena, (1 + layers) * columns, sizeof *m->node),
                          .edge =
                              qkv_arena_array(arena, 2 * layers * columns * (1 + columns), sizeof *m->edge)};
    if (!m->node || !m->edge) return NULL;
    add_nodes(m, columns);
    return m;
}

static void add_edge(struct mixture *m, int64_t from, int64_t to, double share)
{
    if (!(share > 0)) return;
    for (int reverse = 0; reverse < 2; reverse++) {
        struct node *node = &m->node[reverse ? to : from];
        m->edge[m->edges] =
            (struct edge){(int32_t)(reverse ? from : to), node->first, reverse ? 0 : share, 0};
        node->first = (int32_t)m->edges++;
    }
}

void qkv_mixture_add(struct mixture *m, bool of_source, double keep, const double *own, const double *other)
{
    const double *const part[] = {own, other};
    const int64_t rows = m->rows[of_source], columns[] = {rows, m->rows[1]},
                  from[] = {m->present[of_source], m->present[1]}, made = m->nodes;
    double *total = qkv_arena_zeros(m->arena, rows, sizeof *total);
    if ((!own && !other) || !total) return;
    add_nodes(m, rows);
    for (int64_t i = 0; i < rows; i++) {
        for (int p = 0; p < 2; p++)
            if (part[p]) total[i] += qkv_row_total(part[p] + i * columns[p], columns[p]);
        add_edge(m, made + i, from[0] + i, keep > 0 || total[i] > 0 ? keep : 1);
        if (keep > 0) total[i] = 1;
    }
    for (int p = 0; p < 2; p++)
        for (int64_t i = 0; part[p] && i < rows * columns[p]; i++)
            add_edge(m, made + i / columns[p], from[p] + i % columns[p],
                     (1 - keep) * part[p][i] / total[i / columns[p]]);
    m->present[of_source] = made;
}

void qkv_rollout(struct mixture *m, double *result)
{
    const int64_t columns = m->rows[0] + m->rows[1];
    double *share =
        qkv_arena_zeros(m->arena, m->nodes * columns, sizeof *share); /* of each token, in each node */
    if (!share) return;
    for (int64_t c = 0; c < columns; c++) share[c * columns + c] = 1;
    for (int64_t e = 0; e < m->edges; e += 2)
        for (int64_t c = 0; c < columns; c++)
            share[m->edge[e ^ 1].to * columns + c] +=
                m->edge[e].capacity * share[m->edge[e].to * columns + c];
    memcpy(result, share + m->present[0] * columns, (size_t)(m->rows[0] * columns) * sizeof *result);
}

/* ---- flow ---- */

enum { SMALLEST = 1000000000 }; /* 1 / SMALLEST is no flow: rounding errors */

/* Sets the distances of all nodes from `from`; returns whether `to` can be reached. */
static bool find_levels(struct mixture *m, int64_t from, int64_t to)
{
    int64_t head = 0, tail = 0;
    for (int64_t i = 0; i < m->nodes; i++) m->node[i].level = -1;
    m->node[from].level = 0;
    m->node[tail++].queued = (int32_t)from;
    while (head < tail) {
        const struct node *node = &m->node[m->node[head++].queued];
        for (int32_t e = node->first; e >= 0; e = m->edge[e].next) {
            struct node *other = &m->node[m->edge[e].to];
            if (m->edge[e].left * SMALLEST < 1 || other->level >= 0) continue;
            other->level = node->level + 1;
            m->node[tail++].queued = m->edge[e].to;
        }
    }
    return m->node[to].level >= 0;
}

/* Sends up to `limit` from a node on, along edges that lead one level further; returns how much flows. */
static double push(struct mixture *m, int64_t from, int64_t to, double limit)
{
    struct node *node = &m->node[from];
    double sent = 0;
    if (from == to) return limit;
    for (; node->at >= 0; node->at = m->edge[node->at].next) {
        struct edge *edge = &m->edge[node->at];
        if (edge->left * SMALLEST < 1 || m->node[edge->to].level != node->level + 1) continue;
        double part = push(m, edge->to, to, fmin(limit - sent, edge->left));
        edge->left -= part;
        m->edge[node->at ^ 1].left += part;
        sent += part;
        if ((limit - sent) * SMALLEST < 1) break;
    }
    return sent;
}

/* The maximum flow between two nodes (Dinic 1970): sends what fits along the shortest ways, until there is no way. */
static double maximum_flow(struct mixture *m, int64_t from, int64_t to)
{
    double flow = 0, sent = 1;
    for (int64_t e = 0; e < m->edges; e++) m->edge[e].left = m->edge[e].capacity;
    while (sent > 0 && find_levels(m, from, to)) {
        for (int64_t i = 0; i < m->nodes; i++) m->node[i].at = m->node[i].first;
        flow += sent = push(m, from, to, 1e9);
    }
    return flow;
}

void qkv_flow(struct mixture *m, double *result)
{
    const int64_t columns = m->rows[0] + m->rows[1];
    for (int64_t i = 0; i < m->rows[0] * columns; i++)
        result[i] = maximum_flow(m, m->present[0] + i / columns, i % columns);
}
