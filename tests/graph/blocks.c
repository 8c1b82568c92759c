/* Blocks of parameters: several in one graph, some of them frozen; and declarations and bindings that are refused. */
#include "framework/engine/graph/internal.h"
#include "one_graph.h"
#include "parameters.h"

TestSuite(blocks, .init = make_graph, .fini = end_graph);

/* ---- blocks of parameters ---- */

enum { BLOCK = 64 };

/* A block of one vector [2], of ones, and its gradients, of nines. */
struct block {
    struct qkv_parameters parameters;
    const struct qkv_parameter *vector;
    double gradients[BLOCK];
};

static struct block block_of(const char *name)
{
    struct block block = {0};
    block.vector = last_parameter(&block.parameters, QKV_FLOAT64, QKV_SHAPE(2), ONES, name);
    for (int i = 0; i < BLOCK; i++) block.gradients[i] = 9;
    return block;
}

static void release(struct block *block)
{
    qkv_parameters_release(&block->parameters);
}

#define MADE_BLOCK(name) name RELEASED(release) = block_of(#name)

Test(blocks, frozen_and_trained_parameters_are_two_blocks_of_a_graph)
{
    struct block MADE_BLOCK(frozen), MADE_BLOCK(trained);
    qkv_parameter_set(&frozen.parameters, frozen.vector, 0, 5);
    for (int round = 0; round < 2; round++) { /* bindings survive a reset, also when they are made again */
        qkv_graph_bind(graph, &frozen.parameters, NULL, false);
        struct qkv_tensor *a = qkv_graph_parameter(graph, frozen.vector);
        qkv_graph_bind(graph, &trained.parameters, trained.gradients, false);
        struct qkv_tensor *b = qkv_graph_parameter(graph, trained.vector);
        cr_expect_eq(qkv_graph_parameter(graph, frozen.vector), a);
        cr_expect_neq(a, b);
        struct qkv_tensor *y = qkv_multiply(graph, a, b);
        run_graph(y);
        expect_no_graph_error(graph);
        expect_values(y, (double[]){5, 1});
        cr_expect_eq(trained.gradients[0], 5);
        cr_expect_eq(trained.gradients[1], 1);
        for (int i = 0; i < BLOCK; i++) cr_expect_eq(frozen.gradients[i], 9);
        qkv_graph_reset(graph);
    }
    struct qkv_tensor *b = qkv_graph_parameter(graph, trained.vector);
    qkv_graph_parameter(graph, frozen.vector);
    run_graph(b);
    expect_no_graph_error(graph);
    cr_expect_eq(trained.gradients[0], 1);
}

Test(blocks, the_first_binding_after_a_reset_replaces_all)
{
    struct block MADE_BLOCK(first), MADE_BLOCK(second);
    qkv_graph_bind(graph, &first.parameters, first.gradients, false);
    qkv_graph_reset(graph);
    qkv_graph_bind(graph, &second.parameters, second.gradients, false);
    struct qkv_tensor *b = qkv_graph_parameter(graph, second.vector);
    run_graph(b);
    expect_no_graph_error(graph);
    cr_expect_eq(first.gradients[0], 9, "a block that is no longer bound is not written");
    cr_expect_eq(second.gradients[0], 1);
    expect_no_node(qkv_graph_parameter(graph, first.vector),
                   "first does not belong to the parameters that are bound to the graph: call "
                   "qkv_graph_bind with the block that declares it");
}

