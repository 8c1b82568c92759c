/* Byte-pair encoding. All expected merges and pieces are those of subword-nmt 0.3.8. */
#include "framework/translator/data/bpe.h"
#include "framework/engine/core/text.h"

#include "support.h"

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

static struct qkv_types random_words; /* 4000 of them */
static const struct qkv_types *const texts[] = {&random_words};
static struct qkv_bpe *bpe; /* of the current test */

static void learn(int64_t merges)
{
    qkv_bpe_free(bpe);
    bpe = made(qkv_bpe_learn(1, texts, merges, &error));
}

static void setup(void)
{
    generator = 1;
    for (int i = 0; i < 4000; i++) cr_assert_geq(qkv_types_add(&random_words, next_word(3, 12), 1), 0);
    learn(600);
}

static void teardown(void)
{
    qkv_bpe_free(bpe);
    qkv_types_release(&random_words);
}

TestSuite(random_words, .init = setup, .fini = teardown);
TestSuite(bpe, .fini = teardown);

/* The pieces of a line, with a space between. */
static const char *pieces(const struct qkv_bpe *merges, const char *line)
{
    const struct qkv_text_config text = {.lang = "en", .level = QKV_LEVEL_BPE, .bpe = merges};
    struct qkv_tokens tokens RELEASED(qkv_tokens_release) = {0};
    char *all = remember(calloc(1, 8 * strlen(line) + 1)), *end = all;
    expect_done(qkv_tokenize(&tokens, &text, line, strlen(line), &error));
    for (int64_t i = 0; i < tokens.count; i++) end += sprintf(end, "%s%s", i ? " " : "", tokens.token[i]);
    struct qkv_arena arena RELEASED(qkv_arena_release) = {0};
    char *joined = qkv_detokenize(&text, tokens.count, tokens.token, &arena);
    cr_expect(joined && !strcmp(joined, line), "%s became %s", line, joined);
    return all;
}

/* The CRC-32 of the pieces of 4000 random words of four letters, of which the merges know three. */
static uLong pieces_checksum(const struct qkv_bpe *merges)
{
    uLong sum = crc32_z(0, NULL, 0);
    generator = 1;
    for (int i = 0; i < 4000; i++) {
        const char *line = pieces(merges, next_word(4, 40));
        if (i) sum = crc32_z(sum, (const Bytef *)" ", 1);
        sum = crc32_z(sum, (const Bytef *)line, strlen(line));
    }
    return sum;
}

static const char LINE[] = "abäbabab aaaaaaaaaaaa bababababä";

/* Random words of three letters have many ties, pairs that overlap themselves, and symbols that two merges make. */
Test(random_words, are_cut_like_subword_nmt)
{
    cr_expect_eq(bpe->count, 600);
    cr_expect_eq(qkv_bpe_checksum(bpe), 0x2b615e88);
    cr_expect_str_eq(pieces(bpe, LINE), "abäb@@ abab aaaa@@ aaaa@@ aaaa baba@@ baba@@ bä");
    cr_expect_eq(pieces_checksum(bpe), 0xcfed5544);
}

/* The pieces of the words of a text, counted. */
static struct qkv_types counted_pieces(void)
{
    const struct qkv_text_config text = {.lang = "en", .level = QKV_LEVEL_BPE, .bpe = bpe};
    struct qkv_types counts = {0};
    struct qkv_tokens tokens RELEASED(qkv_tokens_release) = {0};
    generator = 1;
    for (int i = 0; i < 4000; i++) {
        const char *word = next_word(3, 12);
        cr_assert_eq(qkv_tokenize(&tokens, &text, word, strlen(word), NULL), QKV_OK);
        for (int64_t k = 0; k < tokens.count; k++)
            cr_assert_geq(qkv_types_add(&counts, tokens.token[k], 1), 0);
    }
    return counts;
}

/* The choice of pieces survives a file. A minimum that no piece reaches can be tried again; the last choice that succeeds
 * counts. */
Test(random_words, keep_frequent_pieces_like_subword_nmt)
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
    struct qkv_types counts RELEASED(qkv_types_release) = counted_pieces();
    struct qkv_bpe *again RELEASED(free_bpe) = qkv_bpe_copy(bpe);
    uint32_t before = qkv_bpe_checksum(bpe);
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        const char *path = format("%s/pieces", scratch("pieces"));
        expect_refusal(qkv_bpe_restrict(bpe, &counts, INT64_MAX, &error),
                       "no piece of the text occurs 9223372036854775807 times");
        cr_expect_eq(qkv_bpe_checksum(bpe), before);
        expect_done(qkv_bpe_restrict(bpe, &counts, rows[i].minimum, &error));
        cr_expect_str_eq(pieces(bpe, LINE), rows[i].line);
        cr_expect_eq(pieces_checksum(bpe), rows[i].pieces);
        cr_expect_neq(qkv_bpe_checksum(bpe), before);
        expect_done(qkv_bpe_save_pieces(bpe, path, &error));
        expect_done(qkv_bpe_load_pieces(again, path, &error));
        cr_expect_eq(qkv_bpe_checksum(again), qkv_bpe_checksum(bpe));
        cr_expect_eq(pieces_checksum(again), rows[i].pieces);
        before = qkv_bpe_checksum(bpe);
    }
}

