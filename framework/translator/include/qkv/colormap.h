/* Colormaps: the colour of a number between 0 and 1, as in matplotlib.
 *
 * Example:
 *     uint32_t color;
 *     if (qkv_colormap_color("viridis", 0.5, &color)) printf("#%06x\n", (unsigned)color);
 */
#ifndef QKV_COLORMAP_H
#define QKV_COLORMAP_H

#include "qkv/base.h"

#include <stdbool.h>
#include <stdint.h>

/* Returns the name of the colormap at `index`, counted from 0: YlOrRd, viridis, plasma, magma,
 * gray; NULL after the last. The table is framework/translator/draw/colormap.c. */
QKV_API const char *qkv_colormap_name(int64_t index);

/* Sets `color` to the colour of `value`, as 0xRRGGBB, within 2/255 of matplotlib's colormap of that
 * name. Values below 0 get the first colour, values above 1 the last, NaN the first. `name` NULL
 * means the first, YlOrRd. Returns false, and leaves `color` as it was, if there is no such colormap. */
QKV_API bool qkv_colormap_color(const char *name, double value, uint32_t *color);

/* Which colours a terminal shows. */
enum qkv_terminal_colors {
    QKV_COLORS_NONE, /* no escape sequences */
    QKV_COLORS_256,  /* the palette of xterm-256color */
    QKV_COLORS_TRUE, /* 24 bits */
};

#endif
