/* Tokenizing loses nothing: joining the tokens of a text gives the text, in normal form C and with one space for each run of
 * white space. */
#include "core/text.h"
#include "framework/translator/data/bpe.h"

#include "support.h"

#include <utf8proc.h>
#include <zlib.h>

static struct qkv_tokens tokens;
static struct qkv_arena arena;
static struct qkv_bpe *merges;

/* ---- what must come back ---- */

static bool is_white(utf8proc_int32_t point)
{
    utf8proc_category_t category = utf8proc_category(point);
    return (point >= '\t' && point <= '\r') || point == 0x85 ||
           (category >= UTF8PROC_CATEGORY_ZS && category <= UTF8PROC_CATEGORY_ZP);
}

/* The text in normal form C, without white space at its ends, and with one space for each run of it inside. */
static char *expected_text(const char *line)
{
    utf8proc_uint8_t *composed = utf8proc_NFC((const utf8proc_uint8_t *)line), *at = composed, *to = composed;
    cr_assert_not_null(composed);
    bool pending = false;
    for (utf8proc_int32_t point; *at;) {
        utf8proc_ssize_t size = utf8proc_iterate(at, -1, &point);
        if (is_white(point)) {
            pending = to > composed;
        } else {
            if (pending) *to++ = ' ';
            pending = false;
            memmove(to, at, (size_t)size);
            to += size;
        }
        at += size;
    }
    *to = '\0';
    return (char *)composed;
}

/* Whether all white space of a line is ASCII, at which the words of a text are numbered. */
static bool has_plain_spaces(const char *line)
{
    for (utf8proc_int32_t point; *line;) {
        line += utf8proc_iterate((const utf8proc_uint8_t *)line, -1, &point);
        if (is_white(point) && point >= 0x80) return false;
    }
    return true;
}

static bool comes_back(const struct qkv_text_config *text, const char *line, const char *expected)
{
    qkv_arena_reset(&arena);
    cr_assert_eq(qkv_tokenize(&tokens, text, line, strlen(line), &error), QKV_OK, "%s", error.message);
    const char *joined = qkv_detokenize(text, tokens.count, tokens.token, &arena);
    cr_assert_not_null(joined);
    const int64_t *word = qkv_token_words(text, tokens.count, tokens.token, &arena);
    cr_assert_not_null(word);
    bool is_same = !strcmp(joined, expected);
    /* The words of the text that comes back are those of the text. */
    for (int64_t i = 0; i < tokens.count && is_same && has_plain_spaces(line); i++)
        is_same = word[i] == tokens.word[i];
    return is_same;
}

enum { CONFIGS = 6 };

static struct qkv_text_config config_of(int i)
{
    const struct qkv_text_config configs[CONFIGS] = {
        {.lang = "fr", .level = QKV_LEVEL_BPE, .split_punctuation = true, .bpe = merges},
        {.lang = "en", .level = QKV_LEVEL_CHAR},
        {.lang = "fr", .split_punctuation = true},
        {.lang = "en", .split_punctuation = true},
        {.lang = "en", .level = QKV_LEVEL_BPE, .bpe = merges},
        {.lang = "en"},
    };
    return configs[i];
}

/* Tries the first `configs` ones. */
static void expect_back(const char *line, int configs)
{
    char *expected RELEASED(free_memory) = expected_text(line);
    for (int i = 0; i < configs; i++) {
        const struct qkv_text_config text = config_of(i);
        if (comes_back(&text, line, expected)) continue;
        const char *shown = "";
        for (int64_t t = 0; t < tokens.count; t++) shown = format("%s|%s", shown, tokens.token[t]);
        cr_expect_fail("config %d: %s\n became %s\n by     %s", i, expected,
                       qkv_detokenize(&text, tokens.count, tokens.token, &arena), shown);
    }
}

static void setup(void)
{
    struct qkv_types words RELEASED(qkv_types_release) = {0};
    const struct qkv_types *const texts[] = {&words};
    static const char *const learned[] = {"foo@@",   "foo@@", "barfoo@@", "\uFFED\uFE0E", "\uFFED\uFE0E",
                                          "the@",    "the@",  "l'",       "l'",           "aujourd'",
                                          "anderem", "der",   "ander",    "\uFE0E\uFE0E", "x\uFE0E\uFE0E"};
    for (size_t i = 0; i < sizeof learned / sizeof *learned; i++) qkv_types_add(&words, learned[i], 2);
    merges = made(qkv_bpe_learn(1, texts, 12, &error));
}

static void teardown(void)
{
    qkv_tokens_release(&tokens);
    qkv_arena_release(&arena);
    qkv_bpe_free(merges);
}

TestSuite(reversible, .init = setup, .fini = teardown);

/* ---- random text ---- */

