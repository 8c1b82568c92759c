/* Random cases of every op of which a part is spoilt: the op refuses them, or runs without reaching memory that is not its
 * own (run with AddressSanitizer to see that). QKV_RANDOM_CASES sets how many cases of every op are tried, and
 * QKV_RANDOM_SEED where they start. */
#include "framework/engine/graph/internal.h"
#include "op_cases.h"

static int64_t wild_number(void)
{
    static const int64_t numbers[] = {-1, 0, 1, 5, INT64_MIN, INT64_MAX, INT64_MAX / 2, INT64_MAX - 1};
    return numbers[draw(sizeof numbers / sizeof *numbers)];
}

static double wild_real(void)
{
    static const double numbers[] = {0, 1, -1, NAN, INFINITY, -INFINITY, 1e300, 1e-300};
    return numbers[draw(sizeof numbers / sizeof *numbers)];
}

static void spoil_segments(struct op_case *test)
{
    struct qkv_segments *all[] = {&test->options.segments, &test->options.queries, &test->options.keys};
    struct case_segments *memory[] = {&test->segments, &test->queries, &test->keys};
    uint64_t which = draw(3), i = draw(CASE_SENTENCES), part = draw(7);
    struct qkv_segments *segments = all[which];
    int64_t *places[] = {&memory[which]->start[i], &memory[which]->length[i]};
    const int64_t **arrays[] = {&segments->start, &segments->length};
    if (part < 2)
        *places[part] = wild_number();
    else if (part == 2)
        *places[0] = (int64_t)draw(4);
    else if (part < 5)
        *arrays[part - 3] = NULL;
    else if (part == 5)
        segments->count = draw(2) ? 0 : -1;
    else if (segments->count > 0)
        segments->count--;
}

static void spoil_rule(struct qkv_attention_rule *rule)
{
    double *reals[] = {&rule->scale, &rule->dropout};
    int64_t *numbers[] = {&rule->heads,         &rule->key_value_heads, &rule->window,
                          &rule->global_tokens, &rule->buckets,         &rule->max_distance};
    uint64_t part = draw(6);
    if (part < 2)
        *reals[part] = wild_real();
    else if (part == 2)
        rule->kernel = (enum qkv_attention_kernel)draw(5);
    else if (part == 3)
        rule->mask_values = (enum qkv_mask_values)draw(5);
    else
        *numbers[draw(6)] = wild_number();
}

static void spoil_options(struct op_case *test)
{
    struct qkv_options *options = &test->options;
    int64_t *numbers[] = {&options->axis, &options->start,        &options->length,
                          &options->rows, &options->local_window, &options->shape.size[draw(4)]};
    double *reals[] = {&options->factor, &options->epsilon, &options->rate, &options->smoothing};
    int *small[] = {&options->shape.rank, &options->permutation.count, &options->permutation.axis[draw(4)]};
    uint64_t part = draw(9);
    if (part < 3)
        *small[part] = (int)wild_number();
    else if (part == 3)
        test->indices[draw(8)] = (int32_t)wild_number();
    else if (part == 4)
        options->indices = NULL;
    else if (part == 5)
        options->index_count = draw(2) ? INT64_MAX : -1;
    else if (part == 6)
        options->first = test->first, test->first[draw(CASE_SENTENCES)] = wild_number();
    else if (part == 7)
        *reals[draw(4)] = wild_real();
    else
        *numbers[draw(6)] = wild_number();
}

static void spoil_input(struct op_case *test)
{
    struct qkv_shape *shape = &test->input[draw(3)];
    if (!draw(6)) shape = &test->input[draw(QKV_MAX_INPUTS)];
    uint64_t part = draw(5);
    if (part == 2)
        test->constant ^= 1u << draw(QKV_MAX_INPUTS);
    else if (part > 2 && shape->rank)
        shape->size[draw((uint64_t)shape->rank)] = 1 + (int64_t)draw(6);
    else if (part < 2) {
        shape->rank = part ? 1 + (int)draw(4) : 0;
        for (int i = 0; i < shape->rank; i++) shape->size[i] = 1 + (int64_t)draw(4);
    }
}

/* Runs the case, of which up to two parts are spoilt, if the op accepts it. Returns whether it does. */
static bool run_spoilt_case(enum qkv_op_id op, bool shared)
{
    static struct op_case test;
    const struct qkv_random random = {.seed = 3};
    make_op_case(&test, op, 4);
    for (uint64_t spoilt = draw(3); spoilt > 0; spoilt--) {
        uint64_t part = draw(4);
        if (part == 0) spoil_segments(&test);
        if (part == 1) spoil_rule(&test.options.attention);
        if (part == 2) spoil_options(&test);
        if (part == 3) spoil_input(&test);
    }
    struct qkv_graph *graph = qkv_graph_new(draw(2) ? QKV_FLOAT32 : QKV_FLOAT64);
    if (draw(2)) qkv_graph_set_dropout(graph, &random);
    if (shared) qkv_graph_share_memory(graph, true);
    struct qkv_tensor *inputs[QKV_MAX_INPUTS];
    make_case_inputs(graph, &test, inputs);
    struct qkv_tensor *y = qkv_node(graph, op, inputs, &test.options);
    cr_expect_eq(y == NULL, qkv_graph_check(graph, &error) != QKV_OK, "%s: %s", qkv_op_name(op),
                 error.message);
    if (y && shared) qkv_graph_plan(graph, y);
    if (y) qkv_forward(graph);
    if (y) qkv_backward(graph, y, NULL);
    qkv_graph_free(graph);
    return y != NULL;
}

Test(spoilt_cases, reach_no_foreign_memory)
{
    const char *wanted = getenv("QKV_RANDOM_CASES"), *seed = getenv("QKV_RANDOM_SEED");
    int cases = wanted ? atoi(wanted) : 300;
    draw_from(seed ? strtoull(seed, NULL, 10) : 1);
    for (int op = QKV_OP_leaf + 1; op < QKV_OP_COUNT; op++) {
        int accepted = 0;
        for (int i = 0; i < cases; i++) accepted += run_spoilt_case((enum qkv_op_id)op, i % 4 == 0);
        cr_expect_gt(accepted, cases / 5, "%s accepts only %d of %d cases", qkv_op_name((enum qkv_op_id)op),
                     accepted, cases);
        cr_expect_lt(accepted, cases, "%s accepts every case", qkv_op_name((enum qkv_op_id)op));
    }
}