Test(blocks, bindings_that_cannot_be_are_refused)
{
    struct block MADE_BLOCK(a), others[QKV_MAX_BLOCKS];
    struct qkv_parameters unallocated RELEASED(qkv_parameters_release) = {0},
                                      single RELEASED(qkv_parameters_release) = {0};
    const struct qkv_parameter *early = qkv_parameters_add(&unallocated, QKV_SHAPE(2), ONES, "early");
    qkv_graph_bind(graph, &unallocated, NULL, false);
    expect_no_node(qkv_graph_parameter(graph, early), "the parameters are not allocated");
    qkv_graph_bind(graph, NULL, NULL, false);
    expect_graph_error(graph, "the parameters are not allocated");
    expect_no_node(qkv_graph_parameter(graph, a.vector), "a does not belong to the parameters");

    last_parameter(&single, QKV_FLOAT32, QKV_SHAPE(2), ONES, "single");
    qkv_graph_bind(graph, &single, NULL, false);
    expect_graph_error(graph, "different precisions");

    qkv_graph_bind(graph, &a.parameters, a.gradients, false);
    qkv_graph_parameter(graph, a.vector);
    qkv_graph_bind(graph, &a.parameters, a.gradients, false); /* as it is: no mistake */
    expect_no_graph_error(graph);
    qkv_graph_bind(graph, &a.parameters, NULL, false);
    expect_graph_error(graph, "already uses these parameters with other gradients");

    qkv_graph_bind(graph, &a.parameters, NULL, false);
    for (int i = 0; i < QKV_MAX_BLOCKS; i++) {
        others[i] = block_of("other");
        qkv_graph_bind(graph, &others[i].parameters, NULL, false);
    }
    expect_graph_error(graph, "more than 8 blocks");
    for (int i = 0; i < QKV_MAX_BLOCKS; i++) release(&others[i]);
    cr_expect_null(qkv_panels_new(&unallocated));
    cr_expect_null(qkv_gradient_pair_new(&unallocated));
}

/* Copies of matrices and pairs are those of one block; a parameter of another block has the same index. */
Test(blocks, panels_and_pairs_keep_blocks_apart)
{
    struct qkv_parameters small RELEASED(qkv_parameters_release) = {0},
                                large RELEASED(qkv_parameters_release) = {0};
    const struct qkv_parameter *a = last_parameter(&small, QKV_FLOAT64, QKV_SHAPE(2, 2), ONES, "a"),
                               *b = last_parameter(&large, QKV_FLOAT64, QKV_SHAPE(64, 64), ONES, "b");
    struct qkv_panels *panels RELEASED(free_panels) = qkv_panels_new(&small);
    struct qkv_gradient_pair *pair RELEASED(free_gradient_pair) = qkv_gradient_pair_new(&small);
    double *gradients RELEASED(free_memory) = calloc((size_t)large.elements, sizeof *gradients),
                      small_gradients[16];
    qkv_graph_set_panels(graph, panels);
    qkv_graph_set_pair(graph, pair, true);
    qkv_graph_bind(graph, &small, small_gradients, false);
    qkv_graph_bind(graph, &large, gradients, false);
    struct qkv_tensor *x = qkv_variable(graph, QKV_SHAPE(24, 64)),
                      *narrow = qkv_variable(graph, QKV_SHAPE(24, 2));
    struct qkv_tensor *y = qkv_linear(graph, x, qkv_graph_parameter(graph, b), NULL, false);
    qkv_linear(graph, narrow, qkv_graph_parameter(graph, a), NULL, false);
    run_graph(y);
    expect_no_graph_error(graph);
    cr_expect_eq(gradients[0], 0);
    expect_gradient(qkv_graph_parameter(graph, a), (double[]){0, 0, 0, 0});
    qkv_graph_set_pair(graph, NULL, false);
}

