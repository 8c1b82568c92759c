/* Hostile words in every output format: a strict parser reads each file, and finds the same words. */
#include "maps.h"
#include "parse.h"

#include "json.h"

enum { CAPACITY = 128 };

static const char *words[CAPACITY];
static double weights[CAPACITY * CAPACITY];
static int count;
static struct qkv_attention_map map;
static struct qkv_attention_report report;

/* Every control character, all that reorders text, noncharacters, and what a format gives a meaning. */
static void make_words(void)
{
    static const char points[] =
        "\x7F\xC2\x80\xC2\x9B\xC2\x9F\u2028\u2029\u202A\u202B\u202C\u202D\u202E\u2066\u2067\u2068\u2069\uFDD0"
        "\uFFFE\uFFFF\uFFFD\uFEFF\u00A0\u3000\u05D0\u72D7\U0001F600\U0001FFFE\U0010FFFF";
    static const double numbers[] = {0.1, 0x1.999999999999bp-4, 0x1.5555555555556p-2, 5e-324,
                                     1e300}; /* 16 digits lose some */
    static const char *const plain[] = {
        "\"",    "'",    "|",       "<",          ">",    "&",       "&lt;",    "<b>",   "]]>",
        "=cmd",  "=1+1", "+1+1",    "-x",         "@x",   "+1",      "-2.5",    "-1e-3", "-",
        "'=1",   "''=x", "'x",      "\\",         "\\n",  "\\u001b", "a,b",     "a;b",   "a\"b",
        "\"a\"", "`x`",  "*x*",     "_x_",        "a_b",  "~",       "$x$",     "#",     "[x](y)",
        "a\tb",  "\r\n", "\033[2J", "\033]0;x\a", "%s%n", "{}",      "<!--x-->"};
    count = 0;
    for (int control = 1; control < 0x20; control++) words[count++] = format("a%cb", control);
    for (const char *end, *point = points; *point; point = end) {
        end = point;
        parse_character(&end);
        words[count++] = format("a%.*sb", (int)(end - point), point);
    }
    for (size_t i = 0; i < sizeof plain / sizeof *plain; i++) words[count++] = plain[i];
    cr_assert_leq(count, CAPACITY);
    for (int i = 0; i < count * count; i++) weights[i] = 1. / (i + 3);
    memcpy(weights, numbers, sizeof numbers);
    map = (struct qkv_attention_map){QKV_ATTENTION_CROSS, 1, 1, count, count, weights};
    report = (struct qkv_attention_report){"title\033[2J<&>\u202E\"",
                                           "model|\u2066",
                                           NULL,
                                           words,
                                           count,
                                           words,
                                           words,
                                           count,
                                           .maps = &map,
                                           .map_count = 1};
}

TestSuite(hostile, .init = make_words);

/* Whether terminals and XML take a character as it is. */
static bool is_plain(uint32_t point)
{
    if (point < 0x20 || (point >= 0x7F && point < 0xA0)) return false;
    if ((point >= 0x2028 && point <= 0x202E) || (point >= 0x2066 && point <= 0x2069)) return false;
    return (point < 0xFDD0 || point > 0xFDEF) && (point & 0xFFFE) != 0xFFFE;
}

static void expect_plain(const char *name, const char *text)
{
    while (*text) {
        uint32_t point = parse_character(&text);
        cr_assert(is_plain(point) || point == '\n' || point == '\t',
                  "format %s has U+%04X: append texts by qkv_text_next or what calls it (draw/text.h)", name,
                  point);
    }
}

/* What formats for people show for a word; `spaces` replaces spaces and tabs. */
static const char *shown(const char *word, const char *spaces)
{
    const char *result = "";
    while (*word) {
        const char *start = word;
        uint32_t point = parse_character(&word);
        bool space = point == ' ' || point == '\t' || point == 0xA0 || point == 0x3000;
        result = space             ? format("%s%s", result, spaces)
                 : is_plain(point) ? format("%s%.*s", result, (int)(word - start), start)
                                   : format("%s\uFFFD", result);
    }
    return result;
}

