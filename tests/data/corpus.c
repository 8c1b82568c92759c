/* Parallel text from files: what is read, and what is said about files that are not in order. */
#include "framework/engine/core/text.h"

#include "encoded.h"

#include <zlib.h>

static struct qkv_data_config config(void)
{
    struct qkv_text_config side = {.max_length = 5, .voc_min_freq = 1, .split_punctuation = true};
    struct qkv_data_config data = {.src = side, .trg = side};
    data.src.lang = "en";
    data.trg.lang = "de";
    return data;
}

static const struct qkv_corpus_options keep = {.keep_raw = true};

static struct qkv_corpus read_corpus(const char *path, struct qkv_corpus_options options)
{
    struct qkv_data_config data = config();
    struct qkv_corpus corpus;
    expect_done(qkv_corpus_read(&corpus, path, &data, options, &error));
    return corpus;
}

static void expect_error(const char *path, const char *message)
{
    struct qkv_data_config data = config();
    struct qkv_corpus corpus;
    expect_refusal(qkv_corpus_read(&corpus, path, &data, keep, &error), message);
    cr_expect_eq(corpus.count, 0);
    cr_expect_null(corpus.source.ids);
}

static const char *write_gz(const char *folder, const char *name, const char *text)
{
    const char *path = format("%s/%s", folder, name);
    gzFile file = gzopen(path, "wb");
    cr_assert_eq(gzwrite(file, text, (unsigned)strlen(text)), (int)strlen(text));
    cr_assert_eq(gzclose(file), Z_OK);
    return path;
}

static void expect_two_pairs(struct qkv_corpus corpus)
{
    cr_assert_eq(corpus.count, 2);
    cr_assert_eq(corpus.read, 2);
    cr_assert_str_eq(qkv_corpus_source(&corpus, 0), "A dog.");
    cr_assert_str_eq(qkv_corpus_target(&corpus, 0), "Ein Hund.");
    cr_assert_str_eq(qkv_corpus_source(&corpus, 1), "dog");
    cr_assert_str_eq(qkv_corpus_target(&corpus, 1), "Hund");
    static const int64_t start[] = {0, 3, 4};
    cr_assert_arr_eq(corpus.source.start, start, sizeof start);
    cr_assert_arr_eq(corpus.target.start, start, sizeof start);
    cr_assert_str_eq(qkv_types_token(&corpus.source.types, corpus.source.ids[3]), "dog");
    cr_assert_eq(corpus.source.types.frequency[corpus.source.ids[3]], 2);
    cr_assert_eq(corpus.line[1], 2);
    cr_assert_eq(corpus.source.longest, 3);
    qkv_corpus_release(&corpus);
}

Test(corpus, reads_every_form)
{
    const char *folder = scratch("data_forms"), *prefix = format("%s/train", folder);
    expect_two_pairs(read_corpus(write_text(folder, "a.tsv", "A dog.\tEin Hund.\ndog\tHund\n"), keep));
    expect_two_pairs(read_corpus(write_text(folder, "b.tsv", "A dog.\tEin Hund.\r\ndog\tHund"), keep));
    expect_two_pairs(
        read_corpus(write_text(folder, "c.tsv", "\uFEFFA dog.\tEin Hund.\r\ndog\tHund\r\n"), keep));
    expect_two_pairs(read_corpus(write_gz(folder, "d.tsv.gz", "A dog.\tEin Hund.\ndog\tHund\n"), keep));
    write_text(folder, "train.en", "\uFEFFA dog.\r\ndog\r\n");
    write_gz(folder, "train.de.gz", "Ein Hund.\nHund");
    expect_two_pairs(read_corpus(prefix, keep));
    /* Beside a plain file the zipped one does not count. */
    write_text(folder, "train.de", "Ein Hund.\nHund\n");
    write_gz(folder, "train.de.gz", "Ein anderer Hund\n");
    expect_two_pairs(read_corpus(prefix, keep));
}

Test(corpus, reports_the_place_of_an_error_in_a_table)
{
    static const char *const rows[][2] = {
        {"a\tb\nabc\n", ":2:4: the line has no tab; a line is source<TAB>target"},
        {"a\tb\n\na\tb\n", ":2:1: the line has no tab; a line is source<TAB>target"},
        {"a\tb\tc\n", ":1:4: the line has a second tab; a line is source<TAB>target "
                      "(cut -f1,2 takes two columns)"},
        {"a\tb\n\tb\n", ":2:1: the source side is empty"},
        {"a\tb\nä\t\r\n", ":2:4: the target side is empty"},
        {"a\tb\nab\t \u00A0\u3000\n", ":2:4: the target side is empty"},
        {"a\tb\nc\td\xC3\n", ":2:4: byte 0xC3 is not valid UTF-8"},
        {"\uFEFFa\xFF\tb\n", ":1:2: byte 0xFF is not valid UTF-8"},
        {"", ": the file is empty"},
        {"\uFEFF", ": the file is empty"},
    };
    const char *folder = scratch("data_tables");
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        const char *path = write_text(folder, "x.tsv", rows[i][0]);
        expect_error(path, format("%s%s", path, rows[i][1]));
    }
    const char *path = write_bytes(folder, "nul.tsv", "a\tb\na\0\tb\n", 9);
    expect_error(path, format("%s:2:2: a NUL byte is not allowed in text", path));
}

