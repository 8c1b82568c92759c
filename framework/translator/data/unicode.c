#include "data/unicode.h"

#include "core/memory.h"

#include <utf8proc.h>

/* Every code point below is in normal form C by itself and composes with nothing before it. */
enum { FIRST_COMBINING = 0x300 };

bool qkv_is_language(const char *lang, const char *code)
{
    size_t size = lang ? strcspn(lang, "-_") : 0;
    return size == strlen(code) && !memcmp(lang, code, size);
}

bool qkv_has_elision(const char *lang)
{
    return qkv_is_language(lang, "fr") || qkv_is_language(lang, "it") || qkv_is_language(lang, "ca") ||
           qkv_is_language(lang, "oc");
}

enum qkv_status qkv_text_refuse(const char *place, const char *text, size_t size, size_t offset,
                                struct qkv_error *error)
{
    const char *word = *place ? "" : "column ";
    unsigned byte = (unsigned char)text[offset];
    if (!byte)
        return qkv_error_set(error, "%s%s%zu: a NUL byte is not allowed in text", place, word, offset + 1);
    /* UTF-8 has no byte below 0xC0 where a character begins, and no letter of ASCII after a byte from 0xC0 on: "H\xF6re". */
    unsigned next = offset + 1 < size ? (unsigned char)text[offset + 1] : 0, letter = next | 0x20u;
    bool is_letter = letter >= 'a' && letter <= 'z', is_ascii = next >= ' ' && next < 0x7F;
    bool may_be_latin_1 = byte < 0xFF && (byte < 0xC0 ? is_ascii : is_letter);
    static const char advice[] =
        "; if the text is in Latin-1 or Windows-1252, convert it: iconv -f WINDOWS-1252 -t UTF-8";
    return qkv_error_set(error, "%s%s%zu: byte 0x%02X is not valid UTF-8%s", place, word, offset + 1, byte,
                         may_be_latin_1 ? advice : "");
}

bool qkv_is_space(int32_t point)
{
    if (point < 0x80) return point == ' ' || (point >= '\t' && point <= '\r');
    return point == 0x85 || point == 0xA0 || point == 0x1680 || (point >= 0x2000 && point <= 0x200A) ||
           point == 0x2028 || point == 0x2029 || point == 0x202F || point == 0x205F || point == 0x3000;
}

bool qkv_is_punctuation(int32_t point)
{
    utf8proc_category_t category = utf8proc_category(point);
    return category >= UTF8PROC_CATEGORY_PC && category <= UTF8PROC_CATEGORY_SO;
}

bool qkv_is_letter(int32_t point)
{
    utf8proc_category_t category = utf8proc_category(point);
    return category >= UTF8PROC_CATEGORY_LU && category <= UTF8PROC_CATEGORY_LO;
}

bool qkv_is_digit(int32_t point)
{
    return utf8proc_category(point) == UTF8PROC_CATEGORY_ND;
}

bool qkv_is_apostrophe(int32_t point)
{
    return point == '\'' || point == 0x2019;
}

bool qkv_is_opening(int32_t point)
{
    return utf8proc_category(point) == UTF8PROC_CATEGORY_PS;
}

bool qkv_is_closing(int32_t point)
{
    return utf8proc_category(point) == UTF8PROC_CATEGORY_PE;
}

int qkv_point(const char *text, int32_t *point)
{
    if (!(*text & 0x80)) {
        *point = *text;
        return 1;
    }
    return (int)utf8proc_iterate((const utf8proc_uint8_t *)text, -1, point);
}

bool qkv_text_has(const char *text, bool (*is_of_class)(int32_t))
{
    for (int32_t point; *text;) {
        text += qkv_point(text, &point);
        if (is_of_class(point)) return true;
    }
    return false;
}

int64_t qkv_utf8_count(const char *text)
{
    int64_t count = 0;
    for (; *text; text++) count += (*text & 0xC0) != 0x80; /* not a continuation byte */
    return count;
}

int64_t qkv_utf8_count_words(const char *text, const char *end, bool by_ascii)
{
    int64_t words = 0;
    bool in_word = false;
    for (int32_t point; text < end;) {
        text += qkv_point(text, &point);
        bool is_space = qkv_is_space(point) && (point < 0x80 || !by_ascii);
        words += !is_space && !in_word;
        in_word = !is_space;
    }
    return words;
}

int64_t qkv_utf8_decode(const char *text, size_t size, int32_t *points)
{
    const unsigned char *bytes = (const unsigned char *)text;
    int64_t count = 0;
    for (size_t i = 0; i < size; count++) {
        if (bytes[i] < 0x80)
            points[count] = bytes[i++];
        else
            i += (size_t)utf8proc_iterate(bytes + i, (utf8proc_ssize_t)(size - i), &points[count]);
    }
    return count;
}

