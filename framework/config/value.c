#include "value.h"

#include "number.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* What the readers below share: who wants the value, where it stands and who hears what is wrong. */
struct reading {
    const struct qkv_key *key;
    struct qkv_place place;
    struct qkv_arena *arena;
    struct qkv_collector *collector;
};

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

static bool in_range(const struct qkv_range *range, double value)
{
    return (range->open_below ? value > range->lowest : value >= range->lowest) &&
           (range->open_above ? value < range->highest : value <= range->highest);
}

/* Collects "<key> is <what the node is>, but must be <wanted>" and gives false. */
static bool refuse(const struct reading *reading, const struct qkv_yaml_node *node, const char *wanted)
{
    const char *path = reading->key->path;
    switch (node->kind) {
    case QKV_YAML_REFUSED:
        break;
    case QKV_YAML_SEQUENCE:
        qkv_collect(reading->collector, reading->place, "%s is a list, but must be %s", path, wanted);
        break;
    case QKV_YAML_MAPPING:
        qkv_collect(reading->collector, reading->place, "%s is a section, but must be %s", path, wanted);
        break;
    case QKV_YAML_SCALAR: {
        const char *text = qkv_shown(reading->arena, node->text);
        if (qkv_yaml_is_null(node))
            qkv_collect(reading->collector, reading->place, "%s has no value, but must be %s", path, wanted);
        else if (!node->plain)
            qkv_collect(reading->collector, reading->place, "%s is the text \"%s\", but must be %s", path,
                        text, wanted);
        else if (qkv_number_kind(node->text))
            qkv_collect(reading->collector, reading->place, "%s is %s, but must be %s", path, text, wanted);
        else
            qkv_collect(reading->collector, reading->place, "%s is '%s', but must be %s", path, text, wanted);
        break;
    }
    }
    return false;
}

static bool refuse_range(const struct reading *reading, const struct qkv_yaml_node *node)
{
    char wanted[QKV_RANGE_SIZE];
    qkv_range_text(wanted, &reading->key->range);
    return refuse(reading, node, wanted);
}

/* What form the unquoted number in a node has. */
static enum qkv_number_kind form(const struct qkv_yaml_node *node)
{
    return node->kind == QKV_YAML_SCALAR && node->plain ? qkv_number_kind(node->text) : QKV_NUMBER_NONE;
}

static bool read_integer(const struct reading *reading, const struct qkv_yaml_node *node, int64_t *field)
{
    int64_t value;
    if (form(node) != QKV_NUMBER_INTEGER) return refuse(reading, node, "an integer");
    if (!qkv_integer_read(node->text, &value)) return refuse(reading, node, "an integer of 64 bits");
    if (!in_range(&reading->key->range, (double)value)) return refuse_range(reading, node);
    *field = value;
    return true;
}

static bool read_number(const struct reading *reading, const struct qkv_yaml_node *node, double *field)
{
    double value;
    if (!form(node)) return refuse(reading, node, "a number");
    if (!qkv_number_read(node->text, &value)) return refuse(reading, node, "a number that a double can hold");
    if (!in_range(&reading->key->range, value)) return refuse_range(reading, node);
    *field = value;
    return true;
}

static bool read_pair(const struct reading *reading, const struct qkv_yaml_node *node, double *field)
{
    const char *wanted = "a list of two numbers, [a, b]";
    if (node->kind != QKV_YAML_SEQUENCE) return refuse(reading, node, wanted);
    if (node->count != 2) {
        qkv_collect(reading->collector, reading->place, "%s is a list of %d, but must be %s",
                    reading->key->path, node->count, wanted);
        return false;
    }
    double value[2];
    const struct qkv_yaml_node *items[2] = {node->first, node->last};
    bool good = true;
    for (int i = 0; i < 2; i++) {
        struct reading item = *reading;
        if (item.place.line)
            item.place = (struct qkv_place){item.place.name, items[i]->line, items[i]->column};
        good &= read_number(&item, items[i], &value[i]);
    }
    if (good) memcpy(field, value, sizeof value);
    return good;
}

