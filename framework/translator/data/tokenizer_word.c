/* The tokens of a line, and the levels word and char; qkv/corpus.h has the rules. */
#include "core/memory.h"
#include "data/tokenizer.h"
#include "data/unicode.h"

#include <string.h>

/* ---- the storage of tokens ---- */

/* Finds the first word at or after *end. Sets *first and *end: the word is points[*first ..
 * *end-1]. False when there is none. */
static bool next_word(const struct qkv_tokens *tokens, int64_t count, int64_t *first, int64_t *end)
{
    *first = *end;
    while (*first < count && qkv_is_space(tokens->points[*first])) ++*first;
    for (*end = *first; *end < count && !qkv_is_space(tokens->points[*end]);) ++*end;
    return *end > *first;
}

/* Makes room for one more token and `size` bytes of text. */
static bool reserve(struct qkv_tokens *tokens, int64_t size)
{
    return QKV_RESERVE(tokens->token, tokens->token_capacity, tokens->count + 1) &&
           QKV_RESERVE(tokens->word, tokens->word_capacity, tokens->count + 1) &&
           QKV_RESERVE(tokens->text, tokens->text_capacity, tokens->text_size + size);
}

/* qkv_tokenize sets tokens->token when the line is complete: until then, reserve() can move tokens->text. */
bool qkv_tokens_add(struct qkv_tokens *tokens, int64_t first, int64_t end)
{
    if (!reserve(tokens, 4 * (end - first) + 1)) return false;
    char *text = tokens->text + tokens->text_size;
    tokens->text_size += qkv_utf8_encode(tokens->points + first, end - first, text) + 1 - text;
    tokens->word[tokens->count++] = tokens->words;
    return true;
}

bool qkv_tokens_end_with(struct qkv_tokens *tokens, const char *end)
{
    int64_t size = (int64_t)strlen(end);
    if (!reserve(tokens, size)) return false;
    memcpy(tokens->text + tokens->text_size - 1, end, (size_t)size + 1);
    tokens->text_size += size;
    return true;
}

void qkv_tokens_release(struct qkv_tokens *tokens)
{
    free(tokens->token);
    free(tokens->word);
    free(tokens->text);
    free(tokens->points);
    free(tokens->pieces);
    free(tokens->candidates);
    *tokens = (struct qkv_tokens){0};
}

/* Appends a text and its NUL at `end`; returns where the NUL is. */
static char *append(char *end, const char *text)
{
    size_t size = strlen(text);
    memcpy(end, text, size + 1);
    return end + size;
}

/* ---- level word: white space separates tokens, and on request punctuation marks are tokens ---- */

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
    for (int64_t first, end = 0; next_word(tokens, count, &first, &end); tokens->words++)
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

static bool split_words(struct qkv_tokens *tokens, const struct qkv_text_config *text, int64_t count)
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

static bool join_words(const struct qkv_text_config *text, int64_t count, const char *const *tokens,
                       char *line, int64_t *word, struct qkv_arena *arena)
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
        line = append(append(line, space), tokens[i]);
        previous = current;
    }
    return true;
}

const struct qkv_tokenizer qkv_tokenizer_word = {split_words, join_words};

/* ---- level char: every user-perceived character is a token ---- */

static const char SPACE[] = "\u2581"; /* ▁, the token of white space */

static bool add_space(struct qkv_tokens *tokens)
{
    if (!reserve(tokens, sizeof SPACE)) return false;
    memcpy(tokens->text + tokens->text_size, SPACE, sizeof SPACE);
    tokens->text_size += (int64_t)sizeof SPACE;
    tokens->word[tokens->count++] = -1;
    return true;
}

static bool split_characters(struct qkv_tokens *tokens, const struct qkv_text_config *text, int64_t count)
{
    (void)text;
    for (int64_t first, end = 0; next_word(tokens, count, &first, &end); tokens->words++) {
        if (tokens->count && !add_space(tokens)) return false;
        for (int64_t i = first, next; i < end; i = next) {
            next = qkv_character_end(tokens->points, i, end);
            if (!qkv_tokens_add(tokens, i, next)) return false;
        }
    }
    return true;
}

static bool join_characters(const struct qkv_text_config *text, int64_t count, const char *const *tokens,
                            char *line, int64_t *word, struct qkv_arena *arena)
{
    (void)text;
    (void)arena;
    int64_t next = 0; /* the word of the next character */
    for (int64_t i = 0; i < count; i++) {
        bool space = !strcmp(tokens[i], SPACE);
        if (space && i && word[i - 1] >= 0) next++;
        word[i] = space ? -1 : next;
        line = append(line, space ? " " : tokens[i]);
    }
    return true;
}

const struct qkv_tokenizer qkv_tokenizer_char = {split_characters, join_characters};
