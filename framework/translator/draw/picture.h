/* Private: draws pictures, and writes them as SVG, PNG, PDF and animated PNG. Units are 1/96 inch; the origin is the upper left
 * corner. */
#pragma once

#include "draw/text.h"

/* The part of a text that is placed at its position. */
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
    double width;   /* of the line; 0: close and fill the path */
    double dash;    /* length of dashes and of gaps; 0: solid */
    double opacity; /* of a filled path, below 1; 0: opaque */
};

/* Square cells of a grid in one colour: `length` cells in a row, from column `column`. */
struct cell_run {
    int64_t row, column, length;
};

/* What draws on a picture, with one implementation for each format (svg.c, png.c). */
struct canvas {
    /* Sets the size of the picture; called once, before anything is drawn. False if the format has no
     * pictures of this size. */
    bool (*begin)(struct canvas *canvas, double width, double height);
    /* Fills a rectangle. `tooltip` (may be NULL) is text to show under the pointer, if the format can. */
    void (*rectangle)(struct canvas *canvas, double x, double y, double width, double height, uint32_t color,
                      const char *tooltip);
    /* Fills runs of cells of the grid whose first cell is at left and top, in few bytes and without tooltips. */
    void (*runs)(struct canvas *canvas, double left, double top, double cell, const struct cell_run *runs,
                 int64_t count, uint32_t color);
    /* Draws straight lines through `count` points, given as x, y, x, y, ... */
    void (*path)(struct canvas *canvas, const double *points, int64_t count, const struct path_style *style);
    /* Draws one line of text, vertically centred at y. */
    void (*text)(struct canvas *canvas, double x, double y, const char *text, const struct text_style *style);
};

/* Draws `picture`, whose type depends on the function. False if memory runs out or canvas->begin
 * failed. */
typedef bool draw_function(const void *picture, struct canvas *canvas);

/* Run a draw function on a canvas of the format, and append the file to `out`. If memory runs out, they set
 * out->failed. */
void qkv_svg_draw(draw_function *draw, const void *picture, struct bytes *out);

/* missing: characters without a font are added; may be NULL. `scale`: pixels per unit, at most 32. A picture with a side of
 * more than 32767 pixels is drawn at a smaller scale, down to a tenth; fails if that is not enough, and if Cairo and Pango are
 * not installed. */
enum qkv_status qkv_png_draw(draw_function *draw, const void *picture, double scale,
                             struct qkv_missing_characters *missing, struct bytes *out,
                             struct qkv_error *error);

/* The same as a PDF of one page, which has text as text. */
enum qkv_status qkv_pdf_draw(draw_function *draw, const void *picture, struct qkv_missing_characters *missing,
                             struct bytes *out, struct qkv_error *error);

struct animation_frame {
    const char *png; /* a PNG file in memory; not owned */
    size_t size;
    int milliseconds; /* how long it is shown; below 65536 */
};

/* Appends an animated PNG (PNG specification, third edition, section 4.9) of `count` frames, at least one, that plays in a
 * loop; programs that do not know APNG show its last frame. All frames must be pictures of qkv_png_draw of the same size. If
 * memory runs out, it sets out->failed. */
void qkv_animation_write(const struct animation_frame *frames, int64_t count, struct bytes *out);