static bool read_boolean(const struct reading *reading, const struct qkv_yaml_node *node, bool *field)
{
    bool plain = node->kind == QKV_YAML_SCALAR && node->plain;
    bool yes = plain && !strcmp(node->text, "true");
    if (!yes && !(plain && !strcmp(node->text, "false"))) return refuse(reading, node, "true or false");
    *field = yes;
    return true;
}

static bool read_text(const struct reading *reading, const struct qkv_yaml_node *node, const char **field)
{
    if (node->kind != QKV_YAML_SCALAR) return refuse(reading, node, "a text");
    if (qkv_yaml_is_null(node)) {
        qkv_collect(reading->collector, reading->place,
                    reading->key->fallback ? "%s has no value; write \"\" for an empty text"
                                           : "%s has no value",
                    reading->key->path);
        return false;
    }
    if (!*node->text && !reading->key->fallback) {
        qkv_collect(reading->collector, reading->place, "%s must not be empty", reading->key->path);
        return false;
    }
    const char *copy = qkv_arena_string(reading->arena, node->text);
    if (!copy) {
        qkv_collect_no_memory(reading->collector, reading->place.name);
        return false;
    }
    *field = copy;
    return true;
}

/* Enums are read and written as int; keys.c asserts that they have its size. */
static bool read_choice(const struct reading *reading, const struct qkv_yaml_node *node, void *field)
{
    const struct qkv_choices *choices = reading->key->choices;
    for (int i = 0; i < choices->count && node->kind == QKV_YAML_SCALAR; i++) {
        if (strcmp(node->text, choices->names[i])) continue;
        memcpy(field, &i, sizeof i);
        return true;
    }
    char wanted[512];
    int used = snprintf(wanted, sizeof wanted, choices->count > 1 ? "one of " : "");
    for (int i = 0; i < choices->count; i++)
        used +=
            snprintf(wanted + used, sizeof wanted - (size_t)used, "%s%s", i ? ", " : "", choices->names[i]);
    return refuse(reading, node, wanted);
}

bool qkv_value_read(const struct qkv_key *key, const struct qkv_yaml_node *node, struct qkv_place place,
                    struct qkv_config *config, struct qkv_arena *arena, struct qkv_collector *collector)
{
    struct reading reading = {key, place, arena, collector};
    void *field = qkv_key_field(key, config);
    switch (key->kind) {
    case QKV_KEY_TEXT:
        return read_text(&reading, node, field);
    case QKV_KEY_INTEGER:
        return read_integer(&reading, node, field);
    case QKV_KEY_NUMBER:
        return read_number(&reading, node, field);
    case QKV_KEY_BOOLEAN:
        return read_boolean(&reading, node, field);
    case QKV_KEY_CHOICE:
        return read_choice(&reading, node, field);
    case QKV_KEY_PAIR:
        return read_pair(&reading, node, field);
    }
    return false;
}

/* Takes [a, b] or a, b apart; anything else stays the text that it is, to be refused. */
static void split_pair(char *text, struct qkv_yaml_node *whole, struct qkv_yaml_node item[2])
{
    size_t length = strlen(text);
    if (length && text[0] == '[' && text[length - 1] == ']') {
        text[length - 1] = '\0';
        text++;
    }
    char *comma = strchr(text, ',');
    if (!comma) return;
    *comma = '\0';
    char *part[2] = {text, comma + 1};
    for (int i = 0; i < 2; i++) {
        char *start = part[i] + strspn(part[i], " ");
        size_t used = strlen(start);
        while (used && start[used - 1] == ' ') start[--used] = '\0';
        item[i] = (struct qkv_yaml_node){.kind = QKV_YAML_SCALAR, .plain = true, .text = start};
    }
    item[0].next = &item[1];
    whole->kind = QKV_YAML_SEQUENCE;
    whole->count = 2;
    whole->first = &item[0];
    whole->last = &item[1];
}

