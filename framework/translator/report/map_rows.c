#include "report/map_rows.h"

#include "qkv/scalar_math.h"
#include "report/writer.h"

double qkv_row_total(const double *row, int64_t count)
{
    double total = 0;
    for (int64_t i = 0; i < count; i++) total += row[i];
    return total;
}

double qkv_row_entropy(const double *row, int64_t count, double total)
{
    double entropy = 0;
    for (int64_t i = 0; i < count; i++) {
        double share = row[i] / total;
        if (share > 0) entropy -= share * qkv_scalar_log(share);
    }
    return entropy;
}

bool qkv_map_normalize(struct qkv_attention_map *map, struct qkv_arena *arena)
{
    double *weights = qkv_arena_allocate(arena, (size_t)(map->rows * map->columns) * sizeof *weights);
    for (int64_t r = 0; weights && r < map->rows; r++) {
        const double *row = map->weights + r * map->columns;
        double sum = qkv_row_total(row, map->columns);
        for (int64_t c = 0; c < map->columns; c++) weights[r * map->columns + c] = sum > 0 ? row[c] / sum : 0;
    }
    map->weights = weights;
    return weights;
}

enum qkv_status qkv_attention_normalize(const struct qkv_attention_report *report, struct qkv_arena *arena,
                                        struct qkv_attention_report *normalized, struct qkv_error *error)
{
    if (qkv_report_check(report, error)) return QKV_INVALID;
    struct qkv_attention_map *maps = qkv_arena_allocate(arena, (size_t)report->map_count * sizeof *maps);
    bool complete = maps;
    for (int64_t i = 0; complete && i < report->map_count; i++) {
        maps[i] = report->maps[i];
        complete = qkv_map_normalize(&maps[i], arena);
    }
    if (!complete) return qkv_error_set(error, "out of memory for attention maps");
    *normalized = *report;
    normalized->maps = maps;
    return QKV_OK;
}
