/* Functions shared by the writers of attention maps: titles, the name of the values and the range of colours. */
#include "draw/heatmap.h"
#include "draw/text.h"
#include "report/writer.h"

static const char *name_map(struct qkv_arena *arena, const struct qkv_attention_map *map, bool with_kind)
{
    const char *kind = with_kind ? qkv_attention_kind_name(map->kind) : "";
    const char *attention = with_kind ? " attention, " : "";
    if (map->label) return map->label;
    if (map->layer && map->head)
        return qkv_arena_format(arena, "%s%slayer %d, head %d", kind, attention, map->layer, map->head);
    if (map->layer)
        return qkv_arena_format(arena, "%s%slayer %d, mean of heads", kind, attention, map->layer);
    if (map->head) return qkv_arena_format(arena, "%s%shead %d, mean of layers", kind, attention, map->head);
    return qkv_arena_format(arena, "%s%smean of layers and heads", kind, attention);
}

const char *qkv_report_map_title(struct qkv_arena *arena, const struct qkv_attention_map *map, bool with_kind)
{
    const char *name = name_map(arena, map, with_kind);
    if (name && map->label_prefix) name = qkv_arena_format(arena, "%s: %s", map->label_prefix, name);
    return name ? qkv_display_line(arena, name) : NULL;
}

const char *qkv_report_value_name(const struct qkv_attention_report *report)
{
    return report->value_name ? report->value_name : "attention weight";
}

static double largest_weight(const struct qkv_attention_report *report)
{
    double largest = 0;
    for (int64_t m = 0; m < report->map_count; m++) {
        const struct qkv_attention_map *map = &report->maps[m];
        for (int64_t i = 0; i < map->rows * map->columns; i++)
            if (map->weights[i] > largest) largest = map->weights[i];
    }
    return largest;
}

double qkv_report_color_maximum(const struct maps_job *job, double *tick)
{
    return qkv_heatmap_maximum(job->options.maximum, largest_weight(job->report), tick);
}
