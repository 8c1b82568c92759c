/* Tests the declarations of ops (struct qkv_op): backward_reads, elementwise, accumulates_once, alias, recompute, weights_read.
 *
 * A sample runs in small graphs in which memory is really shared: each input is the result of another op, which the
 * tested op may overwrite, and the result of the tested op goes to an op that may overwrite it. The results and gradients
 * of the same graph without sharing are the reference, and all comparisons are bit for bit. */
#include "check/check.h"

#include <math.h>
#include <string.h>

/* How the result of the tested op is used. */
enum form {
    FORM_CHAIN, /* 3 op(inputs): the multiplication may overwrite the op's result */
    FORM_TWICE, /* op(inputs)^2 + op(inputs)^2: two nodes of the op; if recomputed, both may use the same memory */
    FORMS
};

/* The check of one sample in one precision; it has one row in the report. */
struct trial {
    const struct qkv_sample_setting *setting;
    const struct qkv_check_options *options;
    enum qkv_dtype dtype;
    struct qkv_check_report *report;
    struct qkv_check_row *row;
};

/* A graph built from the sample. */
struct sample_graph {
    struct qkv_graph *graph;
    struct qkv_tensor *leaf[QKV_MAX_INPUTS];  /* the inputs of the sample */
    struct qkv_tensor *input[QKV_MAX_INPUTS]; /* copies of the leaves, made by an op: may be overwritten */
    struct qkv_tensor *y;                     /* the node of the tested op */
    struct qkv_tensor *result;                /* what the form makes of y */
};

/* ---- building and running ---- */

static struct qkv_tensor *squared(struct qkv_graph *graph, struct qkv_tensor *x)
{
    return qkv_multiply(graph, x, x);
}

static struct sample_graph build_sample(const struct trial *trial, enum form form, bool gradients,
                                        bool shares)
{
    const struct qkv_sample_setting *setting = trial->setting;
    const struct qkv_check_options *options = trial->options;
    struct sample_graph built = {.graph = qkv_graph_new(trial->dtype)};
    if (!built.graph) return built;
    qkv_graph_set_gradients(built.graph, gradients);
    qkv_graph_share_memory(built.graph, shares);
    if (options->fault_op == setting->op && qkv_fault_is_declaration(options->fault))
        trial->report->fault_calls += qkv_plant(built.graph, setting->op, options->fault);
    qkv_sample_inputs(built.graph, setting, built.leaf);
    for (int k = 0; k < QKV_MAX_INPUTS; k++)
        if (built.leaf[k]) built.input[k] = qkv_scale(built.graph, built.leaf[k], 1);
    built.y = qkv_sample_node(built.graph, setting, built.input);
    if (form == FORM_CHAIN) {
        built.result = qkv_scale(built.graph, built.y, 3);
    } else {
        struct qkv_tensor *first = squared(built.graph, built.y);
        built.result = qkv_add(built.graph, first,
                               squared(built.graph, qkv_sample_node(built.graph, setting, built.input)));
    }
    qkv_graph_plan(built.graph, built.result);
    return built;
}

static size_t bytes_of(const struct qkv_tensor *x)
{
    return (size_t)x->count * x->graph->size;
}

/* A copy in the memory of the graph; NULL when memory runs out, which makes the graph fail. */
static const char *copy_of(struct qkv_graph *graph, const void *memory, size_t bytes)
{
    char *copy = qkv_graph_memory(graph, bytes);
    if (copy && bytes) memcpy(copy, memory, bytes);
    return copy;
}

static void poison(const struct qkv_graph *graph, void *memory, int64_t count)
{
    for (int64_t i = 0; memory && i < count; i++) qkv_dtype_set(graph->dtype, memory, i, NAN);
}

static void run_forward(struct sample_graph *built)
{
    for (struct qkv_tensor *x = built->graph->first; x; x = x->next)
        if (x->op != QKV_OP_leaf) poison(built->graph, x->value, x->count);
    qkv_graph_rewind(built->graph);
    qkv_forward(built->graph);
}

static void run_backward(struct sample_graph *built, const double *cotangent)
{
    for (struct qkv_tensor *x = built->graph->first; x; x = x->next)
        if (x->needs_gradient) poison(built->graph, x->gradient, x->count);
    qkv_backward(built->graph, built->result, cotangent);
}

/* ---- comparing ---- */

/* Index of the first input whose gradients in a and b differ; -1: none. */
static int differing_gradient(const struct sample_graph *a, const struct sample_graph *b)
{
    for (int k = 0; k < QKV_MAX_INPUTS; k++)
        if (a->leaf[k] && a->leaf[k]->needs_gradient &&
            memcmp(a->leaf[k]->gradient, b->leaf[k]->gradient, bytes_of(a->leaf[k])) != 0)
            return k;
    return -1;
}

