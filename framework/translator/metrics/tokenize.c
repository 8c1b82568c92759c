/* The tokenizers of BLEU and TER. A tokenizer puts spaces between words and marks; then the text is split at white
 * space. */
#include "metrics/text.h"

#include <string.h>
#include <utf8proc.h>

/* ---- classes of characters ---- */

static bool is_digit(uint32_t point)
{
    return point >= '0' && point <= '9';
}

static bool is_not_digit(uint32_t point)
{
    return !is_digit(point);
}

/* The ASCII punctuation that 13a and tercom always split off as a word: all except . , - and ', which also occur within
 * numbers and words. */
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

/* Unicode's general category N. */
static bool is_number(uint32_t point)
{
    utf8proc_category_t category = utf8proc_category((utf8proc_int32_t)point);
    return category >= UTF8PROC_CATEGORY_ND && category <= UTF8PROC_CATEGORY_NO;
}

static bool is_not_number(uint32_t point)
{
    return !is_number(point);
}

/* Unicode's general category P. */
static bool is_punctuation(uint32_t point)
{
    utf8proc_category_t category = utf8proc_category((utf8proc_int32_t)point);
    return category >= UTF8PROC_CATEGORY_PC && category <= UTF8PROC_CATEGORY_PO;
}

/* Unicode's general category S. */
static bool is_symbol(uint32_t point)
{
    utf8proc_category_t category = utf8proc_category((utf8proc_int32_t)point);
    return category >= UTF8PROC_CATEGORY_SM && category <= UTF8PROC_CATEGORY_SO;
}

/* ---- steps of tokenizers ---- */

/* A copy without trailing white space, and without spare capacity. */
static struct qkv_symbols *copy_trimmed(struct qkv_arena *arena, const struct qkv_symbols *text)
{
    int64_t end = text->count;
    while (end > 0 && qkv_text_is_space(text->items[end - 1])) end--;
    struct qkv_symbols *copy = qkv_text_symbols(arena, end);
    for (int64_t i = 0; copy && i < end; i++) qkv_text_append(copy, text->items[i]);
    return copy;
}

static bool starts_with(const struct qkv_symbols *text, int64_t at, const char *start)
{
    int64_t same = 0;
    while (start[same] && at + same < text->count && text->items[at + same] == (unsigned char)start[same])
        same++;
    return !start[same];
}

/* Replaces every occurrence of `from` with `to`, in place and from left to right. `to` must not be longer
 * than `from`. */
static void replace(struct qkv_symbols *text, const char *from, const char *to)
{
    int64_t length = (int64_t)strlen(from), kept = 0;
    for (int64_t i = 0; i < text->count;) {
        if (!starts_with(text, i, from)) {
            text->items[kept++] = text->items[i++];
            continue;
        }
        for (const char *c = to; *c; c++) text->items[kept++] = (unsigned char)*c;
        i += length;
    }
    text->count = kept;
}

static void replace_entities(struct qkv_symbols *text)
{
    replace(text, "&quot;", "\"");
    replace(text, "&amp;", "&");
    replace(text, "&lt;", "<");
    replace(text, "&gt;", ">");
}

/* Puts spaces around every character for which `is_separated` is true and, if `padded`, around the text. */
static struct qkv_symbols *insert_spaces_around(struct qkv_arena *arena, bool (*is_separated)(uint32_t),
                                                bool padded, const struct qkv_symbols *text)
{
    struct qkv_symbols *result = text ? qkv_text_symbols(arena, 3 * text->count + 2) : NULL;
    if (!result) return NULL;
    if (padded) qkv_text_append(result, ' ');
    for (int64_t i = 0; i < text->count; i++) {
        bool apart = is_separated(text->items[i]);
        if (apart) qkv_text_append(result, ' ');
        qkv_text_append(result, text->items[i]);
        if (apart) qkv_text_append(result, ' ');
    }
    if (padded) qkv_text_append(result, ' ');
    return result;
}

/* A rule that inserts a space before, between or after two neighbouring characters that match `first` and `second`.
 * Matches do not overlap: the second character of a match cannot be the first of the next one. */
struct pair_rule {
    bool (*first)(uint32_t), (*second)(uint32_t);
    bool space_before, space_between, space_after;
};

static struct qkv_symbols *apply_rule(struct qkv_arena *arena, const struct pair_rule *rule,
                                      const struct qkv_symbols *text)
{
    struct qkv_symbols *result = text ? qkv_text_symbols(arena, 2 * text->count) : NULL;
    if (!result) return NULL;
    for (int64_t i = 0; i < text->count; i++) {
        if (i + 1 == text->count || !rule->first(text->items[i]) || !rule->second(text->items[i + 1])) {
            qkv_text_append(result, text->items[i]);
            continue;
        }
        if (rule->space_before) qkv_text_append(result, ' ');
        qkv_text_append(result, text->items[i++]);
        if (rule->space_between) qkv_text_append(result, ' ');
        qkv_text_append(result, text->items[i]);
        if (rule->space_after) qkv_text_append(result, ' ');
    }
    return result;
}

