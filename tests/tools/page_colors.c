/* The colours of weights in the page: those of the colormaps of the engine, in light and dark. */
#include "browser.h"
#include "support.h"

#include "qkv/colormap.h"

#include <criterion/criterion.h>

static void opened(const char *fragment)
{
    browser_open_run("", "--sentence 'a b'", fragment);
}

/* Of weight `value`: the last colours of the palette do not fade into the background. */
static void expect_color(const char *colormap, bool is_reversed, double value)
{
    uint32_t color;
    cr_assert(qkv_colormap_color(colormap, is_reversed ? 1 - value : value, &color));
    char *shown = value_of("colorOf(%.17g).join()", value);
    cr_expect_str_eq(shown,
                     format("%d,%d,%d", (int)(color >> 16), (int)(color >> 8 & 255), (int)(color & 255)),
                     "%s at %g", colormap, value);
}

/* The weakest contrast (WCAG 2.2) between a colour of a step's cells and the number on it. */
static double weakest_contrast(void)
{
    return number_of(
        "(() => { const all = makePixels(), linear = part => part / 255 <= 0.04045 ? part / 255 / 12.92 : "
        "((part / 255 + 0.055) / 1.055) ** 2.4, light = pixel => 0.2126 * linear(pixel & 255) + 0.7152 * "
        "linear(pixel >> 8 & 255) + 0.0722 * linear(pixel >> 16 & 255); return Math.min(...[...all.shares, "
        "...all.signed, all.background].map(pixel => inkOn(pixel) === '#000' ? (light(pixel) + 0.05) / 0.05 "
        ": 1.05 / (light(pixel) + 0.05))); })()");
}

/* The greatest weight is the darkest in the light and the brightest in the dark. */
Test(page_colors, are_those_of_the_colormaps_and_kept_in_the_address)
{
    enter(tiny_task("colors"));
    opened("s=a+b&head=cross-1-1");
    static const char *const names[] = {"YlOrRd", "viridis"};
    for (int map = 0; map < 2; map++) {
        choose("colors", names[map]);
        for (int dark = 0; dark < 2; dark++) {
            run_script("setTheme(%s)", dark ? "true" : "false");
            /* YlOrRd grows darker, viridis brighter */
            expect_color(names[map], map == 0 ? dark : !dark, 1);
            expect_color(names[map], map == 0 ? dark : !dark, 0.6);
            cr_expect_geq(weakest_contrast(), 4.5, "%s, %s", names[map], dark ? "dark" : "light");
            EXPECT_TRUE("at('cell-0-0').style.backgroundColor.replaceAll(' ', '') === "
                        "`rgb(${colorOf(selectedHead().weights[0])})`");
            EXPECT_TRUE(
                "(copy => { copy.drawImage(first('#overview [data-test=head-cross-1-1] canvas'), 0, 0); "
                "return [...copy.getImageData(0, 0, 1, 1).data].slice(0, 3).join() === "
                "colorOf(selectedHead().weights[0]).join(); })(new OffscreenCanvas(1, 1).getContext('2d'))");
        }
    }
    cr_expect(shows(value_of("location.hash"), "colors=viridis"));
    cr_expect(shows(value_of("svgOfHead(selectedHead()).svg"),
                    value_of("`rgb(${colorOf(selectedHead().weights[0])})`")));
    run_script("history.back()");
    wait_until("state.colors === null && element('colors').value === 'YlOrRd'");
    /* The address has the colours, and may name some that do not exist. */
    opened("s=a+b&colors=viridis");
    run_script("setTheme(false)");
    expect_color("viridis", true, 1);
    EXPECT_VALUE("element('colors').value", "viridis");
    opened("s=a+b&colors=%3Cb%3Enone");
    run_script("setTheme(false)");
    expect_color("YlOrRd", false, 1);
    EXPECT_VALUE("element('colors').value", "YlOrRd");
    browser_close();
}
