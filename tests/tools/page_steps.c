/* The steps of qkv page, from the words to the chosen word: the numbers of `qkv explain`, and the sums behind them. */
#include "browser_steps.h"
#include "json.h"
#include "support.h"

#include <criterion/criterion.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The page computes in float32 and qkv explain in float64. */
#define TOLERANCE 2e-5

static struct browser *opened(const char *folder, const char *fragment)
{
    return browser_open_run(folder, "--sentence 'a b' --numbers float32", fragment);
}

/* The steps are those of `qkv explain`. */
static void expect_same_steps(struct browser *browser, const char *folder, const char *kind)
{
    browser_expect_steps(
        browser, run_ok("cd '%s' && qkv explain run 'a b' --kind %s --full --format json", folder, kind),
        kind, TOLERANCE);
}

Test(page_steps, are_those_of_explain)
{
    static const char *const kinds[] = {"encoder", "decoder", "cross"};
    const char *folder = tiny_task("steps");
    struct browser *browser = opened(folder, "");
    cr_expect_str_eq(browser_value(browser, "String(state.walk)"), "null",
                     "a closed section computes nothing");
    browser_value(browser, "element('steps').open = true, ''");
    for (int i = 0; i < 3; i++) {
        browser_click(browser, format("head-%s-1-2", kinds[i]));
        browser_wait(browser,
                     format("state.walk && element('steps-of').textContent.startsWith('%s') && isSettled()",
                            kinds[i]));
        expect_same_steps(browser, folder, kinds[i]);
    }
    cr_expect_not_null(strstr(browser_value(browser, "location.hash"), "steps=1"));
    cr_expect_str_eq(
        browser_value(browser, "document.querySelector('[data-test=step-chosen] .step-token').textContent"),
        browser_value(browser, "state.view.target_outputs[0] + ' ' + state.walk.at(-1).values[0]"));
    browser_close(browser);
}

/* Opens the sum behind a number of a step by the keyboard: `down` rows and `right` columns from the first. */
static void open_sum(struct browser *browser, const char *step, int down, int right)
{
    browser_value(browser, format("document.querySelector('[data-test=cells-%s]').focus(), ''", step));
    for (int i = 0; i < down; i++) browser_press(browser, "ArrowDown");
    for (int i = 0; i < right; i++) browser_press(browser, "ArrowRight");
    browser_press(browser, "Enter");
    browser_wait(browser, format("isSettled() && state.terms?.of.name === '%s'", step));
}

Test(page_steps, show_the_sum_behind_a_number)
{
    const char *folder = tiny_task("sums");
    struct browser *browser = opened(folder, "steps=1&head=cross-1-2");
    browser_wait(browser, "state.walk && isSettled()");
    open_sum(browser, "queries", 1, 2);
    cr_expect_str_eq(browser_value(browser, "JSON.stringify(state.number)"),
                     "{\"name\":\"queries\",\"row\":1,\"column\":2}");
    static const char *const made[] = {"queries", "query_weights"}; /* a parameter is no sum */
    for (int i = 0; i < 2; i++)
        cr_expect_eq(
            strstr(browser_value(browser,
                                 format("document.querySelector('[data-test=cells-%s]').ariaLabel", made[i])),
                   "Enter shows") != NULL,
            i == 0);
    /* 16 products and the bias; the second head's columns begin after the 8 of the first. */
    cr_expect_str_eq(browser_value(browser, "String(state.terms.terms.length)"), "17");
    cr_expect_str_eq(
        browser_value(
            browser,
            "(() => { const of = name => state.walk.find(step => step.name === name), "
            "x = of('layer_inputs').values, w = of('query_weights').values, t = state.terms.terms; "
            "return t[3][0] === '4' && t[3][1] === x[16 + 3] && t[3][2] === w[16 * 8 + 3 * 8 + 2] && "
            "t[16][0] === 'query bias' ? 'right' : JSON.stringify(t) })()"),
        "right");
    cr_expect_str_eq(browser_value(browser,
                                   "Math.abs(state.terms.sum - valueAt(state.walk.find(step => step.name === "
                                   "'queries'), 1, 2)) < 1e-5 ? 'near' : 'far'"),
                     "near");
    cr_expect_str_eq(browser_value(browser, "String(document.querySelectorAll('#terms tr').length)"), "17");
    cr_expect_not_null(strstr(browser_text(browser, "terms-title"), "is the sum of 17 terms"));
    open_sum(browser, "weights", 0, 1);
    cr_expect_not_null(strstr(browser_text(browser, "terms-title"), "the sum of these powers"));
    cr_expect_str_eq(
        browser_value(browser,
                      "Math.abs(state.terms.value - state.terms.terms[1][3] / state.terms.sum) < 1e-6 ? "
                      "'near' : 'far'"),
        "near");
    /* Of two words that are the same, each has its own power. */
    browser_value(browser, "change({ source: 'a b a' }), ask(), ''");
    browser_wait(browser, "isSettled() && state.view.source_tokens.length === 4");
    for (int column = 0; column < 3; column += 2) {
        open_sum(browser, "weights", 0, column);
        browser_wait(browser, format("state.terms?.of.column === %d", column));
        double value, power, sum;
        char *title = browser_text(browser, "terms-title");
        cr_assert_eq(sscanf(strstr(title, "”: ") + strlen("”: "), "%lf = %lf / %lf", &value, &power, &sum), 3,
                     "%s", title);
        cr_expect_float_eq(value, power / sum, 2e-4, "%s", title);
        cr_expect_str_eq(browser_value(browser, "String(document.querySelectorAll('#terms .own').length)"),
                         "1");
    }
    /* A shorter sentence may have no such number; the panel closes without a message. */
    open_sum(browser, "keys", 2, 0);
    browser_value(browser, "change({ source: 'a' }), ask(), ''");
    browser_wait(browser, "isSettled() && state.view.source_tokens.length === 2");
    cr_expect_str_eq(browser_value(browser, "String(state.terms) + element('message').textContent"), "null");
    browser_close(browser);
}

