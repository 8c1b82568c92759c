#include "report/writer.h"

#include <math.h>
#include <string.h>
#include <utf8proc.h>

/* What can be drawn for a code point, with the given sign for a space. */
static utf8proc_int32_t visible(utf8proc_int32_t point, utf8proc_int32_t space)
{
    if (point == '\t') return space;
    switch (utf8proc_category(point)) {
    case UTF8PROC_CATEGORY_ZS:
        return space;
    case UTF8PROC_CATEGORY_CC:
    case UTF8PROC_CATEGORY_CS:
    case UTF8PROC_CATEGORY_ZL:
    case UTF8PROC_CATEGORY_ZP:
        return 0xFFFD;
    default:
        return point;
    }
}

static const char *clean(struct qkv_arena *arena, const char *text, utf8proc_int32_t space)
{
    const utf8proc_uint8_t *bytes = (const utf8proc_uint8_t *)text;
    utf8proc_ssize_t left = (utf8proc_ssize_t)strlen(text);
    utf8proc_uint8_t *label = qkv_arena_allocate(arena, (size_t)left * 3 + 1), *end = label;
    if (!label) return NULL;
    while (left > 0) {
        utf8proc_int32_t point;
        utf8proc_ssize_t size = utf8proc_iterate(bytes, left, &point);
        if (size < 1) {
            point = 0xFFFD;
            size = 1;
        }
        end += utf8proc_encode_char(visible(point, space), end);
        bytes += size;
        left -= size;
    }
    *end = 0;
    return (const char *)label;
}

const char *qkv_report_label(struct qkv_arena *arena, const char *token)
{
    return clean(arena, token, 0x2423);
}

const char *qkv_report_line(struct qkv_arena *arena, const char *text)
{
    return clean(arena, text, ' ');
}

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
    return name && map->origin ? qkv_arena_format(arena, "%s: %s", map->origin, name) : name;
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
    double largest = job->options.maximum > 0 ? job->options.maximum : largest_weight(job->report);
    if (!(largest > 0) || !isfinite(largest)) largest = 1;
    double step = largest / 5, power = pow(10, floor(log10(step) + 1e-9)), digit = step / power; /* 1 to 10 */
    *tick = power * (digit < 1 + 1e-9 ? 1 : digit < 2 + 1e-9 ? 2 : digit < 5 + 1e-9 ? 5 : 10);
    if (job->options.maximum > 0) return largest;
    return *tick * ceil(largest / *tick - 1e-9);
}
