/* The measurement of every op by itself, forward and backward. */
#include "bench.h"

#include "graph/internal.h"

#include <stdlib.h>

enum { ROWS = 480, WIDTH = 512, SENTENCES = 32, LENGTH = ROWS / SENTENCES, HEADS = 8, CLASSES = 4000 };

/* Tensors and options that ops are called with. */
struct op_inputs {
    struct qkv_graph *graph;
    struct qkv_tensor *x, *other, *row, *row2, *table, *square, *classes, *cache, *ragged, *angles,
        *vocabulary;
    int32_t numbers[ROWS];
    int64_t start[SENTENCES], length[SENTENCES];
    struct qkv_segments segments;
    struct qkv_attention attention;
};

static void op_inputs_make(struct op_inputs *s, struct qkv_graph *graph)
{
    *s = (struct op_inputs){.graph = graph};
    s->x = qkv_variable(graph, QKV_SHAPE(ROWS, WIDTH));
    s->other = qkv_variable(graph, QKV_SHAPE(ROWS, WIDTH));
    s->row = qkv_variable(graph, QKV_SHAPE(WIDTH));
    s->row2 = qkv_variable(graph, QKV_SHAPE(WIDTH));
    s->table = qkv_variable(graph, QKV_SHAPE(CLASSES, WIDTH));
    s->square = qkv_variable(graph, QKV_SHAPE(WIDTH, WIDTH));
    s->classes = qkv_variable(graph, QKV_SHAPE(ROWS, CLASSES));
    s->cache = qkv_constant(graph, QKV_SHAPE(ROWS, WIDTH));
    s->ragged = qkv_variable(graph, QKV_SHAPE(SENTENCES * HEADS * LENGTH * LENGTH));
    s->angles = qkv_constant(graph, QKV_SHAPE(LENGTH, WIDTH / HEADS));
    s->vocabulary = qkv_variable(graph, QKV_SHAPE(CLASSES));
    for (int i = 0; i < ROWS; i++) s->numbers[i] = (i * 37) % ROWS;
    for (int i = 0; i < SENTENCES; i++) {
        s->start[i] = i * LENGTH;
        s->length[i] = LENGTH;
    }
    s->segments = (struct qkv_segments){SENTENCES, s->start, s->length};
    s->attention = (struct qkv_attention){
        .rule = {.heads = HEADS, .dropout = 0.1}, .queries = s->segments, .keys = s->segments};
}

/* Builds an op with options; NULL if the list does not know it. */
static struct qkv_tensor *build(struct op_inputs *s, enum qkv_op_id op)
{
    struct qkv_graph *g = s->graph;
    switch (op) {
    case QKV_OP_matmul:
        return qkv_matmul(g, s->x, s->square, false, false);
    case QKV_OP_linear:
        return qkv_linear(g, s->x, s->square, s->row, false);
    case QKV_OP_add_row:
        return qkv_add_row(g, s->x, s->row);
    case QKV_OP_scale:
        return qkv_scale(g, s->x, 0.5);
    case QKV_OP_dropout:
        return qkv_dropout(g, s->x, 0.1);
    case QKV_OP_dropout_rows:
        return qkv_dropout_rows(g, s->x, 0.1);
    case QKV_OP_segment_softmax:
        return qkv_segment_softmax(g, s->x, s->segments);
    case QKV_OP_layer_norm:
        return qkv_layer_norm(g, s->x, s->row, s->row2, 1e-6);
    case QKV_OP_rms_norm:
        return qkv_rms_norm(g, s->x, s->row, 1e-6);
    case QKV_OP_embedding:
        return qkv_embedding(g, s->table, s->numbers, ROWS, 1);
    case QKV_OP_add_positions:
        return qkv_add_positions(g, s->x, s->other, s->segments, 0);
    case QKV_OP_rotate:
        return qkv_rotate(g, s->x, s->angles, s->segments, 0);
    case QKV_OP_gather_rows:
        return qkv_gather_rows(g, s->x, s->numbers, ROWS);
    case QKV_OP_scatter_rows:
        return qkv_scatter_rows(g, s->x, s->numbers, ROWS);
    case QKV_OP_reshape:
        return qkv_reshape(g, s->x, QKV_SHAPE(ROWS * WIDTH));
    case QKV_OP_permute:
        return qkv_permute(g, s->x, QKV_AXES(1, 0));
    case QKV_OP_concat:
        return qkv_concat(g, s->x, s->other, 1);
    case QKV_OP_slice:
        return qkv_slice(g, s->x, 1, 0, WIDTH / 2);
    case QKV_OP_sum:
        return qkv_sum(g, s->x, 1);
    case QKV_OP_mean:
        return qkv_mean(g, s->x, 1);
    case QKV_OP_cross_entropy:
        return qkv_cross_entropy(g, s->classes, s->numbers, 0.1, 1);
    case QKV_OP_paired_cross_entropy:
        return qkv_paired_cross_entropy(g, s->x, s->other, s->table, s->vocabulary, true, s->numbers, 0.1, 5,
                                        false, 1);
    case QKV_OP_linear_cross_entropy:
        return qkv_linear_cross_entropy(g, s->x, s->table, s->vocabulary, true, s->numbers, 0.1, 1);
    case QKV_OP_attention_scores:
        return qkv_attention_scores(g, s->x, s->other, s->attention);
    case QKV_OP_attention_weights:
        return qkv_attention_weights(g, s->ragged, NULL, s->attention);
    case QKV_OP_attention_mix:
        return qkv_attention_mix(g, s->ragged, s->x, s->attention);
    case QKV_OP_attention:
        return qkv_attention(g, s->x, s->other, s->x, NULL, s->attention);
    default:
        return NULL;
    }
}

