/* Attention maps and heads: names, and selection of maps and means. */
#include "qkv/attention_map.h"
#include "core/memory.h"

#include "report/writer.h"

static const char *const kind_names[QKV_ATTENTION_KINDS] = {[QKV_ATTENTION_ENCODER] = "encoder",
                                                            [QKV_ATTENTION_DECODER] = "decoder",
                                                            [QKV_ATTENTION_CROSS] = "cross"};

const char *qkv_attention_kind_name(enum qkv_attention_kind kind)
{
    return kind >= 0 && kind < QKV_ATTENTION_KINDS ? kind_names[kind] : "unknown";
}

bool qkv_attention_kind_find(const char *name, enum qkv_attention_kind *kind)
{
    for (int i = 0; i < QKV_ATTENTION_KINDS; i++) {
        if (strcmp(name, kind_names[i])) continue;
        *kind = (enum qkv_attention_kind)i;
        return true;
    }
    return false;
}

const char *const *qkv_attention_row_tokens(const struct qkv_attention_report *report,
                                            enum qkv_attention_kind kind)
{
    return kind == QKV_ATTENTION_ENCODER   ? report->source
           : kind == QKV_ATTENTION_DECODER ? report->target_input
                                           : report->target_output;
}

const char *const *qkv_attention_row_labels(const struct qkv_attention_report *report,
                                            enum qkv_attention_kind kind)
{
    bool has_next = kind == QKV_ATTENTION_DECODER && report->step_labels;
    return has_next ? report->step_labels : qkv_attention_row_tokens(report, kind);
}

const char *qkv_attention_row_axis(const struct qkv_attention_report *report, enum qkv_attention_kind kind,
                                   const char *query)
{
    return kind == QKV_ATTENTION_CROSS                            ? "target (output)"
           : kind == QKV_ATTENTION_DECODER && report->step_labels ? "query→next token:its probability"
                                                                  : query;
}

const char *const *qkv_attention_column_tokens(const struct qkv_attention_report *report,
                                               enum qkv_attention_kind kind)
{
    return kind == QKV_ATTENTION_DECODER ? report->target_input : report->source;
}

void qkv_attention_map_name(const struct qkv_attention_map *map, char *text, size_t size)
{
    char layer[16] = "mean", head[16] = "mean";
    if (map->layer) snprintf(layer, sizeof layer, "%d", map->layer);
    if (map->head) snprintf(head, sizeof head, "%d", map->head);
    if (map->name)
        snprintf(text, size, "%s", map->name);
    else
        snprintf(text, size, "%s.%s.%s", qkv_attention_kind_name(map->kind), layer, head);
}

/* ---- heads by name ---- */

void qkv_head_name(struct qkv_head head, char *text, size_t size)
{
    const struct qkv_attention_map map = {
        .kind = head.attention, .layer = (int)head.layer, .head = (int)head.head};
    qkv_attention_map_name(&map, text, size);
}

/* "the heads of the model are encoder.1.1 to encoder.2.4, cross.1.1": the first and the last of each kind. */
static void list_heads(const struct qkv_model *model, char *text, size_t size)
{
    int64_t count = qkv_model_head_count(model);
    size_t used = 0;
    char name[64];
    snprintf(text, size, "the model has no attention");
    for (int64_t i = 0; i < count && used < size; i++) {
        const struct qkv_head head = qkv_model_head(model, i), before = qkv_model_head(model, i - 1),
                              after = qkv_model_head(model, i + 1);
        bool is_first = i == 0 || before.attention != head.attention,
             is_last = i + 1 == count || after.attention != head.attention;
        qkv_head_name(head, name, sizeof name);
        if (is_first)
            used += (size_t)snprintf(text + used, size - used, "%s%s",
                                     i ? ", " : "the heads of the model are ", name);
        else if (is_last)
            used += (size_t)snprintf(text + used, size - used, " to %s", name);
    }
}

enum qkv_status qkv_head_find(const struct qkv_model *model, const char *name, struct qkv_head *head,
                              struct qkv_error *error)
{
    char existing[64], all[256];
    int64_t count = qkv_model_head_count(model);
    for (int64_t i = 0; i < count; i++) {
        *head = qkv_model_head(model, i);
        qkv_head_name(*head, existing, sizeof existing);
        if (!strcmp(existing, name)) return QKV_OK;
    }
    list_heads(model, all, sizeof all);
    return qkv_error_set(error, "there is no head '%s': %s", name, all);
}

