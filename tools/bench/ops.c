/* The measurement of every op by itself, forward and backward. */
#include "bench.h"

#include "graph/internal.h"

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

/* Builds an op. One that is not in the list needs one or two matrices, and no options. */
static struct qkv_tensor *build(struct op_inputs *s, enum qkv_op_id op)
{
#define CALL(op, ...)                                                                                        \
    case QKV_OP_##op:                                                                                        \
        return qkv_##op(s->graph, __VA_ARGS__);
    switch (op) {
        CALL(matmul, s->x, s->square, false, false)
        CALL(linear, s->x, s->square, s->row, false)
        CALL(add_row, s->x, s->row)
        CALL(scale, s->x, 0.5)
        CALL(dropout, s->x, 0.1)
        CALL(dropout_rows, s->x, 0.1)
        CALL(segment_softmax, s->x, s->segments)
        CALL(layer_norm, s->x, s->row, s->row2, 1e-6)
        CALL(rms_norm, s->x, s->row, 1e-6)
        CALL(embedding, s->table, s->numbers, ROWS, 1)
        CALL(add_positions, s->x, s->other, s->segments, 0)
        CALL(rotate, s->x, s->angles, s->segments, 0)
        CALL(gather_rows, s->x, s->numbers, ROWS)
        CALL(scatter_rows, s->x, s->numbers, ROWS)
        CALL(reshape, s->x, QKV_SHAPE(ROWS * WIDTH))
        CALL(permute, s->x, QKV_AXES(1, 0))
        CALL(concat, s->x, s->other, 1)
        CALL(slice, s->x, 1, 0, WIDTH / 2)
        CALL(sum, s->x, 1)
        CALL(mean, s->x, 1)
        CALL(cross_entropy, s->classes, s->numbers, 0.1, 1)
        CALL(paired_cross_entropy, s->x, s->other, s->table, s->vocabulary, true, s->numbers, 0.1, 5, false,
             1)
        CALL(linear_cross_entropy, s->x, s->table, s->vocabulary, true, s->numbers, 0.1, 1)
        CALL(attention_scores, s->x, s->other, s->attention)
        CALL(attention_weights, s->ragged, NULL, s->attention)
        CALL(attention_mix, s->ragged, s->x, s->attention)
        CALL(attention, s->x, s->other, s->x, NULL, s->attention)
        CALL(store_rows, s->cache, qkv_constant(s->graph, QKV_SHAPE(ROWS, WIDTH)), s->numbers)
    default:
        break;
    }
#undef CALL
    const bool two = op == QKV_OP_add || op == QKV_OP_subtract || op == QKV_OP_multiply;
    struct qkv_tensor *const inputs[QKV_MAX_INPUTS] = {s->x, two ? s->other : NULL};
    return qkv_node(s->graph, op, inputs, &(struct qkv_options){0});
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
    struct op_inputs *inputs = required(malloc(sizeof *inputs));
    struct qkv_graph *graph = required(qkv_graph_new(QKV_FLOAT32));
    (void)error;
    for (int op = QKV_OP_leaf + 1; op < QKV_OP_COUNT; op++) {
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
    bench_report_profile(report, work, row, rows);
    qkv_graph_free(graph);
    free(inputs);
    return QKV_OK;
}
