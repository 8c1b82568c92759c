#include "check/check.h"

#include <math.h>

enum qkv_status qkv_check_arguments(const struct qkv_check_report *report,
                                    const struct qkv_check_options *options, const char *function,
                                    struct qkv_error *error)
{
    if (!report || !options) return qkv_error_set(error, "%s needs a report and options", function);
    if (!(options->tolerance >= 0 && isfinite(options->tolerance)))
        return qkv_error_set(error, "%s: the tolerance is %g, but must be 0 or more", function,
                             options->tolerance);
    if (options->sample < 0)
        return qkv_error_set(error, "%s: the sample is %lld, but must be 0 (all) or more", function,
                             (long long)options->sample);
    bool is_fault = options->fault == QKV_FAULT_NONE || qkv_fault_name(options->fault) != NULL;
    if (!is_fault) return qkv_error_set(error, "%s: there is no fault %d", function, (int)options->fault);
    if (options->fault && (options->fault_op <= QKV_OP_leaf || options->fault_op >= QKV_OP_COUNT))
        return qkv_error_set(error, "%s: fault_op is %d, but there is no such op to plant a fault in",
                             function, (int)options->fault_op);
    return QKV_OK;
}

enum qkv_status qkv_check_tensor(const struct qkv_tensor *y, enum qkv_dtype dtype, const char *subject,
                                 struct qkv_error *error)
{
    if (!y) return qkv_error_set(error, "%s: there is no tensor to check", subject);
    const struct qkv_graph *graph = y->graph;
    if (qkv_graph_check(graph, error)) return QKV_INVALID;
    if (graph->dtype != dtype)
        return qkv_error_set(error, "%s: the graph is %s, but must be %s", subject,
                             graph->dtype == QKV_FLOAT32 ? "float32" : "float64",
                             dtype == QKV_FLOAT32 ? "float32" : "float64");
    if (graph->shares_memory)
        return qkv_error_set(error,
                             "%s: tensors of the graph share memory, so their values are not kept; build "
                             "it without qkv_graph_share_memory",
                             subject);
    for (int i = 0; i < graph->binding_count; i++)
        if (graph->binding[i].accumulate)
            return qkv_error_set(error,
                                 "%s: backward adds to the gradients of parameters; bind them without "
                                 "`accumulate`",
                                 subject);
    return QKV_OK;
}
