/* Saving what qkv page shows: pictures, and a link to the view. */
#include "browser.h"
#include "support.h"

#include <criterion/criterion.h>
#include <string.h>

/* A word that would end a script or run one if a picture took it for markup. */
#define HOSTILE "</script><img/onerror=alert(1)/src=x>"

#define HOSTILE_IN_ADDRESS "%3C/script%3E%3Cimg/onerror%3Dalert(1)/src%3Dx%3E"

static struct browser *opened(const char *folder, const char *fragment)
{
    return browser_open_run(folder, "--sentence 'a b'", fragment);
}

/* ---- saving ---- */

/* What the page would hand to the browser stays in `saved`, and copied text in `copied`. */
static const char CATCH[] =
    "saved = null, copied = null, saveFile = (blob, name) => { saved = { blob, name }; }, "
    "Object.defineProperty(navigator, 'clipboard', "
    "{ value: { writeText: async text => { copied = text; } } }), 'caught'";

Test(page_save, saves_the_map_as_a_picture)
{
    const char *folder = tiny_task("picture");
    struct browser *browser = opened(folder, "s=" HOSTILE_IN_ADDRESS "+a+b");
    cr_expect_str_eq(browser_value(browser, CATCH), "caught");
    browser_click(browser, "save-svg");
    browser_wait(browser, "saved");
    cr_expect_str_eq(browser_value(browser, "saved.name"), "tiny-cross-1-2.svg");
    browser_value(browser, "svg = null, saved.blob.text().then(text => { "
                           "svg = new DOMParser().parseFromString(text, 'image/svg+xml'); }), 'read'");
    browser_wait(browser, "svg");
    cr_expect_str_eq(browser_value(browser, "svg.documentElement.localName"), "svg", "it is well-formed");
    cr_expect_str_eq(browser_value(browser, "[...svg.querySelectorAll('text')].map(t => t.textContent)"
                                            ".slice(0, 2).join(' | ').slice(0, 50)"),
                     "cross attention, layer 1, head 2 | </script><img/o");
    cr_expect_str_eq(browser_value(browser, "String(svg.querySelectorAll('script, img').length)"), "0");
    /* Each cell has the colour and the sentence of the page's. */
    cr_expect_str_eq(
        browser_value(
            browser,
            "JSON.stringify([...svg.querySelectorAll('g rect')].map(rect => rect.getAttribute('fill')"
            ".replaceAll(',', ', ')) ) === JSON.stringify([...document.querySelectorAll("
            "'#map td[data-test]')].map(cell => cell.style.backgroundColor)) ? 'same' : 'other'"),
        "same");
    cr_expect_not_null(strstr(browser_value(browser, "svg.querySelector('g rect title').textContent"),
                              " of its attention from “" HOSTILE "”"));

    /* A masked cell of the decoder's own attention is hatched. */
    browser_value(browser, "saved = null, change({ head: 'decoder-1-1' }), ''");
    browser_click(browser, "save-png");
    browser_wait(browser, "saved");
    cr_expect_str_eq(browser_value(browser, "saved.name + ' ' + saved.blob.type"),
                     "tiny-decoder-1-1.png image/png");
    browser_value(
        browser,
        "pixel = null, createImageBitmap(saved.blob).then(image => { "
        "const canvas = new OffscreenCanvas(image.width, image.height), c = canvas.getContext('2d'); "
        "c.drawImage(image, 0, 0); const { width, height } = svgOfHead(selectedHead()); "
        "pixel = { size: `${image.width / width} ${image.height / height}`, "
        "colors: new Set(c.getImageData(0, 0, image.width, image.height).data).size }; }), ''");
    browser_wait(browser, "pixel");
    cr_expect_str_eq(browser_value(browser, "pixel.size"), "2 2", "two pixels for each of the SVG");
    cr_expect_str_eq(browser_value(browser, "String(pixel.colors > 20)"), "true", "it is not blank");
    cr_expect_not_null(
        strstr(browser_value(browser, "svgOfHead(selectedHead()).svg"), "fill=\"url(#masked)\""));
    browser_close(browser);
}

/* A map of 300 tokens a side has a smaller scale; a browser that makes no picture of a map is not silent about it. */
Test(page_save, saves_a_large_map_at_a_smaller_scale)
{
    const char *folder = tiny_task("large");
    struct browser *browser = opened(folder, "");
    browser_value(browser, "picture = null, large = { ...selectedHead(), rows: 300, columns: 300, "
                           "rowWords: Array(300).fill('a'), columnWords: Array(300).fill('b'), "
                           "weights: new Float32Array(90000) }, size = svgOfHead(large), "
                           "pngOf(size).then(createImageBitmap).then(image => { picture = image; }), ''");
    browser_wait(browser, "picture");
    cr_expect_str_eq(browser_value(browser, "String(picture.width < 2 * size.width)"), "true");
    cr_expect_str_eq(browser_value(browser, "String(picture.width > 0.5 * size.width)"), "true");
    cr_expect_str_eq(
        browser_value(browser, "(picture.width / picture.height / size.width * size.height).toFixed(2)"),
        "1.00");
    browser_value(browser, "HTMLCanvasElement.prototype.toBlob = done => done(null), ''");
    browser_value(browser, CATCH);
    browser_click(browser, "save-png");
    browser_wait(browser, "element('saved').textContent");
    cr_expect_not_null(strstr(browser_text(browser, "saved"), "save it as SVG"));
    cr_expect_str_eq(browser_value(browser, "saved"), "null");
    browser_close(browser);
}

Test(page_save, copies_a_link_that_opens_the_same_view)
{
    const char *folder = tiny_task("link");
    struct browser *browser = opened(folder, "");
    browser_value(browser, CATCH);
    browser_click(browser, "head-encoder-1-1");
    browser_click(browser, "copy-link");
    browser_wait(browser, "copied");
    cr_expect_str_eq(browser_text(browser, "saved"), "copied");
    const char *link = browser_value(browser, "copied"), *fragment = strchr(link, '#');
    cr_assert_not_null(fragment, "%s", link);
    cr_expect(!strncmp(fragment, "#s=a+b&head=encoder-1-1", 23), "%s", fragment);
    char *title = browser_text(browser, "map-title");
    browser_close(browser);
    browser = opened(folder, fragment + 1);
    cr_expect_str_eq(browser_value(browser, "state.source"), "a b");
    cr_expect_str_eq(browser_text(browser, "map-title"), title);
    browser_close(browser);
}
