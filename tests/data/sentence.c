/* Sentences as a model reads them: words whose punctuation marks are typographic in the line, and not in the vocabulary, or the
 * reverse. */
#include "data/corpus.h"
#include "framework/engine/core/text.h"
#include "support.h"

#include "framework/translator/data/bpe.h"

/* Makes a vocabulary of words, which have spaces between them. */
static struct qkv_vocabulary vocabulary_of(const char *words)
{
    struct qkv_types types RELEASED(qkv_types_release) = {0};
    struct qkv_vocabulary vocabulary;
    char *copy = format("%s", words), *rest = NULL;
    for (char *word = strtok_r(copy, " ", &rest); word; word = strtok_r(NULL, " ", &rest))
        qkv_types_add(&types, word, 1);
    const struct qkv_types *texts[] = {&types};
    cr_assert_eq(qkv_vocabulary_build(&vocabulary, 1, texts, 0, 1, NULL), QKV_OK);
    return vocabulary;
}

/* The tokens of a line with spaces between them; unknown ones are in brackets. */
static const char *read_spelled(const struct qkv_text_config *text, const char *known, const char *line,
                                bool as_trained)
{
    struct qkv_vocabulary vocabulary RELEASED(qkv_vocabulary_release) = vocabulary_of(known);
    struct qkv_sentence sentence RELEASED(qkv_sentence_release) = {.as_trained = as_trained};
    const char *shown = "";
    /* A line need not end with a NUL. */
    char *longer = format("%s\u2019s", line);
    cr_assert_eq(qkv_sentence_encode(&sentence, text, &vocabulary, longer, strlen(line), NULL), QKV_OK);
    int64_t unknown = 0;
    for (int64_t i = 0; i < sentence.tokens.count; i++) {
        bool is_unknown = sentence.ids[i] == QKV_UNKNOWN;
        unknown += is_unknown;
        shown = format(is_unknown ? "%s%s[%s]" : "%s%s%s", shown, i ? " " : "", sentence.tokens.token[i]);
    }
    cr_expect_eq(sentence.unknown, unknown);
    return shown;
}

static const char *read_line(const struct qkv_text_config *text, const char *known, const char *line)
{
    return read_spelled(text, known, line, false);
}

Test(sentence, reads_marks_that_look_alike_as_the_vocabulary_has_them)
{
    static const struct {
        const char *known, *line, *read;
    } cases[] = {
        {"it isn't he", "it isn\u2019t he", "it isn't he"},
        {"it isn't he", "it isn\u2018t he", "it isn't he"},
        {"it isn\u2019t he", "it isn't he", "it isn\u2019t he"},
        /* What is known stays, and so does what remains unknown. */
        {"isn't isn\u2019t", "isn\u2019t isn't", "isn\u2019t isn't"},
        {"a", "a isn\u2019t", "a [isn\u2019t]"},
        {"a isn't", "a\u2019s isn\u2019t", "[a\u2019s] isn't"},
        {"don\u2019t isn't", "don\u2019t isn\u2019t", "don\u2019t isn't"}, /* each word by itself */
        {"don\u2019t it", "don't ain't it", "don\u2019t [ain't] it"},
        {"a b \"\uFFED", "\u201Ca\u201D \u201Eb\u201C", "\"\uFFED a \uFFED\" \"\uFFED b \uFFED\""},
        {"\u201C ' a isn't", "\u201Cisn\u2019t\u201D a", "\u201C\uFFED isn't [\uFFED\u201D] a"},
        {"a - co-op", "a \u2013 co\u2011op \u2014 co\u2010op", "a - co-op - co-op"},
        {"1990 1995 \u2013", "1990\u20131995", "1990 \uFFED\u2013\uFFED 1995"},
        {"a", "", ""},
        {"a", "\u2019", "[\u2019]"},
    };
    const struct qkv_text_config words = {.lang = "en", .level = QKV_LEVEL_WORD, .split_punctuation = true};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++)
        cr_expect_str_eq(read_line(&words, cases[i].known, cases[i].line), cases[i].read, "%s: %s, not %s",
                         cases[i].line, read_line(&words, cases[i].known, cases[i].line), cases[i].read);
    const struct qkv_text_config characters = {.lang = "en", .level = QKV_LEVEL_CHAR};
    cr_expect_str_eq(read_line(&characters, "a ' s", "a\u2019s"), "a ' s");
}