/* Marks the row as failed. Later failures are ignored, because the first one is closest to the cause. */
#define FAIL(trial, ...)                                                                                     \
    ((trial)->row->failure ? (void)0 : qkv_check_fail((trial)->report, (trial)->row, __VA_ARGS__))

/* Compares the results and gradients of a graph whose tensors share memory with those of the reference. */
static void compare_sharing(struct trial *trial, struct sample_graph *reference, struct sample_graph *shared,
                            const double *cotangent)
{
    static const char *const declared = "backward_reads, elementwise, alias or recompute is declared wrongly";
    run_forward(shared);
    trial->row->elements = trial->row->checked += shared->result->count;
    if (memcmp(reference->result->value, shared->result->value, bytes_of(shared->result)) != 0) {
        FAIL(trial, "the result changes when tensors share memory: %s", declared);
        return;
    }
    if (!reference->result->needs_gradient) return;
    run_backward(shared, cotangent);
    int input = differing_gradient(reference, shared);
    if (input >= 0)
        FAIL(trial, "the gradient of input %d changes when tensors share memory: %s", input + 1, declared);
}

/* Forward must not change its inputs, except that an op without backward may write to the input that
 * it aliases. */
static void check_inputs_unchanged(struct trial *trial, const struct sample_graph *built)
{
    const struct qkv_op *op = built->graph->ops[trial->setting->op];
    for (int k = 0; k < QKV_MAX_INPUTS; k++) {
        const struct qkv_tensor *x = built->input[k];
        if (!x || (op->alias & QKV_INPUT(k) && !op->backward)) continue;
        if (memcmp(x->value, built->leaf[k]->value, bytes_of(x)) != 0)
            FAIL(trial, "forward changes input %d%s", k + 1,
                 op->alias & QKV_INPUT(k) ? ", in whose memory the result is declared to be (alias)" : "");
    }
}

/* run_forward has set the result to NaN: an element that is still NaN was not written, for example
 * because the op writes to an input and does not declare the alias. */
static void check_result_written(struct trial *trial, const struct sample_graph *built)
{
    for (int64_t i = 0; i < built->y->count; i++)
        if (isnan(qkv_dtype_get(trial->dtype, built->y->value, i)))
            FAIL(trial, "forward leaves element %lld of the result unwritten, or sets it to NaN",
                 (long long)i);
}

/* Input `which`, or the result if `which` is QKV_MAX_INPUTS. NULL if there is none, if it is in the
 * set `reads`, or if it shares its memory with a value in that set. */
static struct qkv_tensor *unread_value(const struct sample_graph *built, unsigned reads, int which)
{
    struct qkv_tensor *x = which < QKV_MAX_INPUTS ? built->input[which] : built->y;
    bool aliased = x && (x == built->y || x->value == built->y->value) &&
                   built->y->value == (built->input[0] ? built->input[0]->value : NULL);
    if (aliased && reads & (QKV_INPUT(0) | QKV_RESULT)) return NULL;
    return reads >> which & 1 ? NULL : x;
}

static const char *name_of_value(int which, char text[16])
{
    snprintf(text, 16, "input %d", which + 1);
    return which < QKV_MAX_INPUTS ? text : "the result";
}

/* Backward must give the same gradients when a value that it does not declare to read is NaN. */
static void check_reads(struct trial *trial, const struct sample_graph *reference, struct sample_graph *built,
                        const double *cotangent)
{
    unsigned reads = qkv_backward_reads(built->y);
    for (int which = 0; which <= QKV_MAX_INPUTS; which++) {
        char text[16];
        struct qkv_tensor *x = unread_value(built, reads, which);
        if (!x) continue;
        run_forward(built);
        poison(built->graph, x->value, x->count);
        run_backward(built, cotangent);
        if (differing_gradient(reference, built) >= 0)
            FAIL(trial, "backward reads %s, but backward_reads does not declare it",
                 name_of_value(which, text));
    }
}

/* Whether all elements of the result except number `i` are unchanged. */
static bool others_unchanged(const struct qkv_tensor *y, const char *before, int64_t i)
{
    size_t size = y->graph->size, at = (size_t)i * size;
    const char *after = y->value;
    return !memcmp(before, after, at) &&
           !memcmp(before + at + size, after + at + size, bytes_of(y) - at - size);
}

/* If the op is declared elementwise in an input, element i of that input may affect only element i of the result: setting one
 * element to NaN must leave all other elements of the result unchanged. */
