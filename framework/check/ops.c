/* The gradient check of ops: walks the samples that every op carries. */
#include "check/check.h"
#include "graph/graph.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum qkv_op_id qkv_op_find(const char *name)
{
    for (int op = QKV_OP_leaf + 1; op < QKV_OP_COUNT; op++)
        if (!strcmp(qkv_op_name((enum qkv_op_id)op), name)) return (enum qkv_op_id)op;
    return QKV_OP_COUNT;
}

/* What one sample becomes in a graph. */
struct scene {
    struct qkv_graph *graph;
    struct qkv_tensor *input[QKV_MAX_INPUTS], *y, *loss;
};

/* Numbers that stay clear of 0, where relu has its kink, unless the sample names a range. */
static double draw(const struct qkv_sample *sample, int input, int64_t i, uint64_t seed)
{
    struct qkv_random random = {seed, QKV_STREAM_CHECK, 1u + (uint32_t)input};
    double drawn = qkv_random_uniform(random, (uint64_t)i);
    if (sample->binary >> input & 1) return drawn < 0.5 ? 1 : 0;
    if (sample->low < sample->high) return sample->low + drawn * (sample->high - sample->low);
    return drawn < 0.5 ? -0.1 - 1.8 * drawn : 0.1 + 1.8 * (drawn - 0.5);
}

/* Inputs of the sample; only those in `varied` (a bit each) get gradients. */
static void make_inputs(struct scene *scene, const struct qkv_op *rule, const struct qkv_sample *sample, unsigned varied,
                        uint64_t seed)
{
    for (int k = 0; k < rule->inputs; k++) {
        struct qkv_shape shape = {.rank = sample->input[k].rank};
        memcpy(shape.size, sample->input[k].size, sizeof shape.size);
        if (!shape.rank) continue;
        scene->input[k] = varied >> k & 1 ? qkv_variable(scene->graph, shape) : qkv_constant(scene->graph, shape);
        struct qkv_tensor *x = scene->input[k];
        for (int64_t i = 0; x && i < x->count; i++) {
            double value = draw(sample, k, i, seed);
            if (scene->graph->dtype == QKV_FLOAT32) ((float *)x->value)[i] = (float)value;
            else ((double *)x->value)[i] = value;
        }
    }
}

/* The op, and behind it a second use of each varied input, which backward reaches first: an op that overwrites
 * gradients instead of adding to them is then seen. */
static void build(struct scene *scene, enum qkv_op_id op, const struct qkv_sample *sample, unsigned varied, uint64_t seed)
{
    const struct qkv_op *rule = qkv_op_samples(op);
    struct qkv_random random = {.seed = seed, .step = 7};
    qkv_graph_set_dropout(scene->graph, &random);
    make_inputs(scene, rule, sample, varied, seed);
    scene->y = qkv_node(scene->graph, op, scene->input, &sample->options);
    if (!scene->y || !varied) return;
    struct qkv_tensor *flat = qkv_reshape(scene->graph, scene->y, QKV_SHAPE(scene->y->count));
    for (int k = 0; k < rule->inputs; k++) {
        if (!(varied >> k & 1)) continue;
        struct qkv_tensor *again = qkv_scale(scene->graph, scene->input[k], 0.5 + k);
        flat = again ? qkv_concat(scene->graph, flat, qkv_reshape(scene->graph, again, QKV_SHAPE(again->count)), 0) : NULL;
    }
    scene->loss = flat;
}

static struct scene scene_of(enum qkv_dtype dtype, enum qkv_op_id op, const struct qkv_sample *sample, unsigned varied,
                             uint64_t seed)
{
    struct scene scene = {.graph = qkv_graph_new(dtype)};
    if (scene.graph) build(&scene, op, sample, varied, seed);
    return scene;
}

/* ---- float32 against float64 ---- */

/* Largest difference, relative to the largest number; infinite when something is no number. */
static double worst_difference(int64_t count, const float *single, const double *whole)
{
    double apart = 0, size = 0;
    for (int64_t i = 0; i < count; i++) {
        double d = fabs((double)single[i] - whole[i]);
        if (!isfinite(d)) return INFINITY;
        apart = fmax(apart, d);
        size = fmax(size, fabs(whole[i]));
    }
    return size > 0 ? apart / size : apart;
}

static bool check_precision(struct qkv_check_report *report, const char *subject, enum qkv_op_id op,
                            const struct qkv_sample *sample, unsigned varied, uint64_t seed)
{
    struct scene single = scene_of(QKV_FLOAT32, op, sample, varied, seed);
    struct scene whole = scene_of(QKV_FLOAT64, op, sample, varied, seed);
    struct qkv_check_row *row = single.y && whole.y ? qkv_check_add(report, subject, "float32 against float64") : NULL;
    if (row) {
        qkv_forward(single.graph);
        qkv_forward(whole.graph);
        row->elements = row->checked = whole.y->count;
        row->error = worst_difference(whole.y->count, single.y->value, whole.y->value);
        if (varied) {
            qkv_backward(single.graph, single.loss, NULL);
            qkv_backward(whole.graph, whole.loss, NULL);
        }
        for (int k = 0; varied && k < QKV_MAX_INPUTS; k++) {
            const struct qkv_tensor *x = whole.input[k];
            if (!x || !x->needs_gradient) continue;
            row->checked = row->elements += x->count;
            row->error = fmax(row->error, worst_difference(x->count, single.input[k]->gradient, x->gradient));
        }
        if (!(row->error <= QKV_FLOAT32_BOUND))
            qkv_check_fail(report, row, "float32 is %.3g away from float64, above %.3g", row->error, QKV_FLOAT32_BOUND);
    }
    qkv_graph_free(single.graph);
    qkv_graph_free(whole.graph);
    return row != NULL;
}

