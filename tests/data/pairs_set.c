/* Describing, cleaning and splitting sets of pairs. */
#include "data/pairs.h"

#include "support.h"

#include <ctype.h>

static struct qkv_pairs pairs_of(const char *text)
{
    struct qkv_pairs pairs;
    struct qkv_pairs_request request = {.path = write_text(scratch("pairs"), "in.tsv", text)};
    expect_done(qkv_pairs_read(&pairs, request, &error));
    return pairs;
}

static const char *described(const char *text)
{
    struct qkv_pairs pairs RELEASED(qkv_pairs_release) = pairs_of(text);
    struct qkv_pairs_statistics facts;
    expect_done(qkv_pairs_describe(&pairs, &facts, &error));
    const char *shown = format("repeated %d, shared %d, markup %d", (int)facts.repeated, (int)facts.shared,
                               (int)facts.markup);
    for (int side = 0; side < 2; side++)
        shown = format("%s; %s %.3f, words %d up to %d, characters %d of %d%s", shown,
                       facts.side[side].script, facts.side[side].script_share, (int)facts.side[side].words,
                       (int)facts.side[side].longest, (int)facts.side[side].characters,
                       (int)facts.side[side].alphabet, facts.side[side].has_spaces ? ", spaces" : "");
    return shown;
}

