#include "qkv/tokenizer.h"

#include "core/grow.h"
#include "data/unicode.h"

#include <string.h>
#include <utf8proc.h>

/* Decodes into tokens->points. The text is valid. */
static int64_t decode(struct qkv_tokens *tokens, const char *line, size_t size)
{
    if (!QKV_RESERVE(tokens->points, tokens->points_room, (int64_t)size + 1)) return -1;
    int64_t count = 0;
    const unsigned char *bytes = (const unsigned char *)line;
    for (size_t i = 0; i < size; count++) {
        if (bytes[i] < 0x80)
            tokens->points[count] = bytes[i++];
        else
            i += (size_t)utf8proc_iterate(bytes + i, (utf8proc_ssize_t)(size - i), &tokens->points[count]);
    }
    return count;
}

/* Begins a token of that word: makes room for it and for `size` bytes of its text. */
static bool reserve(struct qkv_tokens *tokens, int64_t word, int64_t size)
{
    if (!QKV_RESERVE(tokens->token, tokens->token_room, tokens->count + 1)) return false;
    if (!QKV_RESERVE(tokens->word, tokens->word_room, tokens->count + 1)) return false;
    if (!QKV_RESERVE(tokens->text, tokens->text_room, tokens->text_size + size)) return false;
    tokens->word[tokens->count] = word;
    return true;
}

/* Adds points[first .. end-1] as one token. The text can still move, so `token` is set at the end of the
 * line. */
static bool add(struct qkv_tokens *tokens, int64_t first, int64_t end)
{
    if (!reserve(tokens, tokens->words, 4 * (end - first) + 1)) return false;
    char *text = tokens->text + tokens->text_size;
    for (int64_t i = first; i < end; i++) {
        if (tokens->points[i] < 0x80)
            *text++ = (char)tokens->points[i];
        else
            text += utf8proc_encode_char(tokens->points[i], (utf8proc_uint8_t *)text);
    }
    *text++ = '\0';
    tokens->text_size = text - tokens->text;
    tokens->count++;
    return true;
}

/* The end of the user-perceived character that begins at `first`, within a word that ends at `end`. */
static int64_t character_end(const int32_t *points, int64_t first, int64_t end)
{
    int32_t state = 0;
    int64_t i = first + 1;
    while (i < end && !qkv_breaks(points[i - 1], points[i], &state)) i++;
    return i;
}

static bool is_hyphen(int32_t point)
{
    return point == '-' || point == 0x2010 || point == 0x2011;
}

/* Whether the mark at `i` belongs to the word on its left; there is one. */
static bool joins(const int32_t *points, int64_t i, int64_t end)
{
    bool last = i + 1 == end;
    if (is_hyphen(points[i])) return last || !is_hyphen(points[i + 1]);
    if (last || qkv_is_mark(points[i + 1])) return false;
    if (qkv_is_apostrophe(points[i]) || points[i] == '.' || points[i] == 0xB7) return true;
    return (points[i] == ',' || points[i] == ':') && qkv_is_digit(points[i - 1]) &&
           qkv_is_digit(points[i + 1]);
}

/* Cuts what stands between white space at its punctuation. */
static bool split(struct qkv_tokens *tokens, int64_t first, int64_t end, bool elides)
{
    const int32_t *points = tokens->points;
    int64_t word = first; /* where the current word began */
    for (int64_t i = first; i < end;) {
        int64_t next = i + 1;
        bool mark = qkv_is_mark(points[i]);
        if (mark && i > word && joins(points, i, end)) {
            if (elides && qkv_is_apostrophe(points[i])) {
                if (!add(tokens, word, next)) return false;
                word = next;
            }
        } else if (mark) {
            if (i > word && !add(tokens, word, i)) return false;
            next = character_end(points, i, end);
            if (!add(tokens, i, next)) return false;
            word = next;
        }
        i = next;
    }
    return end <= word || add(tokens, word, end);
}

static bool split_characters(struct qkv_tokens *tokens, int64_t first, int64_t end)
{
    for (int64_t i = first, next; i < end; i = next) {
        next = character_end(tokens->points, i, end);
        if (!add(tokens, i, next)) return false;
    }
    return true;
}

/* Adds "▁", which stands for white space at level char. */
static bool add_space(struct qkv_tokens *tokens)
{
    static const char space[] = "\u2581";
    if (!reserve(tokens, -1, (int64_t)sizeof space)) return false;
    memcpy(tokens->text + tokens->text_size, space, sizeof space);
    tokens->text_size += (int64_t)sizeof space;
    tokens->count++;
    return true;
}

static bool cut(struct qkv_tokens *tokens, const struct qkv_text_config *text, int64_t count)
{
    bool elides = qkv_language(text->lang)->elides;
    for (int64_t first = 0, end; first < count; first = end) {
        while (first < count && qkv_is_space(tokens->points[first])) first++;
        for (end = first; end < count && !qkv_is_space(tokens->points[end]);) end++;
        if (end == first) break;
        bool done;
        if (text->level == QKV_LEVEL_CHAR)
            done = (!tokens->count || add_space(tokens)) && split_characters(tokens, first, end);
        else if (text->split_punctuation)
            done = split(tokens, first, end, elides);
        else
            done = add(tokens, first, end);
        if (!done) return false;
        tokens->words++;
    }
    return true;
}

enum qkv_status qkv_tokenize(struct qkv_tokens *tokens, const struct qkv_text_config *text, const char *line,
                             size_t size, struct qkv_error *error)
{
    tokens->count = tokens->words = tokens->text_size = 0;
    size_t valid = qkv_text_valid(line, size);
    if (valid < size) return qkv_text_refuse("", line, valid, error);
    int64_t count = decode(tokens, line, size);
    if (count >= 0) count = qkv_normalize(&tokens->points, &tokens->points_room, count, text->lowercase);
    if (count < 0 || !cut(tokens, text, count)) {
        tokens->count = tokens->words = tokens->text_size = 0;
        return qkv_error_set(error, "out of memory");
    }
    const char *token = tokens->text;
    for (int64_t i = 0; i < tokens->count; i++, token += strlen(token) + 1) tokens->token[i] = token;
    return QKV_OK;
}

void qkv_tokens_release(struct qkv_tokens *tokens)
{
    free(tokens->token);
    free(tokens->word);
    free(tokens->text);
    free(tokens->points);
    *tokens = (struct qkv_tokens){0};
}
