#include "metrics/alignment.h"

#include "gold_links.h"
#include "metrics/links.h"

Test(pharaoh, reads_sure_and_possible_links)
{
    struct qkv_alignments read RELEASED(qkv_alignments_release) =
        read_links("reads", "0-0 1p2\t2?10 3:0 \n\n1p1 1-1 1p1\r\n12-3");
    cr_assert_eq(read.count, 4);
    cr_assert_eq(read.sentences[0].count, 4);
    const struct qkv_alignment_link *links = read.sentences[0].links;
    cr_assert(links[0].source == 0 && links[0].target == 0 && links[0].sure && links[0].column == 1);
    cr_assert(links[1].source == 1 && links[1].target == 2 && !links[1].sure && links[1].column == 5);
    cr_assert(links[2].source == 2 && links[2].target == 10 && !links[2].sure);
    cr_assert(links[3].source == 3 && links[3].target == 0 && !links[3].sure);
    cr_assert_eq(read.sentences[1].count, 0);
    cr_assert_eq(read.sentences[2].count, 1, "the same link counts once");
    cr_assert(read.sentences[2].links[0].sure, "and is sure if it is so once");
    cr_assert(read.sentences[3].links[0].source == 12 && read.sentences[3].links[0].line == 4);
}

Test(pharaoh, reads_more_lines_than_fit_at_first)
{
    char text[4 * 1000 + 1];
    for (int i = 0; i < 1000; i++) memcpy(text + 4 * i, "1-0\n", 5);
    struct qkv_alignments read RELEASED(qkv_alignments_release) = read_links("many", text);
    cr_assert_eq(read.count, 1000);
    for (int i = 0; i < 1000; i++)
        cr_assert(read.sentences[i].links[0].source == 1 && read.sentences[i].links[0].line == i + 1);
}

/* Equal links are found without looking at all others. The limit only ends a program that does look at all others: that
 * takes more than a minute, and the right one less than a second. */
Test(pharaoh, merges_many_links_of_a_line, .timeout = 30)
{
    enum { COUNT = 200000 };
    char *text RELEASED(free_memory) = malloc(40 * COUNT), *end = text;
    for (int i = 0; i < COUNT; i++) end += sprintf(end, "%dp%d ", i % 500, i / 500);
    for (int i = 0; i < COUNT; i++) end += sprintf(end, "%d-%d ", i % 500, i / 500);
    struct qkv_alignments gold RELEASED(qkv_alignments_release) = {0};
    cr_assert_eq(qkv_alignments_read(&gold, write_text(scratch("many"), "gold.links", text), QKV_LINKS_FROM_0,
                                     NULL, 0, NULL),
                 QKV_OK);
    cr_assert_eq(gold.count, 1);
    cr_assert_eq(gold.sentences[0].count, COUNT);
    for (int i = 0; i < COUNT; i++) {
        const struct qkv_alignment_link *link = &gold.sentences[0].links[i];
        cr_assert(link->source == i / 400 && link->target == i % 400 && link->sure);
    }
}

/* Links as text: "0-0 1p1 ". */
static const char *text_of(const struct qkv_alignment *links)
{
    const char *text = "";
    for (int64_t i = 0; i < links->count; i++) {
        const struct qkv_alignment_link *link = &links->links[i];
        text = format("%s%d%c%d ", text, (int)link->source, link->sure ? '-' : 'p', (int)link->target);
    }
    return text;
}

/* ---- formats, and from which number words count ---- */

/* The links of a file, as text: "0-0 1p1 | 2-2 | | 3-3", or what is said about it, without its path. */
static const char *read_as(enum qkv_links_from from, const struct qkv_word_counts *words, int64_t pairs,
                           const char *text, struct qkv_alignments *gold)
{
    const char *path = write_text(scratch("read_as"), "gold", text), *links = "";
    if (qkv_alignments_read(gold, path, from, words, pairs, &error)) {
        cr_assert(begins(error.message, path) && gold->count == 0);
        return error.message + strlen(path);
    }
    for (int64_t i = 0; i < gold->count; i++)
        links = format("%s%s%s", links, i ? "| " : "", text_of(&gold->sentences[i]));
    return links;
}

