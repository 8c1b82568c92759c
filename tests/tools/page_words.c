/* The maps of words in the page of a run whose words are cut into pieces: those of `qkv attention --words`. */
#include "browser.h"
#include "support.h"

#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

/* Enters a task of words of several letters, in pieces. */
static void enter_pieces(void)
{
    enter(tiny_task("pieces"));
    run_ok("sed -i 's/a/one/g; s/b/two/g; s/c/three/g; s/A/uno/g; s/B/dos/g; s/C/tres/g' train.tsv dev.tsv "
           "&& sed -i 's/max_length: 10/max_length: 40, level: bpe, num_merges: 3/' c.yaml");
}

static void opened(const char *fragment)
{
    enter_pieces();
    browser_open_run("", "--sentence 'one two three' --numbers float32", fragment);
}

static void switch_words(void)
{
    click("words");
    wait_until("isSettled()");
}

/* Expects the maps of the page to be those that a command prints, and their rows and columns to have its names. */
static void expect_maps(const char *options)
{
    run_script("wanted = %s", run_ok("qkv attention run 'one two three' -q -f json %s", options));
    const char *difference =
        value_of("Math.max(...wanted.maps.map(({ kind, layer, head, weights }) => { const shown = "
                 "state.view.heads.find(({ name }) => name === `${kind}-${layer}-${head}`), all = "
                 "weights.flat(); return all.length === shown.weights.length ? Math.max(...all.map((weight, "
                 "i) => Math.abs(weight - Math.max(0, shown.weights[i])))) : 9; }))");
    cr_expect_lt(atof(difference), 2e-5, "%s: %s", options, difference);
    static const char *const axes[][3] = {{"cross-1-1", "columnWords", "source"},
                                          {"cross-1-1", "rowWords", "target_output"},
                                          {"encoder-1-1", "rowWords", "source"},
                                          {"decoder-1-1", "columnWords", "target_input"}};
    for (int i = 0; i < 4; i++) {
        EXPECT_VALUE(
            format("state.view.heads.find(({ name }) => name === '%s').%s.join(' ')", axes[i][0], axes[i][1]),
            value_of("wanted.%s.join(' ')", axes[i][2]));
    }
}

Test(page_words, are_those_of_attention)
{
    opened("");
    cr_expect(shows(value_of("state.view.source_tokens.join(' ')"), "@@ "));
    cr_expect(shows(value_of("state.view.target_outputs.join(' ')"), "@@ "));
    expect_maps("");
    const char *const end_of_line = "String(points.source[0].x)", *token_end = value_of("%s", end_of_line);
    switch_words();
    expect_maps("--words");
    cr_expect_str_neq(value_of("%s", end_of_line), token_end, "lines end in the middle of words");
    /* Every row still sums to 1, and the large map, its picture and its sentences are those of words. */
    EXPECT_TRUE("state.view.heads.every(({ weights, columns }) => weights.every((_, i) => i % columns || "
                "Math.abs(weights.slice(i, i + columns).reduce((sum, weight) => sum + Math.max(0, weight), "
                "0) - 1) < 1e-5))");
    click("head-decoder-1-1");
    wait_until("isSettled()");
    EXPECT_VALUE("[...document.querySelectorAll('#map tbody th')].map(name => name.textContent).join(' ')",
                 value_of("wanted.target_input.join(' ')"));
    EXPECT_VALUE("new DOMParser().parseFromString(svgOfHead(selectedHead()).svg, "
                 "'image/svg+xml').querySelectorAll('rect title').length",
                 value_of("selectedHead().rows ** 2"));
    /* The sentence pair still shows the tokens, which the model chooses. */
    cr_expect(shows(text_of("source-word-0"), "@@"));
    switch_words();
    expect_maps("");
    browser_close();
}

/* A word lights up with all its pieces, and its row or column in the maps. */
Test(page_words, light_up_with_their_pieces)
{
    opened("words=1&head=cross-1-1");
    const char *const lit = "[...document.querySelectorAll('.word.lit')].map(word => "
                            "word.dataset.test).filter(name => name.startsWith('source')).join(' ')";
    point_at("source-word-1");
    wait_until("state.hover?.index === 1");
    const char *first = value_of("%s", lit);
    cr_expect(!strncmp(first, "source-word-0 source-word-1", 27), "%s", first);
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
    browser_close();
}

Test(page_words, are_kept_in_the_address)
{
    opened("words=1");
    EXPECT_TRUE("element('words').checked");
    expect_maps("--words");
    switch_words();
    cr_expect(lacks(value_of("location.hash"), "words"));
    switch_words();
    cr_expect(shows(value_of("location.hash"), "words=1"));
    switch_words();
    run_script("history.back()");
    wait_until("state.words && element('words').checked");
    expect_maps("--words");
    /* Where every token is a word, there is nothing to merge. */
    enter(tiny_task("whole"));
    browser_open_run("", "--sentence 'a b'", "s=a+b");
    EXPECT_TRUE("element('words-row').hidden");
    browser_close();
}

/* Silent pieces of a word leave the others their weights; of words that are all silent, the cells are masked. */
Test(page_words, are_masked_if_all_their_pieces_are_silent)
{
    opened("words=1&head=cross-1-1&silent-words=1");
    const char *const masked = "isHidden(selectedHead().weights[0])";
    const char *const title = "first('#map thead th').classList.contains('silent-word')";
    EXPECT_VALUE(masked, "false");
    EXPECT_VALUE(title, "false");
    run_script("setSilent('silentWords', tokensOf({ side: 'source', index: 0 }).map(index => index + 1))");
    wait_until("isSettled() && %s", title);
    EXPECT_TRUE(masked);
    browser_close();
}
