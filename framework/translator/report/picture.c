/* Draws attention maps as a figure of heat maps, as vector graphics or pixels. */
#include "core/memory.h"
#include "draw/heatmap.h"
#include "report/writer.h"

static struct heatmap_axis axis(const char *wanted, const char *name, const char *const *tokens,
                                int64_t count)
{
    return (struct heatmap_axis){wanted ? wanted : name, tokens, count};
}

/* One group of panels per kind of attention. */
static struct heatmap_group group_of(const struct qkv_attention_report *report,
                                     const struct qkv_attention_map *map)
{
    bool cross = map->kind == QKV_ATTENTION_CROSS;
    return (struct heatmap_group){
        .rows = axis(report->row_axis, qkv_attention_row_axis(report, map->kind, "query"),
                     qkv_attention_row_labels(report, map->kind), map->rows),
        .columns = axis(report->column_axis, cross ? "source" : "key",
                        qkv_attention_column_tokens(report, map->kind), map->columns),
    };
}

/* Maximal number of panels in a line: heads of one layer, or layers if each has only one map. */
enum { MAX_HEADS = 16, MAX_LAYERS = 4 };

/* Puts the heads of each layer into a line; all layers into one line if each layer has only one map. */
static bool make_panels(const struct format_job *job, bool mixed, struct heatmap *heatmap)
{
    const struct qkv_attention_report *report = job->report;
    size_t count = (size_t)report->map_count;
    struct heatmap_panel *panels = qkv_arena_zeroed(job->arena, count * sizeof *panels);
    struct heatmap_group *groups = qkv_arena_zeroed(job->arena, QKV_ATTENTION_KINDS * sizeof *groups);
    int group_of_kind[QKV_ATTENTION_KINDS] = {0}; /* index + 1; 0: none yet */
    bool line_per_layer = false;
    if (!panels || !groups) return false;
    for (int64_t i = 1; i < report->map_count; i++) {
        const struct qkv_attention_map *map = &report->maps[i], *before = map - 1;
        line_per_layer = line_per_layer || (map->kind == before->kind && map->layer == before->layer);
    }
    for (int64_t i = 0; i < report->map_count; i++) {
        const struct qkv_attention_map *map = &report->maps[i];
        if (!group_of_kind[map->kind]) {
            groups[heatmap->group_count++] = group_of(report, map);
            group_of_kind[map->kind] = heatmap->group_count;
        }
        panels[i] = (struct heatmap_panel){
            .title = qkv_report_map_title(job->arena, map, mixed),
            .values = map->weights,
            .group = group_of_kind[map->kind] - 1,
            .line = line_per_layer ? map->layer : 0,
            .rule = map->rule,
        };
        if (!panels[i].title) return false;
    }
    heatmap->panels = panels;
    heatmap->per_line = line_per_layer ? MAX_HEADS : MAX_LAYERS;
    heatmap->panel_count = report->map_count;
    heatmap->groups = groups;
    return true;
}

/* Sets the subtitle: what is shown (report->name or the kind of attention), and the model. `mixed`:
 * the report has maps of several kinds, which the titles of the panels name. False if memory runs
 * out; a mixed report without a model has no subtitle. */
static bool choose_subtitle(const struct format_job *job, bool mixed, struct heatmap *heatmap)
{
    const struct qkv_attention_report *report = job->report;
    const char *name = report->name;
    if (report->map_count == 1)
        name = qkv_report_map_title(job->arena, &report->maps[0], true);
    else if (!name && !mixed)
        name = qkv_arena_format(job->arena, "%s attention", qkv_attention_kind_name(report->maps[0].kind));
    heatmap->subtitle = name && report->model ? qkv_arena_format(job->arena, "%s · %s", name, report->model)
                        : name                ? name
                                              : report->model;
    return heatmap->subtitle || (mixed && !report->model);
}

static bool describe(const struct format_job *job, struct heatmap *heatmap)
{
    const struct qkv_attention_report *report = job->report;
    bool mixed = report->maps[0].kind != report->maps[report->map_count - 1].kind;
    *heatmap = (struct heatmap){
        .title = report->title,
        .value_name = qkv_report_value_name(report),
        .colormap = job->options.colormap,
        .annotate = job->options.annotate,
        .arena = job->arena,
    };
    heatmap->maximum = qkv_report_color_maximum(job, &heatmap->tick);
    return make_panels(job, mixed, heatmap) && choose_subtitle(job, mixed, heatmap);
}

static enum qkv_status write_svg(const struct format_job *job, struct bytes *out, struct qkv_error *error)
{
    struct heatmap heatmap;
    (void)error;
    if (describe(job, &heatmap))
        qkv_svg_draw(qkv_heatmap_draw, &heatmap, out);
    else
        out->failed = true;
    return QKV_OK;
}

static enum qkv_status write_png(const struct format_job *job, struct bytes *out, struct qkv_error *error)
{
    struct heatmap heatmap;
    if (describe(job, &heatmap))
        return qkv_png_draw(qkv_heatmap_draw, &heatmap, job->options.scale, job->options.missing, out, error);
    out->failed = true;
    return QKV_OK;
}

const struct qkv_format_writer qkv_writer_svg = {
    .format = {"svg", "svg", "heat maps that scale, with the weight under the pointer", QKV_FORMAT_PICTURE},
    .write_maps = write_svg,
};

const struct qkv_format_writer qkv_writer_png = {
    .format = {"png", "png", "heat maps as pixels", QKV_FORMAT_PICTURE, .binary = true},
    .write_maps = write_png,
};
