/* The steps of qkv page, from the words to the chosen word: the numbers of `qkv explain`, and the sums behind them. */
#include "browser_steps.h"
#include "support.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

/* The page computes in float32 and qkv explain in float64. */
#define TOLERANCE 2e-5

static void opened(const char *fragment)
{
    enter(tiny_task("steps"));
    browser_open_run("", "--sentence 'a b' --numbers float32", fragment);
    wait_until("isSettled() && (state.walk || !element('steps').open)");
}

Test(page_steps, are_those_of_explain)
{
    static const char *const kinds[] = {"encoder", "decoder", "cross"};
    opened("");
    EXPECT_VALUE("state.walk", "null"); /* a closed section computes nothing */
    run_script("element('steps').open = true");
    for (int i = 0; i < 3; i++) {
        click("head-%s-1-2", kinds[i]);
        wait_until("state.walk && element('steps-of').textContent.startsWith('%s') && isSettled()", kinds[i]);
        expect_steps(run_ok("qkv explain run 'a b' --kind %s --full --format json", kinds[i]), kinds[i],
                     TOLERANCE);
    }
    cr_expect(shows(value_of("location.hash"), "steps=1"));
    EXPECT_VALUE("first('[data-test=step-chosen] .step-token').textContent",
                 value_of("state.view.target_outputs[0] + ' ' + state.walk.at(-1).values[0]"));
    browser_close();
}

/* Opens the sum behind a number of a step by the keyboard: `down` rows and `right` columns from the first. */
static void open_sum(const char *step, int down, int right)
{
    run_script("at('cells-%s').focus()", step);
    for (int i = 0; i < down; i++) press("ArrowDown");
    for (int i = 0; i < right; i++) press("ArrowRight");
    press("Enter");
    wait_until("isSettled() && state.terms?.of.name === '%s'", step);
}

Test(page_steps, show_the_sum_behind_a_number)
{
    opened("steps=1&head=cross-1-2");
    open_sum("queries", 1, 2);
    EXPECT_VALUE("JSON.stringify(state.number)", "{\"name\":\"queries\",\"row\":1,\"column\":2}");
    static const char *const made[] = {"queries", "query_weights"}; /* a parameter is no sum */
    for (int i = 0; i < 2; i++)
        cr_expect_eq(strstr(value_of("at('cells-%s').ariaLabel", made[i]), "Enter shows") != NULL, i == 0);
    /* 16 products and the bias; the second head's columns begin after the 8 of the first. */
    EXPECT_VALUE("state.terms.terms.length", "17");
    EXPECT_VALUE("(() => { const x = stepOf('layer_inputs').values, w = stepOf('query_weights').values, t = "
                 "state.terms.terms; return "
                 "t[3][0] === '4' && t[3][1] === x[16 + 3] && t[3][2] === w[16 * 8 + 3 * 8 + 2] && t[16][0] "
                 "=== 'query bias' ? 'right' : JSON.stringify(t) })()",
                 "right");
    EXPECT_TRUE("Math.abs(state.terms.sum - valueAt(stepOf('queries'), 1, 2)) < 1e-5");
    EXPECT_VALUE("count('#terms tr')", "17");
    cr_expect(shows(text_of("terms-title"), "is the sum of 17 terms"));
    open_sum("weights", 0, 1);
    cr_expect(shows(text_of("terms-title"), "the sum of these powers"));
    EXPECT_TRUE("Math.abs(state.terms.value - state.terms.terms[1][3] / state.terms.sum) < 1e-6");
    /* Of two words that are the same, each has its own power. */
    run_script("change({ source: 'a b a' }), ask()");
    wait_until("isSettled() && state.view.source_tokens.length === 4");
    for (int column = 0; column < 3; column += 2) {
        open_sum("weights", 0, column);
        wait_until("state.terms?.of.column === %d", column);
        double value, power, sum;
        char *title = text_of("terms-title");
        cr_assert_eq(sscanf(strstr(title, "”: ") + strlen("”: "), "%lf = %lf / %lf", &value, &power, &sum), 3,
                     "%s", title);
        cr_expect_float_eq(value, power / sum, 2e-4, "%s", title);
        EXPECT_VALUE("count('#terms .own')", "1");
    }
    /* A shorter sentence may have no such number; the panel closes without a message. */
    open_sum("keys", 2, 0);
    run_script("change({ source: 'a' }), ask()");
    wait_until("isSettled() && state.view.source_tokens.length === 2");
    EXPECT_VALUE("String(state.terms) + element('message').textContent", "null");
    browser_close();
}