/* A pair that is not reset between two steps sums the wrong numbers, but writes to no memory of the first step's graph. */
Test(blocks, a_pair_that_is_not_reset_writes_to_no_memory_that_is_gone)
{
    enum { ROWS = 4000 };
    static int32_t labels[ROWS];
    struct qkv_parameters parameters RELEASED(qkv_parameters_release) = {0};
    const struct qkv_parameter *a = qkv_parameters_add(&parameters, QKV_SHAPE(8, 8), ONES, "a"),
                               *b = last_parameter(&parameters, QKV_FLOAT32, QKV_SHAPE(8, 64), ONES, "b");
    float *gradients RELEASED(free_memory) = calloc((size_t)parameters.elements, sizeof *gradients);
    struct qkv_gradient_pair *pair RELEASED(free_gradient_pair) = qkv_gradient_pair_new(&parameters);
    struct qkv_graph *graphs[2] = {qkv_graph_new(QKV_FLOAT32), qkv_graph_new(QKV_FLOAT32)};
    for (int step = 0; step < 2; step++)
        for (int k = 0; k < 2; k++) {
            struct qkv_graph *g = graphs[k];
            qkv_graph_reset(g);
            qkv_graph_share_memory(g, true);
            qkv_graph_bind(g, &parameters, gradients, k);
            qkv_graph_set_pair(g, pair, k);
            struct qkv_tensor *x = qkv_constant(g, QKV_SHAPE(ROWS, 8)), *w = qkv_graph_parameter(g, a),
                              *h = qkv_matmul(g, x, w, false, false);
            if (step) {
                struct qkv_tensor *wide = qkv_graph_parameter(g, b);
                h = qkv_matmul(g, qkv_matmul(g, h, wide, false, false), wide, false, true);
            }
            struct qkv_tensor *loss =
                step ? qkv_sum(g, h, QKV_ALL) : qkv_cross_entropy(g, h, labels, 0, true);
            qkv_graph_plan(g, loss);
            qkv_forward(g);
            qkv_backward(g, loss, NULL);
            cr_expect_eq(qkv_graph_check(g, NULL), QKV_OK);
        }
    for (int k = 0; k < 2; k++) qkv_graph_free(graphs[k]);
}

/* ---- declarations ---- */

Test(blocks, a_table_of_another_block_is_not_marked)
{
    struct qkv_parameters many RELEASED(qkv_parameters_release) = {0},
                               one RELEASED(qkv_parameters_release) = {0};
    const struct qkv_parameter *last = NULL;
    for (int i = 0; i < 40; i++) last = qkv_parameters_add(&many, QKV_SHAPE(2, 2), ONES, "p%d", i);
    const struct qkv_parameter *first = qkv_parameters_add(&one, QKV_SHAPE(2, 2), ONES, "x");
    qkv_parameters_mark_table(&one, last);
    qkv_parameters_mark_table(&one, many.list[0]);
    cr_expect_not(first->is_table);
    qkv_parameters_mark_table(&one, first);
    cr_expect(first->is_table);
}

static void expect_refused_parameter(struct qkv_shape shape, struct qkv_initial initial, const char *name,
                                     const char *part)
{
    struct qkv_parameters parameters RELEASED(qkv_parameters_release) = {0};
    qkv_parameters_add(&parameters, QKV_SHAPE(1), ONES, "taken");
    cr_expect_null(name ? qkv_parameters_add(&parameters, shape, initial, "%s", name)
                        : qkv_parameters_add(&parameters, shape, initial, NULL));
    qkv_parameters_add(&parameters, QKV_SHAPE(1), ONES, "later");
    expect_refusal_with(qkv_parameters_allocate(&parameters, QKV_FLOAT32, &error), part);
    qkv_parameters_initialize(&parameters, 1);
}

