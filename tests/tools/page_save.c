/* Saving what qkv page shows: pictures, and a link to the view. */
#include "browser.h"
#include "support.h"

#include <criterion/criterion.h>
#include <string.h>

/* A word that would end a script or run one if a picture took it for markup. */
#define HOSTILE "</script><img/onerror=alert(1)/src=x>"

#define HOSTILE_IN_ADDRESS "%3C/script%3E%3Cimg/onerror%3Dalert(1)/src%3Dx%3E"

static void opened(const char *fragment)
{
    browser_open_run("", "--sentence 'a b'", fragment);
}

/* ---- saving ---- */

/* What the page would hand to the browser stays in `saved`, and copied text in `copied`. */
static const char CATCH[] = "saved = null, copied = null, saveFile = (blob, name) => { saved = { blob, name "
                            "}; }, Object.defineProperty(navigator, 'clipboard', { value: { writeText: async "
                            "text => { copied = text; } } }), 'caught'";

Test(page_save, saves_the_map_as_a_picture)
{
    enter(tiny_task("picture"));
    opened("s=" HOSTILE_IN_ADDRESS "+a+b");
    EXPECT_VALUE(CATCH, "caught");
    click("save-svg");
    wait_until("saved");
    EXPECT_VALUE("saved.name", "tiny-cross-1-2.svg");
    run_script("svg = null, saved.blob.text().then(text => { svg = new DOMParser().parseFromString(text, "
               "'image/svg+xml'); }), 'read'");
    wait_until("svg");
    EXPECT_VALUE("svg.documentElement.localName", "svg"); /* it is well-formed */
    EXPECT_VALUE(
        "[...svg.querySelectorAll('text')].map(t => t.textContent).slice(0, 2).join(' | ').slice(0, 50)",
        "cross attention, layer 1, head 2 | </script><img/o");
    EXPECT_VALUE("svg.querySelectorAll('script, img').length", "0");
    /* Each cell has the colour and the sentence of the page's. */
    EXPECT_VALUE("JSON.stringify([...svg.querySelectorAll('g rect')].map(rect => "
                 "rect.getAttribute('fill').replaceAll(',', ', ')) ) === "
                 "JSON.stringify([...document.querySelectorAll('#map td[data-test]')].map(cell => "
                 "cell.style.backgroundColor)) ? 'same' : 'other'",
                 "same");
    cr_expect(shows(value_of("svg.querySelector('g rect title').textContent"),
                    " of its attention from “" HOSTILE "”"));

    /* A masked cell of the decoder's own attention is hatched. */
    run_script("saved = null, change({ head: 'decoder-1-1' })");
    click("save-png");
    wait_until("saved");
    EXPECT_VALUE("saved.name + ' ' + saved.blob.type", "tiny-decoder-1-1.png image/png");
    run_script("pixel = null, createImageBitmap(saved.blob).then(image => { const canvas = new "
               "OffscreenCanvas(image.width, image.height), c = canvas.getContext('2d'); c.drawImage(image, "
               "0, 0); const { width, height } = svgOfHead(selectedHead()); pixel = { size: `${image.width / "
               "width} ${image.height / height}`, colors: new Set(c.getImageData(0, 0, image.width, "
               "image.height).data).size }; })");
    wait_until("pixel");
    EXPECT_VALUE("pixel.size", "2 2"); /* two pixels for each of the SVG */
    EXPECT_TRUE("pixel.colors > 20");  /* it is not blank */
    cr_expect(shows(value_of("svgOfHead(selectedHead()).svg"), "fill=\"url(#masked)\""));
    browser_close();
}

/* A map of 300 tokens a side has a smaller scale; a browser that makes no picture of a map is not silent about it. */
Test(page_save, saves_a_large_map_at_a_smaller_scale)
{
    enter(tiny_task("large"));
    opened("");
    run_script(
        "picture = null, large = { ...selectedHead(), rows: 300, columns: 300, rowWords: "
        "Array(300).fill('a'), columnWords: Array(300).fill('b'), weights: new Float32Array(90000) }, size = "
        "svgOfHead(large), pngOf(size).then(createImageBitmap).then(image => { picture = image; })");
    wait_until("picture");
    EXPECT_TRUE("picture.width < 2 * size.width");
    EXPECT_TRUE("picture.width > 0.5 * size.width");
    EXPECT_VALUE("(picture.width / picture.height / size.width * size.height).toFixed(2)", "1.00");
    run_script("HTMLCanvasElement.prototype.toBlob = done => done(null)");
    run_script("%s", CATCH);
    click("save-png");
    wait_until("element('saved').textContent");
    cr_expect(shows(text_of("saved"), "save it as SVG"));
    EXPECT_VALUE("saved", "null");
    browser_close();
}

Test(page_save, copies_a_link_that_opens_the_same_view)
{
    enter(tiny_task("link"));
    opened("");
    run_script("%s", CATCH);
    click("head-encoder-1-1");
    click("copy-link");
    wait_until("copied");
    EXPECT_TEXT("saved", "copied");
    const char *link = value_of("copied"), *fragment = strchr(link, '#');
    cr_assert_not_null(fragment, "%s", link);
    cr_expect(!strncmp(fragment, "#s=a+b&head=encoder-1-1", 23), "%s", fragment);
    char *title = text_of("map-title");
    opened(fragment + 1);
    EXPECT_VALUE("state.source", "a b");
    EXPECT_TEXT("map-title", title);
    browser_close();
}
