/* Words: white space separates tokens, and on request punctuation marks are tokens. qkv/tokenizer.h has the rules. */
#include "data/tokenizer.h"
#include "data/unicode.h"

#include <string.h>

/* ---- text to tokens ---- */

static bool is_hyphen(int32_t point)
{
    return point == '-' || point == 0x2010 || point == 0x2011;
}

/* True when the punctuation mark at `i`, which follows a character of a word, stays inside the word. */
static bool stays_inside(const int32_t *points, int64_t i, int64_t end)
{
    bool last = i + 1 == end;
    if (is_hyphen(points[i])) return last || !is_hyphen(points[i + 1]);
    if (last || qkv_is_punctuation(points[i + 1])) return false;
    if (qkv_is_apostrophe(points[i]) || points[i] == '.' || points[i] == 0xB7) return true;
    return (points[i] == ',' || points[i] == ':') && qkv_is_digit(points[i - 1]) &&
           qkv_is_digit(points[i + 1]);
}

/* Splits points[first .. end-1], which has no white space, at its punctuation. */
static bool split_word(struct qkv_tokens *tokens, const struct qkv_text_config *text, int64_t first,
                       int64_t end, qkv_add_word *add)
{
    const int32_t *points = tokens->points;
    bool has_elision = qkv_language(text->lang)->has_elision;
    int64_t token = first; /* start of the current token */
    for (int64_t i = first; i < end;) {
        int64_t next = i + 1;
        bool mark = qkv_is_punctuation(points[i]);
        if (mark && i > token && stays_inside(points, i, end)) {
            if (has_elision && qkv_is_apostrophe(points[i])) {
                if (!add(tokens, text, token, next)) return false;
                token = next;
            }
        } else if (mark) {
            if (i > token && !add(tokens, text, token, i)) return false;
            next = qkv_character_end(points, i, end);
            if (!add(tokens, text, i, next)) return false;
            token = next;
        }
        i = next;
    }
    return end <= token || add(tokens, text, token, end);
}

bool qkv_tokens_split_words(struct qkv_tokens *tokens, const struct qkv_text_config *text, int64_t count,
                            qkv_add_word *add)
{
    for (int64_t first, end = 0; qkv_tokens_next_word(tokens, count, &first, &end); tokens->words++)
        if (text->split_punctuation ? !split_word(tokens, text, first, end, add)
                                    : !add(tokens, text, first, end))
            return false;
    return true;
}

static bool add_word(struct qkv_tokens *tokens, const struct qkv_text_config *text, int64_t first,
                     int64_t end)
{
    (void)text;
    return qkv_tokens_add(tokens, first, end);
}

static bool split(struct qkv_tokens *tokens, const struct qkv_text_config *text, int64_t count)
{
    return qkv_tokens_split_words(tokens, text, count, add_word);
}

/* ---- tokens to text ---- */

/* How a token attaches to its neighbours. */
enum {
    LEFT = 1,   /* no space before it */
    RIGHT = 2,  /* no space after it */
    SPACED = 4, /* with French spacing, a no-break space on the side where it attaches */
};

/* Families of quotation marks. Within a family, every second mark is a closing one. FAMILIES is the number of families, and
 * also stands for the family of all other characters. */
enum { DOUBLE, SINGLE, CURLY, GUILLEMET, SINGLE_GUILLEMET, FAMILIES };

static int quote_family(int32_t point)
{
    switch (point) {
    case '"':
        return DOUBLE;
    case '\'':
    case 0x2018: /* ‘ */
    case 0x2019: /* ’ */
    case 0x201A: /* ‚ */
        return SINGLE;
    case 0x201C: /* “ */
    case 0x201D: /* ” */
    case 0x201E: /* „ */
    case 0x201F: /* ‟ */
        return CURLY;
    case 0xAB: /* « */
    case 0xBB: /* » */
        return GUILLEMET;
    case 0x2039: /* ‹ */
    case 0x203A: /* › */
        return SINGLE_GUILLEMET;
    default:
        return FAMILIES;
    }
}

/* How a punctuation mark attaches, independent of its neighbours; 0, a space on both sides, for letters and digits. */
static int punctuation_attachment(int32_t point)
{
    bool wide = (point >= 0x3001 && point <= 0x303F) || (point >= 0xFF01 && point <= 0xFF65);
    if (wide && qkv_is_punctuation(point)) return LEFT | RIGHT;
    switch (point) {
    case '!':
    case '?':
    case ';':
    case ':':
    case '%':
        return LEFT | SPACED;
    case '.':
    case ',':
    case 0x2026: /* … */
        return LEFT;
    case 0xA1: /* ¡ */
    case 0xBF: /* ¿ */
    case '#':
        return RIGHT;
    case '/':
    case '@':
    case '_':
        return LEFT | RIGHT;
    default:
        break;
    }
    return qkv_is_opening(point) ? RIGHT : qkv_is_closing(point) ? LEFT : 0;
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
static int attachment(const struct qkv_language *language, const char *token, const char *next,
                      bool open[FAMILIES])
{
    int32_t point;
    int size = qkv_point(token, &point), family = quote_family(point);
    if (family != FAMILIES && (size_t)size == strlen(token)) {
        open[family] = !open[family] && point != 0x2019;
        return (open[family] ? RIGHT : LEFT) | (family == GUILLEMET ? SPACED : 0);
    }
    if (next && (point == '$' || point == 0xA3 || point == 0xA5) && qkv_is_digit(first_point(next)))
        return RIGHT;
    if (language->has_elision && !qkv_is_punctuation(point) && is_elided(token)) return RIGHT;
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
static const char *separator(const struct qkv_language *language, const char *left, int left_attaches,
                             const char *right, int right_attaches)
{
    if (is_repeated_mark(left, right)) return "";
    bool by_left = left_attaches & RIGHT, by_right = right_attaches & LEFT;
    if (!by_left && !by_right) return " ";
    int attaches = by_left ? left_attaches : right_attaches;
    return language->french_spacing && (attaches & SPACED) && !are_sentence_ends(left, right) ? "\u00A0" : "";
}

static bool join(const struct qkv_text_config *text, int64_t count, const char *const *tokens, char *line,
                 int64_t *word, struct qkv_arena *arena)
{
    (void)arena;
    const struct qkv_language *language = qkv_language(text->lang);
    bool open[FAMILIES] = {false};
    int previous = 0;
    for (int64_t i = 0; i < count; i++) {
        const char *next = i + 1 < count ? tokens[i + 1] : NULL;
        int current = !text->split_punctuation                ? 0
                      : is_possessive(tokens, i, count, open) ? LEFT
                                                              : attachment(language, tokens[i], next, open);
        const char *space = !i ? ""
                            : text->split_punctuation
                                ? separator(language, tokens[i - 1], previous, tokens[i], current)
                                : " ";
        word[i] = i ? word[i - 1] + (*space != '\0') : 0;
        line = qkv_append(qkv_append(line, space), tokens[i]);
        previous = current;
    }
    return true;
}

const struct qkv_tokenizer qkv_tokenizer_word = {split, join};
