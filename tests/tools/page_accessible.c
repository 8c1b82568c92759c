/* The page at the width of a phone and of a laptop, light and dark, and with the keyboard only: axe-core finds no violation of
 * WCAG 2.2 AA. QKV_AXE names its axe.min.js; tools/nightly.sh gets it from npm. */
#include "browser.h"

/* Everything that the page can show at once: the best translations, a silent head and a silent word, the steps, the table
 * of heads. */
static void opened(void)
{
    enter(tiny_task("accessible"));
    browser_open_run("-s training.snapshots=3", "--lesson --sentence 'a b c' --pairs dev.tsv",
                     "s=a+b+c&beam=3&silent=encoder-1-1&silent-words=2&steps=1");
    wait_until("state.walk && isSettled()");
    run_script("element('train').open = element('rests').open = true");
    wait_until("training.view && state.rests?.falls");
    run_script("askRest(0, 'c b a')");
    wait_until("isSettled() && state.rests.patch?.tables");
}

static const int widths[] = {390, 1024, 1366, 1920};

/* Nothing is wider than the window, or cut off in it, and matrices grow with its text. */
PageTest(page_accessible, fits_the_window)
{
    opened();
    run_script("all('.heat th').forEach(name => { name.textContent = 'zeppelinszeppelins'; })");
    for (int i = 0; i < 4; i++) {
        resize(widths[i]);
        cr_expect_leq((int)number_of("document.documentElement.scrollWidth"), widths[i]);
        /* Words at the edge of matrices stay apart. */
        wait_until("shownScale === parseFloat(getComputedStyle(document.documentElement).fontSize) / 16");
        EXPECT_TRUE("(name => parseFloat(getComputedStyle(name).fontSize) <= "
                    "name.offsetHeight)(first('.step-rows span'))");
        /* All numbers of a sum are in its panel, also those as long as any. */
        for (int k = 0; k < 2; k++) {
            const char *step = k ? "weights" : "queries";
            run_script("change({ number: { name: '%s', row: 1, column: 0 } })", step);
            run_script("change({ terms: { ...state.terms, terms: state.terms.terms.map(([name], i) => "
                       "['zeppelinszeppelins', -11.4778 - i / 8, isSoftmax({ name: state.terms.of.name }) ? "
                       "1 : -1.2345e-7, -8.9312e-6]) } })");
            double excess = number_of(
                "(({ scrollWidth, clientWidth }) => scrollWidth - clientWidth)(first('.term-list'))");
            cr_expect_leq(excess, 0, "%s at %d pixels: %g more", step, widths[i], excess);
        }
        if (widths[i] < 1000) continue;
        /* Words of keys stand upright above cells that may be narrower than a line of text: at once, before the page sees
         * that the window has another width. Words of one letter would not stand upright. */
        double excess =
            number_of("(() => { all('#map th.column').forEach(cell => { cell.className = 'column'; "
                      "cell.firstChild.textContent = 'word'; }); const size = SMALLEST_CELL * "
                      "parseFloat(getComputedStyle(document.documentElement).fontSize) / 16; "
                      "element('maps').style.setProperty('--cell', `${size}px`); return "
                      "cells[0][1].getBoundingClientRect().width - size; })()");
        cr_expect_leq(excess, 1.0, "%d pixels: %g more", widths[i], excess);
    }
}

/* Where an element of the page is in its window: "top,bottom" and so on. */
static double edge(const char *id, const char *name)
{
    return number_of("element('%s').getBoundingClientRect().%s", id, name);
}

/* On a laptop the sentence, its translation, the map and the slider are seen at once; a presentation has a larger map; two maps
 * are alike; lines join words also where these fill several rows. */
