/* The gradient check called wrongly, as by a program that is not finished: it refuses with a status and a sentence. */
#include "parameters.h"

#include "framework/engine/check/check.h"

/* The arguments of a check of y = f(x), x [3]. */
struct call {
    struct qkv_graph *graph;
    struct qkv_tensor *x, *y;
    struct qkv_check_options options;
    struct qkv_check_report report;
};

static struct call call_of(struct qkv_tensor *(*f)(struct qkv_graph *graph, struct qkv_tensor *x))
{
    struct call call = {.graph = qkv_graph_new(QKV_FLOAT64), .options = {.seed = 1}};
    call.x = qkv_variable(call.graph, QKV_SHAPE(3));
    qkv_tensor_write(call.x, (double[]){0.5, -1.5, 2});
    call.y = f(call.graph, call.x);
    return call;
}

static enum qkv_status check(struct call *call)
{
    return qkv_check_graph(&call->report, "f", call->graph, call->y, &call->options, &error);
}

static void release(struct call *call)
{
    qkv_check_release(&call->report);
    qkv_graph_free(call->graph);
}

static void expect_call_refused(struct call *call, const char *sentence)
{
    expect_refusal(check(call), sentence);
    cr_expect_eq(call->report.count, 0);
}

/* Takes the call. */
static void expect_graph_refused(struct call call, const char *sentence)
{
    expect_call_refused(&call, sentence);
    release(&call);
}

Test(misuse, null_is_refused)
{
    struct call call RELEASED(release) = call_of(qkv_tanh);
    struct qkv_check_options *options = &call.options;
    cr_expect_eq(qkv_check_graph(NULL, "f", call.graph, call.y, options, NULL), QKV_INVALID);
    cr_expect_eq(qkv_check_graph(&call.report, NULL, call.graph, call.y, options, NULL), QKV_INVALID);
    cr_expect_eq(qkv_check_graph(&call.report, "f", NULL, call.y, options, NULL), QKV_INVALID);
    cr_expect_eq(qkv_check_graph(&call.report, "f", call.graph, NULL, options, NULL), QKV_INVALID);
    cr_expect_eq(qkv_check_graph(&call.report, "f", call.graph, call.y, NULL, NULL), QKV_INVALID);
    cr_expect_eq(qkv_check_op(NULL, QKV_OP_add, options, NULL), QKV_INVALID);
    cr_expect_eq(qkv_check_op(&call.report, QKV_OP_add, NULL, NULL), QKV_INVALID);
    cr_expect_eq(qkv_check_layer(NULL, QKV_LAYER_dense, options, NULL), QKV_INVALID);
    cr_expect_eq(qkv_check_layer(&call.report, QKV_LAYER_dense, NULL, NULL), QKV_INVALID);
    cr_expect_eq(qkv_check_precision(&call.report, "f", NULL, 1, NULL), QKV_INVALID);
    cr_expect_eq(qkv_check_precision(&call.report, "f", &(struct qkv_precision_pair){0}, 1, NULL),
                 QKV_INVALID);
    cr_expect_eq(qkv_op_find(NULL), QKV_OP_COUNT);
    cr_expect_eq(qkv_layer_find(NULL), QKV_LAYER_COUNT);
    cr_expect_eq(qkv_fault_find(NULL), QKV_FAULT_NONE);
    qkv_check_release(NULL);
    cr_expect_eq(call.report.count, 0);
}

Test(misuse, numbers_that_name_nothing_are_refused)
{
    struct call call RELEASED(release) = call_of(qkv_tanh);
    for (int i = 0; i < 3; i++) {
        static const int wrong[] = {-1, 0, 1000};
        cr_expect_eq(qkv_check_op(&call.report, (enum qkv_op_id)wrong[i], &call.options, NULL), QKV_INVALID);
        cr_expect_null(qkv_fault_name((enum qkv_fault)wrong[i]));
        if (!wrong[i]) continue;
        cr_expect_eq(qkv_check_layer(&call.report, (enum qkv_layer_id)wrong[i], &call.options, NULL),
                     QKV_INVALID);
        call.options.fault = (enum qkv_fault)wrong[i];
        cr_expect_eq(check(&call), QKV_INVALID);
        call.options.fault = QKV_FAULT_SIGN;
        call.options.fault_op = (enum qkv_op_id)wrong[i];
        expect_refusal_with(check(&call), "there is no such op to plant a fault in");
        call.options.fault = QKV_FAULT_NONE;
    }
}

