/* Private to report: rows of weights as distributions. */
#ifndef QKV_REPORT_MAP_ROWS_H
#define QKV_REPORT_MAP_ROWS_H

#include "qkv/arena.h"
#include "qkv/attention_map.h"

/* The sum of a row. */
double qkv_row_total(const double *row, int64_t count);

/* The entropy of a row divided by its sum `total`, which must be above 0; nats. */
double qkv_row_entropy(const double *row, int64_t count, double total);

/* Divides each row of a map by its sum, in the arena; a row of zeros stays as it is. False when memory runs out. */
bool qkv_map_normalize(struct qkv_attention_map *map, struct qkv_arena *arena);

#endif
