#include "metrics/text.h"

#include <string.h>
#include <utf8proc.h>

/* The white space of Python's str.split(), at which sacreBLEU splits words. */
static bool is_space(uint32_t point)
{
    return (point >= 0x09 && point <= 0x0D) || (point >= 0x1C && point <= 0x20) || point == 0x85 ||
           point == 0xA0 || point == 0x1680 || (point >= 0x2000 && point <= 0x200A) || point == 0x2028 ||
           point == 0x2029 || point == 0x202F || point == 0x205F || point == 0x3000;
}

static bool is_digit(uint32_t point)
{
    return point >= '0' && point <= '9';
}

/* The ASCII punctuation that the 13a tokenizer always makes a word of its own: all but . , - and ',
 * which also occur inside numbers and words. */
static bool is_separate_mark(uint32_t point)
{
    return point && point < 128 && strchr("!\"#$%&()*+/:;<=>?@[\\]^_`{|}~", (int)point);
}

static bool is_stop_or_comma(uint32_t point)
{
    return point == '.' || point == ',';
}

static bool is_dash(uint32_t point)
{
    return point == '-';
}

static bool is_ascii_punctuation(uint32_t point)
{
    return is_separate_mark(point) || is_stop_or_comma(point) || is_dash(point) || point == '\'';
}

static bool is_cased(uint32_t point)
{
    utf8proc_category_t category = utf8proc_category((utf8proc_int32_t)point);
    return category == UTF8PROC_CATEGORY_LU || category == UTF8PROC_CATEGORY_LL ||
           category == UTF8PROC_CATEGORY_LT;
}

/* Unicode's property Case_Ignorable: accents, modifiers, and punctuation that occurs inside words. */
static bool is_case_ignorable(uint32_t point)
{
    static const uint32_t inside_words[] = {'\'',   '.',    ':',    0xB7,   0x387,  0x55F,
                                            0x5F4,  0x2018, 0x2019, 0x2024, 0x2027, 0xFE13,
                                            0xFE52, 0xFE55, 0xFF07, 0xFF0E, 0xFF1A};
    for (size_t i = 0; i < sizeof inside_words / sizeof *inside_words; i++)
        if (point == inside_words[i]) return true;
    switch (utf8proc_category((utf8proc_int32_t)point)) {
    case UTF8PROC_CATEGORY_MN:
    case UTF8PROC_CATEGORY_ME:
    case UTF8PROC_CATEGORY_CF:
    case UTF8PROC_CATEGORY_LM:
    case UTF8PROC_CATEGORY_SK:
        return true;
    default:
        return false;
    }
}

/* Unicode's condition Final_Sigma: a letter with case comes before position `at` and none follows;
 * characters that are Case_Ignorable do not count. */
static bool is_final_sigma(const struct qkv_symbols *text, int64_t at)
{
    int64_t before = at - 1, after = at + 1;
    while (before >= 0 && is_case_ignorable(text->items[before])) before--;
    while (after < text->count && is_case_ignorable(text->items[after])) after++;
    return before >= 0 && is_cased(text->items[before]) &&
           !(after < text->count && is_cased(text->items[after]));
}

static struct qkv_symbols *symbols_new(struct qkv_arena *arena, int64_t capacity)
{
    struct qkv_symbols *symbols = qkv_arena_zeroed(arena, sizeof *symbols);
    if (!symbols) return NULL;
    symbols->items = qkv_arena_allocate(arena, (size_t)capacity * sizeof *symbols->items);
    return symbols->items ? symbols : NULL;
}

static void append(struct qkv_symbols *symbols, uint32_t point)
{
    symbols->items[symbols->count++] = point;
}

/* Maps text to lower case with Unicode's full mapping, as Python's str.lower() does. Only U+0130 becomes
 * two code points, so that the result has at most twice as many. */
