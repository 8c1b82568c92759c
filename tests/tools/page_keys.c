/* The page with the keyboard only: the order of Tab, and everything that a pointer can do. */
#include "browser.h"
#include "support.h"

#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

static struct browser *opened(const char *name, const char *fragment)
{
    skip_without_browser();
    const char *folder = tiny_task(name);
    run_ok("cd '%s' && qkv train c.yaml --quiet --threads 1 -s training.snapshots=3 && "
           "qkv page run --sentence 'a b' --pairs dev.tsv",
           folder);
    struct browser *browser = browser_open_page(folder, fragment);
    browser_value(browser, "element('train').scrollIntoView(), ''"); /* which starts its worker */
    browser_wait(browser, "training.view");
    browser_value(browser, "scrollTo(0, 0), ''");
    return browser;
}

/* The name for tests, or else the id, of the element with the focus. */
static char *focused(struct browser *browser)
{
    return browser_value(browser, "(({ dataset, id, tagName, parentElement }) => dataset.test || id || "
                                  "`${tagName.toLowerCase()} of ${parentElement?.closest('[id]')?.id}`)"
                                  "(document.activeElement)");
}

/* Presses Tab until the element has the focus. */
static void tab_to(struct browser *browser, const char *name)
{
    for (int i = 0; i < 60; i++) {
        browser_press(browser, "Tab");
        if (!strcmp(focused(browser), name)) return;
    }
    cr_assert_fail("Tab does not come to %s", name);
}

static void press(struct browser *browser, const char *key, int times)
{
    for (int i = 0; i < times; i++) browser_press(browser, key);
}

/* Sentence, words, time, heads, map, steps, training; a group is one stop. The page's address is the start. */
Test(page_keys, tab_goes_through_the_page_in_order)
{
    struct browser *browser = opened("tab", "s=a+b&head=cross-1-1");
    static const char *const stops[] = {"theme",
                                        "source",
                                        "beam",
                                        "use-own",
                                        "source-word-0",
                                        "target-word-0",
                                        "play",
                                        "learning",
                                        "order",
                                        "head-cross-1-1",
                                        "summary of effects",
                                        "button of effects-rows",
                                        "button of effects-rows",
                                        "button of effects-rows",
                                        "button of effects-rows",
                                        "button of effects-rows",
                                        "button of effects-rows",
                                        "cell-0-0",
                                        "colors",
                                        "save-svg",
                                        "save-png",
                                        "copy-link",
                                        "summary of steps",
                                        "train-task",
                                        "train-seed",
                                        "train-rate",
                                        "train-go",
                                        "train-again",
                                        "train-pairs",
                                        "train-sentence"};
    for (size_t i = 0; i < sizeof stops / sizeof *stops; i++) {
        browser_press(browser, "Tab");
        cr_assert_str_eq(focused(browser), stops[i], "stop %d is %s, not %s", (int)i, focused(browser),
                         stops[i]);
        cr_expect_str_eq(browser_value(browser, "document.activeElement.matches(':focus-visible')"), "true");
    }
    browser_close(browser);
}

Test(page_keys, type_search_and_light_words)
{
    struct browser *browser = opened("keys_words", "s=a+b&head=cross-1-1");
    tab_to(browser, "source");
    press(browser, "End", 1);
    browser_type(browser, " c");
    browser_wait(browser, "isSettled() && state.view.source_tokens.length === 4");
    tab_to(browser, "beam");
    press(browser, "ArrowDown", 1);
    browser_wait(browser, "isSettled() && state.beam === 3");
    cr_expect_not_null(strstr(browser_value(browser, "element('heads-note').textContent"),
                              "× or the key S silences a head, also a word of the sentence."));
    cr_expect_str_eq(browser_value(browser,
                                   "[...new Set([...document.querySelectorAll('[aria-keyshortcuts=S]')].map("
                                   "({ dataset: { test } }) => test.replace(/-.*/, '')))].sort().join()"),
                     "head,source");
    tab_to(browser, "source-word-0");
    press(browser, "ArrowRight", 2);
    cr_expect_str_eq(focused(browser), "source-word-2");
    cr_expect_str_eq(browser_value(browser, "JSON.stringify(state.hover)"),
                     "{\"side\":\"source\",\"index\":2}");
    press(browser, "Home", 1);
    browser_press(browser, "s");
    browser_wait(browser, "isSettled() && state.silentWords === '1'");
    browser_press(browser, "s");
    browser_wait(browser, "isSettled() && !state.silentWords");
    tab_to(browser, "target-word-0");
    press(browser, "Enter", 1);
    cr_expect_str_eq(browser_value(browser, "JSON.stringify(state.held)"),
                     "{\"side\":\"target\",\"index\":0}");
    press(browser, "Escape", 1);
    cr_expect_str_eq(browser_value(browser, "state.held === null && state.hover === null"), "true");
    tab_to(browser, "translation-0");
    tab_to(browser, "translation-1");
    press(browser, "Enter", 1);
    browser_wait(browser, "isSettled() && state.choice === 1");
    cr_expect_str_eq(focused(browser), "translation-1", "the list is made anew");
    browser_close(browser);
}

