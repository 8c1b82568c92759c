/* Private to the picture formats: where everything of a figure stands.
 *
 *     title, in lines
 *     model; for a single map also its name
 *               layer 1, head 1    layer 1, head 2
 *     q   los   [panel]            [panel]            [bar] weight
 *     u   ...
 *     e         layer 2, head 1    layer 2, head 2
 *     r   ...
 *     y         column labels      column labels
 *                            key
 *
 * Panels stand in lines. A line holds the heads of one layer (wrapped after four), or, where there is one
 * head a layer, the layers. Panels of a line share their row labels, lines of one kind share their column
 * labels, and all share one colour bar. */
#ifndef QKV_LAYOUT_H
#define QKV_LAYOUT_H

#include "draw/figure.h"

#define LAYOUT_MARGIN      16.
#define LAYOUT_GAP         20. /* between panels */
#define LAYOUT_LABEL_GAP   6.  /* between labels and what they label */
#define LAYOUT_AXIS        20. /* room for the name of an axis */
#define LAYOUT_TITLE_SIZE  14.
#define LAYOUT_TITLE_PITCH 20. /* from one line of the title to the next */
#define LAYOUT_SMALL_SIZE  11.
#define LAYOUT_BAR_WIDTH   16.

/* One axis of the maps of a kind. */
struct axis {
    const char *name;
    const char **labels;
    int64_t count;
    double width; /* of the longest label */
};

/* What the panels of a kind share. */
struct kind_layout {
    bool shown;
    struct axis rows, columns;
    double angle;  /* of the column labels: 0, -45 or -90 */
    double header; /* height of the column labels */
};

/* Panels side by side: maps first .. last - 1, all of one kind. */
struct line {
    int64_t first, last;
    double top;      /* of the cells */
    bool ends_block; /* the next line, if any, is of another kind */
};

struct layout {
    struct kind_layout kinds[QKV_ATTENTION_KINDS];
    struct line *lines;
    int64_t line_count;
    const char **title;
    int64_t title_count;
    const char *subtitle; /* NULL: none */
    bool single;          /* one map: its name is in the subtitle, not above the panel */
    bool mixed;           /* maps of several kinds: panels name theirs */
    double cell, font;    /* side of a cell, size of labels */
    double pitch;         /* from one panel of a line to the next */
    double left;          /* of the first panel of each line */
    double label_width;   /* of the widest row label of any kind */
    double bar_left, bar_height;
    double maximum, tick; /* of the colour bar */
    double width, height;
};

/* Computes the layout, in the job's arena. False when there is no memory. */
bool qkv_layout_compute(struct layout *layout, const struct maps_job *job);

#endif