/* Of a weight the whole row is shown: each score that went in, its power, and the weight that came out. */
Test(page_steps, show_what_softmax_did_in_a_row)
{
    const char *folder = tiny_task("softmax");
    struct browser *browser = opened(folder, "s=a+b+a+c&silent-words=2&steps=1&head=cross-1-2");
    browser_wait(browser, "state.walk && isSettled()");
    open_sum(browser, "weights", 1, 2);
    static const char shown[] = "[...document.querySelectorAll('#terms tr:not(:first-child)')].map(row => "
                                "[...row.children].map(cell => cell.textContent))";
    cr_expect_str_eq(browser_value(browser, format("String(%s.length)", shown)), "4",
                     "four words and the end, of which one is silent");
    cr_expect_str_eq(
        browser_value(
            browser,
            format("(() => { const head = selectedHead(), row = [...head.weights].slice(head.columns, "
                   "2 * head.columns), lines = %s, number = text => Number(text.replace('−', '-')); "
                   "const expected = row.map((weight, i) => [head.columnWords[i], numberText(weight)])"
                   ".filter((_, i) => i !== 1).sort((a, b) => number(b[1]) - number(a[1])); "
                   "const sum = lines.reduce((sum, line) => sum + number(line[2]), 0); "
                   "const powers = lines.every(line => Math.abs(number(line[2]) - "
                   "Math.exp(number(line[1]) - number(lines[0][1]))) < 2e-4 && "
                   "Math.abs(number(line[3]) - number(line[2]) / sum) < 2e-4); "
                   "return JSON.stringify([lines.map(line => [line[0], line[3]]), powers]) === "
                   "JSON.stringify([expected, true]) ? 'right' : JSON.stringify([lines, expected]) })()",
                   shown)),
        "right");
    cr_expect_str_eq(
        browser_value(browser, "document.querySelector('#terms .own').lastChild.textContent"),
        browser_value(browser, "numberText(selectedHead().weights[selectedHead().columns + 2])"));
    browser_close(browser);
}

/* All numbers of a sum are in its panel, whatever the width of the window and the size of its text. */
Test(page_steps, cut_off_no_number_of_a_sum)
{
    const char *folder = tiny_task("panel");
    struct browser *browser = opened(folder, "s=b+a+zeppelin&steps=1&head=cross-1-2");
    browser_wait(browser, "state.walk && isSettled()");
    static const int widths[] = {390, 1024, 1366, 1920};
    for (size_t i = 0; i < sizeof widths / sizeof *widths; i++) {
        browser_resize(browser, widths[i]);
        for (int k = 0; k < 2; k++) {
            open_sum(browser, k ? "weights" : "queries", 1, 1 + (int)i % 2);
            /* Numbers as long as any. */
            browser_value(
                browser,
                "change({ terms: { ...state.terms, terms: state.terms.terms.map(([name], i) => "
                "['zeppelinszeppelins', -11.4778 - i / 8, isSoftmax({ name: state.terms.of.name }) ? 1 : "
                "-1.2345e-7, -8.9312e-6]) } }), ''");
            cr_expect_str_eq(browser_value(browser,
                                           "(({ scrollWidth, clientWidth }) => scrollWidth <= clientWidth "
                                           "? 'fits' : `${scrollWidth} in ${clientWidth}`)"
                                           "(document.querySelector('.term-list'))"),
                             "fits", "%d pixels", widths[i]);
        }
    }
    browser_close(browser);
}