Test(pairs_set, describes_both_sides)
{
    static const char *const rows[][2] = {
        /* Of "Go on.", "go, on" and the repeated pair; G o n . Y e s , g ! A l */
        {"Go on.\t\u0418\u0434\u0438!\nYes, go!\t\u0418\u0434\u0438 \u0438 \u0438\u0434\u0438\n"
         "go, on\t\u0418\u0434\u0438\nGo on.\t\u0418\u0434\u0438!\nAlone.\t\u041e\u0434\u0438\u043d\n",
         "repeated 1, shared 3, markup 0; Latin 1.000, words 9 up to 2, characters 32 of 12, spaces; "
         "Cyrillic 1.000, words 7 up to 3, characters 24 of 6, spaces"},
        {"one\t\u4f60\u597d\ntwo\t\u4f60\u597d abcde\n",
         "repeated 0, shared 0, markup 0; Latin 1.000, words 2 up to 1, characters 6 of 5, spaces; "
         "Latin 0.556, words 3 up to 2, characters 10 of 7, spaces"},
        {"one\t\u65e5\u672c\u8a9e\u3092\u8a71\u3059\n",
         "repeated 0, shared 0, markup 0; Latin 1.000, words 1 up to 1, characters 3 of 3, spaces; Japanese "
         "1.000, words 1 up to 1, characters 6 of 6"},
        {"1 2\t2 1\n", "repeated 0, shared 0, markup 0; unknown 0.000, words 2 up to 2, characters 3 of 2, "
                       "spaces; unknown 0.000, words 2 up to 2, characters 3 of 2, spaces"},
        /* Markup: the first five, and &D; */
        {"a<br>b\tx\na\t<b>x</b>\na&nbsp;b\tx\na <i class=y>b\tx\na<br/>\tx\n"
         "1 < 2 and 3 > 2\tx\nR&D; x\tR & D;\na <heart\tx\nif a<b and c\tx\n",
         "repeated 0, shared 7, markup 6; Latin 1.000, words 22 up to 7, characters 76 of 27, spaces; "
         "Latin 1.000, words 11 up to 3, characters 21 of 9, spaces"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        cr_expect_str_eq(described(rows[i][0]), rows[i][1], "%s\n not %s", described(rows[i][0]), rows[i][1]);
}

Test(pairs_set, removes_markup)
{
    struct qkv_pairs pairs RELEASED(qkv_pairs_release) = pairs_of(
        "a<br>b\tx &amp; y\n<div class=x><b>Go</b>!</div>\tun<i>o</i>\na&nbsp;&nbsp;b\t&lt;b&gt; "
        "&quot;c&#39;s&#x41;\n"
        "<img src=\"x.png\">\tx\n1 < 2 and 3 > 2\tR&D; &#xD800; &#0;&#x1F600;\n&nbsp;\ty\n<br><br>\t<hr>\n");
    static const char *const expected[][2] = {{"a b", "x & y"},
                                              {"Go!", "uno"},
                                              {"a b", "<b> \"c'sA"},
                                              {"1 < 2 and 3 > 2", "R&D; &#xD800; \U0001F600"}};
    struct qkv_pairs_statistics facts;
    cr_assert_eq(qkv_pairs_describe(&pairs, &facts, &error), QKV_OK);
    cr_expect_eq(facts.markup, 7);
    cr_expect_eq(qkv_pairs_remove_markup(&pairs, &facts), 7);
    cr_assert_eq(pairs.count, 4);
    for (int64_t i = 0; i < 4; i++)
        for (int side = 0; side < 2; side++)
            cr_expect_str_eq(qkv_pairs_text(&pairs, i, side), expected[i][side]);
    qkv_pairs_release(&pairs);
    /* The tokenizer of Moses writes entities, which are no markup. */
    pairs = pairs_of("it &apos;s <b>red</b> .\tx\nit &apos;s .\ty\n");
    cr_assert_eq(qkv_pairs_describe(&pairs, &facts, &error), QKV_OK);
    cr_expect_eq(qkv_pairs_remove_markup(&pairs, &facts), 1);
    cr_expect_str_eq(qkv_pairs_text(&pairs, 0, 0), "it &apos;s red .");
}

Test(pairs_set, cleans_repeated_and_unbalanced_pairs)
{
    struct qkv_pairs pairs RELEASED(qkv_pairs_release) =
        pairs_of("a bird\tun ave\na bird\tun ave\nA bird\tun ave\n"
                 "Hi\tthree times\n"
                 "no\tthis translation says far more than its source does\n"
                 "and this source says far more than its translation\tno\n"
                 "an ordinary sentence of some words\tuna frase normal de unas palabras\n");
    struct qkv_pairs_removed removed;
    cr_assert_eq(qkv_pairs_clean(&pairs, &removed, &error), QKV_OK);
    cr_expect_eq(removed.repeated, 1);
    cr_expect_eq(removed.unbalanced, 2);
    cr_assert_eq(pairs.count, 4);
    cr_expect_str_eq(qkv_pairs_text(&pairs, 1, 0), "A bird");
    cr_expect_str_eq(qkv_pairs_text(&pairs, 2, 0), "Hi");
    cr_expect_str_eq(qkv_pairs_text(&pairs, 3, 1), "una frase normal de unas palabras");
}

/* 400 pairs, of which many share sentences: source n / 2, target n / 3, in different spelling. */
static struct qkv_pairs many_pairs(void)
{
    char *text = remember(calloc(400, 64)), *end = text;
    for (int n = 0; n < 400; n++)
        end += sprintf(end, "%s %d%s\tZ%c %d\n", n % 2 ? "Sentence" : "sentence",
                       n % 100 < 40 ? n / 2 : n + 1000, n % 5 ? "." : " !", n % 7 ? 'u' : 'U',
                       n % 100 < 40 ? n / 3 : n + 1000);
    return pairs_of(text);
}

/* Letters and digits in lower case, of ASCII. */
static const char *key_of(const char *text)
{
    char *key = format("%s", text), *end = key;
    for (; *text; text++)
        if (isalnum((unsigned char)*text)) *end++ = (char)tolower((unsigned char)*text);
    *end = '\0';
    return key;
}

Test(pairs_set, splits_without_a_shared_sentence)
{
    struct qkv_pairs pairs RELEASED(qkv_pairs_release) = many_pairs();
    enum qkv_pairs_part part[400], other[400];
    const struct qkv_pairs_parts wanted = {.dev = 30, .test = 20, .seed = 42};
    expect_done(qkv_pairs_split(&pairs, wanted, part, &error));
    int count[QKV_PAIRS_PARTS] = {0}, grouped = 0;
    for (int i = 0; i < 400; i++) count[part[i]]++;
    cr_expect_eq(count[QKV_PAIRS_DEV], 30);
    cr_expect_eq(count[QKV_PAIRS_TEST], 20);
    const char *key[2][400];
    for (int i = 0; i < 400; i++)
        for (int side = 0; side < 2; side++) key[side][i] = key_of(qkv_pairs_text(&pairs, i, side));
    for (int side = 0; side < 2; side++)
        for (int i = 0; i < 400; i++)
            for (int k = 0; k < i; k++) {
                if (strcmp(key[side][i], key[side][k]) != 0) continue;
                cr_assert_eq(part[i], part[k], "lines %d and %d: %s", i + 1, k + 1, key[side][i]);
                grouped++;
            }
    cr_expect_gt(grouped, 100);
    /* A function of the seed. */
    cr_assert_eq(qkv_pairs_split(&pairs, wanted, other, &error), QKV_OK);
    cr_expect_arr_eq(part, other, sizeof part);
    cr_assert_eq(qkv_pairs_split(&pairs, (struct qkv_pairs_parts){30, 20, 43}, other, &error), QKV_OK);
    cr_expect_neq(memcmp(part, other, sizeof part), 0);
}

/* Groups of two pairs fill no odd number. */
Test(pairs_set, makes_no_part_larger_than_wanted)
{
    char *text = remember(calloc(200, 32)), *end = text;
    for (int n = 0; n < 200; n++) end += sprintf(end, "source %d\ttarget %d\n", n, n / 2);
    struct qkv_pairs pairs RELEASED(qkv_pairs_release) = pairs_of(text);
    enum qkv_pairs_part part[200];
    int count[QKV_PAIRS_PARTS] = {0};
    expect_done(qkv_pairs_split(&pairs, (struct qkv_pairs_parts){21, 31, 1}, part, &error));
    for (int i = 0; i < 200; i++) count[part[i]]++;
    cr_expect_eq(count[QKV_PAIRS_DEV], 20);
    cr_expect_eq(count[QKV_PAIRS_TEST], 30);
}

/* The order of the first pairs of dev, recorded once: the same on every machine. */
Test(pairs_set, splits_in_the_same_way_everywhere)
{
    struct qkv_pairs pairs RELEASED(qkv_pairs_release) = many_pairs();
    enum qkv_pairs_part part[400];
    cr_assert_eq(qkv_pairs_split(&pairs, (struct qkv_pairs_parts){5, 5, 1}, part, &error), QKV_OK);
    const char *drawn = "";
    for (int i = 0; i < 400; i++)
        if (part[i]) drawn = format("%s%s%d", drawn, part[i] == QKV_PAIRS_DEV ? " dev " : " test ", i);
    cr_expect_str_eq(drawn,
                     " test 61 test 74 test 89 test 179 dev 195 dev 266 dev 288 test 299 dev 372 dev 383");
}

Test(pairs_set, refuses_what_cannot_be_split)
{
    struct qkv_pairs pairs = pairs_of("a\tyes\nb\tYes!\nc\tyes\nd\tyes.\n");
    enum qkv_pairs_part part[4];
    expect_refusal_with(qkv_pairs_split(&pairs, (struct qkv_pairs_parts){1, 1, 1}, part, &error),
                        "in.tsv: its 4 pairs cannot be split so that no sentence is in two parts, "
                        "because too many of them share a sentence; ask for a smaller dev and test set, "
                        "or add pairs with other sentences");
    expect_refusal_with(qkv_pairs_split(&pairs, (struct qkv_pairs_parts){2, 2, 1}, part, &error),
                        "in.tsv: has 4 pairs; dev (2) and test (2) need at least one each and must "
                        "leave one for training");
    cr_expect_eq(qkv_pairs_split(&pairs, (struct qkv_pairs_parts){0, 1, 1}, part, &error), QKV_INVALID);
    qkv_pairs_release(&pairs); /* makes them all zero */
    expect_refusal(qkv_pairs_split(&pairs, (struct qkv_pairs_parts){1, 1, 1}, part, &error),
                   "no sentence pairs were read");
}
