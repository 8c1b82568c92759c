/* How runs of format 1 join tokens, which do not record where the spaces were: by rules for the marks of Latin and East Asian
 * text. */
#include "data/tokenizer.h"
#include "data/unicode.h"

/* How a token attaches to its neighbours. */
enum {
    LEFT = 1,   /* no space before it */
    RIGHT = 2,  /* no space after it */
    SPACED = 4, /* with French spacing, a no-break space on the side where it attaches */
};

/* Whether the first character of a token is one of a set. */
static bool begins_with(const char *token, const char *set)
{
    int32_t point;
    char first[5] = "";
    int size = qkv_point(token, &point); /* below 0: the caller's token is not valid */
    if (size > 0) memcpy(first, token, (size_t)size);
    return *first && strstr(set, first);
}

/* Families of quotation marks. Within a family, every second mark is a closing one. FAMILIES is the number of families, and
 * also stands for the family of all other characters. */
enum { SINGLE = 1, GUILLEMET = 3, FAMILIES = 5 };
static const char *const FAMILY[FAMILIES] = {"\"", "'‘’‚", "“”„‟", "«»", "‹›"};

/* How a punctuation mark attaches, independent of its neighbours; 0, a space on both sides, for letters and digits. */
static int punctuation_attachment(const char *token, int32_t point)
{
    bool wide = (point >= 0x3001 && point <= 0x303F) || (point >= 0xFF01 && point <= 0xFF65);
    if ((wide && qkv_is_punctuation(point)) || begins_with(token, "/@_")) return LEFT | RIGHT;
    if (begins_with(token, "!?;:%")) return LEFT | SPACED;
    if (begins_with(token, ".,…") || qkv_is_closing(point)) return LEFT;
    return begins_with(token, "¡¿#") || qkv_is_opening(point) ? RIGHT : 0;
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
    int32_t point, next_point = 0;
    int size = qkv_point(token, &point), family = 0;
    if (next) qkv_point(next, &next_point);
    while (family < FAMILIES && !begins_with(token, FAMILY[family])) family++;
    if (family != FAMILIES && (size_t)size == strlen(token)) {
        open[family] = !open[family] && point != 0x2019;
        return (open[family] ? RIGHT : LEFT) | (family == GUILLEMET ? SPACED : 0);
    }
    if (begins_with(token, "$£¥") && qkv_is_digit(next_point)) return RIGHT;
    if (qkv_has_elision(lang) && !qkv_is_punctuation(point) && is_elided(token)) return RIGHT;
    if (point == 0xB0)
        return LEFT | (next && (!strcmp(next, "C") || !strcmp(next, "F")) ? RIGHT : 0); /* 5°C */
    if (point == '+' && next && is_repeated_mark(token, next)) return LEFT;             /* C++ */
    return punctuation_attachment(token, point);
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

/* The text between two neighbouring tokens. */
static const char *separator(const char *lang, const char *left, int left_attaches, const char *right,
                             int right_attaches)
{
    if (is_repeated_mark(left, right)) return "";
    bool by_left = left_attaches & RIGHT, by_right = right_attaches & LEFT;
    if (!by_left && !by_right) return " ";
    int attaches = by_left ? left_attaches : right_attaches;
    bool ends = strchr("!?", *left) && strchr("!?", *right); /* "Oui ?!" */
    return qkv_is_language(lang, "fr") && (attaches & SPACED) && !ends ? "\u00A0" : "";
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
