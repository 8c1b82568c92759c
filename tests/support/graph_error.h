/* What tests expect of a graph's error. */
#ifndef TESTS_GRAPH_ERROR_H
#define TESTS_GRAPH_ERROR_H

#include "qkv/graph.h"

#include <criterion/criterion.h>
#include <string.h>

/* The graph has an error that contains `part`. Resets the graph. */
static inline void expect_graph_error(struct qkv_graph *graph, const char *part)
{
    struct qkv_error error = {""};
    cr_expect_eq(qkv_graph_check(graph, &error), QKV_INVALID, "no error that contains '%s'", part);
    cr_expect_not_null(strstr(error.message, part), "'%s' lacks '%s'", error.message, part);
    qkv_graph_reset(graph);
}

static inline void expect_no_graph_error(const struct qkv_graph *graph)
{
    struct qkv_error error = {""};
    cr_expect_eq(qkv_graph_check(graph, &error), QKV_OK, "%s", error.message);
}

#endif
