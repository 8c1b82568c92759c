#include "support.h"

#include "draw/text.h"

/* Expects a colour within 2/255 of matplotlib's. */
static void expect_color(const char *name, double value, uint32_t expected)
{
    uint32_t color;
    cr_assert(qkv_colormap_color(name, value, &color));
    for (int shift = 0; shift <= 16; shift += 8) {
        int difference = (int)(color >> shift & 0xFF) - (int)(expected >> shift & 0xFF);
        cr_assert(abs(difference) <= 2, "%s(%g) is %06x, expected %06x", name, value, color, expected);
    }
}

Test(colormap, has_the_colours_of_matplotlib)
{
    static const struct {
        const char *name;
        uint32_t first, middle, last; /* at 0, 128/255 and 1 */
    } expected[] = {{"YlOrRd", 0xFFFFCC, 0xFD8C3C, 0x800026},
                    {"viridis", 0x440154, 0x21918C, 0xFDE725},
                    {"plasma", 0x0D0887, 0xCC4778, 0xF0F921},
                    {"magma", 0x000004, 0xB73779, 0xFCFDBF},
                    {"gray", 0x000000, 0x808080, 0xFFFFFF}};
    for (int i = 0; i < 5; i++) {
        cr_assert_str_eq(qkv_colormap_name(i), expected[i].name);
        expect_color(expected[i].name, 0, expected[i].first);
        expect_color(expected[i].name, 128. / 255, expected[i].middle);
        expect_color(expected[i].name, 1, expected[i].last);
        expect_color(expected[i].name, -3, 0x3B7DC4);
        expect_color(expected[i].name, 3, expected[i].last);
    }
    cr_assert_null(qkv_colormap_name(5));
    uint32_t color;
    cr_assert_not(qkv_colormap_color("jet", 0, &color));
    expect_color(NULL, 1, 0x800026);
}