PageTest(page_accessible, first_view)
{
    enter(tiny_task("first"));
    browser_open_run("-s training.snapshots=3", "--sentence 'a b c' --pairs dev.tsv",
                     "s=a+b+c+a+b+c&t=A+B+C+A+B+C");
    resize_to(1366, 768);
    run_script("scrollTo(0, 0)");
    static const char *const seen[] = {"source", "target-words", "map", "learning", "moment"};
    for (size_t i = 0; i < sizeof seen / sizeof *seen; i++)
        cr_expect_leq(edge(seen[i], "bottom"), 768, "%s", seen[i]);
    double side = number_of("cells[0][0].offsetWidth");
    click("present");
    wait_until("cells[0][0].offsetWidth !== %g", side);
    cr_expect_gt(number_of("cells[0][0].offsetWidth"), side);
    cr_expect_leq(edge("map", "bottom"), 768);
    EXPECT_TRUE("first('#scale').checkVisibility()");
    click("present");
    click("beside");
    EXPECT_VALUE("new Set(['map', 'other'].map(id => JSON.stringify(all(`#${id} :is(th, td)`).map(cell => "
                 "[cell.textContent, cell.offsetWidth, cell.getBoundingClientRect().top])))).size",
                 "1");
    resize(390);
    run_script("goToSentence('a b c a b c a')");
    wait_until("isSettled() && points && points.source.some(({ top }) => top > points.source[0].bottom)");
    EXPECT_TRUE("lines.length > 6 && lines.every(({ line }) => line.checkVisibility())");
    EXPECT_TRUE("element('title').getClientRects().length === 1 && element('title').offsetHeight < 90");
}

PageTest(page_accessible, passes_axe)
{
    const char *path = getenv("QKV_AXE");
    size_t size;
    char *axe = path ? read_file(path, &size) : NULL;
    if (!axe) cr_skip_test("QKV_AXE does not name axe.min.js of axe-core");
    opened();
    run_script("(() => { %s\n; })()", axe);
    for (int i = 0; i < 12; i++) {
        /* At last the lesson beside an open row of softmax, and the presentation. */
        if (i == 8) run_script("goToStep(4)");
        if (i == 10) run_script("goToStep(0), change({ isPresenting: true })");
        resize(widths[i / 2 % 4]);
        run_script("setTheme(%s)", i % 2 ? "true" : "false");
        char *violations = value_of("axe.run({ runOnly: ['wcag2a', 'wcag2aa', 'wcag21a', 'wcag21aa', "
                                    "'wcag22aa', 'best-practice'] }).then(({ violations }) => "
                                    "violations.map(({ id, nodes }) => id + ': ' + nodes[0].html).join())");
        cr_expect_str_empty(violations, "%d pixels, %s: %s", widths[i / 2 % 4], i % 2 ? "dark" : "light",
                            violations);
    }
}

/* ---- with the keyboard only: the order of Tab, and everything that a pointer can do ---- */

#define KEYS "--sentence 'a b' --pairs dev.tsv"

static void open_keys(const char *fragment)
{
    enter(tiny_task("keys"));
    browser_open_run("-s training.snapshots=3", KEYS, fragment);
    run_script("element('train').open = true"); /* which starts its worker */
    wait_until("training.view");
    run_script("scrollTo(0, 0)");
}

/* Presses Tab until the element has the focus. */
static void tab_to(const char *name)
{
    for (int i = 0; i < 60; i++) {
        press("Tab");
        if (!strcmp(value_of("focused()"), name)) return;
    }
    cr_assert_fail("Tab does not come to %s", name);
}

static void press_at(const char *name, const char *keys)
{
    tab_to(name);
    press(keys);
}

/* Sentence, words, time, map, next word, heads, steps, training; a group is one stop. The page's address is the start. */
PageTest(page_accessible, keys_tab_goes_through_the_page_in_order)
{
    open_keys("s=a+b&head=cross-1-1");
    const char *stops = "";
    for (int i = 0; i < 48; i++) {
        press("Tab");
        EXPECT_TRUE("document.activeElement.matches(':focus-visible')");
        stops = format("%s%s%s", stops, i ? ", " : "", value_of("focused()"));
    }
    cr_expect_str_eq(
        stops,
        "present, theme, source, beam, use-own, examples, summary of lexicon, summary of sentence, "
        "source-word-0, target-word-0, play, learning, hold, beside, summary of learning-strip, summary of "
        "large-view, cell-0-0, colors, save-svg, save-png, copy-link, summary of next, temperature, summary "
        "of heads, order, silence-all-cross, head-cross-1-1, silence-all-decoder, silence-all-encoder, "
        "summary of effects, button of effects-rows, button of effects-rows, button of effects-rows, button "
        "of effects-rows, button of effects-rows, button of effects-rows, summary of rests, summary of "
        "whole, part-encoder-embeddings, summary of steps, summary of train, train-task, train-seed, "
        "train-rate, train-go, train-again, train-pairs, train-sentence");
}

