#include "metrics/text.h"

#include <string.h>
#include <utf8proc.h>

bool qkv_text_is_space(uint32_t point)
{
    return (point >= 0x09 && point <= 0x0D) || (point >= 0x1C && point <= 0x20) || point == 0x85 ||
           point == 0xA0 || point == 0x1680 || (point >= 0x2000 && point <= 0x200A) || point == 0x2028 ||
           point == 0x2029 || point == 0x202F || point == 0x205F || point == 0x3000;
}

static bool is_ascii_punctuation(uint32_t point)
{
    return point && point < 128 && strchr("!\"#$%&'()*+,-./:;<=>?@[\\]^_`{|}~", (int)point);
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

/* Unicode's condition Final_Sigma: a cased letter comes before position `at` and none follows it;
 * characters that are Case_Ignorable are skipped. */
static bool is_final_sigma(const struct qkv_symbols *text, int64_t at)
{
    int64_t before = at - 1, after = at + 1;
    while (before >= 0 && is_case_ignorable(text->items[before])) before--;
    while (after < text->count && is_case_ignorable(text->items[after])) after++;
    return before >= 0 && is_cased(text->items[before]) &&
           !(after < text->count && is_cased(text->items[after]));
}

struct qkv_symbols *qkv_text_symbols(struct qkv_arena *arena, int64_t capacity)
{
    struct qkv_symbols *symbols = qkv_arena_zeroed(arena, sizeof *symbols);
    if (!symbols) return NULL;
    symbols->items = qkv_arena_allocate(arena, (size_t)capacity * sizeof *symbols->items);
    return symbols->items ? symbols : NULL;
}

void qkv_text_append(struct qkv_symbols *symbols, uint32_t point)
{
    symbols->items[symbols->count++] = point;
}

/* Maps text to lower case with Unicode's full mapping, as Python's str.lower() does. Only U+0130 becomes
 * two code points, so that the result has at most twice as many. */
static struct qkv_symbols *lower(struct qkv_arena *arena, const struct qkv_symbols *text)
{
    struct qkv_symbols *result = qkv_text_symbols(arena, 2 * text->count);
    if (!result) return NULL;
    for (int64_t i = 0; i < text->count; i++) {
        uint32_t point = text->items[i];
        if (point == 0x0130) {
            qkv_text_append(result, 'i');
            qkv_text_append(result, 0x0307);
        } else if (point == 0x03A3) {
            qkv_text_append(result, is_final_sigma(text, i) ? 0x03C2 : 0x03C3);
        } else {
            qkv_text_append(result, (uint32_t)utf8proc_tolower((utf8proc_int32_t)point));
        }
    }
    return result;
}

struct qkv_symbols *qkv_text_decode(struct qkv_arena *arena, const char *text, bool lowercase)
{
    const utf8proc_uint8_t *bytes = (const utf8proc_uint8_t *)text;
    utf8proc_ssize_t left = (utf8proc_ssize_t)strlen(text);
    struct qkv_symbols *symbols = qkv_text_symbols(arena, left);
    if (!symbols) return NULL;
    while (left > 0) {
        utf8proc_int32_t point;
        utf8proc_ssize_t size = utf8proc_iterate(bytes, left, &point);
        if (size < 1) {
            point = 0xFFFD;
            size = 1;
        }
        qkv_text_append(symbols, (uint32_t)point);
        bytes += size;
        left -= size;
    }
    return lowercase ? lower(arena, symbols) : symbols;
}

struct qkv_symbols *qkv_text_without_space(struct qkv_arena *arena, const struct qkv_symbols *text)
{
    struct qkv_symbols *result = text ? qkv_text_symbols(arena, text->count) : NULL;
    if (!result) return NULL;
    for (int64_t i = 0; i < text->count; i++)
        if (!qkv_text_is_space(text->items[i])) qkv_text_append(result, text->items[i]);
    return result;
}

struct qkv_words *qkv_text_words_new(struct qkv_arena *arena, int64_t capacity)
{
    struct qkv_words *words = qkv_arena_zeroed(arena, sizeof *words);
    if (!words) return NULL;
    words->items = qkv_arena_allocate(arena, (size_t)capacity * sizeof *words->items);
    return words->items ? words : NULL;
}

void qkv_text_append_word(struct qkv_words *words, const uint32_t *items, int64_t count)
{
    words->items[words->count++] = (struct qkv_word){items, count};
}

struct qkv_words *qkv_text_words(struct qkv_arena *arena, const struct qkv_symbols *text)
{
    struct qkv_words *words = text ? qkv_text_words_new(arena, text->count) : NULL;
    if (!words) return NULL;
    for (int64_t start = 0, end; start < text->count; start = end) {
        end = start + 1;
        if (qkv_text_is_space(text->items[start])) continue;
        while (end < text->count && !qkv_text_is_space(text->items[end])) end++;
        qkv_text_append_word(words, text->items + start, end - start);
    }
    return words;
}

struct qkv_symbols *qkv_text_join(struct qkv_arena *arena, const struct qkv_words *words)
{
    int64_t total = 0;
    for (int64_t i = 0; words && i < words->count; i++) total += words->items[i].count + 1;
    struct qkv_symbols *text = words ? qkv_text_symbols(arena, total) : NULL;
    for (int64_t i = 0; text && i < words->count; i++) {
        if (i) qkv_text_append(text, ' ');
        for (int64_t k = 0; k < words->items[i].count; k++) qkv_text_append(text, words->items[i].items[k]);
    }
    return text;
}

struct qkv_words *qkv_text_words_and_marks(struct qkv_arena *arena, const struct qkv_symbols *text)
{
    struct qkv_words *plain = qkv_text_words(arena, text);
    struct qkv_words *words = plain ? qkv_text_words_new(arena, 2 * plain->count) : NULL;
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
        if (cut) qkv_text_append_word(words, word.items, cut);
        qkv_text_append_word(words, word.items + cut, word.count - cut);
    }
    return words;
}