#define GOLD "0-0 1p1 | 2-2 | | 0-1 3-3 "
#define EITHER                                                                                               \
    ": words may count from 0 or from 1: no link has a word 0, nor a word that only counting from 1 "        \
    "explains; say which with --links-from 0 or --links-from 1 (in a config: data.train_links_from)"
#define NO_LINK                                                                                              \
    " is not a link between words: write 0-2 for a sure link from the first source word to the third "       \
    "target "                                                                                                \
    "word, 0p2 for a possible one"
#define NO_WA_LINE                                                                                           \
    " is not a line of a .wa file: number of a sentence pair, source word, target word, and S (sure) or P "  \
    "(possible), as in 1 1 3 S"

Test(formats, are_read_or_refused)
{
    enum { DETECTED = QKV_LINKS_FROM_DETECTED, FROM_0 = QKV_LINKS_FROM_0, FROM_1 = QKV_LINKS_FROM_1 };
    /* Four sentence pairs, of 2, 3, 5 and 4 words; without pairs, the text is not known. */
    static const struct qkv_word_counts words[] = {{2, 2}, {3, 3}, {5, 4}, {4, 4}};
    static const struct {
        int from, pairs;
        const char *text, *seen;
    } rows[] = {
        /* The format and the first word are detected. */
        {DETECTED, 4, "0-0 1p1\n2-2\n\n3-3 0-1\n", GOLD},
        /* Word 4 of 4: only counting from 1 explains it. */
        {DETECTED, 4, "1-1 2p2\n3-3\n\n4-4 1-2\n", GOLD},
        {DETECTED, 4,
         "a b\tx y\t0-0 1?1\na b c\tx y z\t2-2\na b c d e\tx y z v\t\na b c d\tx y z v\t3-3 0-1\n", GOLD},
        {DETECTED, 4,
         "a b\tx y\t1-1 2?2\r\na b c\tx y z\t3-3\r\na b c d e\tx y z v\t\r\na b c d\tx y z v\t4-4 1-2\r\n",
         GOLD},
        {DETECTED, 4, "1 1 1\n1 2 2 P\n2 3 3 S\n4 4 4 S\n4 1 2\n", GOLD},
        {DETECTED, 4, "\n0004 4 4 S 0.9\n0004 1 2 0.1\n0001 2 2 P 1e-3\n\n0002 3 3\n0001 1 1 S\n", GOLD},
        {DETECTED, 4, "\n\n\n\n", "| | | "},
        /* A first word that is given is obeyed. Links of a .wa file to no word are left out. */
        {FROM_1, 4, "1-1\n1-1\n1-2\n1-1\n", "0-0 | 0-0 | 0-1 | 0-0 "},
        {FROM_0, 4, "1-1\n1-1\n1-2\n1-1\n", "1-1 | 1-1 | 1-2 | 1-1 "},
        {FROM_0, 4, "1 1 1 P\n2 0 2\n", "1p1 | 0-2 | | "},
        {FROM_1, 4, "1 1 0 P\n1 0 2\n2 1 2\n", "| 0-1 | | "},
        /* What is ambiguous is refused, */
        {DETECTED, 4, "1-1\n1-1\n1-2\n1-1\n", EITHER},
        {DETECTED, 0, "1-1\n", EITHER},
        {DETECTED, 4, "1 1 1 P\n1 1 2\n2 0 1\n",
         ":3:3: the words of a .wa file count from 1, but here is word 0: if it means no word, --links-from "
         "1 "
         "leaves such links out; if words count from 0, give --links-from 0 (in a config: "
         "data.train_links_from)"},
        {FROM_1, 4, "1-1\n1-1\n1-2 1-0\n1-1\n",
         ":3:5: here is word 0, but --links-from 1 (in a config: data.train_links_from) says that words "
         "count "
         "from 1"},
        /* what does not fit the text, */
        {DETECTED, 4, "0-0\n\n\n0-4\n", ":4:1: link 0-4 has no target word 4: the sentence has 4, from 0"},
        {DETECTED, 4, "1-1\n1-1\n\n5p1\n", ":4:1: link 5p1 has no source word 5: the sentence has 4, from 1"},
        {FROM_0, 4, "1-1 2-1\n\n\n\n", ":1:5: link 2-1 has no source word 2: the sentence has 2, from 0"},
        {DETECTED, 4, "1 1 1\n2 3 3\n2 4 3\n",
         ":3:3: link 4-3 has no source word 4: the sentence has 3, from 1"},
        {DETECTED, 4, "0-0\n\n\n", ": has 3 lines, but the corpus has 4 pairs"},
        {DETECTED, 4, "1 1 1\n5 1 1\n", ":2: a link of sentence pair 5, but the corpus has 4 pairs"},
        {DETECTED, 4, "0 1 1\n", ":1: sentence pairs have the numbers 1, 2, ..., not 0"},
        {DETECTED, 4, "a b\tc d\t0-0\na b\u00a0c\t d e\t0-0\n",
         ":2: the source has 2 words, but that of the text has 3: these are links of another text, or of "
         "other "
         "tokens"},
        {DETECTED, 4, "a\tb\t0-0\n",
         ":1: the source has 1 word, but that of the text has 2: these are links of another text, or of "
         "other "
         "tokens"},
        /* and what is no link. */
        {DETECTED, 4, "1 1 1\n1 1-2\n", ":2:" NO_WA_LINE},
        {DETECTED, 4, "1 1 1 X\n", ":1:" NO_WA_LINE},
        {DETECTED, 4, "a b\tc d\t0-0\na\tb\n",
         ":2: the line has no third column; a line is source<TAB>target<TAB>links, as in the lines before "
         "it"},
        {DETECTED, 4, "a b\tc d\n",
         ":1: has two columns, but links are the third: source<TAB>target<TAB>0-0 1-2"},
        {DETECTED, 4, "a b\tc d\t0-0 x\n", ":1:13: x" NO_LINK},
        {FROM_0, 0, "0-0 1_2\n", ":1:5: 1_2" NO_LINK},
        {FROM_0, 0, "\n0-\n", ":2:1: 0-" NO_LINK},
        {FROM_0, 0, "-1", ":1:1: -1" NO_LINK},
        {FROM_0, 0, "0-1x 2-2", ":1:1: 0-1x" NO_LINK},
        {FROM_0, 0, "7", ":1:1: 7" NO_LINK},
        {FROM_0, 0, "1-2-3", ":1:1: 1-2-3" NO_LINK},
        {FROM_0, 0, "0-12345678901", ":1:1: 0-12345678901" NO_LINK},
        {9, 0, "1-1\n", ": `from` is 9, which is no value of enum qkv_links_from"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct qkv_alignments gold RELEASED(qkv_alignments_release) = {0};
        const char *seen = read_as((enum qkv_links_from)rows[i].from, rows[i].pairs ? words : NULL,
                                   rows[i].pairs, rows[i].text, &gold);
        cr_expect_str_eq(seen, rows[i].seen, "%s\n gives %s", rows[i].text, seen);
    }
}

/* For awk and fast_align, the words are 10<no-break space>km and far; for Python's split, 10, km and far. */
Test(formats, fit_words_between_other_white_space)
{
    static const struct {
        const char *links, *seen;
        bool by_unicode;
    } cases[] = {
        {"0-0 1-1\n0-0\n", "0-0 1-1 | 0-0 ", false},
        {"0-0 1-0 2-1\n0-0\n", "0-0 1-1 | 0-0 ", true},
        {"1-1 3-2\n1-1\n", "0-0 1-1 | 0-0 ", true},
        {"1 1 1\n1 3 2\n2 1 1\n", "0-0 1-1 | 0-0 ", true},
        {"0-0 3-1\n0-0\n",
         ":1:5: link 3-1 has no source word 3: the sentence has 2, from 0; nor do the links fit words that "
         "any white space separates: sentence pair 1 has U+00A0 between words",
         false},
    };
    const struct qkv_word_counts words[] = {{2, 2, {"10\u00a0km far", "a b"}}, {1, 1, {"c", "d"}}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct qkv_alignments gold RELEASED(qkv_alignments_release) = {0};
        const char *seen = read_as(QKV_LINKS_FROM_DETECTED, words, 2, cases[i].links, &gold);
        cr_expect_str_eq(seen, cases[i].seen, "%s", cases[i].links);
        if (!gold.count) continue;
        cr_expect(gold.spaces.pair == 1 && gold.spaces.space == 0xA0 &&
                      gold.spaces.by_unicode == cases[i].by_unicode,
                  "%s", cases[i].links);
    }
}

/* Neither reaches a pair that `words` does not have, nor a number that int64_t does not have. tests/data/lines.c has other
 * files that cannot be read. */
Test(formats, refuse_missing_files_and_counts_and_words_out_of_range)
{
    struct qkv_alignments alignments;
    expect_refusal(qkv_alignments_read(&alignments, "no/such/file", QKV_LINKS_FROM_0, NULL, 0, &error),
                   "no/such/file: cannot be read: No such file or directory");
    const struct qkv_word_counts *words = calloc(1, sizeof *words);
    const char *path = write_text(scratch("count"), "links", "0-0\n");
    expect_refusal(qkv_alignments_read(&alignments, path, QKV_LINKS_FROM_DETECTED, words, -1, &error),
                   format("%s: there cannot be -1 sentence pairs", path));
    free((void *)words);
    const struct qkv_alignment_link link = {.source = INT64_MAX, .target = INT64_MAX, .sure = true};
    const struct qkv_alignment alignment = {.links = &link, .count = 1, .from = 1};
    expect_refusal(qkv_alignment_check(&alignment, (struct qkv_word_counts){1, 1}, &error),
                   "links:0:0: link 9223372036854775807-9223372036854775807 has no source word "
                   "9223372036854775807: the sentence has 1, from 1");
}

/* ---- drawing links ---- */

/* Links as text: "0-0 1-1". */
static const char *drawn(const struct qkv_word_map *map, const struct qkv_word_map *reverse,
                         enum qkv_alignment_drawing drawing, double threshold)
{
    struct qkv_arena arena RELEASED(qkv_arena_release) = {0};
    struct qkv_alignment links;
    char *text = format("%s", "");
    expect_done(qkv_alignment_draw(map, reverse, drawing, threshold, &arena, &links, &error));
    for (int64_t i = 0; i < links.count; i++)
        text = format("%s%s%lld-%lld", text, i ? " " : "", (long long)links.links[i].source,
                      (long long)links.links[i].target);
    return text;
}

/* A map [count, count] whose row i is strongest in column strongest[i]. */
static struct qkv_word_map map_of(const int *strongest, int64_t count, double *weights)
{
    for (int64_t i = 0; i < count * count; i++) weights[i] = strongest[i / count] == i % count ? 0.7 : 0.05;
    return (struct qkv_word_map){weights, count, count};
}

/* By hand, links as source-target. T: 0-0 1-1 1-2 3-3 0-4 6-5 4-6; S: 0-0 1-1 2-3 3-2 4-5 5-1 6-6. Grow-diag: 1-1 adds
 * 1-2 below it, which adds 2-3 beside its corner; 2-3 first adds 3-3 in its row, so that 3-2 at its corner links no new
 * word any more. Final: 6-5 and 4-6 of T, after which 4-5 and 6-6 of S link no new words; 0-4 and 5-1 link one word that
 * has a link. */
Test(drawing, symmetrizes_as_by_hand)
{
    static const int to_source[] = {0, 1, 1, 3, 0, 6, 4}, to_target[] = {0, 1, 3, 2, 5, 1, 6};
    double weights[2][7 * 7];
    struct qkv_word_map map = map_of(to_source, 7, weights[0]), reverse = map_of(to_target, 7, weights[1]);
    static const char *const expected[QKV_DRAWINGS] = {
        [QKV_DRAWING_TARGET] = "0-0 0-4 1-1 1-2 3-3 4-6 6-5",
        [QKV_DRAWING_SOURCE] = "0-0 1-1 2-3 3-2 4-5 5-1 6-6",
        [QKV_DRAWING_INTERSECTION] = "0-0 1-1",
        [QKV_DRAWING_UNION] = "0-0 0-4 1-1 1-2 2-3 3-2 3-3 4-5 4-6 5-1 6-5 6-6",
        [QKV_DRAWING_GROW_DIAG] = "0-0 1-1 1-2 2-3 3-3",
        [QKV_DRAWING_GROW_DIAG_FINAL_AND] = "0-0 1-1 1-2 2-3 3-3 4-6 6-5",
    };
    for (enum qkv_alignment_drawing drawing = 0; drawing < QKV_DRAWINGS; drawing++)
        cr_expect_str_eq(drawn(&map, &reverse, drawing, 0), expected[drawing], "%s: %s",
                         qkv_alignment_drawing_name(drawing), drawn(&map, &reverse, drawing, 0));
    cr_expect_str_eq(qkv_alignment_drawing_name(QKV_DRAWING_GROW_DIAG_FINAL_AND), "grow-diag-final-and");
    cr_expect_null(qkv_alignment_drawing_name(QKV_DRAWINGS));
}

/* Two target words, three source words: row 0 has two equal weights, and both rows point at source word 1. */
static double weights[2 * 3] = {0.1, 0.4, 0.4, 0.2, 0.7, 0.1};
static const struct qkv_word_map map = {.weights = weights, .targets = 2, .sources = 3};

Test(drawing, draws_small_maps)
{
    double back[3 * 2] = {0.9, 0.1, 0.25, 0.75, 0.5, 0.5}, row[4] = {0.1, 0.2, 0.4, 0.3},
                    ones[4] = {1, 1, 1, 1}, none[2 * 2] = {0, 0, 0, 0.5};
    const struct qkv_word_map reverse = {back, 3, 2}, wide = {row, 1, 4}, high = {ones, 4, 1},
                              empty = {none, 2, 2}, nothing = {none, 0, 2};
    const struct {
        const struct qkv_word_map *map, *reverse;
        enum qkv_alignment_drawing drawing;
        double threshold;
        const char *links;
    } rows[] = {
        /* One target word and four source words: the link in the middle grows to both sides until nothing changes, to the left
         * against the order in which links are visited. */
        {&wide, &high, QKV_DRAWING_INTERSECTION, 0, "2-0"},
        {&wide, &high, QKV_DRAWING_GROW_DIAG, 0, "0-0 1-0 2-0 3-0"},
        /* The first of equal weights is taken, in rows and columns. */
        {&map, NULL, QKV_DRAWING_TARGET, 0, "1-0 1-1"},
        {&map, NULL, QKV_DRAWING_SOURCE, 0, "0-1 1-1 2-0"},
        {&map, NULL, QKV_DRAWING_UNION, 0, "0-1 1-0 1-1 2-0"},
        /* All links above a threshold are drawn; 0.2 is not above 0.2. */
        {&map, NULL, QKV_DRAWING_TARGET, 0.2, "1-0 1-1 2-0"},
        {&map, NULL, QKV_DRAWING_UNION, 0.95, ""},
        /* The columns are divided by their sums: 1/3 and 2/3, 4/11 and 7/11, 4/5 and 1/5. */
        {&map, NULL, QKV_DRAWING_SOURCE, 0.35, "0-1 1-0 1-1 2-0"},
        {&map, NULL, QKV_DRAWING_SOURCE, 0.64, "0-1 2-0"},
        {&map, &reverse, QKV_DRAWING_SOURCE, 0.3, "0-0 1-1 2-0 2-1"},
        {&map, &reverse, QKV_DRAWING_INTERSECTION, 0.3, "1-1 2-0"},
        /* A word without weight has no link. */
        {&empty, NULL, QKV_DRAWING_UNION, 0, "1-1"},
        {&nothing, NULL, QKV_DRAWING_GROW_DIAG_FINAL_AND, 0, ""},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        cr_expect_str_eq(drawn(rows[i].map, rows[i].reverse, rows[i].drawing, rows[i].threshold),
                         rows[i].links, "row %zu", i);
}

Test(drawing, multiplies_two_directions)
{
    double forward[2 * 3] = {0.1, 0.4, 0.4, 0.2, 0.7, 0.1}, back[3 * 2] = {0.9, 0.1, 0.25, 0.75, 0.5, 0.5};
    const double products[2][3] = {{0.09, 0.1, 0.2}, {0.02, 0.525, 0.05}};
    struct qkv_word_map there = {forward, 2, 3}, reverse = {back, 3, 2};
    cr_assert_eq(qkv_word_maps_multiply(&there, &reverse, &error), QKV_OK);
    for (int t = 0; t < 2; t++)
        for (int s = 0; s < 3; s++) {
            const double *row = products[t];
            cr_expect_float_eq(forward[t * 3 + s], row[s] / (row[0] + row[1] + row[2]), 1e-15);
            cr_expect_float_eq(back[s * 2 + t], row[s] / (products[0][s] + products[1][s]), 1e-15);
        }
    cr_expect_str_eq(drawn(&there, &reverse, QKV_DRAWING_INTERSECTION, 0.5), "1-1 2-0");
    cr_expect_str_eq(drawn(&there, &reverse, QKV_DRAWING_UNION, 0.5), "0-0 1-1 2-0");
    double none[3 * 2] = {0};
    struct qkv_word_map nothing = {none, 3, 2};
    cr_assert_eq(qkv_word_maps_multiply(&there, &nothing, &error), QKV_OK);
    for (int i = 0; i < 6; i++) cr_expect(forward[i] == 0 && none[i] == 0, "%d: no weights agree", i);
    expect_refusal(qkv_word_maps_multiply(&there, &there, &error),
                   "word maps of shapes [2, 3] and [2, 3] are not of the two directions of one "
                   "sentence pair");
}

Test(drawing, refuses_maps_that_do_not_fit_or_that_no_memory_holds)
{
    struct qkv_arena arena RELEASED(qkv_arena_release) = {0};
    struct qkv_alignment links;
    expect_refusal(qkv_alignment_draw(&map, &map, QKV_DRAWING_UNION, 0, &arena, &links, &error),
                   "word maps of shapes [2, 3] and [2, 3] are not of the two directions of one "
                   "sentence pair");
    const struct qkv_word_map largest = {map.weights, INT32_MAX, INT32_MAX};
    expect_refusal(qkv_alignment_draw(&largest, NULL, QKV_DRAWING_UNION, 0, &arena, &links, &error),
                   "out of memory");
}

/* ---- counting ---- */

Test(rates, count_links_that_are_gold)
{
    static const struct qkv_alignment_link links[] = {{0, 1, true},
                                                      {1, 0, true},
                                                      {1, 1, false},
                                                      {2, 0, false}},
                                           few[] = {{0, 0, true}, {1, 0, true}, {2, 0, true}};
    const struct qkv_alignment gold = {.links = links, .count = 4}, some = {.links = few, .count = 3},
                               none = {0};
    struct qkv_alignment_result result = {0};
    qkv_alignment_count(&result, &some, &gold);
    cr_expect(result.links == 3 && result.sure == 2 && result.found_sure == 1 && result.found_possible == 2);
    qkv_alignment_count(&result, &none, &gold);
    cr_expect(result.links == 3 && result.sure == 4, "counts add up");
    cr_expect_float_eq(result.precision, 2. / 3, 1e-15);
    cr_expect_float_eq(result.recall, 1. / 4, 1e-15);
    cr_expect_float_eq(result.error_rate, 1 - 3. / 7, 1e-15);
    struct qkv_alignment_result itself = {0};
    qkv_alignment_count(&itself, &gold, &gold);
    cr_expect(itself.precision == 1 && itself.recall == 1 && itself.error_rate == 0,
              "gold links have no error");
    struct qkv_alignment_result empty = {0};
    const struct qkv_alignment_result nothing = {0};
    qkv_alignment_add(&empty, &nothing);
    cr_expect(empty.precision == 0 && empty.recall == 0 && empty.error_rate == 1);
    struct qkv_alignment_result huge = {
        .links = INT64_MAX, .sure = INT64_MAX, .found_sure = INT64_MAX, .found_possible = INT64_MAX};
    qkv_alignment_add(&huge, &nothing);
    cr_expect(huge.precision == 1 && huge.recall == 1 && huge.error_rate == 0);
}