Test(hostile, text_has_nothing_that_steers_a_terminal)
{
    char *text = rendered(&report, "text", NULL, NULL);
    expect_plain("text", text);
    cr_expect(shows(text, shown(report.title, " ")));
}

Test(hostile, json_reads_back_the_same_words_and_numbers)
{
    char *text = rendered(&report, "json", NULL, NULL);
    expect_plain("json", text);
    cJSON *root RELEASED(free_json) = json_parsed(text);
    cr_expect_str_eq(json_text(root, "title"), report.title);
    cr_expect_str_eq(json_text(root, "model"), report.model);
    for (int i = 0; i < count; i++) {
        cr_expect_str_eq(json_text(root, format("source.%d", i)), words[i]);
        for (int j = 0; j < count; j++)
            cr_expect(json_cell(json_at(root, "maps.0.weights"), i, j) == weights[i * count + j], "%d, %d", i,
                      j);
    }
}

Test(hostile, csv_reads_back_the_same_words)
{
    char *text = rendered(&report, "csv", NULL, NULL);
    struct table_text table = parse_separated(text, ',');
    cr_assert_eq(table.rows, 1 + count * count);
    cr_assert_eq(table.columns, 8);
    for (int i = 0; i < count; i++) {
        const char *row = table.cell[(1 + i * count) * 8 + 4], *column = table.cell[(1 + i) * 8 + 6];
        cr_expect_str_eq(without_guard(row), words[i]);
        cr_expect_str_eq(without_guard(column), words[i]);
        bool number = *row && !row[strspn(row, "+-0123456789.e")] && strpbrk(row, "0123456789");
        cr_expect(number || !strchr("=+-@", *row), "a spreadsheet would compute %s", row);
    }
    cr_expect(shows(text, ",-2.5,"), "numbers stay numbers");
}

Test(hostile, npz_holds_the_same_words)
{
    size_t size;
    char *bytes = rendered(&report, "npz", NULL, &size);
    const char *header = bytes + 30 + strlen("source.npy");
    int width = atoi(strstr(header + 10, "'<U") + 3), length = (unsigned char)header[8] + 256 * header[9];
    const unsigned char *data = (const unsigned char *)header + 10 + length;
    for (int i = 0; i < count; i++) {
        const char *word = words[i];
        for (int at = 0; at < width; at++, data += 4) {
            uint32_t expected = *word ? parse_character(&word) : 0;
            cr_expect_eq((uint32_t)(data[0] | data[1] << 8 | data[2] << 16), expected, "word %d", i);
        }
    }
}

/* The format is well-formed and has the title and the first `shown_words` words. */
static void expect_markup(const char *format, int shown_words)
{
    char *text = rendered(&report, format, NULL, NULL);
    struct markup markup = parse_markup(text);
    expect_plain(format, text);
    cr_expect(has_text(markup, shown(report.title, " ")));
    for (int i = 0; i < shown_words; i++) cr_expect(has_text(markup, shown(words[i], "␣")), "word %d", i);
}

Test(hostile, svg_and_html_are_well_formed_and_have_all_words)
{
    expect_markup("svg", count);
    expect_markup("html", 20);
}

