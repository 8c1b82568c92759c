#include "data/pairs_columns.h"

#include "data/unicode.h"

#include <string.h>
#include <zlib.h>

struct pairs_field qkv_pairs_trim(struct pairs_field field)
{
    const char *end = field.text + field.size, *first = NULL, *last = field.text;
    for (const char *at = field.text, *next; at < end; at = next) {
        int32_t point;
        next = at + qkv_point(at, &point);
        if (qkv_is_space(point)) continue;
        if (!first) first = at;
        last = next;
    }
    if (!first) return (struct pairs_field){field.text, 0};
    return (struct pairs_field){first, (size_t)(last - first)};
}

int qkv_pairs_fields(const char *line, size_t size, struct pairs_field field[QKV_PAIRS_COLUMNS])
{
    const char *end = line + size;
    for (int count = 0;; count++) {
        const char *tab = memchr(line, '\t', (size_t)(end - line));
        size_t length = (size_t)((tab ? tab : end) - line);
        if (count < QKV_PAIRS_COLUMNS) field[count] = qkv_pairs_trim((struct pairs_field){line, length});
        if (!tab) return count + 1;
        line = tab + 1;
    }
}

static bool begins(struct pairs_field field, const char *text)
{
    size_t size = strlen(text);
    return field.size >= size && !memcmp(field.text, text, size);
}

/* Whether a field is only the name of a sound or image, as Anki exports them, or an address. */
static bool is_reference(struct pairs_field field)
{
    char last = field.size ? field.text[field.size - 1] : '\0';
    return (begins(field, "[sound:") && last == ']') || (begins(field, "<img ") && last == '>') ||
           ((begins(field, "http://") || begins(field, "https://")) && !memchr(field.text, ' ', field.size));
}

static bool has_letter(struct pairs_field field)
{
    if (is_reference(field)) return false;
    for (const char *at = field.text, *end = at + field.size; at < end;) {
        int32_t point;
        at += qkv_point(at, &point);
        if (qkv_is_letter(point)) return true;
    }
    return false;
}

static bool has_digit(struct pairs_field field)
{
    for (size_t i = 0; i < field.size; i++)
        if (field.text[i] >= '0' && field.text[i] <= '9') return true;
    return false;
}

static bool is_ascii_word(struct pairs_field field)
{
    for (size_t i = 0; i < field.size; i++)
        if (field.text[i] <= ' ' || field.text[i] > '~') return false;
    return true;
}

static bool contains(struct pairs_field field, const char *part)
{
    size_t size = strlen(part);
    for (size_t i = 0; i + size <= field.size; i++)
        if (!memcmp(field.text + i, part, size)) return true;
    return false;
}

void qkv_pairs_columns_add(struct pairs_columns *columns, const struct pairs_field *field, int count)
{
    if (count > columns->count) columns->count = count;
    for (int c = 0; c < count && c < QKV_PAIRS_COLUMNS; c++) {
        struct pairs_column *column = &columns->column[c];
        uint32_t hash = (uint32_t)crc32_z(0, (const Bytef *)field[c].text, field[c].size);
        column->repeated += columns->lines && hash == columns->before[c];
        columns->before[c] = hash;
        if (!field[c].size) continue;
        column->filled++;
        column->letterless += !has_letter(field[c]);
        column->one_word += is_ascii_word(field[c]);
        column->digits += has_digit(field[c]);
        column->seen[hash % QKV_PAIRS_HASHES / 8] |= (uint8_t)(1 << hash % 8);
        column->attribution += contains(field[c], "CC-BY") || contains(field[c], "Attribution:");
    }
    columns->lines++;
}

static bool has_letters(const struct pairs_column *column)
{
    return !column->is_excluded && column->letterless * 2 < column->filled;
}

/* Whether a column may hold sentences: it has text in most lines, not always the same text, and no attributions. */
static bool holds_text(const struct pairs_columns *columns, const struct pairs_column *column)
{
    enum { FEW = 10 /* in fewer lines than this, repeated text proves nothing */ };
    bool is_constant = columns->lines >= FEW && column->repeated * 10 > columns->lines * 9 - 10;
    return !column->is_excluded && column->filled * 2 > columns->lines &&
           column->attribution * 2 < column->filled && !is_constant;
}

/* Whether a column labels the pairs: nearly all its texts are one word, most with a digit, or they are few different ones. */
static bool holds_labels(const struct pairs_columns *columns, const struct pairs_column *column)
{
    enum { FEW = 40 /* of fewer lines than this, few texts prove nothing */ };
    int64_t different = 0;
    for (int i = 0; i < QKV_PAIRS_HASHES; i++) different += column->seen[i / 8] >> i % 8 & 1;
    int64_t lines = column->filled < QKV_PAIRS_HASHES ? column->filled : QKV_PAIRS_HASHES;
    return columns->lines >= FEW && column->one_word * 20 >= column->filled * 19 &&
           (column->digits * 10 >= column->filled * 9 || different * 8 <= lines);
}

int qkv_pairs_columns_find(const struct pairs_columns *columns, int found[2])
{
    int max = columns->count < QKV_PAIRS_COLUMNS ? columns->count : QKV_PAIRS_COLUMNS, count = 0;
    bool any_letters = false; /* false: the sentences are sequences of numbers */
    for (int c = 0; c < max; c++) any_letters = any_letters || has_letters(&columns->column[c]);
    int texts[QKV_PAIRS_COLUMNS], labels = 0;
    for (int c = 0; c < max; c++) {
        const struct pairs_column *column = &columns->column[c];
        if (!holds_text(columns, column) || has_letters(column) != any_letters) continue;
        texts[count++] = c;
        labels += holds_labels(columns, column);
    }
    bool skip_labels = any_letters && count - labels >= 2;
    int chosen = 0;
    for (int i = 0; i < count && chosen < 2; i++)
        if (!skip_labels || !holds_labels(columns, &columns->column[texts[i]]))
            found[chosen++] = texts[i] + 1;
    return chosen;
}