Test(page_keys, play_choose_heads_and_walk_the_map)
{
    struct browser *browser = opened("keys_map", "s=a+b&head=cross-1-1");
    tab_to(browser, "learning");
    press(browser, "ArrowLeft", 1);
    browser_wait(browser, "isSettled() && momentNumber() === learning.moments.length - 2");
    press(browser, " ", 1);
    browser_wait(browser, "playing !== null");
    press(browser, " ", 1);
    cr_expect_str_eq(browser_value(browser, "playing"), "null");
    press(browser, "End", 1);
    browser_wait(browser, "isSettled() && state.update === null");
    tab_to(browser, "head-cross-1-1");
    press(browser, "ArrowRight", 1);
    cr_expect_str_eq(focused(browser), "head-cross-1-2");
    press(browser, "Enter", 1);
    cr_expect_str_eq(browser_value(browser, "state.head"), "cross-1-2");
    browser_press(browser, "s");
    browser_wait(browser, "isSettled() && state.silent === 'cross-1-2'");
    browser_press(browser, "s");
    browser_wait(browser, "isSettled() && !state.silent");
    tab_to(browser, "cell-0-0");
    press(browser, "ArrowDown", 1);
    press(browser, "ArrowRight", 1);
    cr_expect_str_eq(focused(browser), "cell-1-1");
    cr_expect_str_eq(browser_value(browser, "JSON.stringify(state.cell)"), "{\"row\":1,\"column\":1}");
    cr_expect_str_eq(browser_text(browser, "caption"),
                     browser_value(browser, "sentenceOfCell(selectedHead(), { row: 1, column: 1 })"));
    press(browser, " ", 1);
    browser_wait(browser, "playing !== null");
    press(browser, " ", 1);
    press(browser, "Escape", 1);
    cr_expect_str_eq(browser_value(browser, "state.cell"), "null");
    tab_to(browser, "colors");
    press(browser, "ArrowDown", 1);
    browser_wait(browser, "state.colors === 'viridis'");
    browser_value(browser, "saved = null, saveFile = (blob, name) => { saved = name; }, ''");
    tab_to(browser, "save-svg");
    press(browser, "Enter", 1);
    browser_wait(browser, "saved");
    tab_to(browser, "theme");
    char *theme = browser_value(browser, "document.documentElement.dataset.theme");
    press(browser, "Enter", 1);
    cr_expect_str_neq(browser_value(browser, "document.documentElement.dataset.theme"), theme);
    browser_close(browser);
}

/* A button that goes away leaves the focus with what it was for. */
Test(page_keys, keep_the_focus_when_all_speak_again)
{
    struct browser *browser = opened("keys_speak", "s=a+b&head=cross-1-1&silent=cross-1-2&silent-words=1");
    tab_to(browser, "words-speak");
    press(browser, "Enter", 1);
    browser_wait(browser, "isSettled() && !state.silentWords");
    cr_expect_str_eq(focused(browser), "source-word-0");
    tab_to(browser, "speak");
    press(browser, "Enter", 1);
    browser_wait(browser, "isSettled() && !state.silent");
    cr_expect_str_eq(focused(browser), "head-cross-1-1");
    browser_close(browser);
}

Test(page_keys, open_the_steps_and_train)
{
    struct browser *browser = opened("keys_steps", "s=a+b&head=cross-1-1");
    tab_to(browser, "summary of steps");
    press(browser, "Enter", 1);
    browser_wait(browser, "isSettled() && state.walk && element('steps').open");
    tab_to(browser, "cells-queries");
    press(browser, "ArrowRight", 1);
    press(browser, "ArrowDown", 1);
    char *number = browser_text(browser, "step-number");
    cr_expect_not_null(strstr(number, "column 2"), "%s", number);
    press(browser, "Enter", 1);
    browser_wait(browser, "isSettled() && state.terms && !element('terms').hidden");
    cr_expect_str_eq(focused(browser), "cells-queries");
    tab_to(browser, "train-seed");
    press(browser, "ArrowUp", 1);
    cr_expect_str_eq(browser_value(browser, "element('train-seed').value"), "2");
    tab_to(browser, "train-go");
    press(browser, "Enter", 1);
    browser_wait(browser, "training.losses.length > 2");
    press(browser, "Enter", 1);
    browser_wait(browser, "element('train-go').textContent !== 'stop'");
    browser_close(browser);
}
