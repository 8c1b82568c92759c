/* The large map of the page: its colours, which are those of the engine's colormaps, in light and dark; words in place of
 * tokens, which are those of `qkv attention --words`; and saving it as a picture, or as a link to the view. */
#include "browser.h"

#include "draw/text.h"

TestSuite(page_map, .init = enter_tiny_task);

/* A word that would end a script or run one if a picture took it for markup. */
#define HOSTILE "</script><img/onerror=alert(1)/src=x>"

#define HOSTILE_IN_ADDRESS "%3C/script%3E%3Cimg/onerror%3Dalert(1)/src%3Dx%3E"

static void opened(const char *fragment)
{
    browser_open_run("", "--sentence 'a b'", fragment);
}

/* ---- colours ---- */

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
    return number_of("(() => { const linear = part => part / 255 <= 0.04045 ? part / 255 / 12.92 : ((part / "
                     "255 + 0.055) / 1.055) ** 2.4, light = pixel => 0.2126 * linear(pixel & 255) + 0.7152 * "
                     "linear(pixel >> 8 & 255) + 0.0722 * linear(pixel >> 16 & 255); return "
                     "Math.min(...[...palettePixels, ...makePixels()].map(pixel => inkOn(pixel) === '#000' ? "
                     "(light(pixel) + 0.05) / 0.05 : 1.05 / (light(pixel) + 0.05))); })()");
}

/* The greatest weight is the darkest in the light and the brightest in the dark. */
PageTest(page_map, are_those_of_the_colormaps_and_kept_in_the_address)
{
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
}

/* ---- words ---- */

/* Enters a task of words of several letters, in pieces. */
static void enter_pieces(void)
{
    enter(tiny_task("pieces"));
    run_ok("sed -i 's/a/one/g; s/b/two/g; s/c/three/g; s/A/uno/g; s/B/dos/g; s/C/tres/g' train.tsv dev.tsv "
           "&& sed -i 's/max_length: 10/max_length: 40, level: bpe, num_merges: 3/' c.yaml");
}

#define PIECES "--sentence 'one two three' --numbers float32"

static void open_pieces(const char *fragment)
{
    enter_pieces();
    browser_open_run("", PIECES, fragment);
}

/* Expects the maps of the page to be those that a command prints, and their rows and columns to have its names. */
static void expect_maps(const char *options)
{
    expect_attention(2e-5, format("'one two three' %s", options));
    static const char *const axes[][3] = {{"cross-1-1", "columnWords", "source"},
                                          {"cross-1-1", "rowWords", "target_output"},
                                          {"encoder-1-1", "rowWords", "source"},
                                          {"decoder-1-1", "columnWords", "target_input"}};
    for (int i = 0; i < 4; i++)
        EXPECT_VALUE(
            format("state.view.heads.find(({ name }) => name === '%s').%s.join(' ')", axes[i][0], axes[i][1]),
            value_of("wanted.%s.join(' ')", axes[i][2]));
}

PageTest(page_map, words_are_those_of_attention)
{
    open_pieces("");
    cr_expect(shows(value_of("state.view.source_tokens.join(' ')"), "@@ "));
    cr_expect(shows(value_of("state.view.target_outputs.join(' ')"), "@@ "));
    expect_maps("");
    const char *const end_of_line = "String(points.source[0].x)", *token_end = value_of("%s", end_of_line);
    click("words");
    expect_maps("--words");
    cr_expect_str_neq(value_of("%s", end_of_line), token_end, "lines end in the middle of words");
    /* Every row still sums to 1, and the large map, its picture and its sentences are those of words. */
    EXPECT_TRUE("state.view.heads.every(({ weights, columns }) => weights.every((_, i) => i % columns || "
                "Math.abs(weights.slice(i, i + columns).reduce((sum, weight) => sum + Math.max(0, weight), "
                "0) - 1) < 1e-5))");
    click("head-decoder-1-1");
    EXPECT_VALUE("all('#map tbody th').map(textOf).join(' ')", value_of("wanted.target_input.join(' ')"));
    EXPECT_VALUE("new DOMParser().parseFromString(svgOfHead(selectedHead()).svg, "
                 "'image/svg+xml').querySelectorAll('rect title').length",
                 value_of("selectedHead().rows ** 2"));
    /* The sentence pair still shows the tokens, which the model chooses. */
    cr_expect(shows(text_of("source-word-0"), "@@"));
    click("words");
    expect_maps("");
}

/* A word lights up with all its pieces, and its row or column in the maps. */
PageTest(page_map, words_light_up_with_their_pieces)
{
    open_pieces("words=1&head=cross-1-1");
    const char *const lit =
        "all('.word.lit').map(word => word.dataset.test).filter(name => name.startsWith('source')).join(' ')";
    point_at("source-word-1");
    wait_until("state.hover?.index === 1");
    const char *first = value_of("%s", lit);
    cr_expect(begins(first, "source-word-0 source-word-1"));
    EXPECT_VALUE("first('#map thead th.lit').textContent", "one");
    point_at("cell-0-1");
    wait_until("state.cell?.column === 1");
    EXPECT_VALUE(lit, value_of("tokensOf({ side: 'source', index: firstToken('source', 1) }).map(i => "
                               "`source-word-${i}`).join(' ')"));
    EXPECT_TEXT("caption", value_of("sentenceOfCell(selectedHead(), { row: 0, column: 1 })"));
    cr_expect(shows(text_of("caption"), "two"));
    /* In the decoder's own attention it is the row and the column of the steps that read the word. */
    click("head-decoder-1-1");
    point_at("target-word-1");
    wait_until("state.hover?.side === 'target'");
    EXPECT_VALUE("first('#map tbody th.lit').textContent", "uno");
    EXPECT_VALUE("first('#map thead th.lit').textContent", "uno");
    point_at("cell-1-0");
    wait_until("state.cell?.row === 1");
    EXPECT_VALUE("JSON.stringify(state.hover)", "{\"side\":\"target\",\"index\":0}");
}

