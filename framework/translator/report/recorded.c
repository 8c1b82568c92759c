/* The parts that a pass recorded, and norms of values from them. */
#include "core/memory.h"
#include "graph/attention_rule.h"
#include "graph/graph.h"
#include "models/network.h"
#include "report/collect.h"

#include <math.h>

static const char *const ROLES[] = {
#define ROLE(name) [QKV_PART_##name] = "QKV_PART_" #name
    ROLE(EMBEDDING), ROLE(POSITIONS), ROLE(NORM),   ROLE(HIDDEN),  ROLE(INPUT),
    ROLE(MEMORY),    ROLE(QUERY),     ROLE(KEY),    ROLE(VALUE),   ROLE(WEIGHTS),
    ROLE(CONTEXT),   ROLE(GATE),      ROLE(OUTPUT), ROLE(RESIDUAL)
#undef ROLE
};

/* Returns the part if it has the wanted shape. owner: the layer or stack of the part, for the message. */
static const struct qkv_part *check(const struct recorded_pass *pass, const struct qkv_part *part,
                                    enum qkv_part_role role, const char *owner, struct part_shape wanted)
{
    const char *network = pass->model->interface->name;
    if (!part) {
        qkv_error_set(pass->error,
                      "network %s: its function forward does not record %s of %s (qkv_trace_record), "
                      "which %s need",
                      network, ROLES[role], owner, pass->purpose);
        return NULL;
    }
    const struct qkv_shape shape = qkv_tensor_shape(part->node);
    if (shape.rank == 2 && shape.size[0] == wanted.rows &&
        (!wanted.columns || shape.size[1] == wanted.columns))
        return part;
    char columns[32] = "any";
    if (wanted.columns) snprintf(columns, sizeof columns, "%lld", (long long)wanted.columns);
    qkv_error_set(pass->error, "network %s: %s of %s has shape %s, but %s need [%lld, %s]", network,
                  ROLES[role], owner, qkv_shape_text(shape), pass->purpose, (long long)wanted.rows, columns);
    return NULL;
}

const struct qkv_part *qkv_recorded_attention(const struct recorded_pass *pass, enum qkv_part_role role,
                                              enum qkv_attention_kind kind, int64_t layer,
                                              struct part_shape shape)
{
    char owner[64];
    snprintf(owner, sizeof owner, "layer %lld of %s attention", (long long)layer,
             qkv_attention_kind_name(kind));
    return check(pass, qkv_trace_attention(pass->trace, role, kind, layer), role, owner, shape);
}

const struct qkv_part *qkv_recorded_stack(const struct recorded_pass *pass, enum qkv_part_role role,
                                          enum qkv_stack_id stack, struct part_shape shape)
{
    return check(pass, qkv_trace_stack(pass->trace, role, stack, 0), role,
                 stack == QKV_STACK_ENCODER ? "the encoder" : "the decoder", shape);
}

/* ---- norms of values ---- */

/* norm(v W) for one value v [V], with W the rows of the output projection that belong to a head: the square root of v G v^T with
 * G = W W^T. product: workspace for V numbers. */
static double norm_of(const double *value, const double *gram, int64_t width, double *product)
{
    double square = 0;
    memset(product, 0, (size_t)width * sizeof *product);
    for (int64_t i = 0; i < width; i++)
        for (int64_t j = 0; j < width; j++) product[j] += value[i] * gram[i * width + j];
    for (int64_t j = 0; j < width; j++) square += product[j] * value[j];
    return square > 0 ? sqrt(square) : 0; /* below 0 by rounding */
}

/* The number of queries, of a pass or before a sentence, by the number of keys of each kind. */
static int64_t queries_of(const int64_t keys[QKV_ATTENTION_KINDS], enum qkv_attention_kind kind)
{
    return keys[kind == QKV_ATTENTION_ENCODER ? QKV_ATTENTION_ENCODER : QKV_ATTENTION_DECODER];
}