bool qkv_value_read_text(const struct qkv_key *key, const char *text, struct qkv_place place,
                         struct qkv_config *config, struct qkv_arena *arena, struct qkv_collector *collector)
{
    struct qkv_yaml_node item[2] = {0};
    struct qkv_yaml_node node = {.kind = QKV_YAML_SCALAR, .plain = key->kind != QKV_KEY_TEXT, .text = text};
    char *copy = qkv_arena_string(arena, text);
    if (!copy) {
        qkv_collect_no_memory(collector, place.name);
        return false;
    }
    if (key->kind == QKV_KEY_PAIR) split_pair(copy, &node, item);
    return qkv_value_read(key, &node, place, config, arena, collector);
}

/* Whether a text can stand in YAML without quotes, and no reader of YAML would take it for something else. */
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

/* A double-quoted YAML text. Bytes are kept but for quotes, backslashes, controls (C0, DEL, C1), the line
 * breaks that YAML would fold (U+2028, U+2029) and what its readers refuse or eat (U+FEFF, U+FFFE, U+FFFF).
 */
static const char *quoted(const char *text, struct qkv_arena *arena)
{
    char *out = qkv_arena_allocate(arena, 6 * strlen(text) + 3), *to = out;
    if (!out) return NULL;
    *to++ = '"';
    for (const unsigned char *at = (const unsigned char *)text; *at; at++) {
        unsigned code = at[0];
        if (at[0] == 0xC2 && at[1] < 0xA0)
            code = *++at;
        else if (at[0] == 0xE2 && at[1] == 0x80 && (at[2] == 0xA8 || at[2] == 0xA9))
            code = 0x2000u + (at[2] & 0x3Fu), at += 2;
        else if (at[0] == 0xEF && at[1] == 0xBB && at[2] == 0xBF)
            code = 0xFEFF, at += 2;
        else if (at[0] == 0xEF && at[1] == 0xBF && at[2] >= 0xBE)
            code = 0xFFC0u + (at[2] & 0x3Fu), at += 2;
        else if (at[0] >= 0x20 && at[0] != 0x7F) {
            if (at[0] == '"' || at[0] == '\\') *to++ = '\\';
            *to++ = (char)at[0];
            continue;
        }
        to += sprintf(to, "\\u%04X", code);
    }
    strcpy(to, "\"");
    return out;
}

const char *qkv_value_text(const struct qkv_key *key, const struct qkv_config *config,
                           struct qkv_arena *arena)
{
    const void *field = qkv_key_value(key, config);
    char number[2][QKV_NUMBER_SIZE];
    switch (key->kind) {
    case QKV_KEY_TEXT: {
        const char *text = *(const char *const *)field;
        return safe_without_quotes(text) ? text : quoted(text, arena);
    }
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
        return key->choices->names[value];
    }
    case QKV_KEY_PAIR:
        qkv_number_format(number[0], ((const double *)field)[0]);
        qkv_number_format(number[1], ((const double *)field)[1]);
        return qkv_arena_format(arena, "[%s, %s]", number[0], number[1]);
    }
    return NULL;
}

bool qkv_value_equal(const struct qkv_key *key, const struct qkv_config *a, const struct qkv_config *b)
{
    static const size_t sizes[] = {
        [QKV_KEY_INTEGER] = sizeof(int64_t), [QKV_KEY_NUMBER] = sizeof(double),
        [QKV_KEY_BOOLEAN] = sizeof(bool),    [QKV_KEY_CHOICE] = sizeof(int),
        [QKV_KEY_PAIR] = 2 * sizeof(double),
    };
    const void *left = qkv_key_value(key, a), *right = qkv_key_value(key, b);
    if (key->kind == QKV_KEY_TEXT) return !strcmp(*(const char *const *)left, *(const char *const *)right);
    return !memcmp(left, right, sizes[key->kind]);
}