/* The header of a checkpoint is UTF-8, and has names of its own: others could be written, but not read. */
Test(blocks, parameters_that_cannot_be_are_refused_when_they_are_declared)
{
    char long_name[300] = "";
    memset(long_name, 'x', sizeof long_name - 1);
    const char *const NAMES[][2] = {
        {"taken", "taken: two parameters have this name"},
        {NULL, "name has 0 bytes"},
        {"", "name has 0 bytes"},
        {long_name, "must have 1 to 255"},
        {"__metadata__", "__metadata__: names that begin with `__` or `optimizer.` belong to checkpoints"},
        {"optimizer.first.x", "optimizer.first.x: names that begin with"},
        {"caf\xE9.weight", "its name is not valid UTF-8"},
    };
    const int64_t huge = (int64_t)1 << 39;
    const struct {
        struct qkv_shape shape;
        struct qkv_initial initial;
        const char *part;
    } CASES[] = {
        {{0}, ONES, "p: a parameter cannot have shape []"},
        {{.rank = 9, .size = {1, 1, 1, 1}}, ONES, "[9 axes]"},
        {QKV_SHAPE(-3), ONES, "[-3]"},
        {QKV_SHAPE(huge, huge), ONES, "[549755813888, 549755813888]: it must have at most 2^40 elements"},
        {QKV_SHAPE(3, 4), {QKV_INITIALIZER_ORTHOGONAL, 1}, "not a row of square matrices"},
        {QKV_SHAPE(3), {QKV_INITIALIZER_ORTHOGONAL, 1}, "not a row of square matrices"},
    };
    for (size_t i = 0; i < sizeof NAMES / sizeof *NAMES; i++)
        expect_refused_parameter(QKV_SHAPE(2), ONES, NAMES[i][0], NAMES[i][1]);
    for (size_t i = 0; i < sizeof CASES / sizeof *CASES; i++)
        expect_refused_parameter(CASES[i].shape, CASES[i].initial, "p", CASES[i].part);
    static const double gains[] = {(double)NAN, (double)INFINITY, -(double)INFINITY};
    for (int i = 0; i < 3 * (QKV_INITIALIZER_FORGET + 1); i++)
        expect_refused_parameter(QKV_SHAPE(4, 4),
                                 (struct qkv_initial){(enum qkv_initializer)(i / 3), gains[i % 3]}, "p",
                                 "p: the gain of its initial values is ");
    struct qkv_parameters accents RELEASED(qkv_parameters_release) = {0};
    cr_expect_not_null(qkv_parameters_add(&accents, QKV_SHAPE(2), ONES, "caf\u00E9.weight"));
}

Test(blocks, parameters_are_declared_once_allocated_once_and_read_within_bounds)
{
    struct block MADE_BLOCK(block), MADE_BLOCK(other);
    expect_refusal(qkv_parameters_allocate(&block.parameters, QKV_FLOAT64, &error),
                   "the parameters are allocated already");
    for (int i = -1; i < 4; i += 3) {
        cr_expect(isnan(qkv_parameter_get(&block.parameters, block.vector, i)));
        qkv_parameter_set(&block.parameters, block.vector, i, 1);
    }
    cr_expect(isnan(qkv_parameter_get(&block.parameters, other.vector, 0)));
    cr_expect_eq(qkv_parameter_get(&block.parameters, block.vector, 1), 1);
    cr_expect_null(qkv_parameters_add(&block.parameters, QKV_SHAPE(2), ONES, "late"));
    qkv_graph_bind(graph, &block.parameters, NULL, false);
    expect_graph_error(graph, "late: parameters are declared before qkv_parameters_allocate");
    struct qkv_parameters empty RELEASED(qkv_parameters_release) = {0};
    cr_expect_eq(qkv_parameters_allocate(&empty, (enum qkv_dtype)7, &error), QKV_INVALID);
}

/* ---- parameters that change between forward and backward ---- */

static const char CHANGED[] =
    "the parameters have changed since qkv_forward: reset the graph, or call qkv_graph_rewind";

/* The sum of the squares of the block's vector. */
static struct qkv_tensor *squares_of(const struct block *block)
{
    struct qkv_tensor *vector = qkv_graph_parameter(graph, block->vector);
    return qkv_sum(graph, qkv_multiply(graph, vector, vector), QKV_ALL);
}