/* ---- reports that are refused ---- */

enum {
    MAX_NUMBER = 1 << 12,   /* of a layer or head: selecting visits all pairs of them */
    MAX_TOKENS = INT32_MAX, /* the formats count tokens in int */
};

static bool is_number(int number)
{
    return number >= 0 && number <= MAX_NUMBER;
}

enum qkv_status qkv_report_check(const struct qkv_attention_report *report, struct qkv_error *error)
{
    const struct qkv_attention_map *first[QKV_ATTENTION_KINDS] = {NULL};
    if (report->map_count < 0)
        return qkv_error_set(error, "a report has %lld attention maps", (long long)report->map_count);
    for (int64_t i = 0; i < report->map_count; i++) {
        const struct qkv_attention_map *map = &report->maps[i];
        if (map->kind < 0 || map->kind >= QKV_ATTENTION_KINDS)
            return qkv_error_set(error, "attention map %lld has kind %d, but there are %d kinds, from 0",
                                 (long long)i + 1, (int)map->kind, QKV_ATTENTION_KINDS);
        if (!is_number(map->layer) || !is_number(map->head))
            return qkv_error_set(error,
                                 "attention map %lld is of layer %d, head %d, but they count from 1 to %d",
                                 (long long)i + 1, map->layer, map->head, MAX_NUMBER);
        if (map->rows < 1 || map->columns < 1 || map->rows > MAX_TOKENS || map->columns > MAX_TOKENS ||
            !map->weights)
            return qkv_error_set(error, "attention map %lld has shape [%lld, %lld] or no weights",
                                 (long long)i + 1, (long long)map->rows, (long long)map->columns);
        if (!first[map->kind]) first[map->kind] = map;
        if (map->rows != first[map->kind]->rows || map->columns != first[map->kind]->columns)
            return qkv_error_set(error, "%s maps have shapes [%lld, %lld] and [%lld, %lld], but must agree",
                                 kind_names[map->kind], (long long)first[map->kind]->rows,
                                 (long long)first[map->kind]->columns, (long long)map->rows,
                                 (long long)map->columns);
    }
    return QKV_OK;
}

/* ---- selecting maps ---- */

/* The maps selected so far. */
struct selection {
    const struct qkv_attention_report *report;
    struct qkv_arena *arena;
    struct qkv_attention_map *maps; /* capacity: every map, and one more per kind */
    int64_t count;
};

/* Whether `wanted` selects layer or head `number`. A mean is taken over every single one. */
static bool is_selected(int number, int wanted)
{
    return wanted == QKV_ATTENTION_MEAN ? number > 0 : number == wanted;
}

/* Appends the map of a layer and head, or the mean of maps if layer or head is QKV_ATTENTION_MEAN; the mean of one map is that
 * map, with its layer and head. Appends nothing if there is no such map. False if memory runs out. */
static bool append_map(struct selection *selection, enum qkv_attention_kind kind, int layer, int head)
{
    const struct qkv_attention_map *maps = selection->report->maps,
                                   *end = maps + selection->report->map_count, *first = NULL, *map;
    int64_t parts = 0;
    for (map = maps; map < end; map++) {
        if (map->kind != kind || !is_selected(map->layer, layer) || !is_selected(map->head, head)) continue;
        if (!parts++) first = map;
    }
    /* The report may have a mean in place of single heads. */
    for (map = maps; map < end && !first; map++)
        if (map->kind == kind && map->layer == layer && map->head == head) first = map;
    if (!first) return true;
    struct qkv_attention_map *result = &selection->maps[selection->count++];
    *result = *first;
    if (parts <= 1) return true;
    int64_t cells = first->rows * first->columns;
    double *mean = qkv_arena_zeros(selection->arena, cells, sizeof *mean);
    if (!mean) return false;
    for (map = first; map < end; map++) {
        if (map->kind != kind || !is_selected(map->layer, layer) || !is_selected(map->head, head)) continue;
        for (int64_t c = 0; c < cells; c++) mean[c] += map->weights[c] / (double)parts;
    }
    result->layer = layer;
    result->head = head;
    result->weights = mean;
    return true;
}

/* Appends the head whose map agrees best with the mean over all heads of a layer, or of all layers: the sum of the products of
 * their weights is largest. */