/* The norms of all values of a pass, and the offset of the current sentence. */
struct pass_norms {
    struct qkv_attention_collector *collector;
    struct recorded_pass recorded;
    struct qkv_arena *arena;
    double **of_head;                   /* [heads]: [keys]; NULL: no map has needed them yet */
    int64_t keys[QKV_ATTENTION_KINDS];  /* of the pass */
    int64_t first[QKV_ATTENTION_KINDS]; /* keys of the sentences before the current one */
    struct part_numbers {               /* of the values and of the output gates that were needed last */
        const struct qkv_part *part;
        double *numbers; /* [keys, groups * V]; [queries, H * V] */
    } values, gates;
};

/* G = W W^T [V, V] of head i, whose W [V, any] is `rows`; kept for later passes. NULL with a message. */
static const double *gram_of(struct pass_norms *pass, int64_t i, struct qkv_rows rows)
{
    struct qkv_attention_collector *collector = pass->collector;
    const int64_t outputs = rows.parameter->shape.size[1], width = rows.count;
    if (collector->gram[i]) return collector->gram[i];
    double *gram = qkv_arena_array(&collector->gram_arena, width * width, sizeof *gram),
           *values = qkv_arena_array(pass->arena, width * outputs, sizeof *values);
    if (!gram || !values) {
        qkv_no_memory(pass->recorded.error);
        return NULL;
    }
    for (int64_t k = 0; k < width * outputs; k++)
        values[k] =
            qkv_parameter_get(&collector->model->parameters, rows.parameter, rows.first * outputs + k);
    for (int64_t r = 0; r < width; r++)
        for (int64_t c = 0; c <= r; c++) {
            double sum = 0;
            for (int64_t k = 0; k < outputs; k++) sum += values[r * outputs + k] * values[c * outputs + k];
            gram[r * width + c] = gram[c * width + r] = sum;
        }
    return collector->gram[i] = gram;
}

/* Reads a part that a layer has recorded, unless `read` has it already; false with a message. */
static bool read_part(struct pass_norms *pass, struct part_numbers *read, enum qkv_part_role role,
                      const struct qkv_head *head, struct part_shape shape)
{
    const struct qkv_part *part =
        qkv_recorded_attention(&pass->recorded, role, head->attention, head->layer, shape);
    if (!part || part == read->part) return part;
    read->numbers = qkv_arena_array(pass->arena, shape.rows * shape.columns, sizeof *read->numbers);
    if (!read->numbers) return !qkv_no_memory(pass->recorded.error);
    qkv_tensor_read(part->node, read->numbers);
    read->part = part;
    return true;
}

/* Computes the norms of the values of head i, one for each key of the pass; with an output gate, whose factors differ from query
 * to query, one for each pair of a query and a key. In a recurrent network the values are the memory. NULL with a message. */
static double *compute_norms(struct pass_norms *pass, int64_t i, struct qkv_head head,
                             const struct qkv_multi_head *multi_head)
{
    const enum qkv_attention_kind kind = head.attention;
    const struct qkv_model *model = pass->collector->model;
    struct qkv_rows rows;
    if (!qkv_model_head_rows(model, head, &rows)) {
        qkv_error_set(pass->recorded.error,
                      "network %s: its function attention gives no layer that multiplies the context "
                      "of layer %lld of %s attention (attentional), which norms of values need",
                      model->interface->name, (long long)head.layer, qkv_attention_kind_name(kind));
        return NULL;
    }
    bool is_gated = multi_head && multi_head->gate.weight;
    int64_t groups = multi_head ? qkv_attention_key_value_heads(&multi_head->rule) : 1,
            heads = multi_head ? multi_head->rule.heads : 1, keys = pass->keys[kind], width = rows.count,
            queries = is_gated ? queries_of(pass->keys, kind) : 1;
    const double *gram = gram_of(pass, i, rows);
    if (!gram ||
        !read_part(pass, &pass->values, QKV_PART_VALUE, &head, (struct part_shape){keys, groups * width}) ||
        (is_gated &&
         !read_part(pass, &pass->gates, QKV_PART_GATE, &head, (struct part_shape){queries, heads * width})))
        return NULL;
    double *norms = qkv_arena_array(pass->arena, queries * keys, sizeof *norms);
    double *product = qkv_arena_array(pass->arena, 2 * width, sizeof *product), *gated = product + width;
    if (!norms || !product) {
        qkv_no_memory(pass->recorded.error);
        return NULL;
    }
    /* Consecutive heads share keys and values. */
    int64_t group = (head.head - 1) * groups / heads;
    for (int64_t k = 0; k < queries * keys; k++) {
        const double *value = pass->values.numbers + (k % keys * groups + group) * width;
        for (int64_t d = 0; d < width; d++)
            gated[d] = value[d] *
                       (is_gated ? pass->gates.numbers[(k / keys * heads + head.head - 1) * width + d] : 1);
        norms[k] = norm_of(gated, gram, width, product);
    }
    return norms;
}

