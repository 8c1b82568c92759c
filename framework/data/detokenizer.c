#include "data/unicode.h"
#include "qkv/tokenizer.h"

#include <string.h>
#include <utf8proc.h>

/* How a token sticks to its neighbours. */
enum {
    LEFT = 1,   /* no space before it */
    RIGHT = 2,  /* no space behind it */
    SPACED = 4, /* takes a no-break space on the sticky side in languages that want it */
};

/* Families of quotation marks, of which each opens and closes in turn. */
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

/* Marks that stick whatever stands around them. */
static int mark_glue(int32_t point)
{
    bool wide = (point >= 0x3001 && point <= 0x303F) || (point >= 0xFF01 && point <= 0xFF65);
    if (wide && qkv_is_mark(point)) return LEFT | RIGHT;
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
    utf8proc_category_t category = utf8proc_category(point);
    return category == UTF8PROC_CATEGORY_PS ? RIGHT : category == UTF8PROC_CATEGORY_PE ? LEFT : 0;
}

static int32_t first_point(const char *token)
{
    int32_t point;
    qkv_point(token, &point);
    return point;
}

/* "l'", but not a lone apostrophe. */
static bool is_elided(const char *token)
{
    size_t size = strlen(token);
    return (size > 1 && token[size - 1] == '\'') || (size > 3 && !strcmp(token + size - 3, "\u2019"));
}

static int glue(const struct qkv_language *language, const char *token, const char *next, bool open[FAMILIES])
{
    int32_t point = first_point(token);
    int family = quote_family(point);
    if (family != FAMILIES && (size_t)utf8proc_utf8class[(unsigned char)*token] == strlen(token)) {
        open[family] = !open[family] && point != 0x2019;
        return (open[family] ? RIGHT : LEFT) | (family == GUILLEMET ? SPACED : 0);
    }
    if (next && (point == '$' || point == 0xA3 || point == 0xA5) && qkv_is_digit(first_point(next)))
        return RIGHT;
    if (language->elides && !qkv_is_mark(point) && is_elided(token)) return RIGHT;
    return mark_glue(point);
}

/* ?! stays together where « Oui ! » does not. */
static bool is_run(const char *left, const char *right)
{
    return (*left == '!' || *left == '?') && (*right == '!' || *right == '?');
}

/* What stands between two neighbours, given how each of them sticks. */
static const char *gap(const struct qkv_language *language, const char *left, int left_glue,
                       const char *right, int right_glue)
{
    bool opens = left_glue & RIGHT, closes = right_glue & LEFT;
    if (!opens && !closes) return " ";
    int glue_here = opens ? left_glue : right_glue;
    return language->spaces_marks && (glue_here & SPACED) && !is_run(left, right) ? "\u00A0" : "";
}

static char *append(char *end, const char *text)
{
    size_t size = strlen(text);
    memcpy(end, text, size + 1);
    return end + size;
}

char *qkv_detokenize(const struct qkv_text_config *text, int64_t count, const char *const *tokens,
                     struct qkv_arena *arena)
{
    size_t size = 1;
    for (int64_t i = 0; i < count; i++) size += strlen(tokens[i]) + 2; /* 2: a no-break space */
    char *line = qkv_arena_allocate(arena, size), *end = line;
    if (!line) return NULL;
    *line = '\0';
    const struct qkv_language *language = qkv_language(text->lang);
    bool open[FAMILIES] = {false};
    int before = 0;
    for (int64_t i = 0; i < count; i++) {
        if (text->level == QKV_LEVEL_CHAR) {
            end = append(end, strcmp(tokens[i], "\u2581") ? tokens[i] : " ");
            continue;
        }
        int here = text->split_punctuation
                       ? glue(language, tokens[i], i + 1 < count ? tokens[i + 1] : NULL, open)
                       : 0;
        if (i) end = append(end, gap(language, tokens[i - 1], before, tokens[i], here));
        end = append(end, tokens[i]);
        before = here;
    }
    return line;
}