/* Puts spaces around full stops and commas that are not between digits, and around dashes that follow a digit. */
static struct qkv_symbols *split_at_numbers(struct qkv_arena *arena, struct qkv_symbols *text)
{
    static const struct pair_rule rules[] = {
        {is_not_digit, is_stop_or_comma, false, true, true},
        {is_stop_or_comma, is_not_digit, true, true, false},
        {is_digit, is_dash, false, true, true},
    };
    for (size_t i = 0; i < sizeof rules / sizeof *rules; i++) text = apply_rule(arena, &rules[i], text);
    return text;
}

/* ---- the tokenizers ---- */

/* Tokenizes as mteval-v13a does: replaces entities and line ends, then puts spaces around punctuation. Trailing white
 * space is dropped first, because otherwise the replacement of "-\n" would remove a final dash. */
static struct qkv_words *tokenize_13a(struct qkv_arena *arena, const struct qkv_symbols *text)
{
    struct qkv_symbols *copy = copy_trimmed(arena, text);
    if (!copy) return NULL;
    replace(copy, "<skipped>", "");
    replace(copy, "-\n", "");
    replace(copy, "\n", " ");
    replace_entities(copy);
    return qkv_text_words(arena,
                          split_at_numbers(arena, insert_spaces_around(arena, is_separate_mark, true, copy)));
}

/* Tokenizes as mteval-v14 does with --international-tokenization: puts spaces around punctuation marks that are not
 * between digits, and around symbols. As there, a full stop after a number at the end of the text is not split off. */
static struct qkv_words *tokenize_intl(struct qkv_arena *arena, const struct qkv_symbols *text)
{
    static const struct pair_rule after_other = {is_not_number, is_punctuation, false, true, true},
                                  before_other = {is_punctuation, is_not_number, true, true, false};
    struct qkv_symbols *result = copy_trimmed(arena, text);
    result = apply_rule(arena, &after_other, result);
    result = apply_rule(arena, &before_other, result);
    return qkv_text_words(arena, insert_spaces_around(arena, is_symbol, false, result));
}

static struct qkv_words *characters(struct qkv_arena *arena, const struct qkv_symbols *text)
{
    struct qkv_words *words = qkv_text_words_new(arena, text->count);
    if (!words) return NULL;
    for (int64_t i = 0; i < text->count; i++)
        if (!qkv_text_is_space(text->items[i])) qkv_text_append_word(words, text->items + i, 1);
    return words;
}

struct qkv_words *qkv_text_tokenize(struct qkv_arena *arena, enum qkv_bleu_tokenizer tokenizer,
                                    const struct qkv_symbols *text)
{
    if (!text) return NULL;
    switch (tokenizer) {
    case QKV_BLEU_13A:
        return tokenize_13a(arena, text);
    case QKV_BLEU_INTL:
        return tokenize_intl(arena, text);
    case QKV_BLEU_CHAR:
        return characters(arena, text);
    case QKV_BLEU_NONE:
        break;
    }
    return qkv_text_words(arena, text);
}

/* Puts a space before every 's at the end of a word. */
static struct qkv_symbols *split_possessives(struct qkv_arena *arena, const struct qkv_symbols *text)
{
    struct qkv_symbols *result = text ? qkv_text_symbols(arena, 2 * text->count) : NULL;
    if (!result) return NULL;
    for (int64_t i = 0; i < text->count; i++) {
        if (starts_with(text, i, "'s ")) qkv_text_append(result, ' ');
        qkv_text_append(result, text->items[i]);
    }
    return result;
}

/* Removes . , ? : ; ! " ( ), in place. */
static void remove_punctuation(struct qkv_symbols *text)
{
    int64_t kept = 0;
    for (int64_t i = 0; i < text->count; i++) {
        uint32_t point = text->items[i];
        if (!point || point >= 128 || !strchr(".,?:;!\"()", (int)point)) text->items[kept++] = point;
    }
    text->count = kept;
}

struct qkv_words *qkv_text_tercom(struct qkv_arena *arena, bool normalized, bool no_punctuation,
                                  const struct qkv_symbols *text)
{
    struct qkv_symbols *result = text ? copy_trimmed(arena, text) : NULL;
    if (!result) return NULL;
    if (normalized) {
        replace(result, "\n-", "");
        replace(result, "\n", " ");
        replace_entities(result);
        result = split_possessives(arena, insert_spaces_around(arena, is_separate_mark, true, result));
        result = split_at_numbers(arena, result);
    }
    if (result && no_punctuation) remove_punctuation(result);
    return qkv_text_words(arena, result);
}