/* The norms of the values of the head of a map, for the keys of the current sentence; NULL with a message when there are
 * none. *step: from the norms of a query to those of the next one. */
static const double *norms_of_map(struct pass_norms *pass, const struct qkv_attention_map *map, int64_t *step)
{
    const struct qkv_model *model = pass->collector->model;
    for (int64_t i = 0; i < qkv_model_head_count(model); i++) {
        const struct qkv_head head = qkv_model_head(model, i);
        if (head.attention != map->kind || head.layer != map->layer || head.head != map->head) continue;
        const struct qkv_multi_head *multi_head =
            qkv_model_attention(model, head.attention, head.layer).multi_head;
        *step = multi_head && multi_head->gate.weight ? pass->keys[map->kind] : 0;
        if (!pass->of_head[i]) pass->of_head[i] = compute_norms(pass, i, head, multi_head);
        if (!pass->of_head[i]) return NULL;
        return pass->of_head[i] + pass->first[map->kind] + *step * queries_of(pass->first, map->kind);
    }
    char name[64];
    qkv_attention_map_name(map, name, sizeof name);
    qkv_error_set(pass->recorded.error,
                  "network %s: its function attention gives no layer with the head %s, which norms of "
                  "values need",
                  model->interface->name, name);
    return NULL;
}

static int64_t key_count(const struct qkv_attention_report *report, int kind)
{
    return kind == QKV_ATTENTION_DECODER ? report->target_length : report->source_length;
}

/* Multiplies the maps of one report. */
static enum qkv_status multiply_maps(struct qkv_attention_report *report, struct pass_norms *pass)
{
    struct qkv_attention_map *maps = qkv_arena_array(pass->arena, report->map_count, sizeof *maps);
    if (!maps) return qkv_no_memory(pass->recorded.error);
    for (int64_t m = 0; m < report->map_count; m++) {
        maps[m] = report->maps[m];
        int64_t columns = maps[m].columns, cells = maps[m].rows * columns;
        double *weights = qkv_arena_array(pass->arena, cells, sizeof *weights);
        if (!weights) return qkv_no_memory(pass->recorded.error);
        int64_t step;
        const double *norm = norms_of_map(pass, &maps[m], &step);
        if (!norm) return QKV_INVALID;
        for (int64_t i = 0; i < cells; i++)
            weights[i] = maps[m].weights[i] * norm[i / columns * step + i % columns];
        maps[m].weights = weights;
    }
    report->maps = maps;
    return QKV_OK;
}

enum qkv_status qkv_value_norms_apply(struct qkv_attention_collector *collector, int64_t count,
                                      struct qkv_attention_report *reports, struct qkv_error *error)
{
    struct pass_norms pass = {.collector = collector,
                              .recorded = {collector->model, &collector->trace, "norms of values", error},
                              .arena = &collector->arena};
    pass.of_head = qkv_arena_zeros(pass.arena, qkv_model_head_count(collector->model), sizeof *pass.of_head);
    if (!pass.of_head) return qkv_no_memory(error);
    for (int64_t i = 0; i < count; i++)
        for (int kind = 0; kind < QKV_ATTENTION_KINDS; kind++)
            pass.keys[kind] += key_count(&reports[i], kind);
    for (int64_t i = 0; i < count; i++) {
        if (multiply_maps(&reports[i], &pass)) return QKV_INVALID;
        for (int kind = 0; kind < QKV_ATTENTION_KINDS; kind++)
            pass.first[kind] += key_count(&reports[i], kind);
    }
    return QKV_OK;
}
