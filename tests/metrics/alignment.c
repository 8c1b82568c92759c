#include "qkv/alignment.h"

#include "gold_links.h"
#include "support.h"

#include <criterion/criterion.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* What is said about a file, without its path. */
static const char *refusal(const char *name, const char *text)
{
    static struct qkv_error error;
    struct qkv_alignments alignments;
    const char *path = write_text(scratch(name), "gold.links", text);
    cr_assert_eq(qkv_alignments_read(&alignments, path, &error), QKV_INVALID);
    cr_assert_eq(strncmp(error.message, path, strlen(path)), 0);
    cr_assert_eq(alignments.count, 0);
    return error.message + strlen(path);
}

Test(pharaoh, reads_sure_and_possible_links)
{
    struct qkv_alignments read = read_links("reads", "0-0 1p2\t2?10 \n\n1p1 1-1 1p1\r\n12-3");
    cr_assert_eq(read.count, 4);
    cr_assert_eq(read.sentences[0].count, 3);
    const struct qkv_alignment_link *links = read.sentences[0].links;
    cr_assert(links[0].source == 0 && links[0].target == 0 && links[0].sure && links[0].column == 1);
    cr_assert(links[1].source == 1 && links[1].target == 2 && !links[1].sure && links[1].column == 5);
    cr_assert(links[2].source == 2 && links[2].target == 10 && !links[2].sure);
    cr_assert_eq(read.sentences[1].count, 0);
    cr_assert_eq(read.sentences[2].count, 1, "the same link counts once");
    cr_assert(read.sentences[2].links[0].sure, "and is sure if it is so once");
    cr_assert(read.sentences[3].links[0].source == 12 && read.sentences[3].line == 4);
    qkv_alignments_release(&read);
}

Test(pharaoh, reads_more_lines_than_fit_at_first)
{
    char text[4 * 1000 + 1];
    for (int i = 0; i < 1000; i++) memcpy(text + 4 * i, "1-0\n", 5);
    struct qkv_alignments read = read_links("many", text);
    cr_assert_eq(read.count, 1000);
    for (int i = 0; i < 1000; i++)
        cr_assert(read.sentences[i].links[0].source == 1 && read.sentences[i].line == i + 1);
    qkv_alignments_release(&read);
}

/* Equal links are found without looking at all others. The limit only ends a program that does look at all others: that
 * takes more than a minute, and the right one less than a second. */
Test(pharaoh, merges_many_links_of_a_line, .timeout = 30)
{
    enum { COUNT = 200000 };
    char *text = malloc(40 * COUNT), *end = text;
    for (int i = 0; i < COUNT; i++) end += sprintf(end, "%dp%d ", i % 500, i / 500);
    for (int i = 0; i < COUNT; i++) end += sprintf(end, "%d-%d ", i % 500, i / 500);
    struct qkv_alignments gold = {0};
    cr_assert_eq(qkv_alignments_read(&gold, write_text(scratch("many"), "gold.links", text), NULL), QKV_OK);
    cr_assert_eq(gold.count, 1);
    cr_assert_eq(gold.sentences[0].count, COUNT);
    for (int i = 0; i < COUNT; i++) {
        const struct qkv_alignment_link *link = &gold.sentences[0].links[i];
        cr_assert(link->source == i % 500 && link->target == i / 500 && link->sure);
    }
    qkv_alignments_release(&gold);
    free(text);
}

Test(pharaoh, points_at_what_is_no_link)
{
    static const char rest[] =
        " is not a link between words: write 0-2 for a sure link from the first source word to the "
        "third target word, 0p2 for a possible one";
    static const struct {
        const char *text, *place, *link;
    } cases[] = {{"0-0 1_2\n", ":1:5: ", "1_2"},
                 {"\n0-\n", ":2:1: ", "0-"},
                 {"-1", ":1:1: ", "-1"},
                 {"0-1x 2-2", ":1:1: ", "0-1x"},
                 {"7", ":1:1: ", "7"},
                 {"1-2-3", ":1:1: ", "1-2-3"},
                 {"0-12345678901", ":1:1: ", "0-12345678901"}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        cr_assert_str_eq(refusal("points", cases[i].text),
                         format("%s%s%s", cases[i].place, cases[i].link, rest));
}

Test(pharaoh, refuses_files_that_are_none)
{
    struct qkv_alignments alignments;
    struct qkv_error error;
    cr_assert_eq(qkv_alignments_read(&alignments, "no/such/file", &error), QKV_INVALID);
    cr_assert_str_eq(error.message, "no/such/file: cannot be read: No such file or directory");
    const char *folder = scratch("binary"), *path = write_bytes(folder, "gold.links", "0-0\0001-1\n", 8);
    cr_assert_eq(qkv_alignments_read(&alignments, path, &error), QKV_INVALID);
    cr_assert_str_eq(error.message, format("%s:1:4: a NUL byte is not allowed in text", path));
    cr_assert_eq(qkv_alignments_read(&alignments, folder, &error), QKV_INVALID);
    cr_assert_str_eq(error.message, format("%s: cannot be read: it is a folder", folder));
}

/* Two target words, three source words: row 0 has two equal weights, and both rows point at source word 1. */
static double weights[2 * 3] = {0.1, 0.4, 0.4, 0.2, 0.7, 0.1};
static const struct qkv_word_map map = {.weights = weights, .targets = 2, .sources = 3};
static const struct qkv_alignment_link links[] = {{1, 0, true, 1}, {2, 0, false, 5}, {0, 1, true, 9}};
static const struct qkv_alignment gold = {.links = links, .count = 3};

Test(alignment, draws_one_link_for_each_row)
{
    struct qkv_alignment_result result = {.drawing = QKV_LINK_ROWS};
    qkv_alignment_count(&result, &map, &gold); /* draws 1-0, the first of the equal ones, and 1-1 */
    cr_expect_eq(result.links, 2);
    cr_expect_eq(result.sure, 2);
    cr_expect_eq(result.found_sure, 1);
    cr_expect_eq(result.found_possible, 1);
    qkv_alignment_count(&result, &map, &gold);
    cr_expect(result.links == 4 && result.sure == 4, "counts add up");
}

Test(alignment, draws_links_for_columns_too)
{
    struct qkv_alignment_result result = {.drawing = QKV_LINK_BOTH};
    qkv_alignment_count(&result, &map, &gold); /* and 0-1, 2-0; 1-1 is drawn already */
    cr_expect_eq(result.links, 4);
    cr_expect_eq(result.found_sure, 2);
    cr_expect_eq(result.found_possible, 3);
}

Test(alignment, computes_the_rates_of_results)
{
    struct qkv_alignment_result results[] = {
        {.drawing = QKV_LINK_ROWS, .links = 4, .sure = 2, .found_sure = 1, .found_possible = 2},
        {.drawing = QKV_LINK_BOTH, .links = 4, .sure = 2, .found_sure = 2, .found_possible = 4},
    };
    const struct qkv_alignment_score score = {.results = results, .count = 2, .sentences = 1};
    struct qkv_alignment_result rows = qkv_alignment_score_best(&score, QKV_LINK_ROWS);
    cr_expect(rows.precision == 0.5 && rows.recall == 0.5 && rows.error_rate == 0.5);
    cr_expect_eq(qkv_alignment_score_best(&score, QKV_LINK_BOTH).error_rate, 0);
}
