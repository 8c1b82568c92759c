/* Private: a figure of heat maps. Panels are arranged in lines, share the labels of their rows and columns,
 * and have one colour bar. Cells that a rule hides are hatched. In a figure of many cells, colours are rounded
 * and cells have no tooltips, because the file would otherwise have several megabytes. */
#pragma once

#include "draw/picture.h"
#include "qkv/graph.h"

struct heatmap_axis {
    const char *name;
    const char *const *labels; /* shown by qkv_display_token; long labels are cut */
    int64_t count;
};

/* Panels of one group have the same axes. */
struct heatmap_group {
    struct heatmap_axis rows, columns;
};

struct heatmap_panel {
    const char *title;    /* ignored if the panel is the only one */
    const double *values; /* [rows.count, columns.count] of its group; at least 0 */
    int group;            /* index into groups */
    int line;             /* adjacent panels with equal group and line are side by side, at most `per_line` */
    const struct qkv_attention_rule *rule; /* of struct qkv_attention_map */
};

struct heatmap {
    const char *title, *subtitle; /* NULL: none */
    const struct heatmap_group *groups;
    int group_count;
    const struct heatmap_panel *panels;
    int64_t panel_count;
    int64_t per_line;        /* at least 1 */
    const char *value_name;  /* beside the colour bar */
    const char *colormap;    /* draw/text.h */
    double maximum, tick;    /* of the colour bar: see qkv_heatmap_maximum */
    bool annotate;           /* print the value in each cell */
    struct qkv_arena *arena; /* for the layout */
};

/* Draws a `const struct heatmap *`. */
draw_function qkv_heatmap_draw;

/* Returns the value that gets the last colour: `wanted`, or, if that is 0, `largest` rounded up to a tick. Sets
 * *tick to the distance between ticks: 1, 2 or 5 times a power of ten. */
double qkv_heatmap_maximum(double wanted, double largest, double *tick);