char *qkv_utf8_encode(const int32_t *points, int64_t count, char *text)
{
    for (int64_t i = 0; i < count; i++) {
        if (points[i] < 0x80)
            *text++ = (char)points[i];
        else
            text += utf8proc_encode_char(points[i], (utf8proc_uint8_t *)text);
    }
    *text = '\0';
    return text;
}

static int combining_class(int32_t point)
{
    return utf8proc_get_property(point)->combining_class;
}

/* Sorts adjacent combining marks by combining class with a counting sort, which keeps the order within a class (Unicode 3.11,
 * D108-D109). False when there is no memory. */
static bool order_marks(int32_t *marks, int64_t count)
{
    int64_t next[257] = {0}; /* [class]: where its next mark goes */
    int32_t few[16], *sorted = count <= 16 ? few : malloc((size_t)count * sizeof *sorted);
    if (!sorted) return false;
    for (int64_t i = 0; i < count; i++) next[combining_class(marks[i]) + 1]++;
    for (int class = 1; class < 256; class ++) next[class] += next[class - 1];
    for (int64_t i = 0; i < count; i++) sorted[next[combining_class(marks[i])]++] = marks[i];
    memcpy(marks, sorted, (size_t)count * sizeof *marks);
    if (sorted != few) free(sorted);
    return true;
}

/* Canonical decomposition of `count` code points, with combining marks in canonical order. */
static int64_t decompose(int32_t **points, int64_t *capacity, int64_t count)
{
    int64_t decomposed_count = 0, decomposed_capacity = 0;
    int32_t *decomposed = NULL;
    for (int64_t i = 0; i < count; i++) {
        int32_t boundary = 0, parts[8];
        utf8proc_ssize_t used =
            utf8proc_decompose_char((*points)[i], parts, 8, UTF8PROC_DECOMPOSE, &boundary);
        if (!QKV_RESERVE(decomposed, decomposed_capacity, decomposed_count + used)) return -1;
        memcpy(decomposed + decomposed_count, parts, (size_t)used * sizeof *parts);
        decomposed_count += used;
    }
    free(*points);
    *points = decomposed;
    *capacity = decomposed_capacity;
    for (int64_t first = 0, end; first < decomposed_count; first = end) {
        end = first + 1;
        if (!combining_class(decomposed[first])) continue;
        while (end < decomposed_count && combining_class(decomposed[end])) end++;
        if (end > first + 1 && !order_marks(decomposed + first, end - first)) return -1;
    }
    return decomposed_count;
}

int32_t qkv_point_in_case(int32_t point, bool is_upper)
{
    return is_upper ? utf8proc_toupper(point) : utf8proc_tolower(point);
}

bool qkv_is_capital(int32_t point)
{
    return utf8proc_tolower(point) != point;
}

int64_t qkv_normalize(int32_t **points, int64_t *capacity, int64_t count, bool lowercase)
{
    const utf8proc_option_t compose = UTF8PROC_STABLE | UTF8PROC_COMPOSE;
    bool composed = true;
    for (int64_t i = 0; i < count; i++) composed = composed && (*points)[i] < FIRST_COMBINING;
    if (!composed) {
        count = decompose(points, capacity, count);
        if (count < 0) return -1;
        count = utf8proc_normalize_utf32(*points, count, compose);
    }
    if (!lowercase) return count;
    for (int64_t i = 0; i < count; i++) {
        int32_t point = (*points)[i];
        if (point < 0x80)
            (*points)[i] = point >= 'A' && point <= 'Z' ? point + 32 : point;
        else
            (*points)[i] = utf8proc_tolower(point);
    }
    /* Some lower-case letters compose with a mark although the capital does not: j + caron is one code point, J +
     * caron two. */
    return composed ? count : utf8proc_normalize_utf32(*points, count, compose);
}

char *qkv_text_compose(const char *text, size_t size)
{
    int64_t capacity = 0, count = -1;
    int32_t *points = NULL;
    if (QKV_RESERVE(points, capacity, (int64_t)size + 1))
        count = qkv_normalize(&points, &capacity, qkv_utf8_decode(text, size, points), false);
    char *composed = count < 0 ? NULL : malloc(4 * (size_t)count + 1);
    if (composed) qkv_utf8_encode(points, count, composed);
    free(points);
    return composed;
}

/* True when a user-perceived character ends between two code points. *state is 0 at the start of a text and passes
 * information from call to call. */
static bool is_boundary(int32_t left, int32_t right, int32_t *state)
{
    if (left < FIRST_COMBINING && right < FIRST_COMBINING) {
        *state = 0; /* no earlier code point affects the next boundary */
        return true;
    }
    return utf8proc_grapheme_break_stateful(left, right, state);
}

int64_t qkv_character_end(const int32_t *points, int64_t first, int64_t end)
{
    int32_t state = 0;
    int64_t i = first + 1;
    while (i < end && !is_boundary(points[i - 1], points[i], &state)) i++;
    return i;
}
