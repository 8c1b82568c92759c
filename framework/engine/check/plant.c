/* Planted faults: a wrapper around the backward function of one op, which falsifies the gradients
 * that it adds, or a copy of the op with a wrong declaration. */
#include "check/check.h"

#include <math.h>
#include <string.h>

static const char *const NAMES[QKV_FAULT_COUNT] = {
    [QKV_FAULT_SIGN] = "sign",       [QKV_FAULT_FACTOR] = "factor",
    [QKV_FAULT_MISSING] = "missing", [QKV_FAULT_OVERWRITE] = "overwrite",
    [QKV_FAULT_OFFSET] = "offset",   [QKV_FAULT_SLIGHT] = "slight",
    [QKV_FAULT_READS] = "reads",     [QKV_FAULT_ELEMENTWISE] = "elementwise",
    [QKV_FAULT_ALIAS] = "alias",
};

const char *qkv_fault_name(enum qkv_fault fault)
{
    return fault > QKV_FAULT_NONE && fault < QKV_FAULT_COUNT ? NAMES[fault] : NULL;
}

enum qkv_fault qkv_fault_find(const char *name)
{
    for (int i = QKV_FAULT_NONE + 1; name && i < QKV_FAULT_COUNT; i++)
        if (!strcmp(NAMES[i], name)) return (enum qkv_fault)i;
    return QKV_FAULT_NONE;
}

/* A copy of the graph's table of ops in which one op is faulty, in the memory of the graph. */
struct planted {
    struct qkv_op faulty;                    /* first: the row of the op leads to the rest */
    const struct qkv_op *copy[QKV_OP_COUNT]; /* the table with the fault */
    const struct qkv_op *const *table;       /* the graph's own table */
    enum qkv_fault fault;
    int64_t calls; /* of the faulty function */
};

/* `before` and `after` are a gradient of n numbers before and after the correct op added to it.
 * Changes `after` to the gradient that the faulty op would have produced. */
static void apply_fault(enum qkv_fault fault, int64_t n, const double *before, double *after)
{
    int64_t largest = 0;
    double last = n ? after[n - 1] - before[n - 1] : 0;
    for (int64_t i = 1; i < n; i++)
        if (fabs(after[i] - before[i]) > fabs(after[largest] - before[largest])) largest = i;
    for (int64_t i = n - 1; i >= 0; i--) {
        double added = after[i] - before[i];
        double neighbour = i > 0 ? after[i - 1] - before[i - 1] : last;
        switch (fault) {
        case QKV_FAULT_SIGN:
            after[i] = before[i] - added;
            break;
        case QKV_FAULT_FACTOR:
            after[i] = before[i] + 1.001 * added;
            break;
        case QKV_FAULT_SLIGHT:
            after[i] = before[i] + (1 + 1e-10) * added;
            break;
        case QKV_FAULT_MISSING:
            after[i] = i == largest ? before[i] : after[i];
            break;
        case QKV_FAULT_OVERWRITE:
            after[i] = added;
            break;
        case QKV_FAULT_OFFSET:
            after[i] = before[i] + neighbour;
            break;
        default: /* not a fault of backward */
            break;
        }
    }
}

/* Runs the correct backward function of the op, then falsifies what it has added to each gradient. */
static void faulty_backward(struct qkv_tensor *y)
{
    struct planted *planted = (struct planted *)(uintptr_t)y->graph->ops[y->op];
    double *before[QKV_MAX_INPUTS] = {NULL};
    for (int i = 0; i < planted->faulty.inputs; i++) {
        const struct qkv_tensor *x = y->input[i];
        if (!x || !x->needs_gradient || qkv_is_repeated_input(y, i)) continue;
        before[i] = qkv_graph_memory(y->graph, (size_t)x->count * sizeof *before[i]);
        if (before[i] && x->touched) memcpy(before[i], x->gradient, (size_t)x->count * sizeof *before[i]);
    }
    planted->table[y->op]->backward(y);
    planted->calls++;
    for (int i = 0; i < planted->faulty.inputs; i++)
        if (before[i]) apply_fault(planted->fault, y->input[i]->count, before[i], y->input[i]->gradient);
}

bool qkv_fault_is_declaration(enum qkv_fault fault)
{
    return fault >= QKV_FAULT_READS && fault < QKV_FAULT_COUNT;
}

/* Falsifies a declaration. False if that would not change it. */
static bool falsify(struct qkv_op *op, enum qkv_fault fault)
{
    /* The result already is in the memory of the input: for that input, elementwise makes no difference. */
    if (fault == QKV_FAULT_ELEMENTWISE && op->alias) return false;
    unsigned *field = fault == QKV_FAULT_READS         ? &op->backward_reads
                      : fault == QKV_FAULT_ELEMENTWISE ? &op->elementwise
                                                       : &op->alias;
    unsigned declared = *field;
    *field = fault == QKV_FAULT_READS         ? 0
             : fault == QKV_FAULT_ELEMENTWISE ? declared | QKV_INPUT(0)
                                              : declared ^ QKV_INPUT(0);
    return *field != declared;
}

bool qkv_plant(struct qkv_graph *graph, enum qkv_op_id op, enum qkv_fault fault)
{
    struct planted *planted = qkv_graph_memory(graph, sizeof *planted);
    if (!planted) return false;
    planted->table = graph->ops;
    planted->fault = fault;
    planted->faulty = *graph->ops[op];
    if (qkv_fault_is_declaration(fault) ? !falsify(&planted->faulty, fault) : !planted->faulty.backward)
        return false;
    if (!qkv_fault_is_declaration(fault)) planted->faulty.backward = faulty_backward;
    memcpy(planted->copy, graph->ops, sizeof planted->copy);
    planted->copy[op] = &planted->faulty;
    graph->ops = planted->copy;
    return true;
}

int64_t qkv_unplant(struct qkv_graph *graph, enum qkv_op_id op)
{
    const struct planted *planted = (const struct planted *)graph->ops[op];
    graph->ops = planted->table;
    return planted->calls;
}