Test(sentence, reads_case_and_marks_as_the_vocabulary_has_them)
{
    static const struct {
        const char *known, *line, *read;
    } cases[] = {
        {"the cat is sleeping", "The cat is sleeping.", "the cat is sleeping"},
        {"the cat is sleeping", "THE CAT, is (Sleeping) ?", "the cat is sleeping"},
        {"the cat is sleeping", "hello my Cat", "[hello] [my] cat"},
        {"die Katze \u00C4hre USA", "DIE katze \u00E4hre usa", "die Katze \u00C4hre USA"},
        {"\u03BF \u03B3\u03AC\u03C4\u03BF\u03C2", "\u039F \u0393\u03AC\u03C4\u03BF\u03C2!",
         "\u03BF \u03B3\u03AC\u03C4\u03BF\u03C2"},
        /* Only the last word gets a final mark, the first of those that make it known. */
        {"sleeps. sleeps? the The", "the sleeps", "the sleeps."},
        {"sleeps. the", "Sleeps the!", "[Sleeps] the"},
        {"\u0938\u094B\u0924\u0940\u0964 \u0939\u0948\u0964", "\u0938\u094B\u0924\u0940 \u0939\u0948.",
         "[\u0938\u094B\u0924\u0940] \u0939\u0948\u0964"},
        {"sleeping. the The", "THE Sleeping!", "the sleeping."},
        /* What is known stays, signs that mean something stay, and a line without words stays. */
        {"the The cat.", "The cat.", "The cat."},
        {"C 50 a", "C# 50% a", "[C#] [50%] a"},
        {"a", "?", "[?]"},
        {"isn't", "Isn\u2019t!", "isn't"},
    };
    const struct qkv_text_config words = {.lang = "en", .level = QKV_LEVEL_WORD};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++)
        cr_expect_str_eq(read_spelled(&words, cases[i].known, cases[i].line, true), cases[i].read,
                         "%s: %s, not %s", cases[i].line,
                         read_spelled(&words, cases[i].known, cases[i].line, true), cases[i].read);
    const struct qkv_text_config split = {.lang = "en", .level = QKV_LEVEL_WORD, .split_punctuation = true};
    cr_expect_str_eq(read_spelled(&split, "the cat", "\u00BFThe cat?", true), "the cat");
    cr_expect_str_eq(read_spelled(&split, "the cat \uFFED.", "The cat.", true), "the cat \uFFED.");
    cr_expect_str_eq(read_line(&split, "the cat", "The cat"), "[The] cat"); /* only as_trained */
}

/* A word that is read with another mark is cut into the pieces of training. */
Test(sentence, cuts_the_word_with_the_known_mark_into_pieces)
{
    const char *path =
        write_text(scratch("sentence_merges"), "merges", "#version: 0.2\ni s\nn '\nn' t</w>\nis n't</w>\n");
    struct qkv_bpe *bpe RELEASED(free_bpe) = made(qkv_bpe_load(path, &error));
    const struct qkv_text_config pieces = {.lang = "en", .level = QKV_LEVEL_BPE, .bpe = bpe};
    cr_expect_str_eq(read_line(&pieces, "it@@ isn't i@@ t", "it isn\u2019t"), "i@@ t isn't");
    cr_expect_str_eq(read_line(&pieces, "is@@ n@@ t", "isn\u2019t"), "is@@ n@@ [\u2019@@] t");
}

Test(sentence, says_what_it_has_read)
{
    struct qkv_vocabulary vocabulary RELEASED(qkv_vocabulary_release) = vocabulary_of("isn't");
    const struct qkv_text_config words = {.lang = "en", .level = QKV_LEVEL_WORD, .lowercase = true};
    struct qkv_sentence sentence RELEASED(qkv_sentence_release) = {0};
    const char *const lines[] = {"Isn\u2019t it", "isn't it", "", "Isn\u2019t"};
    const char *const respelled[] = {"Isn't it", NULL, NULL, "Isn't"};
    for (int i = 0; i < 4; i++) {
        cr_assert_eq(qkv_sentence_encode(&sentence, &words, &vocabulary, lines[i], strlen(lines[i]), NULL),
                     QKV_OK);
        cr_expect_eq(!sentence.respelled, !respelled[i], "%s", lines[i]);
        if (respelled[i]) cr_expect_str_eq(sentence.respelled, respelled[i]);
    }
}
