/* Links between words become links between tokens. */
#include "metrics/links.h"

#include "support.h"

/* Reads pairs at level char, whose tokens are pieces of words, and links; returns "pair: target-source share ..." for each
 * pair, or the message. */
static const char *read_links(const char *name, const char *pairs, const char *text)
{
    const char *folder = scratch(name), *path = write_text(folder, "pairs.tsv", pairs);
    const struct qkv_text_config side = {.level = QKV_LEVEL_CHAR, .max_length = 6, .voc_min_freq = 1};
    const struct qkv_data_config data = {.src = side, .trg = side};
    struct qkv_corpus corpus RELEASED(qkv_corpus_release);
    struct qkv_token_links links;
    const struct qkv_corpus_options options = {.drop_long = true, .keep_words = true, .keep_raw = true};
    expect_done(qkv_corpus_read(&corpus, path, &data, options, &error));
    enum qkv_status status = qkv_token_links_read(&links, write_text(folder, "links", text),
                                                  QKV_LINKS_FROM_DETECTED, &corpus, NULL, &error);
    char *result = format("%s", status ? strrchr(error.message, '/') + 1 : "");
    for (int64_t pair = 0; !status && pair < links.pairs; pair++) {
        result = format("%s%s%lld:", result, pair ? ", " : "", (long long)pair);
        for (int64_t i = links.start[pair]; i < links.start[pair + 1]; i++)
            result = format("%s %d-%d %g", result, (int)links.links[i].target, (int)links.links[i].source,
                            links.links[i].share);
    }
    if (!status) qkv_token_links_release(&links);
    return result;
}

/* The second pair is too long. Source tokens: a b _ c, and x; target tokens: d _ e f, and y. */
static const char PAIRS[] = "ab c\td ef\nfar too long\tz\nx\ty\n";

Test(token_links, each_piece_of_a_word_has_its_share)
{
    cr_expect_str_eq(read_links("one", PAIRS, "0-0\n\n\n"), "0: 0-0 0.5 0-1 0.5, 1:");
    cr_expect_str_eq(read_links("pieces", PAIRS, "1-1\n\n0-0\n"), "0: 2-3 1 3-3 1, 1: 0-0 1");
    cr_expect_str_eq(read_links("two", PAIRS, "0-0 1p0\n7-7\n0-0\n"),
                     "0: 0-0 0.25 0-1 0.25 0-3 0.5, 1: 0-0 1");
}

/* Refusals are those of qkv_alignments_read, which tests/metrics/alignment.c tests. */
Test(token_links, count_from_the_first_word_of_their_file)
{
    cr_expect_str_eq(read_links("wa", PAIRS, "1 2 1 S\n3 1 1\n"), "0: 0-3 1, 1: 0-0 1");
    cr_expect_str_eq(read_links("from 1", PAIRS, "1-1 2-2\n\n1-1\n"),
                     "0: 0-0 0.5 0-1 0.5 2-3 1 3-3 1, 1: 0-0 1");
    cr_expect_str_eq(read_links("many", PAIRS, "0-0\n\n\n\n"),
                     "links: has 4 lines, but the corpus has 3 pairs");
    cr_expect_str_eq(read_links("target", PAIRS, "\n\n0-1\n"),
                     "links:3:1: link 0-1 has no target word 1: the sentence has 1, from 0");
}

Test(token_links, a_corpus_without_words_is_refused)
{
    struct qkv_corpus corpus = {0};
    struct qkv_token_links links;
    expect_refusal(qkv_token_links_read(&links, "links", QKV_LINKS_FROM_DETECTED, &corpus, NULL, &error),
                   "links: links need a corpus that keeps the words of its tokens");
}