PageTest(page_map, words_are_kept_in_the_address)
{
    open_pieces("words=1");
    EXPECT_TRUE("element('words').checked");
    expect_maps("--words");
    click("words");
    cr_expect(lacks(value_of("location.hash"), "words"));
    click("words");
    cr_expect(shows(value_of("location.hash"), "words=1"));
    click("words");
    run_script("history.back()");
    wait_until("state.words && element('words').checked");
    expect_maps("--words");
    /* Silent pieces of a word leave the others their weights; of words that are all silent, the cells are masked. */
    browser_open_run("", PIECES, "words=1&head=cross-1-1&silent-words=1");
    const char *const is_masked = "[isHidden(selectedHead().weights[0]), first('#map thead "
                                  "th').classList.contains('silent-word')].join()";
    EXPECT_VALUE(is_masked, "false,false");
    run_script("setSilent('silentWords', tokensOf({ side: 'source', index: 0 }).map(index => index + 1))");
    EXPECT_VALUE(is_masked, "true,true");
    /* Where every token is a word, there is nothing to merge. */
    enter(tiny_task("whole"));
    browser_open_run("", "--sentence 'a b'", "s=a+b");
    EXPECT_TRUE("element('words-row').hidden");
}

/* ---- saving ---- */

/* What the page would hand to the browser stays in `saved`, and copied text in `copied`. */
static const char CATCH[] = "saved = null, copied = null, saveFile = (blob, name) => { saved = { blob, name "
                            "}; }, Object.defineProperty(navigator, 'clipboard', { value: { writeText: async "
                            "text => { copied = text; } } }), 'caught'";

PageTest(page_map, saves_the_map_as_a_picture)
{
    opened("s=" HOSTILE_IN_ADDRESS "+a+b");
    EXPECT_VALUE(CATCH, "caught");
    click("save-svg");
    wait_until("saved");
    EXPECT_VALUE("saved.name", "tiny-cross-1-2.svg");
    run_script("svg = null, saved.blob.text().then(text => { svg = new DOMParser().parseFromString(text, "
               "'image/svg+xml'); }), 'read'");
    wait_until("svg");
    EXPECT_VALUE("svg.documentElement.localName", "svg"); /* it is well-formed */
    EXPECT_VALUE("[...svg.querySelectorAll('text')].map(textOf).slice(0, 2).join(' | ').slice(0, 50)",
                 "cross attention, layer 1, head 2 | </script><img/o");
    EXPECT_VALUE("svg.querySelectorAll('script, img').length", "0");
    /* Each cell has the colour and the sentence of the page's. */
    EXPECT_VALUE("JSON.stringify([...svg.querySelectorAll('g rect')].map(rect => "
                 "rect.getAttribute('fill').replaceAll(',', ', ')) ) === JSON.stringify(all('#map "
                 "td[data-test]').map(cell => cell.style.backgroundColor)) ? 'same' : 'other'",
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
    /* A map of 300 tokens a side has a smaller scale; a browser that makes no picture of a map is not silent about it. */
    run_script(
        "picture = null, large = { ...selectedHead(), rows: 300, columns: 300, rowWords: "
        "Array(300).fill('a'), columnWords: Array(300).fill('b'), weights: new Float32Array(90000) }, size = "
        "svgOfHead(large), pngOf(size).then(createImageBitmap).then(image => { picture = image; })");
    wait_until("picture");
    EXPECT_TRUE("picture.width < 2 * size.width");
    EXPECT_TRUE("picture.width > 0.5 * size.width");
    EXPECT_VALUE("(picture.width / picture.height / size.width * size.height).toFixed(2)", "1.00");
    run_script("HTMLCanvasElement.prototype.toBlob = done => done(null)");
    run_script("saved = null");
    click("save-png");
    wait_until("element('saved').textContent");
    cr_expect(shows(text_of("saved"), "save it as SVG"));
    EXPECT_VALUE("saved", "null");
}

PageTest(page_map, copies_a_link_that_opens_the_same_view)
{
    opened("");
    run_script("%s", CATCH);
    click("head-encoder-1-1");
    click("copy-link");
    wait_until("copied");
    EXPECT_TEXT("saved", "copied");
    const char *link = value_of("copied"), *fragment = strchr(link, '#');
    cr_assert_not_null(fragment, "%s", link);
    cr_expect(begins(fragment, "#s=a+b&head=encoder-1-1"));
    char *title = text_of("map-title");
    opened(fragment + 1);
    EXPECT_VALUE("state.source", "a b");
    EXPECT_TEXT("map-title", title);
}
