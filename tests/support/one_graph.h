/* A float64 graph for each test of a suite, and what tests expect of it:
 *
 *     TestSuite(name, .init = make_graph, .fini = end_graph);
 */
#pragma once

#include "support.h"

static struct qkv_graph *graph;

static inline void make_graph(void)
{
    graph = qkv_graph_new(QKV_FLOAT64);
    cr_assert_not_null(graph);
}

static inline void end_graph(void)
{
    qkv_graph_free(graph);
}

/* The error of the graph; empty when it has none. */
static inline const char *graph_error(void)
{
    error = (struct qkv_error){""};
    qkv_graph_check(graph, &error);
    return error.message;
}

/* The graph has an error that contains `part`. Resets the graph. */
static inline void expect_graph_error(struct qkv_graph *failed, const char *part)
{
    cr_expect_eq(qkv_graph_check(failed, &error), QKV_INVALID, "no error that contains '%s'", part);
    cr_expect(shows(error.message, part), "'%s' lacks '%s'", error.message, part);
    qkv_graph_reset(failed);
}

/* The call that made a node was refused with an error of the graph that contains `part`. Resets the graph. */
static inline void expect_no_node(const struct qkv_tensor *node, const char *part)
{
    cr_expect_null(node, "%s", part);
    expect_graph_error(graph, part);
}

static inline void expect_no_graph_error(const struct qkv_graph *built)
{
    expect_done(qkv_graph_check(built, &error));
}

/* Runs the graph forward, and backward from y. */
static inline void run_graph(struct qkv_tensor *y)
{
    qkv_forward(graph);
    qkv_backward(graph, y, NULL);
}

static inline struct qkv_tensor *variable_of(int64_t count, const double *values)
{
    struct qkv_tensor *x = qkv_variable(graph, QKV_SHAPE(count));
    cr_assert_not_null(x, "%s", graph_error());
    qkv_tensor_write(x, values);
    return x;
}

/* The tensor, of at most 16 numbers, has exactly these values. */
static inline void expect_values(const struct qkv_tensor *x, const double *values)
{
    double found[16];
    cr_assert_leq(qkv_tensor_count(x), 16);
    qkv_tensor_read(x, found);
    for (int64_t i = 0; i < qkv_tensor_count(x); i++)
        cr_expect_eq(found[i], values[i], "[%d]: %.17g, not %.17g", (int)i, found[i], values[i]);
}

/* Its gradient has these. */
static inline void expect_gradient(const struct qkv_tensor *x, const double *values)
{
    double found[16] = {0};
    cr_assert_leq(qkv_tensor_count(x), 16);
    qkv_tensor_read_gradient(x, found);
    for (int64_t i = 0; i < qkv_tensor_count(x); i++)
        cr_expect_eq(found[i], values[i], "gradient [%d]: %.17g, not %.17g", (int)i, found[i], values[i]);
}