/* Of a weight the whole row is shown: each score that went in, its power, and the weight that came out. */
Test(page_steps, show_what_softmax_did_in_a_row)
{
    opened("s=a+b+a+c&silent-words=2&steps=1&head=cross-1-2");
    open_sum("weights", 1, 2);
    static const char shown[] = "[...document.querySelectorAll('#terms tr:not(:first-child)')].map(row => "
                                "[...row.children].map(cell => cell.textContent))";
    EXPECT_VALUE(format("String(%s.length)", shown),
                 "4"); /* four words and the end, of which one is silent */
    EXPECT_VALUE(
        format("(() => { const head = selectedHead(), row = [...head.weights].slice(head.columns, 2 * "
               "head.columns), lines = %s, number = text => Number(text.replace('−', '-')); const expected = "
               "row.map((weight, i) => [head.columnWords[i], numberText(weight)]).filter((_, i) => i !== "
               "1).sort((a, b) => number(b[1]) - number(a[1])); const sum = lines.reduce((sum, line) => sum "
               "+ number(line[2]), 0); const powers = lines.every(line => Math.abs(number(line[2]) - "
               "Math.exp(number(line[1]) - number(lines[0][1]))) < 2e-4 && Math.abs(number(line[3]) - "
               "number(line[2]) / sum) < 2e-4); return JSON.stringify([lines.map(line => [line[0], "
               "line[3]]), powers]) === JSON.stringify([expected, true]) ? 'right' : JSON.stringify([lines, "
               "expected]) })()",
               shown),
        "right");
    EXPECT_VALUE("first('#terms .own').lastChild.textContent",
                 value_of("numberText(selectedHead().weights[selectedHead().columns + 2])"));
    browser_close();
}

/* All numbers of a sum are in its panel, whatever the width of the window and the size of its text. */
Test(page_steps, cut_off_no_number_of_a_sum)
{
    opened("s=b+a+zeppelin&steps=1&head=cross-1-2");
    static const int widths[] = {390, 1024, 1366, 1920};
    for (size_t i = 0; i < sizeof widths / sizeof *widths; i++) {
        resize(widths[i]);
        for (int k = 0; k < 2; k++) {
            open_sum(k ? "weights" : "queries", 1, 1 + (int)i % 2);
            /* Numbers as long as any. */
            run_script("change({ terms: { ...state.terms, terms: state.terms.terms.map(([name], i) => "
                       "['zeppelinszeppelins', -11.4778 - i / 8, isSoftmax({ name: state.terms.of.name }) ? "
                       "1 : -1.2345e-7, -8.9312e-6]) } })");
            cr_expect_str_eq(value_of("(({ scrollWidth, clientWidth }) => scrollWidth <= clientWidth ? "
                                      "'fits' : `${scrollWidth} in ${clientWidth}`)(first('.term-list'))"),
                             "fits", "%d pixels", widths[i]);
        }
    }
    browser_close();
}

/* The sum closes, and does not open again with the next translation. */
Test(page_steps, close_the_sum)
{
    opened("s=a+b&steps=1&head=cross-1-2");
    for (int i = 0; i < 2; i++) {
        open_sum("queries", 0, 1);
        if (i)
            run_script("document.dispatchEvent(new KeyboardEvent('keydown', { key: 'Escape' }))");
        else
            click("close-terms");
        EXPECT_TRUE("element('terms').hidden");
        if (!i) EXPECT_FOCUS("cells-queries");
        run_script("(change({ source: '%s' }), ask())", i ? "b a" : "b");
        wait_until("isSettled()");
        EXPECT_TRUE("element('terms').hidden");
    }
    browser_close();
}

/* A second request for the same sentence drops the answer to the first one, which is under way: the page shows all of it. */
Test(page_steps, belong_to_the_sentence_that_was_under_way)
{
    opened("");
    run_script("element('source').value = 'b c a', element('source').dispatchEvent(new Event('input')), "
               "change({ isWalking: true })");
    wait_until("isSettled()");
    EXPECT_VALUE("state.view.source_tokens.join(' ')", "b c a </s>");
    EXPECT_TRUE("state.walk !== null");
    browser_close();
}

/* Matrices grow with the text of a wide window, so that the words at their edge stay apart. */
Test(page_steps, grow_with_the_text)
{
    opened("steps=1&head=cross-1-2");
    static const int widths[] = {1366, 1920};
    for (size_t i = 0; i < sizeof widths / sizeof *widths; i++) {
        resize(widths[i]);
        wait_until("innerWidth === %d && shownScale === "
                   "parseFloat(getComputedStyle(document.documentElement).fontSize) / 16",
                   widths[i]);
        cr_expect_str_eq(value_of("(name => parseFloat(getComputedStyle(name).fontSize) <= "
                                  "name.offsetHeight)(first('.step-rows span'))"),
                         "true", "%d pixels", widths[i]);
    }
    browser_close();
}

Test(page_steps, say_what_is_masked_and_what_is_silent)
{
    opened("steps=1&head=decoder-1-1");
    open_sum("masked_scores", 0, 1);
    cr_expect(shows(text_of("step-number"), ": masked"));
    open_sum("weights", 0, 1);
    cr_expect(shows(text_of("terms-title"), " is masked: weight 0"));
    click("silence-decoder-1-1");
    wait_until("isSettled() && stepOf('concatenated').note");
    EXPECT_TRUE("stepOf('concatenated').values.subarray(0, 8).every(value => value === 0)");
    browser_close();
}
