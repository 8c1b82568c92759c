/* The table of colormaps, and colours between its anchors. */
#include "qkv/colormap.h"

#include <math.h>
#include <string.h>

#define COLORMAP(name, ...) static const uint32_t anchors_##name[] = {__VA_ARGS__};
#include "draw/colormaps.def"
#undef COLORMAP

#define COLORMAP(name, ...) {#name, sizeof anchors_##name / sizeof *anchors_##name, anchors_##name},
static const struct colormap {
    const char *name;
    int count;
    const uint32_t *anchors; /* 0xRRGGBB */
} colormaps[] = {
#include "draw/colormaps.def"
};
#undef COLORMAP

enum { COUNT = sizeof colormaps / sizeof *colormaps };

const char *qkv_colormap_name(int64_t index)
{
    return index >= 0 && index < COUNT ? colormaps[index].name : NULL;
}

/* The colour `fraction` of the way from one colour to another. */
static uint32_t mix(uint32_t from, uint32_t to, double fraction)
{
    uint32_t color = 0;
    for (int shift = 0; shift <= 16; shift += 8) {
        double a = (from >> shift) & 0xFF, b = (to >> shift) & 0xFF;
        color |= (uint32_t)lround(a + (b - a) * fraction) << shift;
    }
    return color;
}

bool qkv_colormap_color(const char *name, double value, uint32_t *color)
{
    const struct colormap *map = NULL;
    for (int i = 0; i < COUNT && !map; i++)
        if (!name || !strcmp(colormaps[i].name, name)) map = &colormaps[i];
    if (!map) return false;
    int last = map->count - 1;
    double position = value > 0 ? fmin(value, 1) * last : 0; /* NaN gets the first colour */
    int below = position < last ? (int)position : last - 1;
    *color = mix(map->anchors[below], map->anchors[below + 1], position - below);
    return true;
}