static struct qkv_symbols *lower(struct qkv_arena *arena, const struct qkv_symbols *text)
{
    struct qkv_symbols *result = symbols_new(arena, 2 * text->count);
    if (!result) return NULL;
    for (int64_t i = 0; i < text->count; i++) {
        uint32_t point = text->items[i];
        if (point == 0x0130) {
            append(result, 'i');
            append(result, 0x0307);
        } else if (point == 0x03A3) {
            append(result, is_final_sigma(text, i) ? 0x03C2 : 0x03C3);
        } else {
            append(result, (uint32_t)utf8proc_tolower((utf8proc_int32_t)point));
        }
    }
    return result;
}

struct qkv_symbols *qkv_text_decode(struct qkv_arena *arena, const char *text, bool lowercase)
{
    const utf8proc_uint8_t *bytes = (const utf8proc_uint8_t *)text;
    utf8proc_ssize_t left = (utf8proc_ssize_t)strlen(text);
    struct qkv_symbols *symbols = symbols_new(arena, left);
    if (!symbols) return NULL;
    while (left > 0) {
        utf8proc_int32_t point;
        utf8proc_ssize_t size = utf8proc_iterate(bytes, left, &point);
        if (size < 1) {
            point = 0xFFFD;
            size = 1;
        }
        append(symbols, (uint32_t)point);
        bytes += size;
        left -= size;
    }
    return lowercase ? lower(arena, symbols) : symbols;
}

struct qkv_symbols *qkv_text_without_space(struct qkv_arena *arena, const struct qkv_symbols *text)
{
    struct qkv_symbols *result = text ? symbols_new(arena, text->count) : NULL;
    if (!result) return NULL;
    for (int64_t i = 0; i < text->count; i++)
        if (!is_space(text->items[i])) append(result, text->items[i]);
    return result;
}

static struct qkv_words *words_new(struct qkv_arena *arena, int64_t capacity)
{
    struct qkv_words *words = qkv_arena_zeroed(arena, sizeof *words);
    if (!words) return NULL;
    words->items = qkv_arena_allocate(arena, (size_t)capacity * sizeof *words->items);
    return words->items ? words : NULL;
}

static void append_word(struct qkv_words *words, const uint32_t *items, int64_t count)
{
    words->items[words->count++] = (struct qkv_word){items, count};
}

struct qkv_words *qkv_text_words(struct qkv_arena *arena, const struct qkv_symbols *text)
{
    struct qkv_words *words = text ? words_new(arena, text->count) : NULL;
    if (!words) return NULL;
    for (int64_t start = 0, end; start < text->count; start = end) {
        end = start + 1;
        if (is_space(text->items[start])) continue;
        while (end < text->count && !is_space(text->items[end])) end++;
        append_word(words, text->items + start, end - start);
    }
    return words;
}

static struct qkv_words *characters(struct qkv_arena *arena, const struct qkv_symbols *text)
{
    struct qkv_words *words = text ? words_new(arena, text->count) : NULL;
    if (!words) return NULL;
    for (int64_t i = 0; i < text->count; i++)
        if (!is_space(text->items[i])) append_word(words, text->items + i, 1);
    return words;
}

struct qkv_words *qkv_text_words_and_marks(struct qkv_arena *arena, const struct qkv_symbols *text)
{
    struct qkv_words *plain = qkv_text_words(arena, text);
    struct qkv_words *words = plain ? words_new(arena, 2 * plain->count) : NULL;
    if (!words) return NULL;
    for (int64_t i = 0; i < plain->count; i++) {
        struct qkv_word word = plain->items[i];
        uint32_t first = word.items[0], last = word.items[word.count - 1];
        /* Splits off at most one punctuation mark, as sacreBLEU does: `(hi)` becomes `(hi` and `)`. */
        int64_t cut = 0;
        if (word.count > 1 && is_ascii_punctuation(last))
            cut = word.count - 1;
        else if (word.count > 1 && is_ascii_punctuation(first))
            cut = 1;
        if (cut) append_word(words, word.items, cut);
        append_word(words, word.items + cut, word.count - cut);
    }
    return words;
}

/* Replaces every occurrence of `from` with `to`, in place and from left to right. `to` must not be longer
 * than `from`. */
