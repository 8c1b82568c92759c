/* The SVG canvas. It does not use Cairo, which would turn text into outlines. Here text remains text: it can be
 * searched and copied, the viewer draws it in its own fonts, and rectangles have tooltips. */
#include "draw/canvas.h"
#include "draw/format_text.h"

#include <math.h>
#include <string.h>

struct svg {
    struct canvas canvas;
    struct bytes *out;
};

/* Appends a number with at most two decimals. */
static void append_number(struct bytes *out, double value)
{
    qkv_bytes_number(out, trunc(value * 100 + (value < 0 ? -0.5 : 0.5)) / 100);
}

/* Appends ` name="value"`. */
static void append_attribute(struct bytes *out, const char *name, double value)
{
    qkv_bytes_format(out, " %s=\"", name);
    append_number(out, value);
    qkv_bytes_text(out, "\"");
}

static bool begin(struct canvas *canvas, double width, double height)
{
    struct bytes *out = ((struct svg *)canvas)->out;
    qkv_bytes_text(out, "<svg xmlns=\"http://www.w3.org/2000/svg\"");
    append_attribute(out, "width", width);
    append_attribute(out, "height", height);
    qkv_bytes_format(
        out,
        " viewBox=\"0 0 %.0f %.0f\" font-family=\"DejaVu Sans, Noto Sans, Noto Sans CJK SC, sans-serif\" "
        "shape-rendering=\"crispEdges\">\n<rect width=\"100%%\" height=\"100%%\" fill=\"#ffffff\"/>\n",
        width, height);
    return true;
}

static void rectangle(struct canvas *canvas, double x, double y, double width, double height, uint32_t color,
                      const char *tooltip)
{
    struct bytes *out = ((struct svg *)canvas)->out;
    qkv_bytes_text(out, "<rect");
    append_attribute(out, "x", x);
    append_attribute(out, "y", y);
    append_attribute(out, "width", width);
    append_attribute(out, "height", height);
    qkv_bytes_format(out, " fill=\"#%06x\"", (unsigned)color);
    if (tooltip) {
        qkv_bytes_text(out, "><title>");
        qkv_text_xml(out, tooltip);
        qkv_bytes_text(out, "</title></rect>\n");
    } else {
        qkv_bytes_text(out, "/>\n");
    }
}

/* Each run is a line as thick as a cell: "m20 0h40", relative to the end of the previous run. */
static void runs(struct canvas *canvas, double left, double top, double cell, const struct cell_run *runs,
                 int64_t count, uint32_t color)
{
    struct bytes *out = ((struct svg *)canvas)->out;
    if (!count) return;
    qkv_bytes_format(out, "<path fill=\"none\" stroke=\"#%06x\"", (unsigned)color);
    append_attribute(out, "stroke-width", cell);
    qkv_bytes_text(out, " d=\"");
    double x = 0, y = 0;
    for (int64_t i = 0; i < count; i++) {
        double start = left + cell * (double)runs[i].column,
               middle = top + cell * ((double)runs[i].row + 0.5), width = cell * (double)runs[i].length;
        qkv_bytes_text(out, "m");
        append_number(out, start - x);
        qkv_bytes_text(out, " ");
        append_number(out, middle - y);
        qkv_bytes_text(out, "h");
        append_number(out, width);
        x = start + width;
        y = middle;
    }
    qkv_bytes_text(out, "\"/>\n");
}

static void text(struct canvas *canvas, double x, double y, const char *string,
                 const struct text_style *style)
{
    static const char *const anchors[] = {"start", "middle", "end"};
    struct bytes *out = ((struct svg *)canvas)->out;
    qkv_bytes_text(out, "<text");
    if (style->angle != 0) { /* rotate around the middle of the line, not around the baseline */
        qkv_bytes_text(out, " transform=\"translate(");
        qkv_bytes_number(out, x);
        qkv_bytes_text(out, " ");
        qkv_bytes_number(out, y);
        qkv_bytes_format(out, ") rotate(%.0f)\"", style->angle);
        x = y = 0;
    }
    append_attribute(out, "x", x);
    append_attribute(
        out, "y",
        y + 0.35 * style->size); /* viewers agree only on baselines: add half the height of capitals */
    append_attribute(out, "font-size", style->size);
    qkv_bytes_format(out, " fill=\"#%06x\"", (unsigned)style->color);
    if (style->anchor != ANCHOR_START) qkv_bytes_format(out, " text-anchor=\"%s\"", anchors[style->anchor]);
    if (style->bold) qkv_bytes_text(out, " font-weight=\"bold\"");
    qkv_bytes_text(out, ">");
    qkv_text_xml(out, string);
    qkv_bytes_text(out, "</text>\n");
}

static void path(struct canvas *canvas, const double *points, int64_t count, const struct path_style *style)
{
    struct bytes *out = ((struct svg *)canvas)->out;
    qkv_bytes_text(out, style->width > 0 ? "<polyline fill=\"none\"" : "<polygon");
    qkv_bytes_format(out, style->width > 0 ? " stroke=\"#%06x\"" : " fill=\"#%06x\"", (unsigned)style->color);
    if (style->width > 0) append_attribute(out, "stroke-width", style->width);
    if (style->dash > 0) append_attribute(out, "stroke-dasharray", style->dash);
    if (style->opacity > 0) append_attribute(out, "fill-opacity", style->opacity);
    qkv_bytes_text(out, " shape-rendering=\"geometricPrecision\" points=\"");
    for (int64_t i = 0; i < 2 * count; i++) {
        if (i) qkv_bytes_text(out, i % 2 ? "," : " ");
        append_number(out, points[i]);
    }
    qkv_bytes_text(out, "\"/>\n");
}

void qkv_svg_draw(draw_function *draw, const void *picture, struct bytes *out)
{
    struct svg svg = {.canvas = {begin, rectangle, runs, path, text}, .out = out};
    if (!draw(picture, &svg.canvas)) out->failed = true;
    qkv_bytes_text(out, "</svg>\n");
}
