/* Scripts that run from right to left, and Chinese, in the page; typing through an input method. */
#include "browser.h"

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

/* Trains a run that copies words of one script to another, and opens its page. Each side is lang and level. */
static void opened(const char *fragment, const char *source, int source_script, const char *target,
                   int target_script)
{
    enter(scratch("scripts"));
    const char *words[2][5];
    for (int i = 0; i < 10; i++)
        words[i / 5][i % 5] = word(i < 5 ? source_script : target_script, i % 5 * 3, 3);
    write_text(".", "train.tsv", word_pairs(60, words[0], words[1]));
    write_config(format("train: train.tsv, dev: train.tsv, src: {%s}, trg: {%s}", source, target),
                 "num_layers: 1, num_heads: 2, hidden_size: 16, ff_size: 32", NULL,
                 "learning_rate: 0.01, batch_size: 20, updates: 150, validation_freq: 150");
    browser_open_run(
        "",
        format("--numbers float32 --sentence '%s %s'", word(source_script, 0, 3), word(source_script, 6, 3)),
        fragment);
}

/* The sides, source and target, whose words run from right to left in the window. */
static const char LEFTWARDS[] =
    "Object.keys(wordButtons).filter(side => (([first, second]) => first.getBoundingClientRect().left > "
    "second.getBoundingClientRect().left)(wordButtons[side])).join()";

static void expect_translation(void)
{
    expect_printed("target", "echo '%s' | qkv translate run -q --beam 1", value_of("state.source"));
}

PageTest(page_scripts, hebrew_words_run_from_right_to_left)
{
    opened("head=cross-1-1", "lang: he", HEBREW, "lang: zh, level: char", CHINESE);
    expect_translation();
    EXPECT_VALUE(LEFTWARDS, "source");
    EXPECT_VALUE("getComputedStyle(element('source')).direction", "rtl");
    EXPECT_VALUE("getComputedStyle(element('target')).direction", "ltr");

    /* The left arrow goes on in a text from right to left. */
    run_script("wordButtons.source[0].focus()");
    press("ArrowLeft");
    EXPECT_FOCUS("source-word-1");
    /* Lines end at their words, wherever these stand. */
    EXPECT_TRUE("lines.every(({ line, row, column }) => { const points = { source: anchors('source'), "
                "target: anchors('target') }, key = points.source[column], query = points.target[row]; "
                "return line.getAttribute('d') === `M ${key.x} ${key.bottom} L ${query.x} ${query.top}`; }) "
                "&& lines.length > 0");
    /* The numbers of a sentence stay in their order beside an isolated word. */
    point_at("source-word-1");
    cr_expect(shows(text_of("caption"), format("“\xE2\x81\xA8%s\xE2\x81\xA9” gets 0.", word(HEBREW, 6, 3))));
    /* Chinese letters name rows, Hebrew words columns, which lie on their side. */
    EXPECT_VALUE("count('#map thead th.short, #map thead th.upright')", "0");
    EXPECT_VALUE("first('#map tbody th').textContent", letter(CHINESE));
}

PageTest(page_scripts, chinese_and_arabic_and_an_input_method)
{
    opened("head=cross-1-1", "lang: zh", CHINESE, "lang: ar", ARABIC);
    expect_translation();
    EXPECT_VALUE(LEFTWARDS, "target");
    EXPECT_VALUE("getComputedStyle(element('target')).direction", "rtl");
    /* Chinese words stand upright above their columns. */
    EXPECT_VALUE("count('#map thead th.upright')", "2");
    EXPECT_VALUE("getComputedStyle(first('#map thead th.upright span')).transform", "none");
    /* Nothing is translated before the input method has the word. */
    click("source");
    run_script("document.activeElement.select(), before = sequence");
    compose("yi");
    compose("yi ding");
    EXPECT_VALUE("element('source').value", "yi ding");
    EXPECT_VALUE("sequence - before", "0");
    type_text(word(CHINESE, 3, 3));
    EXPECT_VALUE("state.view.source_tokens.join(' ')", format("%s </s>", word(CHINESE, 3, 3)));
    expect_translation();
}
