/* Tests what ops declare (struct qkv_op): backward_reads, elementwise, alias, recompute, weights_read.
 *
 * A sample runs in small graphs in which memory really is shared: each input is the result of an op that its
 * consumer may overwrite, and the op's result goes to an op that may overwrite it. The results and gradients of
 * the same graph without sharing are the reference, and all comparisons are bit for bit. */
#include "check/check.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* How the result of the tested op is used. */
enum form {
    FORM_CHAIN, /* 3 op(inputs): the multiplication may overwrite the op's result */
    FORM_TWICE, /* op(inputs)^2 + op(inputs)^2: two nodes of the op; if recomputed, both may use the same memory */
    FORMS
};

/* The check of one sample in one precision. */
struct trial {
    const struct qkv_sample_setting *setting;
    const struct qkv_check_options *options;
    enum qkv_dtype dtype;
    struct qkv_check_report *report;
    struct qkv_check_row *row;
};

/* A graph built from the sample. */
struct scene {
    struct qkv_graph *graph;
    struct qkv_tensor *leaf[QKV_MAX_INPUTS]; /* the inputs of the sample */
    struct qkv_tensor
        *input[QKV_MAX_INPUTS]; /* results of other ops with the same values: may be overwritten */
    struct qkv_tensor *y;       /* the node of the tested op */
    struct qkv_tensor *result;  /* see enum form */
};

/* ---- building and running ---- */

static struct qkv_tensor *apply(struct scene *scene, const struct qkv_sample_setting *setting)
{
    const struct qkv_options options = qkv_sample_options_of(setting->sample);
    return qkv_node(scene->graph, setting->op, scene->input, &options);
}

static struct qkv_tensor *squared(struct qkv_graph *graph, struct qkv_tensor *x)
{
    return qkv_multiply(graph, x, x);
}

static struct scene scene_of(const struct trial *trial, enum form form, bool gradients, bool shares)
{
    const struct qkv_sample_setting *setting = trial->setting;
    struct scene scene = {.graph = qkv_graph_new(trial->dtype)};
    if (!scene.graph) return scene;
    struct qkv_random random = {.seed = setting->seed, .step = 7};
    qkv_graph_set_gradients(scene.graph, gradients);
    qkv_graph_set_dropout(scene.graph, &random);
    qkv_graph_share_memory(scene.graph, shares);
    if (trial->options->fault_op == setting->op &&
        qkv_plant_declaration(scene.graph, setting->op, trial->options->fault))
        trial->report->fault_calls++;
    qkv_sample_inputs(scene.graph, setting, scene.leaf);
    for (int k = 0; k < QKV_MAX_INPUTS; k++)
        if (scene.leaf[k]) scene.input[k] = qkv_scale(scene.graph, scene.leaf[k], 1);
    scene.y = apply(&scene, setting);
    if (form == FORM_CHAIN) {
        scene.result = qkv_scale(scene.graph, scene.y, 3);
    } else {
        struct qkv_tensor *first = squared(scene.graph, scene.y);
        scene.result = qkv_add(scene.graph, first, squared(scene.graph, apply(&scene, setting)));
    }
    qkv_graph_plan(scene.graph, scene.result);
    return scene;
}

static size_t bytes_of(const struct qkv_tensor *x)
{
    return (size_t)x->count * x->graph->size;
}

static void poison(const struct qkv_graph *graph, void *memory, int64_t count)
{
    for (int64_t i = 0; memory && i < count; i++) {
        qkv_dtype_set(graph->dtype, memory, i, NAN);
    }
}

static void run_forward(struct scene *scene)
{
    for (struct qkv_tensor *x = scene->graph->first; x; x = x->next)
        if (x->op != QKV_OP_leaf) poison(scene->graph, x->value, x->count);
    qkv_graph_rewind(scene->graph);
    qkv_forward(scene->graph);
}

static void run_backward(struct scene *scene, const double *cotangent)
{
    for (struct qkv_tensor *x = scene->graph->first; x; x = x->next)
        if (x->needs_gradient) poison(scene->graph, x->gradient, x->count);
    qkv_backward(scene->graph, scene->result, cotangent);
}

/* ---- comparing ---- */

