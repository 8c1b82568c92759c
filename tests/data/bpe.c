/* Byte-pair encoding. All expected merges and pieces are those of subword-nmt 0.3.8; tests/data/compare_bpe.py compares
 * with the program itself. */
#include "qkv/bpe.h"
#include "qkv/corpus.h"

#include "support.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <zlib.h>

/* Words of letters that a small generator chooses; "ä" has two bytes. */
static uint32_t generator;

static uint32_t next_number(uint32_t below)
{
    generator = (generator * 1103515245u + 12345u) & 0x7fffffff;
    return (generator >> 16) % below;
}

static char *next_word(uint32_t letters, uint32_t longest)
{
    static const char *const alphabet[] = {"a", "b", "ä", "x"};
    static char word[100];
    *word = '\0';
    for (uint32_t size = 1 + next_number(longest); size; size--) strcat(word, alphabet[next_number(letters)]);
    return word;
}

static struct qkv_types random_words(void)
{
    struct qkv_types types = {0};
    generator = 1;
    for (int i = 0; i < 4000; i++) cr_assert_geq(qkv_types_add(&types, next_word(3, 12), 1), 0);
    return types;
}

static struct qkv_bpe *learn(const struct qkv_types *types, int64_t merges)
{
    struct qkv_error error = {""};
    struct qkv_bpe *bpe = qkv_bpe_learn(1, &types, merges, &error);
    cr_assert_not_null(bpe, "%s", error.message);
    return bpe;
}

/* The pieces of a line, with a space between. */
static const char *pieces(const struct qkv_bpe *bpe, const char *line)
{
    const struct qkv_text_config text = {.lang = "en", .level = QKV_LEVEL_BPE, .bpe = bpe};
    struct qkv_tokens tokens = {0};
    struct qkv_error error = {""};
    char *all = remember(calloc(1, 8 * strlen(line) + 1)), *end = all;
    cr_assert_eq(qkv_tokenize(&tokens, &text, line, strlen(line), &error), QKV_OK, "%s", error.message);
    for (int64_t i = 0; i < tokens.count; i++) end += sprintf(end, "%s%s", i ? " " : "", tokens.token[i]);
    struct qkv_arena arena = {0};
    char *joined = qkv_detokenize(&text, tokens.count, tokens.token, &arena);
    cr_expect(joined && !strcmp(joined, line), "%s became %s", line, joined);
    qkv_arena_release(&arena);
    qkv_tokens_release(&tokens);
    return all;
}

/* The CRC-32 of the pieces of 4000 random words of four letters, of which the merges know three. */
static uLong pieces_checksum(const struct qkv_bpe *bpe)
{
    uLong sum = crc32_z(0, NULL, 0);
    generator = 1;
    for (int i = 0; i < 4000; i++) {
        const char *line = pieces(bpe, next_word(4, 40));
        if (i) sum = crc32_z(sum, (const Bytef *)" ", 1);
        sum = crc32_z(sum, (const Bytef *)line, strlen(line));
    }
    return sum;
}

/* Random words of three letters have many ties, pairs that overlap themselves, and symbols that two merges make. */
Test(bpe, learns_and_cuts_random_words_like_subword_nmt)
{
    struct qkv_types types = random_words();
    struct qkv_bpe *bpe = learn(&types, 600);
    cr_expect_eq(qkv_bpe_count(bpe), 600);
    cr_expect_eq(qkv_bpe_checksum(bpe), 0x2b615e88);
    cr_expect_str_eq(pieces(bpe, "abäbabab aaaaaaaaaaaa bababababä"),
                     "abäb@@ abab aaaa@@ aaaa@@ aaaa baba@@ baba@@ bä");
    cr_expect_eq(pieces_checksum(bpe), 0xcfed5544);
    qkv_bpe_free(bpe);
    qkv_types_release(&types);
}

/* The pieces of the words of a text, counted. */
static struct qkv_types counted_pieces(const struct qkv_bpe *bpe)
{
    const struct qkv_text_config text = {.lang = "en", .level = QKV_LEVEL_BPE, .bpe = bpe};
    struct qkv_types counts = {0};
    struct qkv_tokens tokens = {0};
    generator = 1;
    for (int i = 0; i < 4000; i++) {
        const char *word = next_word(3, 12);
        cr_assert_eq(qkv_tokenize(&tokens, &text, word, strlen(word), NULL), QKV_OK);
        for (int64_t k = 0; k < tokens.count; k++)
            cr_assert_geq(qkv_types_add(&counts, tokens.token[k], 1), 0);
    }
    qkv_tokens_release(&tokens);
    return counts;
}