/* Every text of an explanation may come from a scene or from a program. */
Test(hostile, explanations_are_parsed_as_maps_are)
{
    for (int i = 0; i < count; i++) {
        const char *word = words[i];
        const struct qkv_step steps[] = {
            {word, word, word, word, .content = QKV_STEP_WEIGHTS, .rows = 1, .columns = 1, .values = weights,
             .row_names = &words[i], .column_names = &words[i]},
            STEP_OF("x", 1, 1, weights, .same_as = word),
        };
        const struct qkv_explanation one = {.title = word,
                                            .about = word,
                                            .label = word,
                                            .model = word,
                                            .heads = 1,
                                            .layer_heads = 1,
                                            .step_count = 2,
                                            .steps = steps},
                                     both[] = {one, one};
        for (int64_t f = 0; qkv_format(f); f++) {
            const char *name = qkv_format(f)->name;
            if (!strcmp(name, "png") || !strcmp(name, "pdf")) continue;
            char *bytes = explained(both, 2, name, NULL, NULL);
            if (!strcmp(name, "svg") || !strcmp(name, "html")) parse_markup(bytes);
            if (!strcmp(name, "csv")) cr_expect_eq(parse_separated(bytes, ',').rows, 5);
            if (strcmp(name, "csv") != 0 && strcmp(name, "npz") != 0) expect_plain(name, bytes);
            if (!strcmp(name, "json")) {
                cJSON *root RELEASED(free_json) = cJSON_Parse(bytes);
                cr_expect_str_eq(cJSON_GetStringValue(cJSON_GetObjectItem(root, "about")), words[i]);
            }
        }
    }
}

/* A program may give bytes that are no text at all: no writer reads past their end, and each shows U+FFFD. */
Test(hostile, bytes_that_are_not_utf_8_are_replaced)
{
    static const char *const broken[] = {"\xFF",         "a\xE4",           "\xC3",     "\xE2\x82",
                                         "\xF0\x9F\x98", "\x80\x80",        "\xC0\x80", "\xED\xA0\x80",
                                         "a\xF5\x80z",   "\xF4\x90\x80\x80"};
    int broken_count = sizeof broken / sizeof *broken;
    struct qkv_attention_report odd = report;
    map.rows = map.columns = odd.source_length = odd.target_length = broken_count;
    odd.source = odd.target_input = odd.target_output = broken;
    odd.title = odd.model = map.label = "x\xF0\x9F";
    for (int64_t f = 0; qkv_format(f); f++) {
        const char *name = qkv_format(f)->name;
        char *bytes = rendered(&odd, name, NULL, NULL);
        if (!strcmp(name, "svg") || !strcmp(name, "html")) {
            struct markup markup = parse_markup(bytes);
            cr_expect(has_text(markup, "x\uFFFD\uFFFD"), "%s", name);
            cr_expect(has_text(markup, "a\uFFFD"), "%s", name);
        }
        if (!strcmp(name, "csv")) cr_expect_str_eq(parse_separated(bytes, ',').cell[8 + 6], "\uFFFD");
        if (!strcmp(name, "json")) {
            cJSON *root RELEASED(free_json) = cJSON_Parse(bytes);
            cr_expect_str_eq(cJSON_GetStringValue(cJSON_GetObjectItem(root, "title")), "x\uFFFD\uFFFD");
        }
        if (!qkv_format(f)->binary && strcmp(name, "csv") != 0) expect_plain(name, bytes);
    }
}

/* Labels and titles are cut in time that grows with their length. The limit only ends a program whose time grows with the
 * square of the length: that takes minutes. */
Test(hostile, long_texts_are_cut, .timeout = 30)
{
    enum { SIZE = 400000 };
    char *letters = remember(malloc(SIZE + 1));
    memset(letters, 'x', SIZE);
    letters[SIZE] = 0;
    words[0] = words[1] = report.title = report.model = letters;
    char *svg = rendered(&report, "svg", NULL, NULL);
    cr_expect(shows(svg, "xxx…</text>") && lacks(svg, format("%.1000s", letters)));
    char *text = rendered(&report, "text", NULL, NULL);
    cr_expect(shows(text, "xxx…"));
}

/* A label of 100,000 combining marks has no width. */
Test(hostile, marks_without_a_letter_are_dropped, .timeout = 30)
{
    enum { MARKS = 100000 };
    char *marks = remember(malloc(2 * MARKS + 1));
    for (int i = 0; i < MARKS; i++) memcpy(marks + 2 * i, "\xCC\x81", 2);
    marks[2 * MARKS] = 0;
    words[0] = marks;
    report.title = marks;
    char *svg = rendered(&report, "svg", NULL, NULL);
    parse_markup(svg);
    cr_expect(lacks(svg, format("%.80s", marks)) && shows(svg, format("%.60s", marks)));
}