Test(blocks, a_loop_that_forgets_to_reset_or_rewind_is_refused)
{
    for (int remedy = 0; remedy < 3; remedy++) { /* neither, rewind, reset */
        struct block MADE_BLOCK(block);
        struct qkv_optimizer optimizer RELEASED(qkv_optimizer_release) = {0};
        void *blocks[] = {block.gradients};
        const struct qkv_optimizer_options settings = {.optimizer = QKV_OPTIMIZER_SGD};
        memset(block.gradients, 0, sizeof block.gradients);
        expect_done(qkv_optimizer_init(&optimizer, &settings, &block.parameters, &error));
        qkv_graph_bind(graph, &block.parameters, block.gradients, false);
        struct qkv_tensor *y = squares_of(&block);
        for (int update = 0; update < 3; update++) {
            run_graph(y);
            if (remedy == 0 && update == 1) break;
            expect_no_graph_error(graph);
            qkv_optimizer_step(&optimizer, &block.parameters, NULL, 1, blocks, 1, 0.25);
            if (remedy == 1) qkv_graph_rewind(graph);
            if (remedy == 2) qkv_graph_reset(graph), y = squares_of(&block);
        }
        if (remedy == 0) expect_graph_error(graph, CHANGED);
        double expected = remedy == 0 ? 0.5 : 0.125; /* each update halves it: w -= 0.25 * 2 w */
        cr_expect_eq(qkv_parameter_get(&block.parameters, block.vector, 0), expected, "remedy %d", remedy);
        qkv_graph_reset(graph);
    }
}

Test(blocks, only_changes_after_the_forward_that_read_a_block_are_refused)
{
    struct block MADE_BLOCK(trained), MADE_BLOCK(frozen), MADE_BLOCK(unused);
    qkv_graph_bind(graph, &trained.parameters, trained.gradients, true);
    qkv_graph_bind(graph, &frozen.parameters, NULL, false);
    qkv_graph_bind(graph, &unused.parameters, unused.gradients, false);
    struct qkv_tensor *y = squares_of(&trained);
    qkv_parameter_set(&trained.parameters, trained.vector, 0, 2); /* before forward */
    run_graph(y);
    qkv_backward(graph, y, NULL); /* adds the same gradients once more */
    expect_no_graph_error(graph);
    cr_expect_eq(trained.gradients[0], 9 + 4 + 4);

    /* Blocks that no forward has read yet may change, and so may those that the graph does not use. */
    qkv_parameter_set(&frozen.parameters, frozen.vector, 0, 3);
    qkv_parameter_set(&unused.parameters, unused.vector, 0, 3);
    y = qkv_multiply(graph, y, squares_of(&frozen));
    run_graph(y);
    expect_no_graph_error(graph);
    cr_expect_eq(qkv_tensor_scalar(y), (4 + 1) * (9 + 1));

    qkv_parameter_set(&frozen.parameters, frozen.vector, 0, 4); /* a frozen block counts, too */
    run_graph(y);
    expect_graph_error(graph, CHANGED);

    /* Nodes of a second forward do not hide that those of the first have old values. */
    y = squares_of(&trained);
    qkv_forward(graph);
    qkv_parameter_set(&trained.parameters, trained.vector, 0, 5);
    run_graph(qkv_scale(graph, y, 2));
    expect_graph_error(graph, CHANGED);
}

/* ---- parts without gradient ---- */

Test(blocks, a_part_without_gradients_stops_them_and_parameters_do_not_keep_old_ones)
{
    struct block MADE_BLOCK(block);
    qkv_graph_bind(graph, &block.parameters, block.gradients, false);
    struct qkv_tensor *x = variable_of(2, (double[]){3, 4});
    qkv_graph_set_gradients(graph, false);
    struct qkv_tensor *a = qkv_graph_parameter(graph, block.vector);
    struct qkv_tensor *still = qkv_multiply(graph, x, a);
    cr_expect_null(qkv_tensor_gradient(still));
    qkv_graph_set_gradients(graph, true);
    struct qkv_tensor *y = qkv_multiply(graph, still, x);
    run_graph(y);
    expect_no_graph_error(graph);
    expect_gradient(x, (double[]){3, 4}); /* only as the factor of y */
    cr_expect_eq(block.gradients[0], 0, "nothing flows to the parameter: its gradient is 0, not an old one");
    struct qkv_tensor *z = qkv_multiply(graph, x, qkv_graph_parameter(graph, block.vector));
    run_graph(z);
    cr_expect_eq(block.gradients[0], 3, "a parameter that was first used there is trained elsewhere");
}
