/* The SVG canvas. It does not use Cairo, which would turn text into outlines. Here text remains text: it can be
 * searched and copied, the viewer draws it in its own fonts, and rectangles have tooltips. */
#include "draw/picture.h"

#include <math.h>
#include <stdarg.h>

struct svg {
    struct canvas canvas;
    struct bytes *out;
};

/* Appends a text in which each @ stands for a number (double), with at most two decimals, each # for a colour (uint32_t). */
static void put(struct canvas *canvas, const char *format, ...)
{
    struct bytes *out = ((struct svg *)canvas)->out;
    va_list values;
    va_start(values, format);
    for (; *format; format++) {
        if (*format == '@') {
            double value = va_arg(values, double);
            qkv_bytes_number(out, trunc(value * 100 + (value < 0 ? -0.5 : 0.5)) / 100);
        } else if (*format == '#') {
            qkv_bytes_format(out, "#%06x", (unsigned)va_arg(values, uint32_t));
        } else {
            qkv_bytes_append(out, format, 1);
        }
    }
    va_end(values);
}

static bool begin_svg(struct canvas *canvas, double width, double height)
{
    put(canvas,
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"@\" height=\"@\" viewBox=\"0 0 @ @\" "
        "font-family=\"DejaVu Sans, Noto Sans, Noto Sans CJK SC, sans-serif\" "
        "shape-rendering=\"crispEdges\">\n<rect width=\"100%\" height=\"100%\" fill=\"#\"/>\n",
        width, height, width, height, (uint32_t)0xFFFFFF);
    return true;
}

static void rectangle(struct canvas *canvas, double x, double y, double width, double height, uint32_t color,
                      const char *tooltip)
{
    put(canvas, "<rect x=\"@\" y=\"@\" width=\"@\" height=\"@\" fill=\"#\"", x, y, width, height, color);
    if (!tooltip) {
        put(canvas, "/>\n");
        return;
    }
    put(canvas, "><title>");
    qkv_text_xml(((struct svg *)canvas)->out, tooltip);
    put(canvas, "</title></rect>\n");
}

/* Each run is a line as thick as a cell: "m20 0h40", relative to the end of the previous run. */
static void runs(struct canvas *canvas, double left, double top, double cell, const struct cell_run *runs,
                 int64_t count, uint32_t color)
{
    double x = 0, y = 0;
    if (!count) return;
    put(canvas, "<path fill=\"none\" stroke=\"#\" stroke-width=\"@\" d=\"", color, cell);
    for (int64_t i = 0; i < count; i++) {
        double start = left + cell * (double)runs[i].column,
               middle = top + cell * ((double)runs[i].row + 0.5), width = cell * (double)runs[i].length;
        put(canvas, "m@ @h@", start - x, middle - y, width);
        x = start + width;
        y = middle;
    }
    put(canvas, "\"/>\n");
}

static void text(struct canvas *canvas, double x, double y, const char *string,
                 const struct text_style *style)
{
    static const char *const anchors[] = {"", " text-anchor=\"middle\"", " text-anchor=\"end\""};
    struct bytes *out = ((struct svg *)canvas)->out;
    put(canvas, "<text");
    if (style->angle != 0) { /* rotate around the middle of the line, not around the baseline */
        put(canvas, " transform=\"translate(");
        qkv_bytes_number(out, x);
        put(canvas, " ");
        qkv_bytes_number(out, y);
        put(canvas, ") rotate(@)\"", style->angle);
        x = y = 0;
    }
    /* Viewers agree only on baselines: add half the height of capitals. */
    put(canvas, " x=\"@\" y=\"@\" font-size=\"@\" fill=\"#\"", x, y + 0.35 * style->size, style->size,
        style->color);
    put(canvas, anchors[style->anchor]);
    put(canvas, style->bold ? " font-weight=\"bold\">" : ">");
    qkv_text_xml(out, string);
    put(canvas, "</text>\n");
}

static void path(struct canvas *canvas, const double *points, int64_t count, const struct path_style *style)
{
    if (style->width > 0)
        put(canvas, "<polyline fill=\"none\" stroke=\"#\" stroke-width=\"@\"", style->color, style->width);
    else
        put(canvas, "<polygon fill=\"#\"", style->color);
    if (style->dash > 0) put(canvas, " stroke-dasharray=\"@\"", style->dash);
    if (style->opacity > 0) put(canvas, " fill-opacity=\"@\"", style->opacity);
    put(canvas, " shape-rendering=\"geometricPrecision\" points=\"");
    for (int64_t i = 0; i < count; i++) put(canvas, i ? " @,@" : "@,@", points[2 * i], points[2 * i + 1]);
    put(canvas, "\"/>\n");
}

void qkv_svg_draw(draw_function *draw, const void *picture, struct bytes *out)
{
    struct svg svg = {.canvas = {begin_svg, rectangle, runs, path, text}, .out = out};
    if (!draw(picture, &svg.canvas)) out->failed = true;
    put(&svg.canvas, "</svg>\n");
}
