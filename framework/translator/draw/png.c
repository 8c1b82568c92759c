/* The canvas of PNG and PDF, drawn by Cairo, and animations. Pango lays out text, because Cairo's own text functions use a
 * single font without shaping: Chinese would appear as boxes, and Arabic letters would not join. Both are loaded when the first
 * PNG is drawn: programs that draw none start faster, and need neither library. A PDF has the same drawing on one page. */
#include "core/memory.h"
#include "draw/picture.h"

#include <cairo-pdf.h>
#include <dlfcn.h>
#include <errno.h>
#include <math.h>
#include <pango/pangocairo.h>
#include <pthread.h>
#include <zlib.h>

/* ---- Cairo, Pango and GObject ---- */

/* The functions that are called. */
/* clang-format off */
#define FUNCTIONS(F) \
    F(cairo_image_surface_create) F(cairo_create) F(cairo_set_source_rgb) F(cairo_set_source_rgba) \
    F(cairo_paint) F(cairo_scale) F(pango_cairo_font_map_new_for_font_type) F(pango_cairo_font_map_new) \
    F(pango_font_map_create_context) F(pango_context_set_base_dir) F(cairo_set_antialias) \
    F(cairo_rectangle) F(cairo_fill) F(cairo_line_to) F(cairo_set_line_width) F(cairo_set_dash) \
    F(cairo_stroke) F(pango_font_description_from_string) F(pango_font_description_set_absolute_size) \
    F(pango_font_description_set_weight) F(pango_layout_new) F(pango_layout_set_font_description) \
    F(pango_layout_set_auto_dir) F(pango_layout_set_single_paragraph_mode) F(pango_layout_set_text) \
    F(pango_layout_get_extents) F(pango_layout_get_baseline) F(cairo_save) F(cairo_translate) \
    F(cairo_rotate) F(pango_cairo_update_layout) F(pango_cairo_show_layout) F(cairo_restore) \
    F(g_object_unref) F(pango_font_description_free) F(cairo_surface_write_to_png_stream) F(cairo_destroy) \
    F(cairo_surface_destroy) F(pango_layout_get_line_readonly) F(cairo_pdf_surface_create_for_stream) \
    F(cairo_pdf_surface_set_metadata)
/* clang-format on */

/* A pointer to each function, under its own name: call->cairo_fill(cairo). */
static struct cairo_library {
#define POINTER(name) __typeof__(name) *name;
    FUNCTIONS(POINTER)
#undef POINTER
} library;

/* Loading PangoCairo also loads the libraries it is linked with, and dlsym finds their functions, too. They are never unloaded,
 * because GObject does not support that. */