PageTest(page_accessible, keys_type_search_and_light_words)
{
    open_keys("s=a+b&head=cross-1-1");
    press_at("source", "End");
    type_text(" c");
    wait_until("isSettled() && state.view.source_tokens.length === 4");
    press_at("beam", "ArrowDown");
    wait_until("isSettled() && state.beam === 3");
    cr_expect(shows(value_of("element('heads-note').textContent"),
                    "× or the key S silences a head, also a word of the sentence."));
    EXPECT_VALUE("[...new Set(all('[aria-keyshortcuts=S]').map(({ dataset: { test } }) => "
                 "test.replace(/-.*/, '')))].sort().join()",
                 "head,source");
    press_at("source-word-0", "ArrowRight ArrowRight");
    EXPECT_FOCUS("source-word-2");
    EXPECT_VALUE("JSON.stringify(state.hover)", "{\"side\":\"source\",\"index\":2}");
    press("Home s");
    wait_until("isSettled() && state.silentWords === '1'");
    press("s");
    wait_until("isSettled() && !state.silentWords");
    press_at("target-word-0", "Enter");
    EXPECT_VALUE("JSON.stringify(state.held)", "{\"side\":\"target\",\"index\":0}");
    press("Escape");
    EXPECT_TRUE("state.held === null && state.hover === null");
    tab_to("translation-0");
    press_at("translation-1", "Enter");
    wait_until("isSettled() && state.choice === 1");
    EXPECT_FOCUS("translation-1"); /* the list is made anew */
    /* A button that goes away leaves the focus with what it was for. */
    browser_open_run("", KEYS, "s=a+b&head=cross-1-1&silent=cross-1-2&silent-words=1");
    press_at("words-speak", "Enter");
    wait_until("isSettled() && !state.silentWords");
    EXPECT_FOCUS("source-word-0");
    press_at("speak", "Enter");
    wait_until("isSettled() && !state.silent");
    EXPECT_FOCUS("head-cross-1-1");
}

PageTest(page_accessible, keys_play_choose_heads_walk_and_train)
{
    open_keys("s=a+b&head=cross-1-1");
    press_at("learning", "ArrowLeft");
    wait_until("isSettled() && momentNumber() === learning.moments.length - 2");
    press("Space");
    wait_until("playing !== null");
    press("Space");
    EXPECT_VALUE("playing", "null");
    press("End");
    wait_until("isSettled() && state.update === null");
    press_at("head-cross-1-1", "ArrowRight");
    EXPECT_FOCUS("head-cross-1-2");
    press("Enter");
    EXPECT_VALUE("state.head", "cross-1-2");
    press("s");
    wait_until("isSettled() && state.silent === 'cross-1-2'");
    press("s");
    wait_until("isSettled() && !state.silent");
    press_at("cell-0-0", "ArrowDown ArrowRight");
    EXPECT_FOCUS("cell-1-1");
    EXPECT_VALUE("JSON.stringify(state.cell)", "{\"row\":1,\"column\":1}");
    EXPECT_TEXT("caption", value_of("sentenceOfCell(selectedHead(), { row: 1, column: 1 })"));
    press("Space");
    wait_until("playing !== null");
    press("Space Escape");
    EXPECT_VALUE("state.cell", "null");
    press_at("colors", "ArrowDown");
    wait_until("state.colors === 'viridis'");
    run_script("saved = null, saveFile = (blob, name) => { saved = name; }");
    press_at("save-svg", "Enter");
    wait_until("saved");
    tab_to("theme");
    char *theme = value_of("document.documentElement.dataset.theme");
    press("Enter");
    cr_expect_str_neq(value_of("document.documentElement.dataset.theme"), theme);
    press_at("summary of steps", "Enter");
    wait_until("isSettled() && state.walk"); /* a section tells that it is open a moment later */
    press_at("cells-queries", "ArrowRight ArrowDown");
    cr_expect(shows(text_of("step-number"), "column 2"));
    press("Enter");
    wait_until("isSettled() && state.terms && !element('terms').hidden");
    EXPECT_FOCUS("cells-queries");
    press_at("train-seed", "ArrowUp");
    EXPECT_VALUE("element('train-seed').value", "2");
    press_at("train-go", "Enter");
    wait_until("training.losses.length > 2");
    press("Enter");
    wait_until("element('train-go').textContent !== 'stop'");
}
