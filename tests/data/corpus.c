/* Parallel text from files: what is read, and what is said about files that are not in order. */
#include "qkv/corpus.h"

#include "support.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
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
    struct qkv_error error;
    cr_assert_eq(qkv_corpus_read(&corpus, path, &data, options, &error), QKV_OK, "%s", error.message);
    return corpus;
}

static void expect_error(const char *path, const char *message)
{
    struct qkv_data_config data = config();
    struct qkv_corpus corpus;
    struct qkv_error error;
    cr_expect_eq(qkv_corpus_read(&corpus, path, &data, keep, &error), QKV_INVALID, "accepted: %s", message);
    cr_expect_str_eq(error.message, message);
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
    static const struct {
        const char *text, *message;
    } rows[] = {
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
        const char *path = write_text(folder, "x.tsv", rows[i].text);
        expect_error(path, format("%s%s", path, rows[i].message));
    }
    const char *path = write_bytes(folder, "nul.tsv", "a\tb\na\0\tb\n", 9);
    expect_error(path, format("%s:2:2: a NUL byte is not allowed in text", path));
}

Test(corpus, reports_errors_of_two_line_aligned_files)
{
    const char *folder = scratch("data_pairs"), *prefix = format("%s/p", folder);
    const char *en = write_text(folder, "p.en", "a\nb\nc\n"), *de = format("%s/p.de", folder);
    expect_error(
        prefix,
        format("%s: there is no such file, and no %s or %s.gz (a data path is x.tsv, x.tsv.gz, or the "
               "common prefix of two files)",
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

Test(corpus, reports_files_that_cannot_be_read)
{
    const char *folder = scratch("data_files");
    const char *path = format("%s/none.tsv", folder);
    expect_error(path, format("%s: cannot be read: No such file or directory", path));
    path = format("%s/folder.tsv", folder);
    cr_assert_eq(run("mkdir '%s'", path).exit_code, 0);
    expect_error(path, format("%s: cannot be read: it is a folder", path));

    /* Enough text that does not compress away, so that much is readable before the cut. */
    char *text = remember(calloc(1, 4000000)), *end = text;
    for (unsigned i = 0; i < 100000; i++)
        end += sprintf(end, "word%u\tWort%u\n", i * 2654435761u, i * 40503u);
    size_t size;
    char *bytes = read_file(write_gz(folder, "whole.tsv.gz", text), &size);
    path = write_bytes(folder, "cut.tsv.gz", bytes, size / 2);
    expect_error(path, format("%s: the gzip file is truncated", path));
    path = write_bytes(folder, "tail.tsv.gz", bytes, size - 1);
    expect_error(path, format("%s: the gzip file is truncated", path));
    bytes[size - 6] = (char)(bytes[size - 6] ^ 1);
    path = write_bytes(folder, "damaged.tsv.gz", bytes, size);
    expect_error(path, format("%s: the gzip file is damaged: incorrect data check", path));
}

Test(corpus, drops_long_pairs_for_training_and_counts_them)
{
    const char *path =
        write_text(scratch("data_long"), "x.tsv",
                   "a b c d e\tf\na b c d e f\tg\na\t1 2 3 4 5 6\n1 2 3 4 5 6\t1 2 3 4 5 6\nz\ty\n");
    struct qkv_corpus corpus = read_corpus(path, (struct qkv_corpus_options){.drop_long = true});
    cr_assert_eq(corpus.count, 2);
    cr_assert_eq(corpus.read, 5);
    cr_assert_eq(corpus.long_sources, 2);
    cr_assert_eq(corpus.long_targets, 2);
    cr_assert_eq(corpus.line[0], 1);
    cr_assert_eq(corpus.line[1], 5);
    cr_assert_eq(corpus.source.types.size, 6, "words of dropped pairs do not count");
    qkv_corpus_release(&corpus);
    corpus = read_corpus(path, keep);
    cr_assert_eq(corpus.count, 5);
    cr_assert_eq(corpus.long_sources + corpus.long_targets, 0);
    qkv_corpus_release(&corpus);

    path = write_text(scratch("data_all"), "x.tsv", "a b c d e f\tf\n");
    struct qkv_data_config data = config();
    struct qkv_error error;
    cr_assert_eq(
        qkv_corpus_read(&corpus, path, &data, (struct qkv_corpus_options){.drop_long = true}, &error),
        QKV_INVALID);
    cr_assert_str_eq(error.message,
                     format("%s: each of its 1 pairs is longer than data.src.max_length (5) or "
                            "data.trg.max_length (5) tokens",
                            path));
}

Test(corpus, is_encoded_by_vocabularies)
{
    const char *path = write_text(scratch("data_ids"), "x.tsv", "b a b\tx\nb </s> c\tx b\n");
    struct qkv_corpus corpus = read_corpus(path, (struct qkv_corpus_options){0});
    struct qkv_data_config data = config();
    data.src.voc_limit = 2;
    data.src.split_punctuation = false;
    struct qkv_vocabulary source, target;
    struct qkv_error error;
    cr_assert_eq(qkv_corpus_vocabularies(&corpus, &data, &source, &target, &error), QKV_OK);
    cr_assert_eq(source.size, 5);
    cr_assert_eq(qkv_corpus_encode(&corpus, &source, &target, &error), QKV_OK);
    cr_assert(corpus.encoded);
    static const int32_t ids[] = {3, 0, 3, 3};
    cr_assert_arr_eq(corpus.source.ids, ids, sizeof ids);
    cr_assert_eq(corpus.target.ids[2], qkv_vocabulary_id(&target, "b"));
    cr_assert_eq(corpus.target.unknown, 0);
    cr_assert_geq(corpus.source.unknown, 2);
    qkv_vocabulary_release(&source);
    qkv_vocabulary_release(&target);
    qkv_corpus_release(&corpus);
}

Test(corpus, special_tokens_in_text_are_unknown_words)
{
    const char *path = write_text(scratch("data_specials"), "x.tsv", "a </s> <s>\t<unk> b\n");
    struct qkv_data_config data = config();
    data.src.split_punctuation = data.trg.split_punctuation = false;
    struct qkv_corpus corpus;
    struct qkv_vocabulary source, target;
    cr_assert_eq(qkv_corpus_read(&corpus, path, &data, keep, NULL), QKV_OK);
    cr_assert_eq(qkv_corpus_vocabularies(&corpus, &data, &source, &target, NULL), QKV_OK);
    cr_assert_eq(qkv_corpus_encode(&corpus, &source, &target, NULL), QKV_OK);
    static const int32_t ids[] = {3, QKV_UNKNOWN, QKV_UNKNOWN};
    cr_assert_arr_eq(corpus.source.ids, ids, sizeof ids);
    cr_assert_eq(corpus.source.unknown, 2);
    cr_assert_eq(corpus.target.unknown, 1);
    qkv_vocabulary_release(&source);
    qkv_vocabulary_release(&target);
    qkv_corpus_release(&corpus);
}

Test(corpus, can_share_one_vocabulary)
{
    struct qkv_corpus corpus = read_corpus(write_text(scratch("data_joint"), "x.tsv", "a b\tb c\n"), keep);
    struct qkv_data_config data = config();
    data.joint_vocabulary = true;
    struct qkv_vocabulary source, target;
    struct qkv_error error;
    cr_assert_eq(qkv_corpus_vocabularies(&corpus, &data, &source, &target, &error), QKV_OK);
    cr_assert_eq(source.size, 6);
    for (int32_t id = 0; id < source.size; id++)
        cr_assert_str_eq(qkv_vocabulary_token(&source, id), qkv_vocabulary_token(&target, id));
    cr_assert_str_eq(qkv_vocabulary_token(&source, 3), "b");
    qkv_vocabulary_release(&source);
    qkv_vocabulary_release(&target);
    data.src.voc_limit = 7;
    cr_assert_eq(qkv_corpus_vocabularies(&corpus, &data, &source, &target, &error), QKV_INVALID);
    cr_assert_str_eq(error.message,
                     "data.joint_vocabulary is one vocabulary, so data.src and data.trg must agree on "
                     "voc_limit (7, 0) and voc_min_freq (1, 1)");
    qkv_corpus_release(&corpus);
}

Test(corpus, reads_lines_of_any_length)
{
    enum { COUNT = 100000 };
    char *text = malloc(8 * COUNT), *end = text;
    for (int i = 0; i < COUNT; i++) end += sprintf(end, "w%d ", i % 1000);
    strcpy(end, "\tkurz\nshort\tkurz\n");
    struct qkv_corpus corpus = read_corpus(write_text(scratch("data_line"), "x.tsv", text), keep);
    cr_assert_eq(corpus.count, 2);
    cr_assert_eq(corpus.source.longest, COUNT);
    cr_assert_eq(corpus.source.types.size, 1001);
    cr_assert_str_eq(qkv_corpus_source(&corpus, 1), "short");
    qkv_corpus_release(&corpus);
    free(text);
}

Test(sentence_reader, reads_a_stream)
{
    const char *path =
        write_text(scratch("data_stream"), "in.txt", "\uFEFFa dog\r\n\ncat dog dog!\nbad\xFF\n");
    struct qkv_types types = {0};
    qkv_types_add(&types, "dog", 1);
    const struct qkv_types *texts[] = {&types};
    struct qkv_vocabulary vocabulary;
    cr_assert_eq(qkv_vocabulary_build(&vocabulary, 1, texts, 0, 1, NULL), QKV_OK);
    struct qkv_data_config data = config();
    struct qkv_sentence_reader reader = {.text = &data.src, .vocabulary = &vocabulary};
    bool found;
    struct qkv_error error;
    cr_assert_eq(qkv_lines_open(&reader.lines, path, &error), QKV_OK);
    cr_assert_eq(qkv_sentence_reader_next(&reader, &found, &error), QKV_OK);
    cr_assert(found);
    cr_assert_str_eq(reader.lines.line, "a dog");
    cr_assert_eq(reader.sentence.tokens.count, 2);
    cr_assert_eq(reader.sentence.ids[1], 3);
    cr_assert_eq(reader.sentence.unknown, 1);
    cr_assert_eq(qkv_sentence_reader_next(&reader, &found, &error), QKV_OK);
    cr_assert(found);
    cr_assert_eq(reader.sentence.tokens.count, 0);
    cr_assert_eq(qkv_sentence_reader_next(&reader, &found, &error), QKV_OK);
    cr_assert_eq(reader.sentence.tokens.count, 4);
    cr_assert_eq(reader.sentence.unknown, 2);
    cr_assert_str_eq(reader.sentence.tokens.token[3], "!");
    cr_assert_eq(qkv_sentence_reader_next(&reader, &found, &error), QKV_INVALID);
    cr_assert_str_eq(error.message, format("%s:4:4: byte 0xFF is not valid UTF-8", path));
    cr_assert_eq(qkv_sentence_reader_next(&reader, &found, &error), QKV_OK);
    cr_assert_not(found);
    qkv_sentence_reader_release(&reader);
    qkv_vocabulary_release(&vocabulary);
    qkv_types_release(&types);
}

Test(corpus, keeps_the_first_pairs_and_reads_all)
{
    const char *folder = scratch("most");
    const char *path = write_text(folder, "c.tsv", "a\tb\nc d\te\na b c\tx\ny\tz\n");
    struct qkv_corpus corpus =
        read_corpus(path, (struct qkv_corpus_options){.keep_raw = true, .max_pairs = 2});
    cr_expect_eq(corpus.count, 2);
    cr_expect_eq(corpus.read, 4);
    cr_expect_str_eq(qkv_corpus_source(&corpus, 1), "c d");
    cr_expect_null(qkv_corpus_source(&corpus, 2));
    cr_expect_eq(corpus.source.longest, 2);
    qkv_corpus_release(&corpus);
    corpus = read_corpus(path, (struct qkv_corpus_options){.max_pairs = 9});
    cr_expect_eq(corpus.count, 4);
    qkv_corpus_release(&corpus);
    struct qkv_data_config data = config();
    struct qkv_error error;
    path = write_text(folder, "wrong.tsv", "a\tb\nc\n");
    cr_expect_eq(qkv_corpus_read(&corpus, path, &data, (struct qkv_corpus_options){.max_pairs = 1}, &error),
                 QKV_INVALID);
    cr_expect_not_null(strstr(error.message, "wrong.tsv:2:"), "%s", error.message);
}