/* Index of the first input whose gradients in a and b differ; -1: none. */
static int differing_gradient(const struct scene *a, const struct scene *b)
{
    for (int k = 0; k < QKV_MAX_INPUTS; k++)
        if (a->leaf[k] && a->leaf[k]->needs_gradient &&
            memcmp(a->leaf[k]->gradient, b->leaf[k]->gradient, bytes_of(a->leaf[k])) != 0)
            return k;
    return -1;
}

/* Marks the row as failed, unless it has failed already: the first failure names the cause best. */
#define FAIL(trial, ...)                                                                                     \
    ((trial)->row->failure ? (void)0 : qkv_check_fail((trial)->report, (trial)->row, __VA_ARGS__))

/* Compares a graph with sharing to the reference. */
static void compare_sharing(struct trial *trial, struct scene *reference, struct scene *shared,
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

/* Forward must leave its inputs as they were; only an op without backward may write to the input it
 * aliases. */
static bool check_inputs_unchanged(struct trial *trial, const struct scene *scene)
{
    const struct qkv_op *op = scene->graph->ops[trial->setting->op];
    struct qkv_graph *untouched = qkv_graph_new(trial->dtype);
    struct qkv_tensor *input[QKV_MAX_INPUTS] = {NULL};
    if (!untouched) return false;
    qkv_sample_inputs(untouched, trial->setting, input);
    for (int k = 0; k < QKV_MAX_INPUTS; k++) {
        const struct qkv_tensor *x = scene->input[k];
        if (!x || !input[k] || (op->alias & QKV_INPUT(k) && !op->backward)) continue;
        if (memcmp(x->value, input[k]->value, bytes_of(x)) != 0)
            FAIL(trial, "forward changes input %d%s", k + 1,
                 op->alias & QKV_INPUT(k) ? ", in whose memory the result is declared to be (alias)" : "");
    }
    qkv_graph_free(untouched);
    return true;
}

/* run_forward has set the result to NaN: an element that is still NaN was not written, for example
 * because the op writes to an input and does not declare the alias. */
static void check_result_written(struct trial *trial, const struct scene *scene)
{
    const struct qkv_tensor *y = scene->y;
    for (int64_t i = 0; i < y->count; i++) {
        double value =
            y->graph->dtype == QKV_FLOAT32 ? (double)((float *)y->value)[i] : ((double *)y->value)[i];
        if (isnan(value)) {
            FAIL(trial, "forward leaves element %lld of the result unwritten, or sets it to NaN",
                 (long long)i);
            return;
        }
    }
}

/* Input `which`, or the result if `which` is QKV_MAX_INPUTS. NULL if there is none, if it is in the
 * set `reads`, or if it shares its memory with a value in that set. */
static struct qkv_tensor *unread_value(const struct scene *scene, unsigned reads, int which)
{
    struct qkv_tensor *x = which < QKV_MAX_INPUTS ? scene->input[which] : scene->y;
    bool aliased = x && (x == scene->y || x->value == scene->y->value) &&
                   scene->y->value == (scene->input[0] ? scene->input[0]->value : NULL);
    if (aliased && reads & (QKV_INPUT(0) | QKV_RESULT)) return NULL;
    return reads >> which & 1 ? NULL : x;
}

static const char *name_of_value(int which, char text[16])
{
    snprintf(text, 16, "input %d", which + 1);
    return which < QKV_MAX_INPUTS ? text : "the result";
}

/* Backward must give the same gradients when a value that it does not declare to read is NaN. */
static void check_reads(struct trial *trial, const struct scene *reference, struct scene *scene,
                        const double *cotangent)
{
    unsigned reads = scene->graph->ops[trial->setting->op]->backward_reads;
    for (int which = 0; which <= QKV_MAX_INPUTS; which++) {
        char text[16];
        struct qkv_tensor *x = unread_value(scene, reads, which);
        if (!x) continue;
        run_forward(scene);
        poison(scene->graph, x->value, x->count);
        run_backward(scene, cotangent);
        if (differing_gradient(reference, scene) >= 0)
            FAIL(trial, "backward reads %s, but backward_reads does not declare it",
                 name_of_value(which, text));
    }
}

/* After backward, forward of a `recompute` op must give the same value and the same saved numbers
 * again. */
static bool check_recompute(struct trial *trial, struct scene *scene, const double *cotangent)
{
    struct qkv_tensor *y = scene->y;
    const struct qkv_op *op = scene->graph->ops[trial->setting->op];
    size_t bytes = bytes_of(y), saved = (size_t)y->saved_count * scene->graph->size;
    if (!op->recompute) return true;
    char *before = malloc(bytes + saved);
    if (!before) return false;
    run_forward(scene);
    memcpy(before, y->value, bytes);
    if (saved) memcpy(before + bytes, y->saved, saved);
    if (y->needs_gradient) run_backward(scene, cotangent);
    poison(scene->graph, y->value, op->alias ? 0 : y->count);
    poison(scene->graph, y->saved, y->saved_count);
    op->forward(y);
    if (memcmp(before, y->value, bytes) != 0 || (saved && memcmp(before + bytes, y->saved, saved) != 0))
        FAIL(trial, "computing the result again gives other numbers, but recompute is declared");
    free(before);
    return true;
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

/* The weights must be the same when a value that weights_read does not contain is NaN. */
static bool check_weights(struct trial *trial, struct scene *scene)
{
    const struct qkv_op *op = scene->graph->ops[trial->setting->op];
    if (!op->weights) return true;
    run_forward(scene);
    size_t bytes = copy_weights(scene->y, NULL);
    char *before = malloc(2 * bytes + 1), *after = before + bytes;
    if (!before) return false;
    copy_weights(scene->y, before);
    for (int which = 0; which <= QKV_MAX_INPUTS; which++) {
        char text[16];
        struct qkv_tensor *x = unread_value(scene, op->weights_read, which);
        if (!x) continue;
        run_forward(scene);
        poison(scene->graph, x->value, x->count);
        if (copy_weights(scene->y, after) != bytes || memcmp(before, after, bytes) != 0)
            FAIL(trial, "the weights read %s, but weights_read does not declare it",
                 name_of_value(which, text));
    }
    free(before);
    return true;
}

/* ---- the steps ---- */

/* Whether the graph was built. It fails if a declaration contradicts a shape: then the row fails
 * too. */
static bool is_built(struct trial *trial, const struct scene *scene)
{
    struct qkv_error error = {""};
    if (!qkv_graph_check(scene->graph, &error)) return true;
    FAIL(trial, "%s", error.message);
    return false;
}

static bool check_form(struct trial *trial, enum form form, bool gradients)
{
    struct scene reference = scene_of(trial, form, gradients, false),
                 shared = scene_of(trial, form, gradients, true),
                 scene = scene_of(trial, form, gradients, false);
    bool done = reference.graph && shared.graph && scene.graph;
    if (done && is_built(trial, &reference) && is_built(trial, &shared)) {
        double *cotangent = malloc((size_t)reference.result->count * sizeof *cotangent);
        done = cotangent != NULL;
        if (done) {
            qkv_check_cotangent(trial->setting->seed, reference.result->count, cotangent);
            run_forward(&reference);
            done = check_inputs_unchanged(trial, &reference);
            check_result_written(trial, &reference);
            if (reference.result->needs_gradient) run_backward(&reference, cotangent);
            if (form == FORM_CHAIN) {
                if (reference.result->needs_gradient) check_reads(trial, &reference, &scene, cotangent);
                done = done && check_recompute(trial, &scene, cotangent) && check_weights(trial, &scene);
            }
            compare_sharing(trial, &reference, &shared, cotangent);
        }
        free(cotangent);
    }
    qkv_graph_free(reference.graph);
    qkv_graph_free(shared.graph);
    qkv_graph_free(scene.graph);
    return done;
}

enum qkv_status qkv_check_declarations(struct qkv_check_report *report, const char *subject,
                                       const struct qkv_sample_setting *setting,
                                       const struct qkv_check_options *options, struct qkv_error *error)
{
    for (int dtype = QKV_FLOAT32; dtype <= QKV_FLOAT64; dtype++) {
        struct trial trial = {
            setting, options, (enum qkv_dtype)dtype, report,
            qkv_check_add(report, subject,
                          dtype == QKV_FLOAT32 ? "declarations, float32" : "declarations, float64")};
        bool done = trial.row != NULL;
        for (int gradients = 0; done && gradients < 2; gradients++)
            for (int form = 0; done && form < FORMS; form++) {
                if (form == FORM_TWICE && qkv_op_rule(setting->op)->alias) continue;
                done = check_form(&trial, (enum form)form, gradients);
            }
        if (!done) return qkv_error_set(error, "out of memory for %s", subject);
    }
    return QKV_OK;
}