Test(corpus, reports_errors_of_two_line_aligned_files)
{
    const char *folder = scratch("data_pairs"), *prefix = format("%s/p", folder);
    const char *en = write_text(folder, "p.en", "a\nb\nc\n"), *de = format("%s/p.de", folder);
    expect_error(prefix, format("%s: there is no such file, and no %s or %s.gz (a data path is x.tsv, "
                                "x.tsv.gz, or the common prefix of two files)",
                                prefix, de, de));
    write_text(folder, "p.de", "x\ny");
    expect_error(prefix,
                 format("%s:3:1: the line has no counterpart: %s has 3 lines, but %s has 2", en, en, de));
    write_text(folder, "p.de", "1\n2\n3\n4\n5\n");
    expect_error(prefix,
                 format("%s:4:1: the line has no counterpart: %s has 5 lines, but %s has 3", de, de, en));
    write_text(folder, "p.de", "1\n \n3\n");
    expect_error(prefix, format("%s:2:1: the line is empty", de));
    write_text(folder, "p.de", "1\n2\n\xE4\n");
    expect_error(prefix, format("%s:3:1: byte 0xE4 is not valid UTF-8", de));
    write_text(folder, "p.de", "");
    expect_error(prefix, format("%s: the file is empty", de));
}

/* Counts of pairs, and the lines and words of those that are kept. */
static void expect_counts(struct qkv_corpus corpus, const char *expected)
{
    const char *shown = format("%d of %d, long %d %d, lines", (int)corpus.count, (int)corpus.read,
                               (int)corpus.long_sources, (int)corpus.long_targets);
    for (int64_t i = 0; i < corpus.count; i++) shown = format("%s %d", shown, (int)corpus.line[i]);
    cr_expect_str_eq(format("%s, words %d", shown, (int)corpus.source.types.size), expected,
                     "%s, but expected %s", shown, expected);
    qkv_corpus_release(&corpus);
}

Test(corpus, drops_long_pairs_for_training_and_counts_them)
{
    const char *path =
        write_text(scratch("data_long"), "x.tsv",
                   "a b c d e\tf\na b c d e f\tg\na\t1 2 3 4 5 6\n1 2 3 4 5 6\t1 2 3 4 5 6\nz\ty\n");
    expect_counts(read_corpus(path, (struct qkv_corpus_options){.drop_long = true}),
                  "2 of 5, long 2 2, lines 1 5, words 6");
    expect_counts(read_corpus(path, keep), "5 of 5, long 0 0, lines 1 2 3 4 5, words 13");

    path = write_text(scratch("data_all"), "x.tsv", "a b c d e f\tf\n");
    struct qkv_data_config data = config();
    struct qkv_corpus corpus;
    expect_refusal(
        qkv_corpus_read(&corpus, path, &data, (struct qkv_corpus_options){.drop_long = true}, &error),
        format("%s: each of its 1 pairs is longer than data.src.max_length (5) or "
               "data.trg.max_length (5) tokens",
               path));
}

/* Special tokens in a text are unknown words. */
Test(corpus, is_encoded_by_vocabularies)
{
    const char *path = write_text(scratch("data_ids"), "x.tsv", "b a b\t<unk> b\nb </s> <s> c\tx b\n");
    struct qkv_data_config data = config();
    data.src.voc_limit = 2;
    data.src.split_punctuation = data.trg.split_punctuation = false;
    struct encoded text RELEASED(release_encoded);
    read_encoded(&text, path, &data, keep);
    cr_assert_eq(text.source.size, 5);
    cr_assert(text.corpus.encoded);
    static const int32_t ids[] = {3, 4, 3, 3, QKV_UNKNOWN, QKV_UNKNOWN, QKV_UNKNOWN};
    cr_assert_arr_eq(text.corpus.source.ids, ids, sizeof ids);
    cr_assert_eq(text.corpus.target.ids[1], qkv_vocabulary_id(&text.target, "b"));
    cr_assert_eq(text.corpus.source.unknown, 3);
    cr_assert_eq(text.corpus.target.unknown, 1);
}

Test(corpus, can_share_one_vocabulary)
{
    struct qkv_data_config data = config();
    struct encoded text;
    data.joint_vocabulary = true;
    read_encoded(&text, write_text(scratch("data_joint"), "x.tsv", "a b\tb c\n"), &data, keep);
    cr_assert_eq(text.source.size, 6);
    for (int32_t id = 0; id < text.source.size; id++)
        cr_assert_str_eq(qkv_vocabulary_token(&text.source, id), qkv_vocabulary_token(&text.target, id));
    cr_assert_str_eq(qkv_vocabulary_token(&text.source, 3), "b");
    release_encoded(&text);
    struct qkv_corpus corpus RELEASED(qkv_corpus_release) =
        read_corpus(write_text(scratch("data_joint"), "x.tsv", "a b\tb c\n"), keep);
    data.src.voc_limit = 7;
    expect_refusal(qkv_corpus_vocabularies(&corpus, &data, &text.source, &text.target, &error),
                   "data.joint_vocabulary is one vocabulary, so data.src and data.trg must agree on "
                   "voc_limit (7, 0) and voc_min_freq (1, 1)");
}

Test(corpus, keeps_the_first_pairs_and_reads_all)
{
    const char *folder = scratch("most");
    const char *path = write_text(folder, "c.tsv", "a\tb\nc d\te\na b c\tx\ny\tz\n");
    expect_counts(read_corpus(path, (struct qkv_corpus_options){.max_pairs = 2}),
                  "2 of 4, long 0 0, lines 1 2, words 3");
    expect_counts(read_corpus(path, (struct qkv_corpus_options){.max_pairs = 9}),
                  "4 of 4, long 0 0, lines 1 2 3 4, words 5");
    struct qkv_corpus corpus;
    struct qkv_data_config data = config();
    path = write_text(folder, "wrong.tsv", "a\tb\nc\n");
    expect_refusal_with(
        qkv_corpus_read(&corpus, path, &data, (struct qkv_corpus_options){.max_pairs = 1}, &error),
        "wrong.tsv:2:");
}
