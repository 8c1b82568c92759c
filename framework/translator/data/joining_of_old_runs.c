/* How runs of format 1 join tokens, which do not record where the spaces were: by rules for the marks of Latin and East Asian
 * text. */
#include "data/tokenizer.h"
#include "data/unicode.h"

#include <stdio.h>
#include <string.h>

/* How a token attaches to its neighbours. */
enum {
    LEFT = 1,   /* no space before it */
    RIGHT = 2,  /* no space after it */
    SPACED = 4, /* with French spacing, a no-break space on the side where it attaches */
};

static bool is_one_of(int32_t point, const char *set)
{
    for (int32_t member; *set;) {
        set += qkv_point(set, &member);
        if (member == point) return true;
    }
    return false;
}

/* Families of quotation marks. Within a family, every second mark is a closing one. FAMILIES is the number of families, and
 * also stands for the family of all other characters. */
enum { SINGLE = 1, GUILLEMET = 3, FAMILIES = 5 };
static const char *const FAMILY[FAMILIES] = {"\"", "'‘’‚", "“”„‟", "«»", "‹›"};

static int quote_family(int32_t point)
{
    int family = 0;
    while (family < FAMILIES && !is_one_of(point, FAMILY[family])) family++;
    return family;
}

/* How a punctuation mark attaches, independent of its neighbours; 0, a space on both sides, for letters and digits. */
static int punctuation_attachment(int32_t point)
{
    bool wide = (point >= 0x3001 && point <= 0x303F) || (point >= 0xFF01 && point <= 0xFF65);
    if ((wide && qkv_is_punctuation(point)) || is_one_of(point, "/@_")) return LEFT | RIGHT;
    if (is_one_of(point, "!?;:%")) return LEFT | SPACED;
    if (is_one_of(point, ".,…") || qkv_is_closing(point)) return LEFT;
    return is_one_of(point, "¡¿#") || qkv_is_opening(point) ? RIGHT : 0;
}

static int32_t first_point(const char *token)
{
    int32_t point;
    qkv_point(token, &point);
    return point;
}

/* True for "l'", but not for an apostrophe alone. */
static bool is_elided(const char *token)
{
    size_t size = strlen(token);
    return (size > 1 && token[size - 1] == '\'') || (size > 3 && !strcmp(token + size - 3, "\u2019"));
}

/* Whether two neighbouring tokens are one mark, -- or ++. */
static bool is_repeated_mark(const char *left, const char *right)
{
    return (!strcmp(left, "-") || !strcmp(left, "+")) && !strcmp(left, right);
}

/* How `token` attaches when `next`, which may be NULL, follows. open[family] is true between an opening and a closing quotation
 * mark of that family; if `token` is such a mark, it is flipped. */
static int attachment(const char *lang, const char *token, const char *next, bool open[FAMILIES])
{
    int32_t point;
    int size = qkv_point(token, &point), family = quote_family(point);
    if (family != FAMILIES && (size_t)size == strlen(token)) {
        open[family] = !open[family] && point != 0x2019;
        return (open[family] ? RIGHT : LEFT) | (family == GUILLEMET ? SPACED : 0);
    }
    if (next && (point == '$' || point == 0xA3 || point == 0xA5) && qkv_is_digit(first_point(next)))
        return RIGHT;
    if (qkv_has_elision(lang) && !qkv_is_punctuation(point) && is_elided(token)) return RIGHT;
    if (point == 0xB0)
        return LEFT | (next && (!strcmp(next, "C") || !strcmp(next, "F")) ? RIGHT : 0); /* 5°C */
    if (point == '+' && next && is_repeated_mark(token, next)) return LEFT;             /* C++ */
    return punctuation_attachment(point);
}

/* Whether token i is the apostrophe after a plural in s (the dogs' bones), and not an opening quotation mark: no second mark
 * follows that would close. */
static bool is_possessive(const char *const *tokens, int64_t i, int64_t count, const bool open[FAMILIES])
{
    size_t size = i ? strlen(tokens[i - 1]) : 0;
    if (strcmp(tokens[i], "'") != 0 || open[SINGLE] || size < 2 || tokens[i - 1][size - 1] != 's')
        return false;
    while (++i < count)
        if (!strcmp(tokens[i], "'")) return false;
    return true;
}

/* French spacing puts no space between two of these marks: "Oui ?!". */
static bool are_sentence_ends(const char *left, const char *right)
{
    return (*left == '!' || *left == '?') && (*right == '!' || *right == '?');
}

/* The text between two neighbouring tokens. */
static const char *separator(const char *lang, const char *left, int left_attaches, const char *right,
                             int right_attaches)
{
    if (is_repeated_mark(left, right)) return "";
    bool by_left = left_attaches & RIGHT, by_right = right_attaches & LEFT;
    if (!by_left && !by_right) return " ";
    int attaches = by_left ? left_attaches : right_attaches;
    return qkv_is_language(lang, "fr") && (attaches & SPACED) && !are_sentence_ends(left, right) ? "\u00A0"
                                                                                                 : "";
}

void qkv_join_by_rules(const struct qkv_text_config *text, int64_t count, const char *const *tokens,
                       char *line, int64_t *word)
{
    bool open[FAMILIES] = {false};
    int previous = 0;
    for (int64_t i = 0; i < count; i++) {
        const char *next = i + 1 < count ? tokens[i + 1] : NULL;
        int current =
            is_possessive(tokens, i, count, open) ? LEFT : attachment(text->lang, tokens[i], next, open);
        const char *space = i ? separator(text->lang, tokens[i - 1], previous, tokens[i], current) : "";
        word[i] = i ? word[i - 1] + (*space != '\0') : 0;
        line += sprintf(line, "%s%s", space, tokens[i]);
        previous = current;
    }
}
