/* The table of colormaps, and colours between its anchors. */
#include "draw/text.h"

#include <math.h>
#include <string.h>

enum { MOST_ANCHORS = 28 };

/* The colormaps. Anchors are 0xRRGGBB, at equal distances from value 0 to value
 * 1; colours between them are mixed linearly. The first row is the default: numbers are easy to read on
 * its light colours, and large weights are the darkest. YlOrRd is ColorBrewer's (by Cynthia Brewer); viridis, plasma and
 * magma are fitted to matplotlib's (CC0, by Stefan van der Walt and Nathaniel Smith) within 2/255. */
static const struct colormap {
    const char *name;
    int count;
    uint32_t anchors[MOST_ANCHORS]; /* 0xRRGGBB */
} colormaps[] = {
    {"YlOrRd", 9, {0xFFFFCC, 0xFFEDA0, 0xFED976, 0xFEB24C, 0xFD8D3C, 0xFC4E2A, 0xE31A1C, 0xBD0026, 0x800026}},
    {"viridis", 24, {0x440154, 0x481164, 0x482172, 0x472E7D, 0x443C84, 0x3F4989, 0x39558C, 0x34608D,
                     0x2F6B8E, 0x2A768E, 0x27808E, 0x228B8D, 0x1F958B, 0x1EA088, 0x23AA83, 0x30B47B,
                     0x41BE73, 0x57C765, 0x6FCF58, 0x8AD646, 0xA7DB35, 0xC5E021, 0xE2E417, 0xFDE725}},
    {"plasma", 28, {0x0E0787, 0x260591, 0x360499, 0x47039F, 0x5502A4, 0x6500A7, 0x7301A8,
                    0x8104A7, 0x8F0CA4, 0x9C179E, 0xA82197, 0xB32C8E, 0xBD3786, 0xC7427C,
                    0xCF4C74, 0xD8576B, 0xDF6264, 0xE76D5A, 0xED7954, 0xF2854A, 0xF79144,
                    0xFB9E39, 0xFDAC34, 0xFEBA2A, 0xFDC928, 0xFAD823, 0xF5E828, 0xF0F923}},
    {"magma",
     15,
     {0x000004, 0x0C0A25, 0x231253, 0x410F76, 0x60167E, 0x7A2483, 0x992C7F, 0xB5387A, 0xD3426F, 0xEC565F,
      0xF9755B, 0xFD9968, 0xFEBA80, 0xFDDC9D, 0xFCFDBF}},
    {"gray", 2, {0x000000, 0xFFFFFF}},
};

enum { BLUE = 0x3B7DC4 }; /* of -1 */

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
    if (value < 0) {
        *color = mix(map->anchors[0], BLUE, fmin(-value, 1));
        return true;
    }
    double position = value > 0 ? fmin(value, 1) * last : 0; /* NaN gets the first colour */
    int below = position < last ? (int)position : last - 1;
    *color = mix(map->anchors[below], map->anchors[below + 1], position - below);
    return true;
}