static uint64_t state;

static uint32_t draw(uint32_t limit)
{
    state = state * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)(state >> 33) % limit;
}

enum { POINTS = 0x110000, CATEGORIES = UTF8PROC_CATEGORY_CO + 1 };

/* What tokenizing adds itself, or treats in a special way. */
static const char *const SPECIAL[] = {
    "\uFFED", "\u2581", "\uFE0E", "@@",     "@",      "'",          "\u2019",     "-",
    "\u2010", ".",      ",",      ":",      "0",      "7",          "a",          "l'",
    "foo@@",  "\u0301", "\u200D", "\u00B7", " ",      "\u3000",     "\u00A0",     "\u2028",
    "<unk>",  "e",      "der",    "\u0338", "\u0323", "\U0001F468", "\U0001F3FD", "\uFE0F"};

static char *add_point(char *to, utf8proc_int32_t point)
{
    return to + utf8proc_encode_char(point, (utf8proc_uint8_t *)to);
}

Test(reversible, random_text_of_all_categories)
{
    utf8proc_int32_t *points = malloc(POINTS * sizeof *points);
    int64_t first[CATEGORIES + 1] = {0};
    for (int category = 0, count = 0; category < CATEGORIES; category++) {
        for (utf8proc_int32_t point = 1; point < POINTS; point++)
            if ((int)utf8proc_category(point) == category && (point < 0xD800 || point > 0xDFFF))
                points[count++] = point;
        first[category + 1] = count;
    }
    state = 20;
    int used = 0;
    for (int category = 0; category < CATEGORIES; category++) used += first[category + 1] > first[category];
    cr_assert_geq(used, 29); /* of 30 general categories, all but surrogates */
    for (int64_t i = 0; i < 20000; i++) {
        char line[512], *end = line;
        /* Ranges of 256 code points are about a script; between them, all categories mix. */
        int64_t script = draw(3) ? (int64_t)draw(0x300) * 256 : -1;
        int items = 1 + (int)draw(16);
        for (int item = 0; item < items; item++) {
            int category = (int)draw(CATEGORIES);
            int64_t size = first[category + 1] - first[category];
            uint32_t kind = draw(8);
            utf8proc_int32_t point = script >= 0 ? (utf8proc_int32_t)(script + draw(256))
                                     : size      ? points[first[category] + draw((uint32_t)size)]
                                                 : 'x';
            if (kind < 2)
                end += sprintf(end, "%s", SPECIAL[draw(sizeof SPECIAL / sizeof *SPECIAL)]);
            else if (kind == 2)
                *end++ = ' ';
            else if (point && (point < 0xD800 || point > 0xDFFF))
                end = add_point(end, point);
        }
        *end = '\0';
        if (!is_left_out(i)) expect_back(line, CONFIGS);
    }
    free(points);
}

/* Every short text of what tokenizing adds itself. */
Test(reversible, all_short_texts_of_its_own_marks)
{
    static const char *const part[] = {"\uFFED", "\u2581", "\uFE0E", "@@", "x", " ", "'", "-"};
    enum { PARTS = sizeof part / sizeof *part, LENGTH = 5 };
    for (int64_t number = 0; number < 8 * 8 * 8 * 8 * 8; number++) {
        char line[64] = "";
        for (int64_t i = 0, rest = number; i < LENGTH; i++, rest /= PARTS) strcat(line, part[rest % PARTS]);
        if (!is_left_out(number)) expect_back(line, CONFIGS);
    }
}

/* ---- text that people wrote ---- */

static const char DATA[] = QKV_SOURCE_DIR "/../shared/data";

/* Every 16th line, or with QKV_EVERY_LINE, as by night, all of them. */
static int64_t expect_file_back(const char *path)
{
    const int64_t step = getenv("QKV_EVERY_LINE") ? 1 : 16;
    gzFile file = gzopen(path, "rb");
    static char line[1 << 16];
    int64_t lines = 0;
    cr_assert_not_null(file, "%s", path);
    for (; gzgets(file, line, sizeof line); lines++) {
        line[strcspn(line, "\n")] = '\0';
        if (lines % step == 0 && !is_left_out(lines / step))
            expect_back(line, 2); /* pieces are those of words */
    }
    gzclose(file);
    return lines;
}

Test(reversible, lines_of_the_shared_data)
{
    if (run("test -d '%s'", DATA).exit_code != 0) cr_skip_test("%s is not there", DATA);
    char *paths = run_ok("find '%s' -type f ! -name '*.jsonl' | sort", DATA);
    int64_t lines = 0;
    for (char *path = strtok(paths, "\n"); path; path = strtok(NULL, "\n")) lines += expect_file_back(path);
    cr_expect_gt(lines, 100000);
}
