/* Text to tokens and back, on text that is easy to get wrong. */
#include "framework/translator/data/tokenizer.h"
#include "framework/translator/data/unicode.h"

#include "support.h"

static const struct qkv_text_config words = {.lang = "en"};
static const struct qkv_text_config cut = {.lang = "en", .split_punctuation = true};
static const struct qkv_text_config lower = {.lang = "de", .lowercase = true, .split_punctuation = true};
static const struct qkv_text_config french = {.lang = "fr", .split_punctuation = true};
/* As runs of format 1 have them. */
static const struct qkv_text_config plain = {.lang = "en", .split_punctuation = true, .plain_marks = true};
static const struct qkv_text_config plain_french = {
    .lang = "fr", .split_punctuation = true, .plain_marks = true};
static const struct qkv_text_config chars = {.lang = "en", .level = QKV_LEVEL_CHAR};
static const struct qkv_text_config lower_chars = {.level = QKV_LEVEL_CHAR, .lowercase = true};

/* The tokens with a bar between them: no token here has a bar in it. */
static const char *joined(const struct qkv_text_config *text, const char *line)
{
    struct qkv_tokens tokens = {0};
    expect_done(qkv_tokenize(&tokens, text, line, strlen(line), &error));
    char *all = calloc(1, 4 * strlen(line) + 4), *end = all;
    for (int64_t i = 0; i < tokens.count; i++) end += sprintf(end, "%s%s", i ? "|" : "", tokens.token[i]);
    qkv_tokens_release(&tokens);
    return remember(all);
}

static void expect(const struct qkv_text_config *text, const char *line, const char *tokens)
{
    cr_expect_str_eq(joined(text, line), tokens, "\"%s\"\n gives %s\n not   %s", line, joined(text, line),
                     tokens);
}