Test(misuse, options_out_of_range_are_refused)
{
    static const struct {
        double tolerance;
        int64_t sample;
        const char *message;
    } CASES[] = {
        {(double)NAN, 0, "qkv_check_graph: the tolerance is nan, but must be 0 or more"},
        {-1, 0, "qkv_check_graph: the tolerance is -1, but must be 0 or more"},
        {0, -1, "qkv_check_graph: the sample is -1, but must be 0 (all) or more"},
    };
    struct call call RELEASED(release) = call_of(qkv_tanh);
    for (int i = 0; i < 3; i++) {
        call.options.tolerance = CASES[i].tolerance;
        call.options.sample = CASES[i].sample;
        expect_call_refused(&call, CASES[i].message);
    }
}

static struct qkv_tensor *constant_of(struct qkv_graph *graph, struct qkv_tensor *x)
{
    (void)x;
    return qkv_tanh(graph, qkv_constant(graph, QKV_SHAPE(2)));
}

/* y = tanh(x) in another graph than the check needs. */
static struct call call_in(enum qkv_dtype dtype, bool share)
{
    struct call call = {.graph = qkv_graph_new(dtype)};
    qkv_graph_share_memory(call.graph, share);
    call.y = qkv_tanh(call.graph, qkv_variable(call.graph, QKV_SHAPE(3)));
    if (share) qkv_graph_plan(call.graph, call.y);
    return call;
}

Test(misuse, a_graph_that_the_check_cannot_read_is_refused)
{
    struct call call = call_of(qkv_tanh), other = call_of(qkv_tanh);
    struct qkv_tensor *y = call.y;
    call.y = other.y;
    expect_call_refused(&call, "f: the tensor to check belongs to another graph");
    release(&other);
    call.y = y;
    qkv_concat(call.graph, call.x, call.x, 3);
    expect_graph_refused(call, "concat: axis is 3, but input is [3]");
    expect_graph_refused(call_of(constant_of), "f: the result depends on no variable and on no bound "
                                               "parameter, so that there is no gradient to check");
    expect_graph_refused(call_in(QKV_FLOAT32, false), "f: the graph is float32, but must be float64");
    expect_graph_refused(call_in(QKV_FLOAT64, true), "f: tensors of the graph share memory, so their values "
                                                     "are not kept; build it without qkv_graph_share_memory");
}

Test(misuse, gradients_that_backward_adds_to_are_refused)
{
    struct qkv_parameters parameters RELEASED(qkv_parameters_release) = {0};
    const struct qkv_parameter *weight =
        last_parameter(&parameters, QKV_FLOAT64, QKV_SHAPE(3), NORMAL, "weight");
    double *gradients RELEASED(free_memory) = calloc((size_t)parameters.elements, sizeof *gradients);
    struct call call = {.graph = qkv_graph_new(QKV_FLOAT64)};
    qkv_graph_bind(call.graph, &parameters, gradients, true);
    call.y = qkv_tanh(call.graph, qkv_graph_parameter(call.graph, weight));
    expect_graph_refused(call,
                         "f: backward adds to the gradients of parameters; bind them without `accumulate`");
}

/* ---- functions that cannot be right ---- */

static struct qkv_tensor *log_of_negatives(struct qkv_graph *graph, struct qkv_tensor *x)
{
    return qkv_log(graph, x); /* x has a number below 0 */
}

static struct qkv_tensor *overflow(struct qkv_graph *graph, struct qkv_tensor *x)
{
    return qkv_exp(graph, qkv_scale(graph, x, 1e300));
}