Test(bpe, keeps_frequent_pieces_like_subword_nmt)
{
    static const struct {
        int64_t minimum;
        uLong pieces;
        const char *line;
    } rows[] = {
        {1, 0x09bd77cf, "abäb@@ abab aaaa@@ aaaa@@ aaaa baba@@ baba@@ bä"},
        {5, 0x493b6ed4, "abäb@@ abab aaaa@@ aaaa@@ aa@@ aa baba@@ baba@@ bä"},
        {25, 0xb19a5fdf, "ab@@ ä@@ b@@ aba@@ b aaaa@@ aaaa@@ aa@@ aa baba@@ baba@@ bä"},
    };
    struct qkv_types types = random_words();
    struct qkv_error error = {""};
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct qkv_bpe *bpe = learn(&types, 600), *again = qkv_bpe_copy(bpe);
        uint32_t all_kept = qkv_bpe_checksum(bpe);
        struct qkv_types counts = counted_pieces(bpe);
        cr_assert_eq(qkv_bpe_restrict(bpe, &counts, rows[i].minimum, &error), QKV_OK, "%s", error.message);
        cr_expect_str_eq(pieces(bpe, "abäbabab aaaaaaaaaaaa bababababä"), rows[i].line);
        cr_expect_eq(pieces_checksum(bpe), rows[i].pieces);
        cr_expect_neq(qkv_bpe_checksum(bpe), all_kept);
        const char *path = format("%s/pieces", scratch("pieces"));
        cr_assert_eq(qkv_bpe_save_pieces(bpe, path, &error), QKV_OK, "%s", error.message);
        cr_assert_eq(qkv_bpe_load_pieces(again, path, &error), QKV_OK, "%s", error.message);
        cr_expect_eq(qkv_bpe_checksum(again), qkv_bpe_checksum(bpe));
        cr_expect_eq(pieces_checksum(again), rows[i].pieces);
        qkv_types_release(&counts);
        qkv_bpe_free(again);
        qkv_bpe_free(bpe);
    }
    qkv_types_release(&types);
}

/* A minimum that no piece reaches can be tried again; the last choice that succeeds counts. */
Test(bpe, chooses_pieces_again)
{
    const char *text = "abäbabab aaaaaaaaaaaa bababababä";
    struct qkv_types types = random_words();
    struct qkv_error error = {""};
    struct qkv_bpe *bpe = learn(&types, 600), *once = qkv_bpe_copy(bpe);
    const char *all = pieces(bpe, text), *path = format("%s/pieces", scratch("again"));
    struct qkv_types counts = counted_pieces(bpe);
    cr_expect_eq(qkv_bpe_restrict(bpe, &counts, INT64_MAX, &error), QKV_INVALID);
    cr_expect_str_eq(error.message, "no piece of the text occurs 9223372036854775807 times");
    cr_expect_str_eq(pieces(bpe, text), all);
    cr_assert_eq(qkv_bpe_restrict(once, &counts, 25, &error), QKV_OK, "%s", error.message);
    cr_assert_eq(qkv_bpe_save_pieces(once, path, &error), QKV_OK, "%s", error.message);
    cr_expect_str_neq(pieces(once, text), all);
    cr_assert_eq(qkv_bpe_restrict(bpe, &counts, 1, &error), QKV_OK, "%s", error.message);
    cr_assert_eq(qkv_bpe_restrict(bpe, &counts, 25, &error), QKV_OK, "%s", error.message);
    cr_expect_eq(qkv_bpe_checksum(bpe), qkv_bpe_checksum(once));
    cr_expect_str_eq(pieces(bpe, text), pieces(once, text));
    cr_expect_eq(qkv_bpe_restrict(bpe, &counts, INT64_MAX, &error), QKV_INVALID);
    cr_assert_eq(qkv_bpe_load_pieces(bpe, path, &error), QKV_OK, "%s", error.message);
    cr_expect_eq(qkv_bpe_checksum(bpe), qkv_bpe_checksum(once));
    cr_expect_str_eq(pieces(bpe, text), pieces(once, text));
    qkv_types_release(&counts);
    qkv_bpe_free(once);
    qkv_bpe_free(bpe);
    qkv_types_release(&types);
}

