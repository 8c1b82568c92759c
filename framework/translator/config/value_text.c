/* Values as text, for printed configs and error messages. */
#include "config/value.h"
#include "core/number.h"
#include "core/plain_text.h"

#include <math.h>
#include <stdio.h>
#include <string.h>
#include <utf8proc.h>

void qkv_range_text(char text[static QKV_RANGE_SIZE], const struct qkv_range *range)
{
    char low[QKV_NUMBER_SIZE], high[QKV_NUMBER_SIZE];
    if (isinf(range->highest)) {
        qkv_number_format(low, range->lowest);
        snprintf(text, QKV_RANGE_SIZE, range->open_below ? "greater than %s" : "at least %s", low);
        return;
    }
    qkv_number_format(low, range->lowest);
    qkv_number_format(high, range->highest);
    if (!range->open_below && !range->open_above)
        snprintf(text, QKV_RANGE_SIZE, "between %s and %s", low, high);
    else
        snprintf(text, QKV_RANGE_SIZE, "%s %s and %s %s", range->open_below ? "greater than" : "at least",
                 low, range->open_above ? "less than" : "at most", high);
}

/* True when every YAML parser reads the text without quotes as a text, not as a number, boolean or
 * list. */
static bool safe_without_quotes(const char *text)
{
    static const char *const words[] = {"true", "false", "null", "yes", "no", "on", "off", "y", "n"};
    static const char first[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ_/";
    static const char others[] = "0123456789.+-";
    if (!*text || !strchr(first, *text)) return false;
    for (const char *at = text; *at; at++)
        if (!strchr(first, *at) && !strchr(others, *at)) return false;
    for (size_t i = 0; i < sizeof words / sizeof words[0]; i++) {
        size_t j = 0;
        while (words[i][j] && (text[j] | 0x20) == words[i][j]) j++;
        if (!words[i][j] && !text[j]) return false;
    }
    return true;
}

/* A double-quoted YAML text. Escapes all characters that are not plain, and the byte order mark, which YAML parsers drop. An
 * escape has at most six bytes, or ten for a character of four bytes. */
static const char *quoted(const char *text, struct qkv_arena *arena)
{
    char *out = qkv_arena_allocate(arena, 6 * strlen(text) + 3), *to = out;
    if (!out) return NULL;
    *to++ = '"';
    for (const char *at = text; *at;) {
        utf8proc_int32_t code;
        utf8proc_ssize_t length = utf8proc_iterate((const utf8proc_uint8_t *)at, -1, &code);
        if (length > 0 && (!qkv_is_plain((uint32_t)code) || code == 0xFEFF)) {
            to += sprintf(to, code < 0x10000 ? "\\u%04X" : "\\U%08X", (unsigned)code);
            at += length;
            continue;
        }
        if (length <= 0) { /* a folder may have any name, but YAML must be valid UTF-8 */
            *to++ = '?';
            at++;
            continue;
        }
        if (*at == '"' || *at == '\\') *to++ = '\\';
        memcpy(to, at, (size_t)length);
        to += length;
        at += length;
    }
    strcpy(to, "\"");
    return out;
}

const char *qkv_yaml_text(const char *text, struct qkv_arena *arena)
{
    if (!text) text = "";
    return safe_without_quotes(text) ? text : quoted(text, arena);
}

const char *qkv_value_text(const struct qkv_key *key, const void *config, struct qkv_arena *arena)
{
    const void *field = qkv_key_value(key, config);
    char number[2][QKV_NUMBER_SIZE];
    switch (key->kind) {
    case QKV_KEY_TEXT:
        return qkv_yaml_text(*(const char *const *)field, arena);
    case QKV_KEY_INTEGER:
        return qkv_arena_format(arena, "%lld", (long long)*(const int64_t *)field);
    case QKV_KEY_NUMBER:
        qkv_number_format(number[0], *(const double *)field);
        return qkv_arena_string(arena, number[0]);
    case QKV_KEY_BOOLEAN:
        return *(const bool *)field ? "true" : "false";
    case QKV_KEY_CHOICE: {
        int value;
        memcpy(&value, field, sizeof value);
        return qkv_choice_name(key->choices, value);
    }
    case QKV_KEY_PAIR:
        qkv_number_format(number[0], ((const double *)field)[0]);
        qkv_number_format(number[1], ((const double *)field)[1]);
        return qkv_arena_format(arena, "[%s, %s]", number[0], number[1]);
    case QKV_KEY_TEXTS: /* scenes only, which are never printed as YAML: enough for an error message */
        return qkv_arena_format(arena, "%lld words", (long long)((const struct qkv_texts *)field)->count);
    case QKV_KEY_MATRIX:
        return qkv_arena_format(arena, "[%lld, %lld]", (long long)((const struct qkv_matrix *)field)->rows,
                                (long long)((const struct qkv_matrix *)field)->columns);
    }
    return NULL;
}

bool qkv_value_equal(const struct qkv_key *key, const void *a, const void *b)
{
    static const size_t sizes[] = {
        [QKV_KEY_INTEGER] = sizeof(int64_t), [QKV_KEY_NUMBER] = sizeof(double),
        [QKV_KEY_BOOLEAN] = sizeof(bool),    [QKV_KEY_CHOICE] = sizeof(int),
        [QKV_KEY_PAIR] = 2 * sizeof(double),
    };
    if (key->kind == QKV_KEY_TEXT) return !strcmp(qkv_key_text(key, a), qkv_key_text(key, b));
    const void *left = qkv_key_value(key, a), *right = qkv_key_value(key, b);
    return !memcmp(left, right, sizes[key->kind]);
}