static void check_elementwise(struct trial *trial, struct sample_graph *built)
{
    enum { MAX_ELEMENTS = 16 };
    const struct qkv_tensor *y = built->y;
    unsigned elementwise = built->graph->ops[trial->setting->op]->elementwise;
    run_forward(built);
    const char *before = copy_of(built->graph, y->value, bytes_of(y));
    if (!before) return;
    for (int k = 0; k < QKV_MAX_INPUTS; k++) {
        struct qkv_tensor *x = elementwise >> k & 1 ? built->leaf[k] : NULL;
        if (x && x->count != y->count)
            FAIL(trial, "input %d has %lld elements and the result %lld, but elementwise is declared", k + 1,
                 (long long)x->count, (long long)y->count);
        for (int64_t n = 0; x && x->count == y->count && n < MAX_ELEMENTS && n < x->count; n++) {
            int64_t i = x->count <= MAX_ELEMENTS ? n : n * x->count / MAX_ELEMENTS;
            double value = qkv_dtype_get(trial->dtype, x->value, i);
            qkv_dtype_set(trial->dtype, x->value, i, NAN);
            run_forward(built);
            qkv_dtype_set(trial->dtype, x->value, i, value);
            if (!others_unchanged(y, before, i))
                FAIL(trial,
                     "element %lld of input %d affects other elements of the result, but elementwise is "
                     "declared",
                     (long long)i, k + 1);
        }
    }
}

/* If `recompute` of an op runs after backward, it must give the same value as forward, and leave the saved numbers as they
 * are. */
static void check_recompute(struct trial *trial, struct sample_graph *built, const double *cotangent)
{
    struct qkv_tensor *y = built->y;
    const struct qkv_op *op = built->graph->ops[trial->setting->op];
    size_t saved = (size_t)y->saved_count * built->graph->size;
    if (!op->recompute || !y->needs_gradient || y->keeps_result) return;
    run_forward(built);
    const char *value = copy_of(built->graph, y->value, bytes_of(y)),
               *numbers = copy_of(built->graph, y->saved, saved);
    if (!value || !numbers) return;
    run_backward(built, cotangent);
    poison(built->graph, y->value, op->alias ? 0 : y->count);
    op->recompute(y);
    if (memcmp(value, y->value, bytes_of(y)) != 0 || (saved && memcmp(numbers, y->saved, saved) != 0))
        FAIL(trial, "computing the result again gives other numbers, but recompute is declared");
}

/* Runs only the backward of y, with a gradient of 1 for each element of the result. The gradient of input k holds `before`
 * (NULL: it is not set yet), and is copied to `after`. */
static void run_alone(struct qkv_tensor *y, int k, const char *before, char *after)
{
    struct qkv_tensor *x = y->input[k];
    for (int64_t i = 0; i < y->count; i++) qkv_dtype_set(y->graph->dtype, y->gradient, i, 1);
    for (int i = 0; i < QKV_MAX_INPUTS; i++)
        if (y->input[i]) y->input[i]->touched = false;
    x->touched = before != NULL;
    if (before) memcpy(x->gradient, before, bytes_of(x));
    y->graph->ops[y->op]->backward(y);
    memcpy(after, x->gradient, bytes_of(x));
}

/* Adding to a gradient that is not 0 must give the same bits as computing the gradient and adding it. */
static void check_adds_once(struct trial *trial, struct sample_graph *built)
{
    struct qkv_tensor *y = built->y;
    for (int k = 0; k < QKV_MAX_INPUTS; k++) {
        const struct qkv_tensor *x = y->input[k];
        if (!(built->graph->ops[y->op]->accumulates_once & QKV_INPUT(k)) || !x || !x->needs_gradient)
            continue;
        size_t bytes = bytes_of(x);
        char *alone = qkv_graph_memory(built->graph, 3 * bytes), *before = alone + bytes,
             *added = before + bytes;
        if (!alone) return;
        run_forward(built);
        run_alone(y, k, NULL, alone);
        for (int64_t i = 0; i < x->count; i++) {
            double other = 1.0 / (double)(3 + i % 7);
            qkv_dtype_set(trial->dtype, before, i, other);
            double rounded = qkv_dtype_get(trial->dtype, before, i);
            qkv_dtype_set(trial->dtype, alone, i, rounded + qkv_dtype_get(trial->dtype, alone, i));
        }
        run_alone(y, k, before, added);
        if (memcmp(alone, added, bytes) != 0)
            FAIL(trial,
                 "adding to the gradient of input %d rounds otherwise, but accumulates_once is declared",
                 k + 1);
    }
}

