#include "metrics/text.h"

#include <string.h>
#include <utf8proc.h>

/* White space as Python's str.split() knows it, which is what sacreBLEU splits at. */
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

/* The marks that 13a always sets apart: all of ASCII's but those that occur inside numbers and words. */
static bool is_apart(uint32_t point)
{
    return point && point < 128 && strchr("!\"#$%&()*+/:;<=>?@[\\]^_`{|}~", (int)point);
}

static bool is_stop(uint32_t point)
{
    return point == '.' || point == ',';
}

static bool is_dash(uint32_t point)
{
    return point == '-';
}

static bool is_mark(uint32_t point)
{
    return is_apart(point) || is_stop(point) || is_dash(point) || point == '\'';
}

static bool is_cased(uint32_t point)
{
    utf8proc_category_t category = utf8proc_category((utf8proc_int32_t)point);
    return category == UTF8PROC_CATEGORY_LU || category == UTF8PROC_CATEGORY_LL ||
           category == UTF8PROC_CATEGORY_LT;
}

/* Unicode's Case_Ignorable: marks, modifiers, and what may stand inside a word. */
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

/* Unicode's Final_Sigma: a letter before and none behind. */
static bool ends_word(const struct qkv_symbols *text, int64_t at)
{
    int64_t before = at - 1, behind = at + 1;
    while (before >= 0 && is_case_ignorable(text->items[before])) before--;
    while (behind < text->count && is_case_ignorable(text->items[behind])) behind++;
    return before >= 0 && is_cased(text->items[before]) &&
           !(behind < text->count && is_cased(text->items[behind]));
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

/* The full mapping of Unicode, as Python's str.lower(): one letter becomes two only for U+0130. */
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
            append(result, ends_word(text, i) ? 0x03C2 : 0x03C3);
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
        /* At most one mark is cut off, so that `(hi)` gives `(hi` and `)`, as in sacreBLEU. */
        int64_t cut = 0;
        if (word.count > 1 && is_mark(last))
            cut = word.count - 1;
        else if (word.count > 1 && is_mark(first))
            cut = 1;
        if (cut) append_word(words, word.items, cut);
        append_word(words, word.items + cut, word.count - cut);
    }
    return words;
}

/* One text replaced by another, from left to right. `to` is not longer than `from`, so it works in place. */
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

/* A rule of 13a over pairs of neighbours: where `first` and `second` hold, a space is set before, between or
 * behind them. Pairs do not overlap: the second of a pair is not the first of the next. */
struct pair_rule {
    bool (*first)(uint32_t), (*second)(uint32_t);
    bool before, between, behind;
};

static bool is_no_digit(uint32_t point)
{
    return !is_digit(point);
}

static struct qkv_symbols *apply(struct qkv_arena *arena, const struct pair_rule *rule,
                                 const struct qkv_symbols *text)
{
    struct qkv_symbols *result = symbols_new(arena, 2 * text->count);
    if (!result) return NULL;
    for (int64_t i = 0; i < text->count; i++) {
        if (i + 1 == text->count || !rule->first(text->items[i]) || !rule->second(text->items[i + 1])) {
            append(result, text->items[i]);
            continue;
        }
        if (rule->before) append(result, ' ');
        append(result, text->items[i++]);
        if (rule->between) append(result, ' ');
        append(result, text->items[i]);
        if (rule->behind) append(result, ' ');
    }
    return result;
}

/* mteval-v13a: entities and line ends, then marks, then full stops and commas not between digits, then dashes
 * behind digits. */
static struct qkv_words *tokenize_13a(struct qkv_arena *arena, const struct qkv_symbols *text)
{
    static const struct {
        const char *from, *to;
    } replacements[] = {{"<skipped>", ""}, {"-\n", ""},   {"\n", " "},  {"&quot;", "\""},
                        {"&amp;", "&"},    {"&lt;", "<"}, {"&gt;", ">"}};
    static const struct pair_rule rules[] = {
        {is_no_digit, is_stop, false, true, true},
        {is_stop, is_no_digit, true, true, false},
        {is_digit, is_dash, false, true, true},
    };
    int64_t end =
        text->count; /* white space at the end goes first, so that a last line end does not eat a dash */
    while (end > 0 && is_space(text->items[end - 1])) end--;
    struct qkv_symbols *copy = symbols_new(arena, end);
    struct qkv_symbols *result = symbols_new(arena, 3 * end + 2);
    if (!copy || !result) return NULL;
    for (int64_t i = 0; i < end; i++) append(copy, text->items[i]);
    for (size_t i = 0; i < sizeof replacements / sizeof *replacements; i++)
        replace(copy, replacements[i].from, replacements[i].to);
    append(result, ' ');
    for (int64_t i = 0; i < copy->count; i++) {
        bool apart = is_apart(copy->items[i]);
        if (apart) append(result, ' ');
        append(result, copy->items[i]);
        if (apart) append(result, ' ');
    }
    append(result, ' ');
    for (size_t i = 0; result && i < sizeof rules / sizeof *rules; i++)
        result = apply(arena, &rules[i], result);
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
