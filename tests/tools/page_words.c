/* The maps of words in the page of a run whose words are cut into pieces: those of `qkv attention --words`. */
#include "browser.h"
#include "support.h"

#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

/* A folder with a task of words of several letters, in pieces. */
static const char *pieces(const char *name)
{
    const char *folder = tiny_task(name);
    run_ok(
        "cd '%s' && sed -i 's/a/one/g; s/b/two/g; s/c/three/g; s/A/uno/g; s/B/dos/g; s/C/tres/g' train.tsv "
        "dev.tsv && sed -i 's/max_length: 10/max_length: 40, level: bpe, num_merges: 3/' c.yaml",
        folder);
    return folder;
}

static struct browser *opened(const char *folder, const char *fragment)
{
    return browser_open_run(folder, "--sentence 'one two three' --numbers float32", fragment);
}

static void switch_words(struct browser *browser)
{
    browser_click(browser, "words");
    browser_wait(browser, "isSettled()");
}

/* Expects the maps of the page to be those that a command prints, and their rows and columns to have its names. */
static void expect_maps(struct browser *browser, const char *folder, const char *options)
{
    browser_value(browser, format("wanted = %s, ''",
                                  run_ok("cd '%s' && qkv attention run 'one two three' -q -f json %s", folder,
                                         options)));
    const char *difference = browser_value(
        browser,
        "Math.max(...wanted.maps.map(({ kind, layer, head, weights }) => { const shown = "
        "state.view.heads.find(({ name }) => name === `${kind}-${layer}-${head}`), all = weights.flat(); "
        "return all.length === shown.weights.length ? Math.max(...all.map((weight, i) => "
        "Math.abs(weight - Math.max(0, shown.weights[i])))) : 9; }))");
    cr_expect_lt(atof(difference), 2e-5, "%s: %s", options, difference);
    static const char *const axes[][2] = {{"cross-1-1 columnWords", "source"},
                                          {"cross-1-1 rowWords", "target_output"},
                                          {"encoder-1-1 rowWords", "source"},
                                          {"decoder-1-1 columnWords", "target_input"}};
    for (int i = 0; i < 4; i++) {
        int length = (int)strcspn(axes[i][0], " ");
        cr_expect_str_eq(
            browser_value(browser, format("state.view.heads.find(({ name }) => name === '%.*s').%s.join(' ')",
                                          length, axes[i][0], axes[i][0] + length + 1)),
            browser_value(browser, format("wanted.%s.join(' ')", axes[i][1])), "%s", axes[i][0]);
    }
}

Test(page_words, are_those_of_attention)
{
    const char *folder = pieces("maps");
    struct browser *browser = opened(folder, "");
    cr_expect_not_null(strstr(browser_value(browser, "state.view.source_tokens.join(' ')"), "@@ "));
    cr_expect_not_null(strstr(browser_value(browser, "state.view.target_outputs.join(' ')"), "@@ "));
    expect_maps(browser, folder, "");
    const char *const end_of_line = "String(points.source[0].x)",
                      *token_end = browser_value(browser, end_of_line);
    switch_words(browser);
    expect_maps(browser, folder, "--words");
    cr_expect_str_neq(browser_value(browser, end_of_line), token_end, "lines end in the middle of words");
    /* Every row still sums to 1, and the large map, its picture and its sentences are those of words. */
    cr_expect_str_eq(
        browser_value(
            browser,
            "state.view.heads.every(({ weights, columns }) => weights.every((_, i) => i % columns || "
            "Math.abs(weights.slice(i, i + columns).reduce((sum, weight) => sum + Math.max(0, weight), "
            "0) - 1) < 1e-5))"),
        "true");
    browser_click(browser, "head-decoder-1-1");
    browser_wait(browser, "isSettled()");
    cr_expect_str_eq(browser_value(browser, "[...document.querySelectorAll('#map tbody th')].map(name => "
                                            "name.textContent).join(' ')"),
                     browser_value(browser, "wanted.target_input.join(' ')"));
    cr_expect_str_eq(browser_value(browser, "new DOMParser().parseFromString(svgOfHead(selectedHead()).svg, "
                                            "'image/svg+xml').querySelectorAll('rect title').length"),
                     browser_value(browser, "selectedHead().rows ** 2"));
    /* The sentence pair still shows the tokens, which the model chooses. */
    cr_expect_not_null(strstr(browser_text(browser, "source-word-0"), "@@"));
    switch_words(browser);
    expect_maps(browser, folder, "");
    browser_close(browser);
}

