/* Private: the positions in a figure of heat maps.
 *
 *     title, in lines
 *     subtitle
 *               title              title
 *     r   labels [panel]            [panel]            [colour bar] value name
 *     o   ...
 *     w         title              title
 *     s   labels [panel]            [panel]
 *               column labels      column labels
 *                          columns
 */
#ifndef QKV_LAYOUT_H
#define QKV_LAYOUT_H

#include "draw/heatmap.h"

#define LAYOUT_MARGIN      16.
#define LAYOUT_GAP         20. /* between panels */
#define LAYOUT_LABEL_GAP   6.  /* between a label and its row or column */
#define LAYOUT_AXIS        20. /* space for the name of an axis */
#define LAYOUT_TITLE_SIZE  14.
#define LAYOUT_TITLE_PITCH 20. /* from one line of the title to the next */
#define LAYOUT_SMALL_SIZE  11.
#define LAYOUT_BAR_WIDTH   16.

/* One axis of a group. */
struct axis {
    const char **labels; /* cut to fit */
    double width;        /* of the longest label */
};

struct group_layout {
    struct axis rows, columns;
    double angle;        /* of the column labels: 0, -45 or -90 */
    double label_height; /* of the column labels, which are below the cells */
};

/* Panels side by side: first .. end - 1, all of one group. */
struct line {
    int64_t first, end;
    double top;      /* of the cells */
    bool ends_block; /* the next line belongs to another group, or there is none */
};

struct layout {
    struct group_layout *groups;
    struct line *lines;
    int64_t line_count;
    const char **title;
    int64_t title_count;
    const char *subtitle; /* NULL: none */
    bool single;          /* the figure has one panel: larger cells, no title above the panel */
    double cell, font;    /* side of a cell, size of labels */
    double pitch;         /* from one panel of a line to the next */
    double left;          /* of the first panel of each line */
    double label_width;   /* of the widest row label of any group */
    double bar_left, bar_height;
    double width, height;
};

/* Computes the layout, in the arena of the heat map. False if memory runs out. */
bool qkv_layout_compute(struct layout *layout, const struct heatmap *heatmap);

#endif
