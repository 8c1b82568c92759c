/* The colours of weights in the page: those of the colormaps of the engine, in light and dark. */
#include "browser.h"
#include "support.h"

#include "qkv/colormap.h"

#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

static struct browser *opened(const char *folder, const char *fragment)
{
    return browser_open_run(folder, "--sentence 'a b'", fragment);
}

/* Of weight `value`: the last colours of the palette do not fade into the background. */
static void expect_color(struct browser *browser, const char *colormap, bool is_reversed, double value)
{
    uint32_t color;
    cr_assert(qkv_colormap_color(colormap, is_reversed ? 1 - value : value, &color));
    char *shown = browser_value(browser, format("colorOf(%.17g).join()", value));
    cr_expect_str_eq(shown,
                     format("%d,%d,%d", (int)(color >> 16), (int)(color >> 8 & 255), (int)(color & 255)),
                     "%s at %g", colormap, value);
}

/* The weakest contrast (WCAG 2.2) between a colour of a step's cells and the number on it. */
static double weakest_contrast(struct browser *browser)
{
    return atof(browser_value(
        browser,
        "(() => { const all = makePixels(), linear = part => part / 255 <= 0.04045 ? part / 255 / 12.92 : "
        "((part / 255 + 0.055) / 1.055) ** 2.4, "
        "light = pixel => 0.2126 * linear(pixel & 255) + 0.7152 * linear(pixel >> 8 & 255) + 0.0722 * "
        "linear(pixel >> 16 & 255); return Math.min(...[...all.shares, ...all.signed, "
        "all.background].map(pixel => "
        "inkOn(pixel) === '#000' ? (light(pixel) + 0.05) / 0.05 : 1.05 / (light(pixel) + 0.05))); })()"));
}

/* The greatest weight is the darkest in the light and the brightest in the dark. */
Test(page_colors, are_those_of_the_colormaps)
{
    const char *folder = tiny_task("colors");
    struct browser *browser = opened(folder, "s=a+b&head=cross-1-1");
    static const char *const names[] = {"YlOrRd", "viridis"};
    for (int map = 0; map < 2; map++) {
        browser_value(browser, format("element('colors').value = '%s', element('colors').dispatchEvent(new "
                                      "Event('change')), ''",
                                      names[map]));
        for (int dark = 0; dark < 2; dark++) {
            browser_value(browser, format("setTheme(%s), ''", dark ? "true" : "false"));
            /* YlOrRd grows darker, viridis brighter */
            expect_color(browser, names[map], map == 0 ? dark : !dark, 1);
            expect_color(browser, names[map], map == 0 ? dark : !dark, 0.6);
            cr_expect_geq(weakest_contrast(browser), 4.5, "%s, %s", names[map], dark ? "dark" : "light");
            cr_expect_str_eq(browser_value(browser, "document.querySelector('[data-test=cell-0-0]')"
                                                    ".style.backgroundColor.replaceAll(' ', '') === "
                                                    "`rgb(${colorOf(selectedHead().weights[0])})`"),
                             "true");
            cr_expect_str_eq(
                browser_value(browser,
                              "(copy => { copy.drawImage(element('overview').querySelector("
                              "'[data-test=head-cross-1-1] canvas'), 0, 0); "
                              "return [...copy.getImageData(0, 0, 1, 1).data].slice(0, 3).join() === "
                              "colorOf(selectedHead().weights[0]).join(); })(new "
                              "OffscreenCanvas(1, 1).getContext('2d'))"),
                "true");
        }
    }
    cr_expect_not_null(strstr(browser_value(browser, "location.hash"), "colors=viridis"));
    cr_expect_not_null(strstr(browser_value(browser, "svgOfHead(selectedHead()).svg"),
                              browser_value(browser, "`rgb(${colorOf(selectedHead().weights[0])})`")));
    browser_value(browser, "history.back(), ''");
    browser_wait(browser, "state.colors === null && element('colors').value === 'YlOrRd'");
    browser_close(browser);
}

Test(page_colors, are_kept_in_the_address)
{
    const char *folder = tiny_task("colors_of_address");
    struct browser *browser = opened(folder, "s=a+b&colors=viridis");
    browser_value(browser, "setTheme(false), ''");
    expect_color(browser, "viridis", true, 1);
    cr_expect_str_eq(browser_value(browser, "element('colors').value"), "viridis");
    browser_close(browser);
    browser = opened(folder, "s=a+b&colors=%3Cb%3Enone");
    browser_value(browser, "setTheme(false), ''");
    expect_color(browser, "YlOrRd", false, 1);
    cr_expect_str_eq(browser_value(browser, "element('colors').value"), "YlOrRd");
    browser_close(browser);
}