Test(random_words, refuse_files_that_hold_no_pieces)
{
    static const char *const rows[][2] = {
        {"a 2\nb\n", ":2: must be a piece, a space and its frequency"},
        {"a 0\n", ":1: must be a piece, a space and its frequency"},
        {"a 2x\n", ":1: must be a piece, a space and its frequency"},
        {"a 2\na 3\n", ":2: 'a' is already in an earlier line"},
        {"a 2\nb 3", ":2: the last line has no newline; the file may be truncated"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        learn(1);
        const char *path = write_text(scratch("pieces"), "x.pieces", rows[i][0]);
        expect_refusal(qkv_bpe_load_pieces(bpe, path, &error), format("%s%s", path, rows[i][1]));
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

static void learn_generated(int64_t merges, bool joint, struct qkv_bpe *both[2])
{
    struct qkv_data_config data = generated_text(merges, joint);
    expect_done(qkv_corpus_merges(QKV_SOURCE_DIR "/datasets/en_es/train.tsv", &data, both,
                                  (struct qkv_corpus_options){0}, &error));
    cr_assert(data.src.bpe == both[0] && data.trg.bpe == both[1]);
}

Test(bpe, learns_both_sides_of_a_text_or_joint_merges)
{
    struct qkv_bpe *both[2], *joint[2];
    learn_generated(60, false, both);
    cr_expect_eq(qkv_bpe_checksum(both[0]), 0x737e3ccd);
    cr_expect_eq(qkv_bpe_checksum(both[1]), 0x6761b9ab);
    cr_expect_str_eq(pieces(both[0], "the white map is next to the gray bus"),
                     "the w@@ h@@ it@@ e m@@ a@@ p is ne@@ x@@ t to the gr@@ a@@ y b@@ u@@ s");
    cr_expect_str_eq(pieces(both[1], "niñas durmientes"), "n@@ i@@ ñ@@ as d@@ u@@ r@@ m@@ ien@@ t@@ es");
    learn_generated(80, true, joint);
    for (int side = 0; side < 2; side++) cr_expect_eq(qkv_bpe_checksum(joint[side]), 0x225e8863);
    cr_expect_str_eq(pieces(joint[1], "estoy pintando su pájaro"),
                     "est@@ o@@ y p@@ in@@ t@@ an@@ do su p@@ á@@ j@@ ar@@ o");
    for (int side = 0; side < 2; side++) {
        qkv_bpe_free(both[side]);
        qkv_bpe_free(joint[side]);
    }
}

Test(bpe, says_how_many_merges_a_text_has)
{
    expect_refusal(STATUS_OF(qkv_bpe_learn(1, texts, 1, &error)),
                   "1 merges are wanted, but the text has only 0: no other pair of symbols occurs twice");
    expect_refusal(STATUS_OF(qkv_bpe_learn(1, texts, 0, &error)), "there cannot be 0 merges, but at least 1");
    qkv_types_add(&random_words, "low", 2);
    qkv_types_add(&random_words, "lower", 1);
    expect_refusal(STATUS_OF(qkv_bpe_learn(1, texts, 10, &error)),
                   "10 merges are wanted, but the text has only 2: no other pair of symbols occurs twice");
    learn(2);
    cr_expect_eq(qkv_bpe_checksum(bpe), 0x96bb2f6d);
}

static void load(const char *codes)
{
    qkv_bpe_free(bpe);
    bpe = made(qkv_bpe_load(write_text(scratch("codes"), "x.codes", codes), &error));
}

Test(bpe, codes_are_read_and_written)
{
    static const char codes[] = "#version: 0.2\nl o\nlo w</w>\ne r</w>\nl o\nñ </w>\n";
    load(codes);
    struct qkv_bpe *copy RELEASED(free_bpe) = qkv_bpe_copy(bpe);
    const char *path = format("%s/again", scratch("again"));
    expect_done(qkv_bpe_save(copy, path, &error));
    cr_expect_str_eq(read_file(path, NULL), codes);
    cr_expect_eq(qkv_bpe_checksum(bpe), crc32_z(0, (const Bytef *)codes, sizeof codes - 1));
    cr_expect_eq(bpe->count, 5);
}

/* Merges are applied one after another, each to all of its places from left to right, whatever their order says of the
 * pairs that appear on the way. subword-nmt splits only at U+0020, so its merges may contain a no-break space, at which qkv
 * splits, too: they never apply. */
Test(bpe, merges_are_applied_in_their_order)
{
    static const char *const rows[][3] = {
        {"l o\nlo w</w>\ne r</w>\nl o\n", "low lower l ñ", "low lo@@ w@@ er l ñ"},
        {"a b\r\n", "abc", "ab@@ c"}, /* line ends of Windows */
        {"ab a\na b\na a\n", "ababc abac aaaaac", "ab@@ ab@@ c aba@@ c aa@@ aa@@ a@@ c"},
        {"t \u00A0\nt\u00A0 a\na b</w>\n", "tab", "t@@ ab"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        load(format("#version: 0.2\n%s", rows[i][0]));
        cr_expect_str_eq(pieces(bpe, rows[i][1]), rows[i][2], "%s: %s", rows[i][2], pieces(bpe, rows[i][1]));
    }
}

Test(bpe, refuses_files_that_hold_no_merges)
{
    static const char *const rows[][3] = {
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
        const char *path = write_text(scratch(rows[i][0]), "codes", rows[i][1]);
        expect_refusal(STATUS_OF(qkv_bpe_load(path, &error)), format("%s%s", path, rows[i][2]));
    }
    expect_refusal_with(STATUS_OF(qkv_bpe_load(scratch("folder"), &error)), "folder");
}

Test(bpe, level_bpe_needs_merges)
{
    const struct qkv_text_config text = {.lang = "en", .level = QKV_LEVEL_BPE};
    struct qkv_tokens tokens = {0};
    expect_refusal(qkv_tokenize(&tokens, &text, "a", 1, &error),
                   "level bpe needs merges; a run that is open has them");
    struct qkv_corpus corpus;
    struct qkv_data_config data = generated_text(1, false);
    expect_refusal(qkv_corpus_read(&corpus, "x.tsv", &data, (struct qkv_corpus_options){0}, &error),
                   "x.tsv: level bpe needs merges; qkv_corpus_merges learns or reads them");
    struct qkv_bpe *both[2];
    cr_expect_eq(qkv_corpus_merges("-", &data, both, (struct qkv_corpus_options){0}, &error), QKV_INVALID);
    cr_expect(both[0] == NULL && both[1] == NULL);
}

/* Pieces of punctuation are joined as words are; the number of a piece's word is that of its word. */
Test(bpe, splits_punctuation_before_it_cuts_words)
{
    load("#version: 0.2\nI t\nIt '\n");
    const struct qkv_text_config text = {
        .lang = "en", .level = QKV_LEVEL_BPE, .split_punctuation = true, .bpe = bpe};
    static const char line[] = "It's so, @@ x";
    struct qkv_tokens tokens RELEASED(qkv_tokens_release) = {0};
    const char *shown = "";
    cr_assert_eq(qkv_tokenize(&tokens, &text, line, sizeof line - 1, &error), QKV_OK);
    for (int64_t i = 0; i < tokens.count; i++)
        shown = format("%s%d %s, ", shown, (int)tokens.word[i], tokens.token[i]);
    cr_expect_str_eq(shown, "0 It'@@, 0 s, 1 s@@, 1 o, 1 ￭,, 2 @, 2 ￭@, 3 x, ");
    struct qkv_arena arena RELEASED(qkv_arena_release) = {0};
    cr_expect_str_eq(qkv_detokenize(&text, 5, tokens.token, &arena), "It's so,");
    /* A translation can end in the middle of a word, and @@ alone is a word. */
    static const char *const odd[] = {"a@@", "b", "￭@@￭", "￭(@@", "c@@"};
    cr_expect_str_eq(qkv_detokenize(&text, 4, odd, &arena), "ab@@(");
    cr_expect_str_eq(qkv_detokenize(&text, 5, odd, &arena), "ab@@(c");
}

/* A last piece that ends in @@ is marked, so that it does not look unfinished; the word is cut as ever. */
Test(bpe, keeps_words_that_look_like_pieces)
{
    load("#version: 0.2\no @\no@ @</w>\n");
    cr_expect_str_eq(pieces(bpe, "foo@@ @@ a@@\uFE0E o@@x"),
                     "f@@ o@@ o@@\uFE0E @@@ @ a@@ @@@ @@@ \uFE0E o@@@ @@@ x");
}

/* A word of a million characters takes no longer than a million words. */
Test(bpe, long_words_take_no_quadratic_time)
{
    enum { SIZE = 1 << 20 };
    load("#version: 0.2\na a\naa aa\naaaa aaaa\naaaaaaaa aaaaaaaa\n");
    const struct qkv_text_config text = {.level = QKV_LEVEL_BPE, .bpe = bpe};
    struct qkv_tokens tokens RELEASED(qkv_tokens_release) = {0};
    char *line RELEASED(free_memory) = malloc(SIZE);
    cr_assert_not_null(line);
    memset(line, 'a', SIZE);
    cr_assert_eq(qkv_tokenize(&tokens, &text, line, SIZE, NULL), QKV_OK);
    cr_expect_eq(tokens.count,
                 SIZE / 16 + 4); /* the last 16 end in a</w>, which no merge has: 8, 4, 2, 1, 1 */
}
