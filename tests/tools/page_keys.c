/* The page with the keyboard only: the order of Tab, and everything that a pointer can do. */
#include "browser.h"
#include "support.h"

#include <criterion/criterion.h>
#include <string.h>

static void opened(const char *fragment)
{
    enter(tiny_task("keys"));
    browser_open_run("-s training.snapshots=3", "--sentence 'a b' --pairs dev.tsv", fragment);
    run_script("element('train').scrollIntoView()"); /* which starts its worker */
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

/* Sentence, words, time, heads, map, steps, training; a group is one stop. The page's address is the start. */
Test(page_keys, tab_goes_through_the_page_in_order)
{
    opened("s=a+b&head=cross-1-1");
    const char *stops = "";
    for (int i = 0; i < 30; i++) {
        press("Tab");
        EXPECT_TRUE("document.activeElement.matches(':focus-visible')");
        stops = format("%s%s%s", stops, i ? ", " : "", value_of("focused()"));
    }
    cr_expect_str_eq(
        stops, "theme, source, beam, use-own, source-word-0, target-word-0, play, learning, order, "
               "head-cross-1-1, summary of effects, button of effects-rows, button of effects-rows, "
               "button of effects-rows, button of effects-rows, button of effects-rows, "
               "button of effects-rows, cell-0-0, colors, save-svg, save-png, copy-link, summary of steps, "
               "train-task, train-seed, train-rate, train-go, train-again, train-pairs, train-sentence");
    browser_close();
}

Test(page_keys, type_search_and_light_words)
{
    opened("s=a+b&head=cross-1-1");
    press_at("source", "End");
    type_text(" c");
    wait_until("isSettled() && state.view.source_tokens.length === 4");
    press_at("beam", "ArrowDown");
    wait_until("isSettled() && state.beam === 3");
    cr_expect(shows(value_of("element('heads-note').textContent"),
                    "× or the key S silences a head, also a word of the sentence."));
    EXPECT_VALUE("[...new Set([...document.querySelectorAll('[aria-keyshortcuts=S]')].map(({ dataset: { test "
                 "} }) => test.replace(/-.*/, '')))].sort().join()",
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
    browser_close();
}

Test(page_keys, play_choose_heads_and_walk_the_map)
{
    opened("s=a+b&head=cross-1-1");
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
    browser_close();
}

/* A button that goes away leaves the focus with what it was for. */
Test(page_keys, keep_the_focus_when_all_speak_again)
{
    opened("s=a+b&head=cross-1-1&silent=cross-1-2&silent-words=1");
    press_at("words-speak", "Enter");
    wait_until("isSettled() && !state.silentWords");
    EXPECT_FOCUS("source-word-0");
    press_at("speak", "Enter");
    wait_until("isSettled() && !state.silent");
    EXPECT_FOCUS("head-cross-1-1");
    browser_close();
}

Test(page_keys, open_the_steps_and_train)
{
    opened("s=a+b&head=cross-1-1");
    press_at("summary of steps", "Enter");
    wait_until("isSettled() && state.walk && element('steps').open");
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
    browser_close();
}