/* Copies all weights of an attention node to `to`, unless it is NULL. Returns the number of
 * bytes. */
static size_t copy_weights(const struct qkv_tensor *y, char *to)
{
    int64_t rows, columns;
    size_t used = 0;
    for (int64_t s = 0; qkv_attention_weights_of(y, s, 0, &rows, &columns); s++)
        for (int64_t h = 0;; h++) {
            const void *weights = qkv_attention_weights_of(y, s, h, &rows, &columns);
            size_t bytes = (size_t)(rows * columns) * y->graph->size;
            if (!weights) break;
            if (to) memcpy(to + used, weights, bytes);
            used += bytes;
        }
    return used;
}

/* The weights must be the same when a value that is not in the set weights_read is NaN. */
static void check_weights(struct trial *trial, struct sample_graph *built)
{
    const struct qkv_op *op = built->graph->ops[trial->setting->op];
    if (!op->weights) return;
    run_forward(built);
    size_t bytes = copy_weights(built->y, NULL);
    char *before = qkv_graph_memory(built->graph, 2 * bytes), *after = before + bytes;
    if (!before) return;
    copy_weights(built->y, before);
    for (int which = 0; which <= QKV_MAX_INPUTS; which++) {
        char text[16];
        struct qkv_tensor *x = unread_value(built, op->weights_read, which);
        if (!x) continue;
        run_forward(built);
        poison(built->graph, x->value, x->count);
        if (copy_weights(built->y, after) != bytes || memcmp(before, after, bytes) != 0)
            FAIL(trial, "the weights read %s, but weights_read does not declare it",
                 name_of_value(which, text));
    }
}

/* ---- the steps ---- */

/* Whether the graph has not failed. It fails when it is built if a declaration contradicts a shape, and later when memory runs
 * out: then the row fails too. */
static bool is_built(struct trial *trial, const struct sample_graph *built)
{
    struct qkv_error error = {""};
    if (!qkv_graph_check(built->graph, &error)) return true;
    FAIL(trial, "%s", error.message);
    return false;
}

/* The tests of a reference and of two further graphs, one of which shares memory. */
static void compare_graphs(struct trial *trial, enum form form, struct sample_graph *reference,
                           struct sample_graph *shared, struct sample_graph *built)
{
    if (!is_built(trial, reference) || !is_built(trial, shared) || !is_built(trial, built)) return;
    int64_t count = reference->result->count;
    bool has_gradient = reference->result->needs_gradient;
    double *cotangent = qkv_graph_memory(reference->graph, (size_t)count * sizeof *cotangent);
    if (!is_built(trial, reference)) return;
    qkv_check_cotangent(trial->setting->seed, count, cotangent);
    run_forward(reference);
    check_inputs_unchanged(trial, reference);
    check_result_written(trial, reference);
    if (has_gradient) run_backward(reference, cotangent);
    if (form == FORM_CHAIN) {
        if (has_gradient) check_reads(trial, reference, built, cotangent);
        check_elementwise(trial, built);
        check_adds_once(trial, built);
        check_recompute(trial, built, cotangent);
        check_weights(trial, built);
    }
    if (is_built(trial, built)) compare_sharing(trial, reference, shared, cotangent);
}

enum qkv_status qkv_check_declarations(struct qkv_check_report *report, const char *subject,
                                       const struct qkv_sample_setting *setting,
                                       const struct qkv_check_options *options, struct qkv_error *error)
{
    enum { GRADIENTS = 2, GRAPHS = 3 };
    for (int dtype = QKV_FLOAT32; dtype <= QKV_FLOAT64; dtype++) {
        struct trial trial = {
            setting, options, (enum qkv_dtype)dtype, report,
            qkv_check_add(report, subject,
                          dtype == QKV_FLOAT32 ? "declarations, float32" : "declarations, float64")};
        bool has_memory = trial.row != NULL;
        for (int i = 0; has_memory && i < GRADIENTS * FORMS; i++) {
            enum form form = (enum form)(i % FORMS);
            struct sample_graph built[GRAPHS];
            if (form == FORM_TWICE && qkv_op_rule(setting->op)->alias) continue;
            for (int k = 0; k < GRAPHS; k++) {
                built[k] = build_sample(&trial, form, i / FORMS, k == 1);
                has_memory &= built[k].graph != NULL;
            }
            if (has_memory) compare_graphs(&trial, form, &built[0], &built[1], &built[2]);
            for (int k = 0; k < GRAPHS; k++) qkv_graph_free(built[k].graph);
        }
        if (!has_memory) return qkv_error_set(error, "out of memory for %s", subject);
    }
    return QKV_OK;
}