Test(bpe, refuses_files_that_hold_no_pieces)
{
    static const char *const rows[][2] = {
        {"a 2\nb\n", ":2: must be a piece, a space and its frequency"},
        {"a 0\n", ":1: must be a piece, a space and its frequency"},
        {"a 2x\n", ":1: must be a piece, a space and its frequency"},
        {"a 2\na 3\n", ":2: 'a' is already in an earlier line"},
        {"a 2\nb 3", ":2: the last line has no newline; the file may be truncated"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct qkv_types types = random_words();
        struct qkv_bpe *bpe = learn(&types, 1);
        struct qkv_error error = {""};
        const char *path = write_text(scratch("pieces"), "x.pieces", rows[i][0]);
        cr_expect_eq(qkv_bpe_load_pieces(bpe, path, &error), QKV_INVALID);
        cr_expect_str_eq(error.message, format("%s%s", path, rows[i][1]));
        qkv_bpe_free(bpe);
        qkv_types_release(&types);
    }
}

static struct qkv_data_config generated_text(int64_t merges, bool joint)
{
    const struct qkv_text_config side = {
        .level = QKV_LEVEL_BPE, .num_merges = merges, .bpe_codes = "", .max_length = 100, .voc_min_freq = 1};
    struct qkv_data_config data = {.src = side, .trg = side, .joint_vocabulary = joint};
    data.src.lang = "en";
    data.trg.lang = "es";
    return data;
}

static void learn_generated(struct qkv_data_config *data, struct qkv_bpe *bpe[2])
{
    struct qkv_error error = {""};
    cr_assert_eq(qkv_corpus_merges(QKV_SOURCE_DIR "/datasets/en_es/train.tsv", data, bpe,
                                   (struct qkv_corpus_options){0}, &error),
                 QKV_OK, "%s", error.message);
    cr_assert(data->src.bpe == bpe[0] && data->trg.bpe == bpe[1]);
}

Test(bpe, learns_both_sides_of_a_text)
{
    struct qkv_data_config data = generated_text(60, false);
    struct qkv_bpe *bpe[2];
    learn_generated(&data, bpe);
    cr_expect_eq(qkv_bpe_checksum(bpe[0]), 0x737e3ccd);
    cr_expect_eq(qkv_bpe_checksum(bpe[1]), 0x6761b9ab);
    cr_expect_str_eq(pieces(bpe[0], "the white map is next to the gray bus"),
                     "the w@@ h@@ it@@ e m@@ a@@ p is ne@@ x@@ t to the gr@@ a@@ y b@@ u@@ s");
    cr_expect_str_eq(pieces(bpe[0], "the unsleeping dogs"), "the un@@ s@@ l@@ e@@ e@@ p@@ ing do@@ g@@ s");
    cr_expect_str_eq(pieces(bpe[1], "niñas durmientes"), "n@@ i@@ ñ@@ as d@@ u@@ r@@ m@@ ien@@ t@@ es");
    for (int side = 0; side < 2; side++) qkv_bpe_free(bpe[side]);
}

Test(bpe, learns_joint_merges_with_a_joint_vocabulary)
{
    struct qkv_data_config data = generated_text(80, true);
    struct qkv_bpe *bpe[2];
    learn_generated(&data, bpe);
    for (int side = 0; side < 2; side++) cr_expect_eq(qkv_bpe_checksum(bpe[side]), 0x225e8863);
    cr_expect_str_eq(pieces(bpe[1], "estoy pintando su pájaro"),
                     "est@@ o@@ y p@@ in@@ t@@ an@@ do su p@@ á@@ j@@ ar@@ o");
    for (int side = 0; side < 2; side++) qkv_bpe_free(bpe[side]);
}

Test(bpe, says_how_many_merges_a_text_has)
{
    struct qkv_types types = {0};
    struct qkv_error error = {""};
    const struct qkv_types *texts[] = {&types};
    cr_expect_null(qkv_bpe_learn(1, texts, 1, &error));
    cr_expect_str_eq(error.message,
                     "1 merges are wanted, but the text has only 0: no other pair of symbols occurs twice");
    cr_expect_null(qkv_bpe_learn(1, texts, 0, &error));
    cr_expect_str_eq(error.message, "there cannot be 0 merges, but at least 1");
    qkv_types_add(&types, "low", 2);
    qkv_types_add(&types, "lower", 1);
    cr_expect_null(qkv_bpe_learn(1, texts, 10, &error));
    cr_expect_str_eq(error.message,
                     "10 merges are wanted, but the text has only 2: no other pair of symbols occurs twice");
    struct qkv_bpe *bpe = learn(&types, 2);
    cr_expect_eq(qkv_bpe_checksum(bpe), 0x96bb2f6d);
    qkv_bpe_free(bpe);
    qkv_types_release(&types);
}

static struct qkv_bpe *load(const char *codes)
{
    struct qkv_error error = {""};
    struct qkv_bpe *bpe = qkv_bpe_load(write_text(scratch("codes"), "x.codes", codes), &error);
    cr_assert_not_null(bpe, "%s", error.message);
    return bpe;
}

Test(bpe, codes_are_read_and_written)
{
    static const char codes[] = "#version: 0.2\nl o\nlo w</w>\ne r</w>\nl o\nñ </w>\n";
    struct qkv_bpe *bpe = load(codes), *copy = qkv_bpe_copy(bpe);
    struct qkv_error error = {""};
    const char *path = format("%s/again", scratch("again"));
    cr_assert_eq(qkv_bpe_save(copy, path, &error), QKV_OK, "%s", error.message);
    size_t size;
    const char *written = remember(read_file(path, &size));
    cr_expect_str_eq(written, codes);
    cr_expect_eq(qkv_bpe_checksum(bpe), crc32_z(0, (const Bytef *)codes, sizeof codes - 1));
    cr_expect_eq(qkv_bpe_count(bpe), 5);
    cr_expect_str_eq(pieces(bpe, "low lower l ñ"), "low lo@@ w@@ er l ñ");
    qkv_bpe_free(copy);
    qkv_bpe_free(bpe);
    bpe = load("#version: 0.2\r\na b\r\n"); /* line ends of Windows */
    cr_expect_str_eq(pieces(bpe, "abc"), "ab@@ c");
    qkv_bpe_free(bpe);
}

/* Merges are applied one after another, each to all of its places from left to right, whatever their order says of the
 * pairs that appear on the way. */
Test(bpe, a_merge_is_applied_everywhere_before_the_next)
{
    struct qkv_bpe *bpe = load("#version: 0.2\nab a\na b\na a\n");
    cr_expect_str_eq(pieces(bpe, "ababc"), "ab@@ ab@@ c");
    cr_expect_str_eq(pieces(bpe, "abac"), "aba@@ c");
    cr_expect_str_eq(pieces(bpe, "aaaaac"), "aa@@ aa@@ a@@ c");
    qkv_bpe_free(bpe);
}

/* subword-nmt splits only at U+0020, so its merges may contain a no-break space, at which qkv splits, too. */
Test(bpe, merges_with_other_spaces_never_apply)
{
    struct qkv_bpe *bpe = load("#version: 0.2\nt \u00A0\nt\u00A0 a\na b</w>\n");
    cr_expect_str_eq(pieces(bpe, "tab"), "t@@ ab");
    qkv_bpe_free(bpe);
}

Test(bpe, refuses_files_that_hold_no_merges)
{
    static const struct {
        const char *name, *bytes, *message;
    } rows[] = {
        {"empty", "", ": the file is empty"},
        {"only_version", "#version: 0.2\n", ": holds no merges"},
        {"old", "e n\n",
         ":1: is no file of byte-pair codes of version 0.2, which begins with the line \"#version: 0.2\"; "
         "learn the codes with subword-nmt 0.3 or with qkv"},
        {"newer", "#version: 0.3\na b\n",
         ":1: holds byte-pair codes of version 0.3, but this qkv reads version 0.2: learn them again with "
         "subword-nmt 0.3"},
        {"one", "#version: 0.2\na b\nab\n", ":3: is not a merge: two symbols separated by one space"},
        {"three", "#version: 0.2\na b c\n", ":2: is not a merge: two symbols separated by one space"},
        {"blank", "#version: 0.2\n\na b\n", ":2: is not a merge: two symbols separated by one space"},
        {"left", "#version: 0.2\n a\n", ":2: is not a merge: two symbols separated by one space"},
        {"right", "#version: 0.2\na \n", ":2: is not a merge: two symbols separated by one space"},
        {"tab", "#version: 0.2\na\tb c\n", ":2: is not a merge: two symbols separated by one space"},
        {"cut", "#version: 0.2\na b\nc d", ":3: the last line has no newline; the file may be truncated"},
        {"invalid", "#version: 0.2\na \xFF\n", ":2:3: byte 0xFF is not valid UTF-8"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct qkv_error error = {""};
        const char *path = write_text(scratch(rows[i].name), "codes", rows[i].bytes);
        cr_expect_null(qkv_bpe_load(path, &error), "%s", rows[i].name);
        cr_expect_str_eq(error.message, format("%s%s", path, rows[i].message));
    }
    struct qkv_error error = {""};
    cr_expect_null(qkv_bpe_load(scratch("folder"), &error));
    cr_expect_not_null(strstr(error.message, "folder"));
}

Test(bpe, level_bpe_needs_merges)
{
    const struct qkv_text_config text = {.lang = "en", .level = QKV_LEVEL_BPE};
    struct qkv_tokens tokens = {0};
    struct qkv_error error = {""};
    cr_expect_eq(qkv_tokenize(&tokens, &text, "a", 1, &error), QKV_INVALID);
    cr_expect_str_eq(error.message, "level bpe needs merges; a run that is open has them");
    struct qkv_corpus corpus;
    struct qkv_data_config data = generated_text(1, false);
    cr_expect_eq(qkv_corpus_read(&corpus, "x.tsv", &data, (struct qkv_corpus_options){0}, &error),
                 QKV_INVALID);
    cr_expect_str_eq(error.message, "x.tsv: level bpe needs merges; qkv_corpus_merges learns or reads them");
    struct qkv_bpe *bpe[2];
    cr_expect_eq(qkv_corpus_merges("-", &data, bpe, (struct qkv_corpus_options){0}, &error), QKV_INVALID);
    cr_expect(bpe[0] == NULL && bpe[1] == NULL);
}

/* Pieces of punctuation are joined as words are; the number of a piece's word is that of its word. */
Test(bpe, splits_punctuation_before_it_cuts_words)
{
    struct qkv_bpe *bpe = load("#version: 0.2\nI t\nIt '\n");
    const struct qkv_text_config text = {
        .lang = "en", .level = QKV_LEVEL_BPE, .split_punctuation = true, .bpe = bpe};
    static const char line[] = "It's so, @@ x";
    static const char *const expected[] = {"It'@@", "s", "s@@", "o", ",", "@", "@", "x"};
    static const int64_t words[] = {0, 0, 1, 1, 1, 2, 2, 3};
    struct qkv_tokens tokens = {0};
    struct qkv_error error = {""};
    cr_assert_eq(qkv_tokenize(&tokens, &text, line, sizeof line - 1, &error), QKV_OK);
    cr_assert_eq(tokens.count, 8);
    for (int64_t i = 0; i < 8; i++) {
        cr_expect_str_eq(tokens.token[i], expected[i]);
        cr_expect_eq(tokens.word[i], words[i]);
    }
    struct qkv_arena arena = {0};
    cr_expect_str_eq(qkv_detokenize(&text, 5, tokens.token, &arena), "It's so,");
    /* A translation can end in the middle of a word, and @@ alone is a word. */
    static const char *const odd[] = {"a@@", "b", "@@", "c@@"};
    cr_expect_str_eq(qkv_detokenize(&text, 4, odd, &arena), "ab@@c"); /* no space around @ */
    qkv_arena_release(&arena);
    qkv_tokens_release(&tokens);
    qkv_bpe_free(bpe);
}

/* A word of a million characters takes no longer than a million words. */
Test(bpe, long_words_take_no_quadratic_time)
{
    enum { SIZE = 1 << 20 };
    struct qkv_bpe *bpe = load("#version: 0.2\na a\naa aa\naaaa aaaa\naaaaaaaa aaaaaaaa\n");
    const struct qkv_text_config text = {.level = QKV_LEVEL_BPE, .bpe = bpe};
    struct qkv_tokens tokens = {0};
    char *line = malloc(SIZE);
    cr_assert_not_null(line);
    memset(line, 'a', SIZE);
    cr_assert_eq(qkv_tokenize(&tokens, &text, line, SIZE, NULL), QKV_OK);
    cr_expect_eq(tokens.count,
                 SIZE / 16 + 4); /* the last 16 end in a</w>, which no merge has: 8, 4, 2, 1, 1 */
    free(line);
    qkv_tokens_release(&tokens);
    qkv_bpe_free(bpe);
}