static void replace(struct qkv_symbols *text, const char *from, const char *to)
{
    int64_t length = (int64_t)strlen(from), kept = 0;
    for (int64_t i = 0; i < text->count;) {
        int64_t same = 0;
        while (same < length && i + same < text->count && text->items[i + same] == (unsigned char)from[same])
            same++;
        if (same < length) {
            text->items[kept++] = text->items[i++];
            continue;
        }
        for (const char *c = to; *c; c++) text->items[kept++] = (unsigned char)*c;
        i += length;
    }
    text->count = kept;
}

/* A rule of the 13a tokenizer. Where two neighbouring characters match `first` and `second`, the rule
 * inserts a space before, between or after them. Matches do not overlap: the second character of a match
 * is not the first of the next one. */
struct pair_rule {
    bool (*first)(uint32_t), (*second)(uint32_t);
    bool space_before, space_between, space_after;
};

static bool is_not_digit(uint32_t point)
{
    return !is_digit(point);
}

static struct qkv_symbols *apply_rule(struct qkv_arena *arena, const struct pair_rule *rule,
                                      const struct qkv_symbols *text)
{
    struct qkv_symbols *result = symbols_new(arena, 2 * text->count);
    if (!result) return NULL;
    for (int64_t i = 0; i < text->count; i++) {
        if (i + 1 == text->count || !rule->first(text->items[i]) || !rule->second(text->items[i + 1])) {
            append(result, text->items[i]);
            continue;
        }
        if (rule->space_before) append(result, ' ');
        append(result, text->items[i++]);
        if (rule->space_between) append(result, ' ');
        append(result, text->items[i]);
        if (rule->space_after) append(result, ' ');
    }
    return result;
}

/* Tokenizes as mteval-v13a does: replaces entities and line ends; then sets spaces around punctuation,
 * around full stops and commas that are not between digits, and around dashes that follow a digit. */
static struct qkv_words *tokenize_13a(struct qkv_arena *arena, const struct qkv_symbols *text)
{
    static const struct {
        const char *from, *to;
    } replacements[] = {{"<skipped>", ""}, {"-\n", ""},   {"\n", " "},  {"&quot;", "\""},
                        {"&amp;", "&"},    {"&lt;", "<"}, {"&gt;", ">"}};
    static const struct pair_rule rules[] = {
        {is_not_digit, is_stop_or_comma, false, true, true},
        {is_stop_or_comma, is_not_digit, true, true, false},
        {is_digit, is_dash, false, true, true},
    };
    /* Trailing white space is dropped first: otherwise the replacement of "-\n" would remove a final dash. */
    int64_t end = text->count;
    while (end > 0 && is_space(text->items[end - 1])) end--;
    struct qkv_symbols *copy = symbols_new(arena, end);
    struct qkv_symbols *result = symbols_new(arena, 3 * end + 2);
    if (!copy || !result) return NULL;
    for (int64_t i = 0; i < end; i++) append(copy, text->items[i]);
    for (size_t i = 0; i < sizeof replacements / sizeof *replacements; i++)
        replace(copy, replacements[i].from, replacements[i].to);
    append(result, ' ');
    for (int64_t i = 0; i < copy->count; i++) {
        bool apart = is_separate_mark(copy->items[i]);
        if (apart) append(result, ' ');
        append(result, copy->items[i]);
        if (apart) append(result, ' ');
    }
    append(result, ' ');
    for (size_t i = 0; result && i < sizeof rules / sizeof *rules; i++)
        result = apply_rule(arena, &rules[i], result);
    return qkv_text_words(arena, result);
}

struct qkv_words *qkv_text_tokenize(struct qkv_arena *arena, enum qkv_bleu_tokenizer tokenizer,
                                    const struct qkv_symbols *text)
{
    if (!text) return NULL;
    switch (tokenizer) {
    case QKV_BLEU_13A:
        return tokenize_13a(arena, text);
    case QKV_BLEU_CHAR:
        return characters(arena, text);
    case QKV_BLEU_NONE:
        break;
    }
    return qkv_text_words(arena, text);
}