/* Builds an op that needs one or two matrices and no options. */
static struct qkv_tensor *build_plain(struct op_inputs *s, enum qkv_op_id op)
{
    const struct qkv_options none = {0};
    struct qkv_tensor *const inputs[QKV_MAX_INPUTS] = {s->x, s->other};
    struct qkv_tensor *const first[QKV_MAX_INPUTS] = {s->x};
    bool two = op == QKV_OP_add || op == QKV_OP_subtract || op == QKV_OP_multiply;
    if (op != QKV_OP_store_rows) return qkv_node(s->graph, op, two ? inputs : first, &none);
    return qkv_store_rows(s->graph, s->cache, qkv_constant(s->graph, QKV_SHAPE(ROWS, WIDTH)), s->numbers);
}

struct op_timer {
    const struct qkv_tensor *tensor; /* the node to time */
    double seconds[2];               /* forward, backward */
    struct qkv_cost cost[2];
    double previous; /* when the node before ended */
};

static void record_node(void *context, const struct qkv_tensor *tensor, bool backward)
{
    struct op_timer *timer = context;
    double now = bench_thread_seconds();
    if (tensor == timer->tensor) {
        timer->seconds[backward] = now - timer->previous;
        timer->cost[backward] = qkv_tensor_cost(tensor, backward);
    }
    timer->previous = now;
}

/* Times both passes of an op, each run with a new graph. Returns false for an op that cannot be
 * called with these inputs; the report leaves it out. */
static bool measure(struct op_inputs *inputs, struct qkv_graph *graph, enum qkv_op_id op, int runs,
                    double *seconds[2], struct op_timer *timer)
{
    const struct qkv_random random = {.seed = 1};
    const struct qkv_observer observer = {record_node, timer};
    for (int run = -1; run < runs; run++) {
        qkv_graph_reset(graph);
        qkv_graph_set_dropout(graph, &random);
        qkv_graph_observe(graph, NULL);
        op_inputs_make(inputs, graph);
        qkv_forward(graph);
        struct qkv_tensor *y = build(inputs, op);
        if (!y) y = build_plain(inputs, op);
        struct qkv_tensor *result = qkv_sum(graph, y, QKV_ALL); /* its backward runs before the one of y */
        if (qkv_graph_check(graph, NULL)) return false;
        *timer = (struct op_timer){.tensor = y};
        qkv_graph_observe(graph, &observer);
        timer->previous = bench_thread_seconds();
        qkv_forward(graph);
        qkv_backward(graph, result, NULL);
        if (run < 0) continue;
        for (int pass = 0; pass < 2; pass++) seconds[pass][run] = timer->seconds[pass];
    }
    return true;
}

enum qkv_status bench_ops(struct bench_work *work, const struct bench_options *options,
                          struct bench_report *report, struct qkv_error *error)
{
    enum { MAX_RUNS = 64 };
    struct bench_profile_row row[QKV_OP_COUNT];
    int rows = 0, runs = options->steps < MAX_RUNS ? (int)options->steps : MAX_RUNS;
    struct op_inputs *inputs = malloc(sizeof *inputs);
    struct qkv_graph *graph = qkv_graph_new(QKV_FLOAT32);
    enum qkv_status status = QKV_OK;
    if (!inputs || !graph) status = qkv_error_set(error, "out of memory for ops");
    for (int op = QKV_OP_leaf + 1; op < QKV_OP_COUNT && !status; op++) {
        double forward[MAX_RUNS], backward[MAX_RUNS];
        struct op_timer timer;
        if (!measure(inputs, graph, (enum qkv_op_id)op, runs, (double *[]){forward, backward}, &timer))
            continue;
        row[rows++] = (struct bench_profile_row){
            .name = qkv_op_name((enum qkv_op_id)op),
            .calls = 1,
            .seconds = {bench_median(forward, runs), bench_median(backward, runs)},
            .operations = {timer.cost[0].operations, timer.cost[1].operations},
            .bytes = {timer.cost[0].bytes, timer.cost[1].bytes},
        };
    }
    if (!status) bench_report_profile(report, work, row, rows);
    qkv_graph_free(graph);
    free(inputs);
    return status;
}
