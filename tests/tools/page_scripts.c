/* Scripts that run from right to left, and Chinese, in the page; typing through an input method. */
#include "browser.h"
#include "support.h"

#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

enum { HEBREW = 0x5D0, ARABIC = 0x628, CHINESE = 0x4E00 };

/* A letter as UTF-8. */
static char *letter(int code)
{
    return code < 0x800 ? format("%c%c", 0xC0 | code >> 6, 0x80 | (code & 63))
                        : format("%c%c%c", 0xE0 | code >> 12, 0x80 | (code >> 6 & 63), 0x80 | (code & 63));
}

/* A word of a made language: `letters` of a script from number `first` on. */
static char *word(int script, int first, int letters)
{
    char *text = format("%s", "");
    for (int i = 0; i < letters; i++) text = format("%s%s", text, letter(script + first + i));
    return text;
}

/* Trains a run that copies words of one script to another, and opens its page. Each side is lang and level. The run is in
 * *folder. */
static struct browser *opened(const char **folder, const char *fragment, const char *name, const char *source,
                              int source_script, const char *target, int target_script)
{
    skip_without_browser();
    *folder = scratch(name);
    char *lines = format("%s", "");
    for (int i = 0; i < 60; i++) {
        char *from = format("%s", ""), *to = from;
        for (int k = 0; k < 2 + i % 2; k++) {
            int number = (i * 7 + k * (i % 5 + 1) * 3) % 5;
            const char *space = k ? " " : "";
            from = format("%s%s%s", from, space, word(source_script, 3 * number, 3));
            to = format("%s%s%s", to, space, word(target_script, 3 * number, 3));
        }
        lines = format("%s%s\t%s\n", lines, from, to);
    }
    write_text(*folder, "train.tsv", lines);
    write_text(*folder, "c.yaml",
               format("name: scripts\n"
                      "data: {train: train.tsv, dev: train.tsv, src: {%s}, trg: {%s}}\n"
                      "model:\n"
                      "  encoder: {num_layers: 1, num_heads: 2, hidden_size: 16, ff_size: 32}\n"
                      "  decoder: {num_layers: 1, num_heads: 2, hidden_size: 16, ff_size: 32}\n"
                      "training: {model_dir: run, learning_rate: 0.01, batch_size: 20, updates: 150, "
                      "validation_freq: 150}\n",
                      source, target));
    return browser_open_run(
        *folder,
        format("--numbers float32 --sentence '%s %s'", word(source_script, 0, 3), word(source_script, 6, 3)),
        fragment);
}

/* Whether the words of a side run from right to left in the window. */
static bool runs_leftwards(struct browser *browser, const char *side)
{
    return !strcmp(browser_value(browser, format("(([first, second]) => first.getBoundingClientRect().left > "
                                                 "second.getBoundingClientRect().left)(wordButtons.%s)",
                                                 side)),
                   "true");
}

static void expect_translation(struct browser *browser, const char *folder)
{
    char *printed = run_ok("cd '%s' && echo '%s' | qkv translate run -q --beam 1", folder,
                           browser_value(browser, "state.source"));
    cr_expect_str_eq(format("%s\n", browser_text(browser, "target")), printed);
}

Test(page_scripts, hebrew_words_run_from_right_to_left)
{
    const char *folder;
    struct browser *browser =
        opened(&folder, "head=cross-1-1", "hebrew", "lang: he", HEBREW, "lang: zh, level: char", CHINESE);
    expect_translation(browser, folder);
    cr_expect(runs_leftwards(browser, "source"));
    cr_expect_not(runs_leftwards(browser, "target"));
    cr_expect_str_eq(browser_value(browser, "getComputedStyle(element('source')).direction"), "rtl");
    cr_expect_str_eq(browser_value(browser, "getComputedStyle(element('target')).direction"), "ltr");

    /* The left arrow goes on in a text from right to left. */
    browser_value(browser, "wordButtons.source[0].focus(), ''");
    browser_press(browser, "ArrowLeft");
    cr_expect_str_eq(browser_value(browser, "document.activeElement.dataset.test"), "source-word-1");
    /* Lines end at their words, wherever these stand. */
    cr_expect_str_eq(
        browser_value(
            browser,
            "lines.every(({ line, row, column }) => { const points = { source: anchors('source'), "
            "target: anchors('target') }, key = points.source[column], query = points.target[row]; "
            "return line.getAttribute('d') === `M ${key.x} ${key.bottom} L ${query.x} ${query.top}`; "
            "}) && lines.length > 0"),
        "true");
    /* The numbers of a sentence stay in their order beside an isolated word. */
    browser_point(browser, "source-word-1");
    char *caption = browser_text(browser, "caption");
    cr_expect_not_null(strstr(caption, format("“\xE2\x81\xA8%s\xE2\x81\xA9” gets 0.", word(HEBREW, 6, 3))),
                       "%s", caption);
    /* Chinese letters name rows, Hebrew words columns, which lie on their side. */
    cr_expect_str_eq(browser_value(browser, "document.querySelectorAll('#map thead th.short, #map thead "
                                            "th.upright').length"),
                     "0");
    cr_expect_str_eq(browser_value(browser, "document.querySelector('#map tbody th').textContent"),
                     letter(CHINESE));
    browser_close(browser);
}

Test(page_scripts, chinese_and_arabic)
{
    const char *folder;
    struct browser *browser =
        opened(&folder, "head=cross-1-1", "chinese", "lang: zh", CHINESE, "lang: ar", ARABIC);
    expect_translation(browser, folder);
    cr_expect_not(runs_leftwards(browser, "source"));
    cr_expect(runs_leftwards(browser, "target"));
    cr_expect_str_eq(browser_value(browser, "getComputedStyle(element('target')).direction"), "rtl");
    /* Chinese words stand upright above their columns. */
    cr_expect_str_eq(browser_value(browser, "document.querySelectorAll('#map thead th.upright').length"),
                     "2");
    cr_expect_str_eq(
        browser_value(browser,
                      "getComputedStyle(document.querySelector('#map thead th.upright span')).transform"),
        "none");
    browser_close(browser);
}

/* Nothing is translated before the input method has the word. */
Test(page_scripts, waits_for_the_input_method)
{
    const char *folder;
    struct browser *browser =
        opened(&folder, "", "composed", "lang: zh, level: char", CHINESE, "lang: he", HEBREW);
    browser_click(browser, "source");
    browser_value(browser, "document.activeElement.select(), before = sequence, ''");
    browser_compose(browser, "yi");
    browser_compose(browser, "yi ding");
    cr_expect_str_eq(browser_value(browser, "element('source').value"), "yi ding");
    cr_expect_str_eq(browser_value(browser, "sequence - before"), "0");
    browser_type(browser, word(CHINESE, 3, 3));
    browser_wait(browser, format("isSettled() && state.source === '%s'", word(CHINESE, 3, 3)));
    cr_expect_str_eq(browser_value(browser, "state.view.source_tokens.join(' ')"),
                     format("%s %s %s </s>", letter(CHINESE + 3), letter(CHINESE + 4), letter(CHINESE + 5)));
    expect_translation(browser, folder);
    browser_type(browser, letter(CHINESE));
    browser_wait(browser, "isSettled() && state.view.source_tokens.length === 5");
    browser_close(browser);
}
