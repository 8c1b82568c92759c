/* Attention between words, from attention between tokens. */
#include "maps.h"

/* "lower cat" in pieces, and "el gato" with the white space of level char between two words. */
static const char *const source[] = {"lo@@", "w@@", "er", "cat", "</s>"};
static const char *const input[] = {"<s>", "e", "l", "▁", "ga"}, *const output[] = {"e", "l", "▁", "ga",
                                                                                    "</s>"};
static const int64_t source_words[] = {0, 0, 0, 1}, target_words[] = {0, 0, -1, 1};
static const struct qkv_attention_words words = {source_words, target_words};

static const double encoder[5 * 5] = {
    0.1, 0.2, 0.3, 0.4, 0,   0.5, 0.1, 0,   0.3, 0.1, /* lo@@ w@@ */
    0,   0,   0.2, 0.2, 0.6, 0.1, 0.1, 0.1, 0.1, 0.6, /* er cat */
    0,   0,   0.5, 0.5, 0,                            /* </s> */
};
static const double decoder[5 * 5] = {
    1,   0,   0,   0,   0,   0.5, 0.5, 0,   0,   0, /* <s> e */
    0.2, 0.2, 0.6, 0,   0,   0.1, 0.2, 0.3, 0.4, 0, /* l ▁ */
    0.2, 0.2, 0.2, 0.2, 0.2,                        /* ga */
};
static const double cross[5 * 5] = {
    0.2, 0.2, 0.2, 0.3, 0.1, 0,   0,   0,   0.5, 0.5, /* e l */
    1,   0,   0,   0,   0,   0.1, 0.1, 0.1, 0.6, 0.1, /* ▁ ga */
    0,   0,   0,   0,   1,                            /* </s> */
};
static const struct qkv_attention_map maps[] = {
    {QKV_ATTENTION_ENCODER, 1, 2, 5, 5, encoder, "label"},
    {QKV_ATTENTION_DECODER, 1, 1, 5, 5, decoder},
    {QKV_ATTENTION_CROSS, 2, 0, 5, 5, cross},
};
static const struct qkv_attention_report report = REPORT_OF(source, input, output, maps, .title = "title");
static struct qkv_arena arena; /* until the test ends */

static void expect_map(const struct qkv_attention_map *map, int64_t rows, int64_t columns,
                       const double *expected)
{
    cr_assert_eq(map->rows, rows);
    cr_assert_eq(map->columns, columns);
    for (int64_t i = 0; i < rows * columns; i++)
        cr_expect_float_eq(map->weights[i], expected[i], 1e-15, "row %d, column %d: %g, wanted %g",
                           (int)(i / columns), (int)(i % columns), map->weights[i], expected[i]);
}

/* Sums of columns and means of rows, by hand. */
Test(words, sum_columns_and_average_rows)
{
    struct qkv_attention_report merged;
    cr_assert_eq(qkv_attention_merge_words(&report, words, &arena, &merged, &error), QKV_OK);
    cr_assert_eq(merged.map_count, 3);
    expect_tokens(&merged, "lower cat </s>", "<s> el ▁ ga", "el ▁ ga </s>");
    expect_map(&merged.maps[0], 3, 3,
               (const double[]){1.4 / 3, 0.9 / 3, 0.7 / 3, 0.3, 0.1, 0.6, 0.5, 0.5, 0});
    expect_map(&merged.maps[1], 4, 4,
               (const double[]){1, 0, 0, 0, 0.35, 0.65, 0, 0, 0.1, 0.5, 0.4, 0, 0.2, 0.4, 0.2, 0.2});
    expect_map(&merged.maps[2], 4, 3, (const double[]){0.3, 0.4, 0.3, 1, 0, 0, 0.3, 0.6, 0.1, 0, 0, 1});
    cr_expect(merged.maps[0].head == 2 && !strcmp(merged.maps[0].label, "label") &&
              !strcmp(merged.title, "title"));
}

Test(words, are_tokens_where_nothing_else_is_known)
{
    struct qkv_attention_report merged = report;
    cr_assert_eq(qkv_attention_merge_words(&merged, (struct qkv_attention_words){0}, &arena, &merged, &error),
                 QKV_OK);
    expect_tokens(&merged, "lo@@ w@@ er cat </s>", NULL, NULL);
    expect_map(&merged.maps[2], 5, 5, cross);
}

/* A translation that was cut inside a word: the decoder does not read its last piece, which stays apart. */
Test(words, keep_the_last_token_of_a_sentence_that_was_cut)
{
    static const char *const cut_input[] = {"<s>", "el", "ga@@", "t@@"}, *const cut_output[] = {"el", "ga@@",
                                                                                                "t@@", "i@@"};
    static const double all[4 * 5] = {1, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0.5, 0.5, 0},
                                self[4 * 4] = {1, 0, 0, 0, 0, 1, 0, 0, 0, 0, 1, 0, 0, 0.5, 0.25, 0.25};
    static const struct qkv_attention_map two[] = {{QKV_ATTENTION_DECODER, 1, 1, 4, 4, self},
                                                   {QKV_ATTENTION_CROSS, 1, 1, 4, 5, all}};
    static const int64_t cut_words[] = {0, 1, 1, 1};
    const struct qkv_attention_report cut = REPORT_OF(source, cut_input, cut_output, two, );
    struct qkv_attention_report merged;
    cr_assert_eq(qkv_attention_merge_words(&cut, (struct qkv_attention_words){source_words, cut_words},
                                           &arena, &merged, &error),
                 QKV_OK);
    expect_tokens(&merged, NULL, "<s> el gat", "el gat i");
    expect_map(&merged.maps[0], 3, 3, (const double[]){1, 0, 0, 0, 1, 0, 0, 0.25, 0.75});
    expect_map(&merged.maps[1], 3, 3, (const double[]){1, 0, 0, 0.5, 0.5, 0, 0.5, 0.5, 0});
}

Test(words, refuse_maps_that_do_not_fit_their_tokens)
{
    struct qkv_attention_report wrong = report, merged;
    wrong.source_length = 4;
    expect_refusal(qkv_attention_merge_words(&wrong, words, &arena, &merged, &error),
                   "the encoder map has shape [5, 5], but there are 4 and 4 tokens");
}

/* The word that was cut has one piece that the decoder reads; a token before it that is spelled like a piece keeps its @@. */
Test(words, name_a_word_that_was_cut_without_the_mark)
{
    static const char *const pieces[] = {"x@@", "y", "a@@", "b@@"}, *const read[] = {"<s>", "x@@", "y",
                                                                                     "a@@"};
    static const int64_t target[] = {0, 1, 2, 2};
    const struct qkv_attention_report cut = {NULL, NULL, NULL, source, 5, read, pieces, 4};
    struct qkv_attention_report merged;
    const struct qkv_attention_words of_cut = {source_words, target};
    expect_done(qkv_attention_merge_words(&cut, of_cut, &arena, &merged, &error));
    expect_tokens(&merged, NULL, "<s> x@@ y a", "x@@ y a b");
}
