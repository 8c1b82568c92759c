/* Running text: its tokens, and the windows that it is cut into. */
#include "encoded.h"

#include "data/corpus.h"

#include <sys/stat.h>

enum { CONTEXT = 4 };

static struct qkv_data_config data_of(enum qkv_text_form form)
{
    return (struct qkv_data_config){
        .text = form,
        .context = CONTEXT,
        .dev_share = 0.3,
        .trg = {.lang = "en", .level = QKV_LEVEL_CHAR, .max_length = 100, .voc_min_freq = 1},
    };
}

/* Reads and encodes a part of the texts of a path. */
static void read_path(struct encoded *read, const char *path, enum qkv_text_form form,
                      enum qkv_corpus_part part)
{
    const struct qkv_data_config data = data_of(form);
    read_encoded(read, path, &data, (struct qkv_corpus_options){.part = part, .drop_long = true});
    cr_assert_eq(read->source.size, QKV_SPECIALS);
}

static void read_part(struct encoded *read, const char *text, enum qkv_text_form form,
                      enum qkv_corpus_part part)
{
    read_path(read, write_text(scratch("text"), "text.txt", text), form, part);
}

/* The tokens of ids first .. end-1, with | for </s>. */
static const char *spelled(const struct encoded *read, int64_t first, int64_t end)
{
    char *text = remember(calloc((size_t)(end - first) * 8 + 1, 1));
    for (int64_t i = first; i < end; i++) {
        int32_t id = read->corpus.target.ids[i];
        strcat(text, id == QKV_END ? "|" : qkv_vocabulary_token(&read->target, id));
    }
    return text;
}

Test(running_text, a_line_end_is_a_token_and_all_tokens_are_in_windows)
{
    struct encoded read RELEASED(release_encoded) = {0};
    read_part(&read, "ab\n\n  c  d \né", QKV_TEXT_RUNNING, QKV_PART_ALL);
    const int64_t *start = read.corpus.target.start;
    cr_assert_str_eq(spelled(&read, 0, start[read.corpus.count]), "|ab||c▁d|é|");
    cr_assert_eq(read.corpus.count, 3); /* of 4, 4 and 2 tokens */
    for (int i = 0; i < 3; i++) cr_assert_eq(start[i], 1 + i * CONTEXT);
    cr_assert_eq(start[3], 11);
    cr_assert_eq(read.corpus.characters, 14, "as the file has them, with the end of the last line");
    cr_assert_eq(read.corpus.words, 4);
}

Test(running_text, windows_begin_elsewhere_in_each_epoch)
{
    enum { EPOCHS = 40 };
    struct encoded read RELEASED(release_encoded) = {0};
    bool seen[CONTEXT] = {false};
    read_part(&read, "abcdefghijklmnopq\n", QKV_TEXT_RUNNING, QKV_PART_ALL);
    cr_assert_eq(read.corpus.tokens, 18);
    for (int64_t epoch = 0; epoch < EPOCHS; epoch++) {
        qkv_corpus_resample(&read.corpus, 7, epoch);
        const int64_t *start = read.corpus.target.start, first = start[0] - 1;
        cr_assert_eq(read.corpus.count, 3, "complete windows, as many as fit after any beginning");
        cr_assert(first >= 0 && first < CONTEXT);
        for (int i = 0; i < 3; i++) cr_assert_eq(start[i + 1] - start[i], CONTEXT);
        cr_assert_leq(start[3], 19);
        seen[first] = true;
        qkv_corpus_resample(&read.corpus, 7, epoch); /* a function of seed and epoch */
        cr_assert_eq(start[0] - 1, first);
    }
    for (int i = 0; i < CONTEXT; i++) cr_assert(seen[i], "no window begins at %d", i);
}

/* 70 % of the 12 bytes end in the third line: a line belongs to the part in which it begins. */
Test(running_text, the_parts_of_a_text_have_all_lines)
{
    static const char TEXT[] = "abcd\nef\n\ngh\n";
    static const struct {
        enum qkv_corpus_part part;
        const char *tokens;
    } PARTS[] = {{QKV_PART_ALL, "|abcd|ef||gh|"}, {QKV_PART_TRAIN, "|abcd|ef||"}, {QKV_PART_DEV, "|gh|"}};
    for (int i = 0; i < 3; i++) {
        struct encoded read RELEASED(release_encoded) = {0};
        read_part(&read, TEXT, QKV_TEXT_RUNNING, PARTS[i].part);
        cr_expect_str_eq(spelled(&read, 0, read.corpus.target.start[read.corpus.count]), PARTS[i].tokens);
    }
}