Test(tokenizer, splits_text)
{
    static const struct {
        const struct qkv_text_config *text;
        const char *from, *to;
    } rows[] = {
        /* Every white space of Unicode splits. */
        {&words, "  a  dog\truns \n", "a|dog|runs"},
        {&words,
         "a\u00A0b\u202Fc\u2003d\u3000e\xC2\x85"
         "f\u2028g\u1680h",
         "a|b|c|d|e|f|g|h"},
        {&words, "zero\u200Bwidth is no white space", "zero\u200Bwidth|is|no|white|space"},
        {&words, "Hello, world!", "Hello,|world!"},
        {&words, "", ""},
        {&words, " \t\u00A0\u3000 ", ""},
        {&chars, " \t\u00A0\u3000 ", ""},
        /* Punctuation marks are tokens, */
        {&cut, "Hello, world!", "Hello|￭,|world|￭!"},
        {&cut, "¿Qué? ¡No! (sí)", "¿￭|Qué|￭?|¡￭|No|￭!|(￭|sí|￭)"},
        {&cut, "«Oui\u00A0!»", "«￭|Oui|!|￭»"},
        {&cut, "wait...what?!", "wait|￭.|￭.|￭.￭|what|￭?|￭!"},
        {&cut, "a+b=c €5 50% x_y", "a|￭+￭|b|￭=￭|c|€￭|5|50|￭%|x|￭_￭|y"},
        {&cut, "„Ja“, sagte er", "„￭|Ja|￭“|￭,|sagte|er"},
        {&cut, "…", "…"},
        /* but not inside a word. */
        {&cut, "don't o’clock 'quoted' dogs'", "don't|o’clock|'￭|quoted|￭'|dogs|￭'"},
        {&cut, "rock'n'roll don''t", "rock'n'roll|don|￭'|￭'￭|t"},
        {&cut, "peut-être Vor- und -x a--b", "peut-être|Vor-|und|-￭|x|a|￭-|￭-￭|b"},
        {&cut, "3.14 1,000 10:30 a,b x:y end.", "3.14|1,000|10:30|a|￭,￭|b|x|￭:￭|y|end|￭."},
        {&cut, "8:00 p.m. in EE.UU. col·lega", "8:00|p.m|￭.|in|EE.UU|￭.|col·lega"},
        {&cut, "२,३ ٣,٤", "२,३|٣,٤"},
        /* Lower case is that of Unicode. */
        {&lower, "GROSSE STRAẞE Straße", "grosse|straße|straße"},
        {&lower, "ÄÖÜ Éa ÇA ΟΔΟΣ ЙОД", "äöü|éa|ça|οδοσ|йод"},
        {&lower, "I\u0307stanbul \u0130stanbul", "istanbul|istanbul"},
        {&lower, "J\u030C \u01F0", "\u01F0|\u01F0"},
        {&lower, "Ⱥb", "ⱥb"},
        {&lower_chars, "Ab C", "a|b|▁|c"},
        {&words, "ÄB", "ÄB"},
        /* Composed and decomposed text has the same tokens. */
        {&words, "e\u0301te\u0301 \u00E9t\u00E9", "\u00E9t\u00E9|\u00E9t\u00E9"},
        {&words, "a\u0323\u0302 a\u0302\u0323 \u1EAD", "\u1EAD|\u1EAD|\u1EAD"},
        {&words, "\u1112\u1161\u11AB \uD55C", "\uD55C|\uD55C"},
        {&words, "\u212B A\u030A", "\u00C5|\u00C5"},
        {&chars, "e\u0301", "\u00E9"},
        {&chars, "q\u0308x", "q\u0308|x"},
        {&cut, "q\u0308x!\u0301y", "q\u0308x|\uFFED!\u0301\uFFED|y"},
        /* East Asian punctuation. */
        {&cut, "今日は、いい天気。", "今日は|￭、￭|いい天気|￭。"},
        {&chars, "今日　は", "今|日|▁|は"},
        /* Characters. */
        {&chars, "  Hi  you! ", "H|i|▁|y|o|u|!"},
        {&chars, "a \u0301b", "a|▁|\u0301|b"},
        /* Runs of format 1 have tokens without joiners. */
        {&plain, "¿Qué? (sí)", "¿|Qué|?|(|sí|)"},
        {&plain_french, "l'homme", "l'|homme"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) expect(rows[i].text, rows[i].from, rows[i].to);
}

Test(tokenizer, splits_elided_words_in_languages_with_elision)
{
    expect(&french, "l'homme d’eau aujourd'hui 'oui'", "l'￭|homme|d’￭|eau|aujourd'￭|hui|'￭|oui|￭'");
    expect(&french, "Qu'est-ce que c'est ?", "Qu'￭|est-ce|que|c'￭|est|?");
    struct qkv_text_config canada = french, frisian = french, nothing = french;
    canada.lang = "fr-CA";
    frisian.lang = "fry";
    nothing.lang = NULL;
    expect(&canada, "l'eau", "l'￭|eau");
    expect(&frisian, "l'eau", "l'eau");
    expect(&nothing, "l'eau", "l'eau");
}

Test(tokenizer, keeps_emoji_whole)
{
    const char *family = "\U0001F468\u200D\U0001F469\u200D\U0001F467", *thumb = "\U0001F44D\U0001F3FD";
    const char *flags = "\U0001F1EB\U0001F1F7\U0001F1E9\U0001F1EA";
    expect(&cut, format("ok%s%s!", family, thumb), format("ok|￭%s|￭%s|￭!", family, thumb));
    expect(&chars, format("a%s%s", family, thumb), format("a|%s|%s", family, thumb));
    expect(&cut, flags, "\U0001F1EB\U0001F1F7|\uFFED\U0001F1E9\U0001F1EA");
    expect(&chars, flags, "\U0001F1EB\U0001F1F7|\U0001F1E9\U0001F1EA");
    expect(&chars, "©\u200D!", "©\u200D|!");
}

Test(tokenizer, refuses_invalid_text)
{
    static const struct {
        const char *bytes;
        size_t size;
        const char *message;
    } rows[] = {
        {"abc\xFFz", 5, "column 4: byte 0xFF is not valid UTF-8"},
        {"\xC3", 1, "column 1: byte 0xC3 is not valid UTF-8"},
        {"a\xC0\x80", 3, "column 2: byte 0xC0 is not valid UTF-8"},
        {"\xED\xA0\x80", 3, "column 1: byte 0xED is not valid UTF-8"},
        {"\xF4\x90\x80\x80", 4, "column 1: byte 0xF4 is not valid UTF-8"},
        {"\xC3\xA9\x80", 3, "column 3: byte 0x80 is not valid UTF-8"},
        {"ab\0c", 4, "column 3: a NUL byte is not allowed in text"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct qkv_tokens tokens RELEASED(qkv_tokens_release) = {0};
        expect_refusal(qkv_tokenize(&tokens, &words, rows[i].bytes, rows[i].size, &error), rows[i].message);
        cr_expect_eq(tokens.count, 0);
    }
}

/* The word of each token, as digits; ▁ has none. */
static void expect_words(const struct qkv_text_config *text, const char *line, const char *digits,
                         int64_t count)
{
    struct qkv_tokens tokens RELEASED(qkv_tokens_release) = {0};
    char found[32] = "";
    for (int round = 0; round < 2; round++) { /* in the storage of a line before as well */
        cr_assert_eq(qkv_tokenize(&tokens, text, line, strlen(line), NULL), QKV_OK);
        for (int64_t i = 0; i < tokens.count; i++)
            found[i] = tokens.word[i] < 0 ? '-' : (char)('0' + tokens.word[i]);
        found[tokens.count] = '\0';
        cr_expect_str_eq(found, digits, "%s: %s", line, found);
        cr_expect_eq(tokens.words, count);
    }
}

Test(tokenizer, numbers_the_word_of_each_token)
{
    expect_words(&words, " a, b\u00A0c! ", "011", 2);
    expect_words(&cut, " a, b\u00A0c! ", "00111", 2);
    expect_words(&cut, "(what's) ... so-called", "0001112", 3);
    expect_words(&french, "l'homme d'or", "0011", 2);
    expect_words(&chars, " ab c ", "00-1", 2);
    expect_words(&words, "  ", "", 0);
}

Test(tokenizer, splits_lines_of_any_length)
{
    enum { COUNT = 100000 };
    char *line RELEASED(free_memory) = malloc(4 * COUNT + 1);
    for (int i = 0; i < COUNT; i++) memcpy(line + 4 * i, i % 2 ? "ab! " : "\u0301\u0323", 4);
    struct qkv_tokens tokens RELEASED(qkv_tokens_release) = {0};
    cr_assert_eq(qkv_tokenize(&tokens, &cut, line, 4 * (size_t)COUNT, &error), QKV_OK);
    cr_assert_eq(tokens.count, COUNT);
    cr_assert_str_eq(tokens.token[1], "￭!");
    /* The same storage again, for something short. */
    cr_assert_eq(qkv_tokenize(&tokens, &cut, "x y", 3, &error), QKV_OK);
    cr_assert_eq(tokens.count, 2);
    cr_assert_str_eq(tokens.token[1], "y");
}

/* Tokens that are joined by bars. */
static int64_t split_bars(const char *bars, const char **tokens)
{
    int64_t count = 0;
    for (char *token = strtok(format("%s", bars), "|"); token; token = strtok(NULL, "|"))
        tokens[count++] = token;
    return count;
}

/* Tokens, joined by bars, to text. */
static void expect_text(const struct qkv_text_config *text, const char *bars, const char *line)
{
    const char *tokens[64];
    struct qkv_arena arena RELEASED(qkv_arena_release) = {0};
    char *got = qkv_detokenize(text, split_bars(bars, tokens), tokens, &arena);
    cr_expect_str_eq(got, line, "%s\n gives %s\n not   %s", bars, got, line);
}

/* The words of tokens, joined by bars: "0 0 1", where . is none. */
static void expect_token_words(const struct qkv_text_config *text, const char *bars, const char *expected)
{
    const char *tokens[64], *got = "";
    int64_t count = split_bars(bars, tokens);
    struct qkv_arena arena RELEASED(qkv_arena_release) = {0};
    const int64_t *word = qkv_token_words(text, count, tokens, &arena);
    cr_assert_not_null(word);
    for (int64_t i = 0; i < count; i++)
        got = format("%s%s%s", got, i ? " " : "", word[i] < 0 ? "." : format("%d", (int)word[i]));
    cr_expect_str_eq(got, expected, "%s: %s, not %s", bars, got, expected);
}

Test(detokenizer, says_which_word_each_token_is_part_of)
{
    const struct qkv_text_config pieces = {.lang = "en", .level = QKV_LEVEL_BPE},
                                 cut_pieces = {
                                     .lang = "en", .level = QKV_LEVEL_BPE, .split_punctuation = true};
    expect_token_words(&words, "Hello|,|world", "0 1 2");
    expect_token_words(&plain, "¿|Qué|?|¡|No|!|(|sí|)|.", "0 0 0 1 1 1 2 2 2 2");
    expect_token_words(&cut, "¿￭|Qué|￭?|¡￭|No|￭!|(￭|sí|￭)|￭.", "0 0 0 1 1 1 2 2 2 2");
    expect_token_words(&plain_french, "l'|homme|,|oui|!", "0 0 0 1 2");
    expect_token_words(&chars, "H|i|▁|y|ou|▁|▁|z", "0 0 . 1 1 . . 2");
    expect_token_words(&chars, "▁|a", ". 0");
    expect_token_words(&pieces, "lo@@|w@@|er|@@|a@@|,|b@@", "0 0 0 1 2 2 3");
    expect_token_words(&cut_pieces, "lo@@|w|￭,|b@@|e|￭!", "0 0 0 1 1 1");
    expect_token_words(&pieces, "", "");
    struct qkv_text_config wrong = {.level = (enum qkv_level)99};
    struct qkv_arena arena RELEASED(qkv_arena_release) = {0};
    cr_expect_null(qkv_token_words(&wrong, 0, NULL, &arena));
}

Test(detokenizer, joins_tokens)
{
    static const struct {
        const struct qkv_text_config *text;
        const char *from, *to;
    } rows[] = {
        /* Words and characters. */
        {&words, "Hello|,|world", "Hello , world"},
        {&words, "", ""},
        {&chars, "H|i|▁|y|ou", "Hi you"},
        {&cut, "", ""},
        /* Tokens with joiners: they join where a token says so. */
        {&cut, "¿￭|Qué|￭?|¡￭|No|￭!|(￭|sí|￭)|￭.", "¿Qué? ¡No! (sí)."},
        {&cut, "and|￭/￭|or|a|b|-|c", "and/or a b - c"},
        {&cut, "R|￭&￭|D|C|￭#|and|10|￭–￭|20|—￭|Hola", "R&D C# and 10–20 —Hola"},
        {&cut, "?|￭!", "?!"},
        {&french, "l'￭|homme|Oui|!", "l'homme Oui !"},
        {&words, "a|￭,|b", "a ￭, b"}, /* a text that is tokenized already */
        /* Runs of format 1, whose tokens have no joiners: spaces around punctuation, */
        {&plain, "¿|Qué|?|¡|No|!|(|sí|)|.", "¿Qué? ¡No! (sí)."},
        {&plain, "wait|.|.|.|what|?|!", "wait... what?!"},
        {&plain, "and|/|or|a|@|b|#|1|50|%|x|_|y", "and/or a@b #1 50% x_y"},
        {&plain, "$|5|or|5|€", "$5 or 5 €"},
        {&plain, "今日は|、|いい天気|。|はい", "今日は、いい天気。はい"},
        {&plain, "a|-|b|<unk>|.", "a - b <unk>."},
        {&plain, "l'|homme", "l' homme"},
        {&plain, "a|-|-|b|+|c|in|C|+|+", "a -- b + c in C++"},
        {&plain, "5|°|C|or|41|°|F|,|at|90|°|now", "5°C or 41°F, at 90° now"},
        {&words, "a|-|-|b", "a - - b"},
        /* quotes that open and close, */
        {&plain, "\"|Yes|,|\"|he|said|,|\"|no|.|\"", "\"Yes,\" he said, \"no.\""},
        {&plain, "„|Ja|“|,|“|no|”|,|”|nej|”|x", "„Ja“, “no”, ”nej” x"},
        {&plain, "»|ja|«|und|«|sí|»|y", "»ja« und «sí» y"},
        {&plain, "‘|a|’|and|dogs|’|bones", "‘a’ and dogs’ bones"},
        {&plain, "‹|a|›|'|b|'|c", "‹a› 'b' c"},
        {&plain, "The|dogs|'|bones|.", "The dogs' bones."},
        {&plain, "It|is|'|new|'|,|he|says", "It is 'new', he says"},
        {&plain, "'|The|boys|'|,|she|said", "'The boys', she said"},
        {&plain, "s|'|x", "s 'x"},
        /* and French spacing. */
        {&plain_french, "l'|homme|d’|eau", "l'homme d’eau"},
        {&plain_french, "Quoi|?|!|Oui|;|non|:|10|%|.", "Quoi\u00A0?! Oui\u00A0; non\u00A0: 10\u00A0%."},
        {&plain_french, "«|Oui|!|»|,|dit-il|.", "«\u00A0Oui\u00A0!\u00A0», dit-il."},
        {&plain_french, "(|ah|!|)", "(ah\u00A0!)"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        expect_text(rows[i].text, rows[i].from, rows[i].to);
}

/* A model can write joiners at the ends of a line, and several at one boundary. */
Test(detokenizer, joins_once_where_joiners_contradict)
{
    expect_text(&cut, "￭,|a|(￭", ", a (");
    expect_text(&cut, "(￭|￭)|a|￭.￭|￭.￭|b", "() a..b");
    expect_text(&cut, "a|￭|b|￭￭|c", "a bc"); /* none of these comes from a text */
    expect_text(&cut, "￭", "");
    expect_token_words(&cut, "￭,|a|(￭|b|￭,|c", "0 1 2 2 2 3");
}

Test(tokenizer, escapes_its_own_marks)
{
    expect(&cut, "￭a a￭b", "\uFFED\uFE0E\uFFED|a|a|\uFFED\uFFED\uFE0E\uFFED|b");
    expect_text(&cut, "\uFFED\uFE0E\uFFED|a|a|\uFFED\uFFED\uFE0E\uFFED|b", "￭a a￭b");
    expect(&cut, "￭\uFE0E", "￭\uFE0E\uFE0E");
    expect_text(&cut, "￭\uFE0E\uFE0E", "￭\uFE0E");
    expect(&words, "￭a", "￭a");
    expect(&plain, "￭a", "￭|a");
    expect(&chars, "a▁ b", "a|▁\uFE0E|▁|b");
    expect_text(&chars, "a|▁\uFE0E|▁|b", "a▁ b");
}

Test(tokenizer, shows_the_plain_mark)
{
    struct qkv_arena arena RELEASED(qkv_arena_release) = {0};
    static const char *const rows[][2] = {{"￭,", ","}, {"(￭", "("}, {"￭/￭", "/"},          {"l'￭", "l'"},
                                          {"a", "a"},  {"￭", "￭"},  {"￭\uFE0E", "￭\uFE0E"}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        cr_expect_str_eq(qkv_token_shown(rows[i][0], &arena), rows[i][1]);
}

/* A mark that the vocabulary has only with other joiners is that one, rather than unknown. */
Test(tokenizer, finds_a_mark_with_other_joiners)
{
    struct qkv_vocabulary vocabulary RELEASED(qkv_vocabulary_release) = {0};
    const char *path = write_text(scratch("x"), "vocabulary", "<unk>\n<s>\n</s>\na\n￭?\n\"￭\n￭\"\n￭b\n");
    expect_done(qkv_vocabulary_load(&vocabulary, path, &error));
    static const struct {
        const char *token;
        int32_t id;
    } rows[] = {{"￭?", 4}, {"?", 4}, {"￭?￭", 4}, {"?￭", 4}, {"\"￭", 5},
                {"\"", 6}, {"b", 0}, {"￭a", 0},  {"!", 0}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        cr_expect_eq(qkv_vocabulary_id(&vocabulary, rows[i].token), rows[i].id, "%s", rows[i].token);
}

Test(old_runs, restore_ordinary_text)
{
    static const char *const lines[] = {
        "Don't you (really) know? It's 10:30, 3.14% of 1,000!",
        "¡Hola! ¿Cómo estás, \"amigo\"?",
        "„Vor- und Nachteile“, sagte Herr O'Neill: 5 € sind zu viel.",
    };
    for (size_t i = 0; i < sizeof lines / sizeof *lines; i++)
        expect_text(&plain, joined(&plain, lines[i]), lines[i]);
    const char *line = "Qu'est-ce que c'est\u00A0? «\u00A0L'eau\u00A0», dit-il.";
    expect_text(&plain_french, joined(&plain_french, line), line);
}

/* Marks are brought into their order in linear time: a million of them takes milliseconds. */
Test(tokenizer, orders_many_combining_marks)
{
    enum { PAIRS = 500000 };
    char *line RELEASED(free_memory) = malloc(1 + 4 * PAIRS),
               *sorted RELEASED(free_memory) = malloc(1 + 4 * PAIRS);
    line[0] = sorted[0] = 'a';
    for (size_t i = 0; i < PAIRS; i++) {
        memcpy(line + 1 + 4 * i, "\u0317\u0316", 4); /* both below: they keep their order */
        if (i % 2) memcpy(line + 1 + 4 * i, "\u0338\u0316", 4);
    }
    size_t end = 1;
    for (int overlay = 1; overlay >= 0; overlay--) /* U+0338, of class 1, comes before those of class 220 */
        for (size_t i = 0; i < 2 * PAIRS; i++)
            if ((memcmp(line + 1 + 2 * i, "\u0338", 2) == 0) == overlay) {
                memcpy(sorted + end, line + 1 + 2 * i, 2);
                end += 2;
            }
    const struct qkv_text_config text = {.lang = "en", .level = QKV_LEVEL_WORD};
    struct qkv_tokens tokens RELEASED(qkv_tokens_release) = {0};
    cr_assert_eq(qkv_tokenize(&tokens, &text, line, 1 + 4 * PAIRS, NULL), QKV_OK);
    cr_assert_eq(tokens.count, 1);
    cr_assert_eq(strlen(tokens.token[0]), end);
    cr_assert_eq(memcmp(tokens.token[0], sorted, end), 0);
}

Test(tokenizer, notices_capitals_and_text_that_is_tokenized)
{
    static const struct {
        const char *text;
        bool has_capitals, looks_tokenized;
    } rows[] = {
        {"", false, false},       {"A", true, false},
        {"a man .", false, true}, {"a man .  ", false, true},
        {".", false, false},      {" .", false, false},
        {"A man.", true, false},  {"a man in Rome", true, false},
        {"Ça va ?", true, false}, {"Été", true, false},
        {"xΣ", true, false},      {"é", false, false},
        {"ß", false, false},      {"12 日", false, false},
        {"a & b", false, false},  {"it &apos;s here", false, true},
        {"x@-@y", false, false},  {"well @-@ known", false, true},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        cr_expect(qkv_text_has(rows[i].text, qkv_is_capital) == rows[i].has_capitals &&
                      qkv_looks_tokenized(rows[i].text) == rows[i].looks_tokenized,
                  "%s", rows[i].text);
}