static enum qkv_status load(struct qkv_error *error)
{
    errno = 0;
    void *handle = dlopen("libpangocairo-1.0.so.0", RTLD_NOW | RTLD_LOCAL), *function = handle;
#define LOAD(name)                                                                                           \
    if (function) function = dlsym(handle, #name);                                                           \
    memcpy(&library.name, &function, sizeof function);
    FUNCTIONS(LOAD)
#undef LOAD
    if (function) return QKV_OK;
    int code = errno; /* dlerror may change errno, and its text does not always include it */
    const char *reason = dlerror();
    if (!reason) reason = "a function is missing";
    if (code == ENOMEM) return qkv_no_memory(error);
    return qkv_error_set(
        error,
        "png and pdf need the libraries Pango and Cairo, which cannot be loaded (%s): install them (on "
        "Debian or Ubuntu: apt-get install libpangocairo-1.0-0), or choose svg",
        reason);
}

/* NULL with an error if the libraries are not installed, or memory runs out. */
static const struct cairo_library *cairo_library(struct qkv_error *error)
{
    static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
    static bool loaded;
    pthread_mutex_lock(&lock);
    loaded = loaded || load(error) == QKV_OK;
    bool found = loaded;
    pthread_mutex_unlock(&lock);
    return found ? &library : NULL;
}

/* ---- the canvas ---- */

/* The largest side of a Cairo image. */
#define LARGEST 32767.

/* The largest scale: FreeType fails for letters of more than about 1000 pixels, and Pango then prints warnings. */
#define LARGEST_SCALE 32.

#define POINTS 0.75 /* of a PDF, 1/72 inch, for one unit */

struct png {
    struct canvas canvas;
    const struct cairo_library *call;
    struct bytes *pdf;    /* what a PDF is appended to; NULL: an image is drawn */
    double scale;         /* pixels for one unit */
    double width, height; /* pixels */
    cairo_surface_t *surface;
    cairo_t *cairo;
    PangoFontMap *fonts; /* not the shared default map, which is never freed */
    PangoContext *context;
    struct qkv_missing_characters *missing; /* NULL: not wanted */
    bool failed;                            /* memory has run out */
};

static cairo_status_t append(void *out, const unsigned char *data, unsigned int size)
{
    qkv_bytes_append(out, data, size);
    return CAIRO_STATUS_SUCCESS;
}

/* Reduces the scale, down to a tenth, if the picture would be too large. */
static bool begin_png(struct canvas *canvas, double width, double height)
{
    struct png *png = (struct png *)canvas;
    const struct cairo_library *call = png->call;
    double fit = LARGEST / fmax(width, height);
    if (fit < png->scale && fit >= 0.1 * png->scale) png->scale = fit;
    png->width = floor(width * png->scale);
    png->height = floor(height * png->scale);
    if (fmax(png->width, png->height) > LARGEST) return false;
    if (png->pdf) {
        png->surface =
            call->cairo_pdf_surface_create_for_stream(append, png->pdf, width * POINTS, height * POINTS);
        /* The same maps make the same file. */
        call->cairo_pdf_surface_set_metadata(png->surface, CAIRO_PDF_METADATA_CREATE_DATE,
                                             "2000-01-01T00:00:00Z");
    } else {
        png->surface =
            call->cairo_image_surface_create(CAIRO_FORMAT_RGB24, (int)png->width, (int)png->height);
    }
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

static void add_missing(struct qkv_missing_characters *missing, uint32_t character)
{
    const int64_t most = sizeof missing->character / sizeof *missing->character;
    for (int64_t i = 0; i < missing->count; i++)
        if (missing->character[i] == character) return;
    if (missing->count < most) missing->character[missing->count++] = character;
}

/* Adds the characters of the only line of a layout that no font has: the glyph of such a one is its code, with a flag. */
static void find_missing(const struct png *png, PangoLayout *layout)
{
    const PangoLayoutLine *line = png->call->pango_layout_get_line_readonly(layout, 0);
    for (const GSList *run = line->runs; run; run = run->next) {
        const PangoGlyphString *glyphs = ((const PangoLayoutRun *)run->data)->glyphs;
        for (int i = 0; i < glyphs->num_glyphs; i++) {
            const PangoGlyph glyph = glyphs->glyphs[i].glyph;
            if (glyph & PANGO_GLYPH_UNKNOWN_FLAG && glyph != PANGO_GLYPH_INVALID_INPUT)
                add_missing(png->missing, glyph & ~PANGO_GLYPH_UNKNOWN_FLAG);
        }
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
    if (png->missing) find_missing(png, layout);
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

static enum qkv_status draw_file(struct png png, draw_function *draw, const void *picture, struct bytes *out,
                                 struct qkv_error *error)
{
    const struct cairo_library *call = png.call = cairo_library(error);
    if (!call) return QKV_INVALID;
    png.canvas = (struct canvas){begin_png, rectangle, runs, path, text};
    bool drawn = draw(picture, &png.canvas);
    if (drawn && !png.pdf &&
        call->cairo_surface_write_to_png_stream(png.surface, append, out) != CAIRO_STATUS_SUCCESS)
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

enum qkv_status qkv_png_draw(draw_function *draw, const void *picture, double scale,
                             struct qkv_missing_characters *missing, struct bytes *out,
                             struct qkv_error *error)
{
    if (scale > LARGEST_SCALE)
        return qkv_error_set(error, "the scale of a png is %g, but must be at most %g", scale, LARGEST_SCALE);
    return draw_file((struct png){.scale = scale, .missing = missing}, draw, picture, out, error);
}

enum qkv_status qkv_pdf_draw(draw_function *draw, const void *picture, struct qkv_missing_characters *missing,
                             struct bytes *out, struct qkv_error *error)
{
    return draw_file((struct png){.pdf = out, .scale = POINTS, .missing = missing}, draw, picture, out,
                     error);
}

/* ---- animations ---- */

/* Animated PNG: the chunks of still pictures in one file.
 *
 *     signature, IHDR, acTL        acTL: number of frames, number of plays (0: for ever)
 *     IDAT ...                     the default image: no frame, because no fcTL precedes it
 *     fcTL, fdAT ... for each frame; fdAT: a sequence number and the data of an IDAT
 *     IEND
 *
 * The default image is what programs without APNG show. It repeats the last frame.
 *
 * fcTL and fdAT share one sequence of numbers from 0. Numbers are big-endian; a chunk is length, type, data, CRC-32 of type
 * and data. */
enum { SIGNATURE = 8, CHUNK = 12 /* without its data */, IHDR = CHUNK + 13 }; /* bytes */

static void append_number(struct bytes *out, uint32_t value, int size)
{
    while (size--) qkv_bytes_append(out, &(char){(char)(value >> (8 * size) & 0xFF)}, 1);
}

/* Appends a chunk whose data is `head` and then `size` bytes; frees the head. */
static void append_chunk(struct bytes *out, const char *type, struct bytes *head, const char *data,
                         size_t size)
{
    uLong sum = crc32_z(0, (const Bytef *)type, 4);
    if (head->size) sum = crc32_z(sum, (const Bytef *)head->data, head->size);
    if (size) sum = crc32_z(sum, (const Bytef *)data, size);
    append_number(out, (uint32_t)(head->size + size), 4);
    qkv_bytes_append(out, type, 4);
    qkv_bytes_append(out, head->data, head->size);
    qkv_bytes_append(out, data, size);
    append_number(out, (uint32_t)sum, 4);
    out->failed = out->failed || head->failed;
    free(head->data);
    *head = (struct bytes){0};
}

/* Appends the picture of a frame. sequence: the number of its next chunk; NULL: it is the default image. */
static void append_image(struct bytes *out, const struct animation_frame *frame, uint32_t *sequence)
{
    struct bytes head = {0};
    uint32_t size;
    for (size_t at = SIGNATURE; at < frame->size; at += size + CHUNK) {
        const unsigned char *length = (const unsigned char *)frame->png + at;
        size = (uint32_t)length[0] << 24 | (uint32_t)length[1] << 16 | (uint32_t)length[2] << 8 | length[3];
        if (memcmp(frame->png + at + 4, "IDAT", 4) != 0) continue;
        if (sequence) append_number(&head, (*sequence)++, 4);
        append_chunk(out, sequence ? "fdAT" : "IDAT", &head, frame->png + at + 8, size);
    }
}

void qkv_animation_write(const struct animation_frame *frames, int64_t count, struct bytes *out)
{
    struct bytes head = {0};
    uint32_t sequence = 0;
    qkv_bytes_append(out, frames[0].png, SIGNATURE + IHDR);
    append_number(&head, (uint32_t)count, 4);
    append_number(&head, 0, 4);
    append_chunk(out, "acTL", &head, NULL, 0);
    append_image(out, &frames[count - 1], NULL);
    for (int64_t i = 0; i < count; i++) {
        append_number(&head, sequence++, 4);
        qkv_bytes_append(&head, frames[i].png + SIGNATURE + 8, 8); /* width and height */
        append_number(&head, 0, 4);                                /* x and y offset */
        append_number(&head, 0, 4);
        append_number(&head, (uint32_t)frames[i].milliseconds, 2);
        append_number(&head, 1000, 2); /* parts of a second */
        append_number(&head, 0, 2);    /* leave the frame as it is, and overwrite it */
        append_chunk(out, "fcTL", &head, NULL, 0);
        append_image(out, &frames[i], &sequence);
    }
    append_chunk(out, "IEND", &head, NULL, 0);
}