/* ---- samples ---- */

static enum qkv_status check_varied(struct qkv_check_report *report, const char *subject, enum qkv_op_id op,
                                    const struct qkv_sample *sample, unsigned varied,
                                    const struct qkv_check_options *options, struct qkv_error *error)
{
    struct scene scene = scene_of(QKV_FLOAT64, op, sample, varied, options->seed);
    enum qkv_status status =
        !scene.graph ? qkv_error_set(error, "out of memory for %s", subject)
                     : qkv_check_graph(report, subject, scene.graph, scene.loss, options, error);
    qkv_graph_free(scene.graph);
    return status;
}

/* All inputs that may vary together, then each alone. */
static enum qkv_status check_sample(struct qkv_check_report *report, enum qkv_op_id op, const struct qkv_sample *sample,
                                    const struct qkv_check_options *options, struct qkv_error *error)
{
    const struct qkv_op *rule = qkv_op_samples(op);
    const char *subject = qkv_arena_format(&report->arena, "op %s (%s)", rule->name, sample->name);
    unsigned all = 0;
    for (int k = 0; k < rule->inputs; k++)
        if (sample->input[k].rank && !(sample->constant >> k & 1)) all |= 1u << k;
    if (!subject) return qkv_error_set(error, "out of memory");
    if (!check_precision(report, subject, op, sample, all, options->seed)) {
        struct scene scene = scene_of(QKV_FLOAT64, op, sample, all, options->seed);
        if (!scene.graph || !qkv_graph_check(scene.graph, error)) qkv_error_set(error, "out of memory for %s", subject);
        qkv_graph_free(scene.graph);
        return QKV_INVALID;
    }
    if (!all) return QKV_OK; /* an op without gradients: values only */
    enum qkv_status status = check_varied(report, subject, op, sample, all, options, error);
    for (int k = 0; !status && k < rule->inputs; k++) {
        if (!(all >> k & 1) || all == 1u << k) continue;
        const char *alone = qkv_arena_format(&report->arena, "op %s (%s), input %d alone", rule->name, sample->name, k + 1);
        status = check_varied(report, alone ? alone : subject, op, sample, 1u << k, options, error);
    }
    return status;
}

/* A bad sample must be refused, with its message. */
static enum qkv_status check_refusal(struct qkv_check_report *report, enum qkv_op_id op, const struct qkv_sample *sample,
                                     struct qkv_error *error)
{
    const struct qkv_op *rule = qkv_op_samples(op);
    unsigned all = ~sample->constant & ((1u << rule->inputs) - 1);
    struct scene scene = scene_of(QKV_FLOAT64, op, sample, all, 0);
    const char *subject = qkv_arena_format(&report->arena, "op %s (refuses %s)", rule->name, sample->name);
    struct qkv_check_row *row = subject && scene.graph ? qkv_check_add(report, subject, "message") : NULL;
    if (!row) {
        qkv_graph_free(scene.graph);
        return qkv_error_set(error, "out of memory for the samples of %s", rule->name);
    }
    struct qkv_error given = {""};
    if (!qkv_graph_check(scene.graph, &given)) qkv_check_fail(report, row, "the op accepts it");
    else if (!strstr(given.message, sample->message))
        qkv_check_fail(report, row, "the message is '%s', but should contain '%s'", given.message, sample->message);
    qkv_graph_free(scene.graph);
    return QKV_OK;
}

enum qkv_status qkv_check_op(struct qkv_check_report *report, enum qkv_op_id op, const struct qkv_check_options *options,
                             struct qkv_error *error)
{
    QKV_BUG(op <= QKV_OP_leaf || op >= QKV_OP_COUNT, "there is no op %d", (int)op);
    const struct qkv_op *rule = qkv_op_samples(op);
    if (!rule->good || !rule->good[0].name) {
        struct qkv_check_row *row = qkv_check_add(report, rule->name, "samples");
        if (!row) return qkv_error_set(error, "out of memory");
        qkv_check_fail(report, row, "the op has no samples");
        return QKV_OK;
    }
    enum qkv_status status = QKV_OK;
    for (const struct qkv_sample *s = rule->good; !status && s->name; s++)
        status = check_sample(report, op, s, options, error);
    for (const struct qkv_sample *s = rule->bad; !status && s && s->name; s++)
        status = check_refusal(report, op, s, error);
    return status;
}