/* A word lights up with all its pieces, and its row or column in the maps. */
Test(page_words, light_up_with_their_pieces)
{
    const char *folder = pieces("light");
    struct browser *browser = opened(folder, "words=1&head=cross-1-1");
    const char *const lit = "[...document.querySelectorAll('.word.lit')].map(word => "
                            "word.dataset.test).filter(name => name.startsWith('source')).join(' ')";
    browser_point(browser, "source-word-1");
    browser_wait(browser, "state.hover?.index === 1");
    const char *first = browser_value(browser, lit);
    cr_expect(!strncmp(first, "source-word-0 source-word-1", 27), "%s", first);
    cr_expect_str_eq(browser_value(browser, "document.querySelector('#map thead th.lit').textContent"),
                     "one");
    browser_point(browser, "cell-0-1");
    browser_wait(browser, "state.cell?.column === 1");
    cr_expect_str_eq(browser_value(browser, lit),
                     browser_value(browser,
                                   "tokensOf({ side: 'source', index: "
                                   "firstToken('source', 1) }).map(i => `source-word-${i}`).join(' ')"));
    cr_expect_str_eq(browser_text(browser, "caption"),
                     browser_value(browser, "sentenceOfCell(selectedHead(), { row: 0, column: 1 })"));
    cr_expect_not_null(strstr(browser_text(browser, "caption"), "two"), "%s",
                       browser_text(browser, "caption"));
    /* In the decoder's own attention it is the row and the column of the steps that read the word. */
    browser_click(browser, "head-decoder-1-1");
    browser_point(browser, "target-word-1");
    browser_wait(browser, "state.hover?.side === 'target'");
    cr_expect_str_eq(browser_value(browser, "document.querySelector('#map tbody th.lit').textContent"),
                     "uno");
    cr_expect_str_eq(browser_value(browser, "document.querySelector('#map thead th.lit').textContent"),
                     "uno");
    browser_point(browser, "cell-1-0");
    browser_wait(browser, "state.cell?.row === 1");
    cr_expect_str_eq(browser_value(browser, "JSON.stringify(state.hover)"),
                     "{\"side\":\"target\",\"index\":0}");
    browser_close(browser);
}

Test(page_words, are_kept_in_the_address)
{
    const char *folder = pieces("address");
    struct browser *browser = opened(folder, "words=1");
    cr_expect_str_eq(browser_value(browser, "element('words').checked"), "true");
    expect_maps(browser, folder, "--words");
    switch_words(browser);
    cr_expect_null(strstr(browser_value(browser, "location.hash"), "words"));
    switch_words(browser);
    cr_expect_not_null(strstr(browser_value(browser, "location.hash"), "words=1"));
    switch_words(browser);
    browser_value(browser, "history.back(), ''");
    browser_wait(browser, "state.words && element('words').checked");
    expect_maps(browser, folder, "--words");
    browser_close(browser);
    /* Where every token is a word, there is nothing to merge. */
    browser = opened(tiny_task("whole"), "s=a+b");
    cr_expect_str_eq(browser_value(browser, "element('words-row').hidden"), "true");
    browser_close(browser);
}

/* Silent pieces of a word leave the others their weights; of words that are all silent, the cells are masked. */
Test(page_words, are_masked_if_all_their_pieces_are_silent)
{
    struct browser *browser = opened(pieces("silent"), "words=1&head=cross-1-1&silent-words=1");
    const char *const masked = "isHidden(selectedHead().weights[0])";
    const char *const title = "document.querySelector('#map thead th').classList.contains('silent-word')";
    cr_expect_str_eq(browser_value(browser, masked), "false");
    cr_expect_str_eq(browser_value(browser, title), "false");
    browser_value(browser, "setSilentWords(tokensOf({ side: 'source', index: 0 })), ''");
    browser_wait(browser, format("isSettled() && %s", title));
    cr_expect_str_eq(browser_value(browser, masked), "true");
    browser_close(browser);
}
