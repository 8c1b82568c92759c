/* Private to the picture formats: figures, heat maps and charts, drawn on any canvas. A canvas knows
 * rectangles, lines and text in units of 1/96 inch, from the top left corner; svg.c and png.c make one each.
 */
#ifndef QKV_FIGURE_H
#define QKV_FIGURE_H

#include "report/writer.h"

/* Where in a text its position is. */
enum anchor { ANCHOR_START, ANCHOR_MIDDLE, ANCHOR_END };

struct text_style {
    double size; /* of the font */
    enum anchor anchor;
    double angle;   /* degrees, clockwise, around the position */
    uint32_t color; /* 0xRRGGBB */
    bool bold;
};

struct path_style {
    uint32_t color; /* 0xRRGGBB */
    double width;   /* of the line; 0: closes and fills the path */
    double dash;    /* length of dashes and gaps; 0: one line */
};

struct canvas {
    /* Sets the size of the picture before anything is drawn. False when it cannot be. */
    bool (*begin)(struct canvas *canvas, double width, double height);
    /* Fills a rectangle. `tooltip` (may be NULL) is shown where the format can. */
    void (*rectangle)(struct canvas *canvas, double x, double y, double width, double height, uint32_t color,
                      const char *tooltip);
    /* Draws or fills straight lines from point to point: x and y of each. */
    void (*path)(struct canvas *canvas, const double *points, int64_t count, const struct path_style *style);
    /* Draws one line of text, its middle (by height) at y. */
    void (*text)(struct canvas *canvas, double x, double y, const char *text, const struct text_style *style);
};

/* Draws something on a canvas; false when there is no memory, or the canvas did not begin. */
typedef bool figure_function(const void *what, struct canvas *canvas);

/* Lays out and draws all maps of a `const struct maps_job *`. */
figure_function qkv_figure_draw;

/* Draw on a canvas of their format; `scale` is pixels for one unit. */
enum qkv_status qkv_svg_draw(figure_function *draw, const void *what, struct bytes *out);
enum qkv_status qkv_png_draw(figure_function *draw, const void *what, double scale, struct bytes *out,
                             struct qkv_error *error);

/* About the width of a text in a sans serif font of the given size, rather more than less. It is computed
 * from the classes of characters, not from a font, so that a layout is the same everywhere. */
double qkv_figure_text_width(const char *text, double size);

#endif