static bool append_best(struct selection *selection, enum qkv_attention_kind kind, int layer)
{
    const struct qkv_attention_report *report = selection->report;
    int64_t mean = selection->count;
    double best_agreement = -1;
    const struct qkv_attention_map *best = NULL;
    int layers = layer == QKV_ATTENTION_EACH ? QKV_ATTENTION_MEAN : layer;
    if (!append_map(selection, kind, layers, QKV_ATTENTION_MEAN)) return false;
    if (selection->count == mean) return true; /* no mean was appended: there are no such heads */
    const struct qkv_attention_map *average = &selection->maps[mean];
    for (int64_t i = 0; i < report->map_count; i++) {
        const struct qkv_attention_map *map = &report->maps[i];
        double agreement = 0;
        if (map->kind != kind || !is_selected(map->layer, layers) || map->head < 1) continue;
        for (int64_t c = 0; c < map->rows * map->columns; c++)
            agreement += map->weights[c] * average->weights[c];
        if (agreement <= best_agreement) continue;
        best_agreement = agreement;
        best = map;
    }
    if (best) selection->maps[mean] = *best;
    return true;
}

/* The maps of one kind in a report. */
struct extent {
    int64_t maps;
    int layers, heads; /* highest numbers */
};

static struct extent extent_of(const struct qkv_attention_report *report, int kind)
{
    struct extent extent = {0};
    for (int64_t i = 0; i < report->map_count; i++) {
        const struct qkv_attention_map *map = &report->maps[i];
        if ((int)map->kind != kind) continue;
        extent.maps++;
        if (map->layer > extent.layers) extent.layers = map->layer;
        if (map->head > extent.heads) extent.heads = map->head;
    }
    return extent;
}

static enum qkv_status report_missing(int kind, int layer, int head, struct extent extent,
                                      struct qkv_error *error)
{
    if (!extent.maps) return qkv_error_set(error, "the model has no %s attention", kind_names[kind]);
    if (layer > extent.layers)
        return qkv_error_set(error, "the %s attention has no layer %d: its layers are 1 to %d",
                             kind_names[kind], layer, extent.layers);
    return qkv_error_set(error, "the %s attention has no head %d: its heads are 1 to %d", kind_names[kind],
                         head, extent.heads);
}

/* Appends what `layer` and `head` select of one kind. False if memory runs out. */
static bool select_of_kind(struct selection *selection, enum qkv_attention_kind kind, int layer, int head,
                           struct extent extent)
{
    if (layer > extent.layers || head > extent.heads) return true; /* there is no such map */
    if (head == QKV_ATTENTION_BEST) return append_best(selection, kind, layer);
    bool each_layer = layer == QKV_ATTENTION_EACH, each_head = head == QKV_ATTENTION_EACH;
    int last_layer = each_layer ? extent.layers : layer, last_head = each_head ? extent.heads : head;
    for (int l = each_layer ? 1 : layer; l <= last_layer; l++)
        for (int h = each_head ? 1 : head; h <= last_head; h++)
            if (!append_map(selection, kind, l, h)) return false;
    return true;
}

enum qkv_status qkv_attention_select(const struct qkv_attention_report *report, unsigned kinds, int layer,
                                     int head, struct qkv_arena *arena, struct qkv_attention_report *selected,
                                     struct qkv_error *error)
{
    struct selection selection = {.report = report, .arena = arena};
    struct extent extents[QKV_ATTENTION_KINDS];
    if (qkv_report_check(report, error)) return QKV_INVALID;
    if (kinds && !(kinds & ((1u << QKV_ATTENTION_KINDS) - 1)))
        return qkv_error_set(error, "there is no kind of attention in 0x%x", kinds);
    size_t capacity = (size_t)report->map_count + QKV_ATTENTION_KINDS;
    for (int kind = 0; kind < QKV_ATTENTION_KINDS; kind++) extents[kind] = extent_of(report, kind);
    selection.maps = qkv_arena_allocate(arena, capacity * sizeof *selection.maps);
    bool complete = selection.maps;
    for (int kind = 0; complete && kind < QKV_ATTENTION_KINDS; kind++) {
        if (kinds ? !(kinds & (1u << kind)) : !extents[kind].maps) continue;
        int64_t before = selection.count;
        complete = select_of_kind(&selection, (enum qkv_attention_kind)kind, layer, head, extents[kind]);
        if (complete && selection.count == before)
            return report_missing(kind, layer, head, extents[kind], error);
    }
    if (!complete) return qkv_no_memory(error);
    if (!selection.count) return qkv_error_set(error, "the report has no attention maps to select from");
    *selected = *report;
    selected->maps = selection.maps;
    selected->map_count = selection.count;
    return QKV_OK;
}