/* The sum closes, and does not open again with the next translation. */
Test(page_steps, close_the_sum)
{
    const char *folder = tiny_task("close");
    struct browser *browser = opened(folder, "s=a+b&steps=1&head=cross-1-2");
    browser_wait(browser, "state.walk && isSettled()");
    for (int i = 0; i < 2; i++) {
        open_sum(browser, "queries", 0, 1);
        if (i)
            browser_value(browser,
                          "document.dispatchEvent(new KeyboardEvent('keydown', { key: 'Escape' })), ''");
        else
            browser_click(browser, "close-terms");
        cr_expect_str_eq(browser_value(browser, "String(element('terms').hidden)"), "true");
        if (!i)
            cr_expect_str_eq(browser_value(browser, "document.activeElement.dataset.test"), "cells-queries");
        browser_value(browser, format("(change({ source: '%s' }), ask(), '')", i ? "b a" : "b"));
        browser_wait(browser, "isSettled()");
        cr_expect_str_eq(browser_value(browser, "String(element('terms').hidden)"), "true");
    }
    browser_close(browser);
}

/* A second request for the same sentence drops the answer to the first one, which is under way: the page shows all of it. */
Test(page_steps, belong_to_the_sentence_that_was_under_way)
{
    const char *folder = tiny_task("under_way");
    struct browser *browser = opened(folder, "");
    browser_value(browser, "element('source').value = 'b c a', "
                           "element('source').dispatchEvent(new Event('input')), "
                           "change({ isWalking: true }), ''");
    browser_wait(browser, "isSettled()");
    cr_expect_str_eq(browser_value(browser, "state.view.source_tokens.join(' ')"), "b c a </s>");
    cr_expect_str_eq(browser_value(browser, "String(state.walk !== null)"), "true");
    browser_close(browser);
}

/* Matrices grow with the text of a wide window, so that the words at their edge stay apart. */
Test(page_steps, grow_with_the_text)
{
    const char *folder = tiny_task("grow");
    struct browser *browser = opened(folder, "steps=1&head=cross-1-2");
    static const int widths[] = {1366, 1920};
    for (size_t i = 0; i < sizeof widths / sizeof *widths; i++) {
        browser_resize(browser, widths[i]);
        browser_wait(browser, format("innerWidth === %d && shownScale === "
                                     "parseFloat(getComputedStyle(document.documentElement).fontSize) / 16",
                                     widths[i]));
        cr_expect_str_eq(
            browser_value(browser,
                          "(name => parseFloat(getComputedStyle(name).fontSize) <= name.offsetHeight)"
                          "(document.querySelector('.step-rows span'))"),
            "true", "%d pixels", widths[i]);
    }
    browser_close(browser);
}

Test(page_steps, say_what_is_masked_and_what_is_silent)
{
    const char *folder = tiny_task("masked");
    struct browser *browser = opened(folder, "steps=1&head=decoder-1-1");
    browser_wait(browser, "state.walk && isSettled()");
    open_sum(browser, "masked_scores", 0, 1);
    cr_expect_not_null(strstr(browser_text(browser, "step-number"), ": masked"), "%s",
                       browser_text(browser, "step-number"));
    open_sum(browser, "weights", 0, 1);
    cr_expect_not_null(strstr(browser_text(browser, "terms-title"), " is masked: weight 0"), "%s",
                       browser_text(browser, "terms-title"));
    browser_click(browser, "silence-decoder-1-1");
    browser_wait(browser, "isSettled() && state.walk.find(step => step.name === 'concatenated').note");
    cr_expect_str_eq(
        browser_value(browser, "state.walk.find(step => step.name === 'concatenated').values.subarray(0, 8)"
                               ".every(value => value === 0) ? 'zero' : 'not zero'"),
        "zero");
    browser_close(browser);
}
