/* The PNG canvas, drawn by Cairo. Pango lays out text, because Cairo's own text functions use a single font without
 * shaping: Chinese would appear as boxes, and Arabic letters would not join. */
#include "draw/cairo_library.h"
#include "draw/canvas.h"
#include "draw/format_text.h"

#include <math.h>
#include <stdlib.h>

/* The largest side of a Cairo image. */
#define LARGEST 32767.

/* The largest scale: FreeType fails for letters of more than about 1000 pixels, and Pango then prints warnings. */
#define LARGEST_SCALE 32.

struct png {
    struct canvas canvas;
    const struct cairo_library *call;
    double scale;         /* pixels for one unit */
    double width, height; /* pixels */
    cairo_surface_t *surface;
    cairo_t *cairo;
    PangoFontMap *fonts; /* not the shared default map, which is never freed */
    PangoContext *context;
    bool failed; /* memory has run out */
};

/* Reduces the scale, down to a tenth, if the picture would be too large. */
static bool begin(struct canvas *canvas, double width, double height)
{
    struct png *png = (struct png *)canvas;
    const struct cairo_library *call = png->call;
    double fit = LARGEST / fmax(width, height);
    if (fit < png->scale && fit >= 0.1 * png->scale) png->scale = fit;
    png->width = floor(width * png->scale);
    png->height = floor(height * png->scale);
    if (fmax(png->width, png->height) > LARGEST) return false;
    png->surface = call->cairo_image_surface_create(CAIRO_FORMAT_RGB24, (int)png->width, (int)png->height);
    png->cairo = call->cairo_create(png->surface);
    call->cairo_set_source_rgb(png->cairo, 1, 1, 1);
    call->cairo_paint(png->cairo);
    call->cairo_scale(png->cairo, png->scale, png->scale);
    png->fonts = call->pango_cairo_font_map_new_for_font_type(CAIRO_FONT_TYPE_FT);
    if (!png->fonts) png->fonts = call->pango_cairo_font_map_new();
    png->context = call->pango_font_map_create_context(png->fonts);
    /* Titles have the form "source → target", from left to right in every script. */
    call->pango_context_set_base_dir(png->context, PANGO_DIRECTION_LTR);
    return true;
}

/* opacity 0: opaque. */
static void set_color(const struct png *png, uint32_t color, double opacity)
{
    png->call->cairo_set_source_rgba(png->cairo, (color >> 16) / 255., (color >> 8 & 0xFF) / 255.,
                                     (color & 0xFF) / 255., opacity > 0 ? opacity : 1);
}

static void rectangle(struct canvas *canvas, double x, double y, double width, double height, uint32_t color,
                      const char *tooltip)
{
    const struct png *png = (struct png *)canvas;
    const struct cairo_library *call = png->call;
    cairo_t *cairo = png->cairo;
    (void)tooltip;
    set_color(png, color, 0);
    call->cairo_set_antialias(cairo, CAIRO_ANTIALIAS_NONE);
    call->cairo_rectangle(cairo, x, y, width, height);
    call->cairo_fill(cairo);
    call->cairo_set_antialias(cairo, CAIRO_ANTIALIAS_DEFAULT);
}

static void runs(struct canvas *canvas, double left, double top, double cell, const struct cell_run *runs,
                 int64_t count, uint32_t color)
{
    for (int64_t i = 0; i < count; i++)
        rectangle(canvas, left + cell * (double)runs[i].column, top + cell * (double)runs[i].row,
                  cell * (double)runs[i].length, cell, color, NULL);
}

static void path(struct canvas *canvas, const double *points, int64_t count, const struct path_style *style)
{
    const struct png *png = (struct png *)canvas;
    const struct cairo_library *call = png->call;
    cairo_t *cairo = png->cairo;
    set_color(png, style->color, style->opacity);
    for (int64_t i = 0; i < count; i++) call->cairo_line_to(cairo, points[2 * i], points[2 * i + 1]);
    if (style->width > 0) {
        call->cairo_set_line_width(cairo, style->width);
        call->cairo_set_dash(cairo, &style->dash, style->dash > 0, 0);
        call->cairo_stroke(cairo);
    } else {
        call->cairo_fill(cairo);
    }
}

static void text(struct canvas *canvas, double x, double y, const char *string,
                 const struct text_style *style)
{
    static const double fractions[] = {[ANCHOR_START] = 0, [ANCHOR_MIDDLE] = 0.5, [ANCHOR_END] = 1};
    struct png *png = (struct png *)canvas;
    const struct cairo_library *call = png->call;
    PangoFontDescription *font = call->pango_font_description_from_string("DejaVu Sans, Noto Sans, Sans");
    call->pango_font_description_set_absolute_size(font, style->size * PANGO_SCALE);
    if (style->bold) call->pango_font_description_set_weight(font, PANGO_WEIGHT_BOLD);
    PangoLayout *layout = call->pango_layout_new(png->context);
    call->pango_layout_set_font_description(layout, font);
    call->pango_layout_set_auto_dir(layout, FALSE);
    call->pango_layout_set_single_paragraph_mode(layout, TRUE);
    struct bytes plain = {0};
    while (qkv_text_next(&plain, &string)) {
    }
    call->pango_layout_set_text(layout, plain.size ? plain.data : "", (int)plain.size);
    png->failed = png->failed || plain.failed;
    free(plain.data);
    PangoRectangle box;
    call->pango_layout_get_extents(layout, NULL, &box);
    double width = (double)box.width / PANGO_SCALE,
           baseline = (double)call->pango_layout_get_baseline(layout) / PANGO_SCALE;

    call->cairo_save(png->cairo);
    call->cairo_translate(png->cairo, x, y);
    call->cairo_rotate(png->cairo, style->angle * G_PI / 180);
    call->cairo_translate(png->cairo, -fractions[style->anchor] * width, 0.35 * style->size - baseline);
    set_color(png, style->color, 0);
    call->pango_cairo_update_layout(png->cairo, layout);
    call->pango_cairo_show_layout(png->cairo, layout);
    call->cairo_restore(png->cairo);
    call->g_object_unref(layout);
    call->pango_font_description_free(font);
}

static cairo_status_t append(void *out, const unsigned char *data, unsigned int size)
{
    qkv_bytes_append(out, data, size);
    return CAIRO_STATUS_SUCCESS;
}

enum qkv_status qkv_png_draw(draw_function *draw, const void *picture, double scale, struct bytes *out,
                             struct qkv_error *error)
{
    if (scale > LARGEST_SCALE)
        return qkv_error_set(error, "the scale of a png is %g, but must be at most %g", scale, LARGEST_SCALE);
    const struct cairo_library *call = qkv_cairo_library(error);
    struct png png = {.canvas = {begin, rectangle, runs, path, text}, .call = call, .scale = scale};
    if (!call) return QKV_INVALID;
    bool drawn = draw(picture, &png.canvas);
    if (drawn && call->cairo_surface_write_to_png_stream(png.surface, append, out) != CAIRO_STATUS_SUCCESS)
        out->failed = true;
    if (png.cairo) {
        call->g_object_unref(png.context);
        call->g_object_unref(png.fonts);
        call->cairo_destroy(png.cairo);
        call->cairo_surface_destroy(png.surface);
    }
    if (fmax(png.width, png.height) > LARGEST)
        return qkv_error_set(
            error,
            "the picture would have %.0f x %.0f pixels, more than %.0f a side: choose fewer maps, or "
            "svg",
            png.width, png.height, LARGEST);
    if (!drawn || png.failed) out->failed = true;
    return QKV_OK;
}