Test(running_text, lines_and_paragraphs_are_sentences_without_a_source)
{
    static const char TEXT[] = "\nab\nc\n\n\n d\n";
    static const struct {
        enum qkv_text_form form;
        int64_t count;
        const char *first, *last;
    } FORMS[] = {{QKV_TEXT_LINES, 3, "ab", "d"}, {QKV_TEXT_PARAGRAPHS, 2, "ab▁c", "d"}};
    for (int i = 0; i < 2; i++) {
        struct encoded read RELEASED(release_encoded) = {0};
        struct qkv_batches batches RELEASED(qkv_batches_release) = {0};
        struct qkv_batch batch RELEASED(qkv_batch_release) = {0};
        read_part(&read, TEXT, FORMS[i].form, QKV_PART_ALL);
        const int64_t *start = read.corpus.target.start, count = FORMS[i].count;
        cr_assert_eq(read.corpus.count, count);
        cr_expect_str_eq(spelled(&read, start[0], start[1]), FORMS[i].first);
        cr_expect_str_eq(spelled(&read, start[count - 1], start[count]), FORMS[i].last);
        const struct qkv_batches_options all = {QKV_BATCH_SENTENCE, 10, QKV_BATCH_ORDER_CORPUS, 0};
        cr_assert_eq(qkv_batches_init(&batches, &read.corpus, all, &error), QKV_OK);
        cr_assert_eq(qkv_batches_get(&batches, 0, &batch, &error), QKV_OK);
        cr_expect_eq(batch.source_tokens, 0);
        cr_expect_eq(batch.target_tokens, start[count] + count, "with </s>");
        cr_expect_eq(batch.target_input[0], QKV_BEGIN);
    }
}

/* A folder and a pattern are one text, in the order of the names, without folders and hidden files; no paragraph goes on in the
 * next file. */
Test(running_text, several_files_are_one_text)
{
    static const struct {
        const char *path;
        enum qkv_text_form form;
        enum qkv_corpus_part part;
        const char *tokens;
    } CASES[] = {
        {"all", QKV_TEXT_RUNNING, QKV_PART_ALL, "|xy|ab|cd|ef|gh|"},
        {"all/", QKV_TEXT_RUNNING, QKV_PART_TRAIN, "|xy|ab|cd|ef|"},
        {"all", QKV_TEXT_RUNNING, QKV_PART_DEV, "|gh|"},
        {"all/*.txt", QKV_TEXT_RUNNING, QKV_PART_ALL, "|ab|cd|ef|gh|"},
        {"all/[b]*", QKV_TEXT_RUNNING, QKV_PART_ALL, "|ef|gh|"},
        {"all", QKV_TEXT_PARAGRAPHS, QKV_PART_ALL, "xy,ab▁cd,ef▁gh,"},
        {"all", QKV_TEXT_LINES, QKV_PART_DEV, "gh,"},
    };
    const char *root = enter(scratch("files")), *folder = format("%s/all", root);
    cr_assert(!mkdir(folder, 0777) && !mkdir(format("%s/sub", folder), 0777));
    write_text(folder, "b.txt", "ef\ngh\n");
    write_text(folder, "a.txt", "ab\ncd"); /* without its last line end */
    write_text(folder, "a", "xy\n");
    write_text(folder, "a0.md", "");
    write_text(folder, ".hidden", "zz\n");
    for (size_t i = 0; i < sizeof CASES / sizeof *CASES; i++) {
        struct encoded read RELEASED(release_encoded) = {0};
        read_path(&read, CASES[i].path, CASES[i].form, CASES[i].part);
        char text[100] = "";
        const int64_t *start = read.corpus.target.start;
        if (read.corpus.sides.runs_on) strcpy(text, spelled(&read, 0, start[read.corpus.count]));
        for (int64_t n = 0; n < read.corpus.count && !read.corpus.sides.runs_on; n++) {
            strcat(text, spelled(&read, start[n], start[n + 1]));
            strcat(text, ",");
        }
        cr_expect_str_eq(text, CASES[i].tokens, "case %zu: %s", i, text);
    }
    struct qkv_corpus corpus;
    const struct qkv_data_config data = data_of(QKV_TEXT_LINES);
    const struct qkv_corpus_options options = {.drop_long = true, .key = "data.train"};
    static const char *const BAD[][2] = {
        {"all/sub", "all/sub: the folder has no files"},
        {"all/*.c", "all/*.c: there is no such text: set data.train to its path"}};
    for (int i = 0; i < 2; i++)
        expect_refusal(qkv_corpus_read(&corpus, BAD[i][0], &data, options, &error), BAD[i][1]);
}