Test(misuse, nan_and_infinity_fail)
{
    static const double X[][3] = {{0.5, -1.5, 2}, {0.5, -1.5, 2}, {NAN, INFINITY, 1e308}};
    struct qkv_tensor *(*const functions[])(struct qkv_graph *, struct qkv_tensor *) = {log_of_negatives,
                                                                                        overflow, qkv_tanh};
    for (int i = 0; i < 3; i++) {
        struct call call RELEASED(release) = call_of(functions[i]);
        double values[3];
        qkv_tensor_write(call.x, X[i]);
        cr_expect_eq(check(&call), QKV_OK);
        cr_expect_gt(call.report.failures, 0, "case %d", i);
        qkv_tensor_read(call.x, values);
        if (i < 2) cr_expect_arr_eq(values, X[i], sizeof values, "the values are restored");
    }
}

/* A program's function that builds the network of both precisions, and depends on more than it is given. */
static struct qkv_tensor *forgetful_network(struct qkv_graph *graph, int *calls)
{
    const int64_t width = 3 + (*calls)++;
    return qkv_tanh(graph, qkv_variable(graph, QKV_SHAPE(2, width)));
}

static struct qkv_check_report pair_report;

static enum qkv_status check_pair(const struct qkv_precision_pair *pair)
{
    return qkv_check_precision(&pair_report, "f", pair, 1, &error);
}

Test(misuse, a_network_of_another_shape_at_the_second_call_is_refused)
{
    struct qkv_graph *float32 RELEASED(free_graph) = qkv_graph_new(QKV_FLOAT32),
                              *float64 RELEASED(free_graph) = qkv_graph_new(QKV_FLOAT64),
                              *more RELEASED(free_graph) = qkv_graph_new(QKV_FLOAT64);
    int calls = 0;
    struct qkv_precision_pair pair = {forgetful_network(float32, &calls), forgetful_network(float64, &calls),
                                      NULL, QKV_FLOAT32_BOUND};
    const char *sentence = "f: the graphs of the two precisions have other nodes or shapes";
    expect_refusal(check_pair(&pair), sentence);
    pair.float32 = pair.float64;
    expect_refusal(check_pair(&pair), "f: the graph is float64, but must be float32");
    calls = 1;
    qkv_graph_reset(float32);
    pair.float32 = forgetful_network(float32, &calls);
    pair.reference = forgetful_network(more, &calls);
    expect_refusal(check_pair(&pair), "f: the reference is a result of another size, or without gradient");
    pair.reference = NULL;
    expect_done(check_pair(&pair));
    qkv_tanh(float32, pair.float32);
    expect_refusal(check_pair(&pair), sentence);
    qkv_check_release(&pair_report);
}

Test(misuse, a_released_report_can_be_used_again)
{
    struct call call RELEASED(release) = call_of(qkv_tanh);
    for (int i = 0; i < 2; i++) {
        cr_expect_eq(check(&call), QKV_OK, "%s", error.message);
        cr_expect_gt(call.report.count, 0);
        qkv_check_release(&call.report);
        qkv_check_release(&call.report);
        cr_expect_eq(call.report.count, 0);
    }
}

static bool interrupt;
static int64_t derivatives;

static void interrupt_second(void *context, int64_t done, int64_t total)
{
    (void)context;
    (void)total;
    derivatives = done;
    interrupt = done == 2;
}

Test(misuse, an_interrupted_check_can_be_made_again)
{
    struct call call RELEASED(release) = call_of(qkv_tanh);
    call.options.progress = interrupt_second;
    qkv_set_interrupt(&interrupt);
    expect_refusal(check(&call), "interrupted");
    cr_expect_eq(derivatives, 2);
    cr_expect_arr_eq((double *)qkv_tensor_value(call.x), ((double[]){0.5, -1.5, 2}), 3 * sizeof(double));
    qkv_set_interrupt(NULL);
    qkv_check_release(&call.report);
    expect_done(check(&call));
    cr_expect_eq(call.report.failures, 0);
    cr_expect_gt(derivatives, 2);
}
