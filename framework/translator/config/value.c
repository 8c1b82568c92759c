#include "config/value.h"

#include "config/path.h"
#include "core/number.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

/* The key to read, the place of its value, and where errors and texts go. */
struct reading {
    const struct qkv_key *key;
    struct qkv_place place;
    struct qkv_arena *arena;
    struct qkv_collector *collector;
};

static bool in_range(const struct qkv_range *range, double value)
{
    return (range->open_below ? value > range->lowest : value >= range->lowest) &&
           (range->open_above ? value < range->highest : value <= range->highest);
}

/* Collects "<key> is <the node>, but must be <wanted>"; returns false. */
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
        const char *text = qkv_printable(reading->arena, node->text);
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

/* The kind of number that a node is; a quoted number is a text. */
static enum qkv_number_kind number_kind(const struct qkv_yaml_node *node)
{
    return node->kind == QKV_YAML_SCALAR && node->plain ? qkv_number_kind(node->text) : QKV_NUMBER_NONE;
}

static bool read_integer(const struct reading *reading, const struct qkv_yaml_node *node, int64_t *field)
{
    int64_t value;
    if (number_kind(node) != QKV_NUMBER_INTEGER) return refuse(reading, node, "an integer");
    if (!qkv_integer_read(node->text, &value)) return refuse(reading, node, "an integer of 64 bits");
    if (!in_range(&reading->key->range, (double)value)) return refuse_range(reading, node);
    *field = value;
    return true;
}

static bool read_number(const struct reading *reading, const struct qkv_yaml_node *node, double *field)
{
    double value;
    if (!number_kind(node)) return refuse(reading, node, "a number");
    if (!qkv_number_read(node->text, &value)) return refuse(reading, node, "a number that a double can hold");
    if (!in_range(&reading->key->range, value)) return refuse_range(reading, node);
    *field = value;
    return true;
}

/* Reads an item of the list: errors are reported at the item, unless the list comes from an override. */
static struct reading reading_of_item(const struct reading *reading, const struct qkv_yaml_node *item)
{
    struct reading one = *reading;
    if (one.place.line) one.place = (struct qkv_place){one.place.name, item->line, item->column};
    return one;
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
    bool valid = true;
    for (int i = 0; i < 2; i++) {
        const struct reading item = reading_of_item(reading, items[i]);
        valid &= read_number(&item, items[i], &value[i]);
    }
    if (valid) memcpy(field, value, sizeof value);
    return valid;
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

/* Reads a path, or a list of paths: takes the first one that exists or, if none exists, the first of the list. */
static bool read_path(const struct reading *reading, const struct qkv_yaml_node *node, const char **field)
{
    bool list = node->kind == QKV_YAML_SEQUENCE, found = false;
    const char *path = NULL;
    if (list && !node->count) return refuse(reading, node, "a path or a list of paths");
    for (const struct qkv_yaml_node *item = list ? node->first : node; item && !found;
         item = list ? item->next : NULL) {
        const struct reading one = list ? reading_of_item(reading, item) : *reading;
        const char *text;
        if (!read_text(&one, item, &text)) return false;
        if (one.place.line && !(text = qkv_path_of_file(reading->arena, one.place.name, text))) {
            qkv_collect_no_memory(reading->collector, reading->place.name);
            return false;
        }
        found = list && qkv_path_is_text(text);
        if (!path || found) path = text;
    }
    *field = path;
    return true;
}

/* Reads a list of texts, or one text, which is split at white space. */
static bool read_texts(const struct reading *reading, const struct qkv_yaml_node *node,
                       struct qkv_texts *field)
{
    const char *wanted = "a list of texts, or a text of words";
    bool words = node->kind == QKV_YAML_SCALAR && !qkv_yaml_is_null(node);
    if (!words && node->kind != QKV_YAML_SEQUENCE) return refuse(reading, node, wanted);
    size_t capacity = words ? strlen(node->text) / 2 + 1 : (size_t)node->count;
    const char **text = qkv_arena_allocate(reading->arena, capacity * sizeof *text);
    char *rest = words ? qkv_arena_string(reading->arena, node->text) : NULL;
    if (!text || (words && !rest)) {
        qkv_collect_no_memory(reading->collector, reading->place.name);
        return false;
    }
    int64_t count = 0;
    bool valid = true;
    for (char *word; words && (word = strtok_r(count ? NULL : rest, " \t\r\n", &rest));) text[count++] = word;
    for (const struct qkv_yaml_node *item = words ? NULL : node->first; item; item = item->next) {
        const struct reading one = reading_of_item(reading, item);
        if (item->kind != QKV_YAML_SCALAR || qkv_yaml_is_null(item) || !*item->text)
            valid = refuse(&one, item, "made of texts");
        else
            text[count++] = item->text;
    }
    if (valid && !count && !reading->key->fallback) {
        qkv_collect(reading->collector, reading->place, "%s must hold at least one word", reading->key->path);
        return false;
    }
    if (valid) *field = (struct qkv_texts){count, text};
    return valid;
}

/* Reads a row of a matrix, which must be as long as row 1. */
static bool read_row(const struct reading *reading, const struct qkv_yaml_node *row, int64_t number,
                     struct qkv_matrix *matrix, double *value)
{
    const struct reading here = reading_of_item(reading, row);
    if (row->kind == QKV_YAML_REFUSED) return false;
    if (row->kind == QKV_YAML_SEQUENCE && !row->count) {
        qkv_collect(reading->collector, here.place, "%s: row %lld is empty", reading->key->path,
                    (long long)number);
        return false;
    }
    if (row->kind != QKV_YAML_SEQUENCE)
        return refuse(&here, row, "a list of rows of numbers, [[a, b], [c, d]]");
    if (number == 1) matrix->columns = row->count;
    if (row->count != matrix->columns) {
        qkv_collect(reading->collector, here.place, "%s: row %lld has %d numbers, but row 1 has %lld",
                    reading->key->path, (long long)number, row->count, (long long)matrix->columns);
        return false;
    }
    bool valid = true;
    for (const struct qkv_yaml_node *item = row->first; item; item = item->next, value++) {
        const struct reading one = reading_of_item(reading, item);
        /* Masks of scenes consist of -infinity, which is not a number as qkv_number_kind defines it. */
        bool infinite = item->kind == QKV_YAML_SCALAR && item->plain && !strcmp(item->text, "-.inf");
        if (infinite)
            *value = -HUGE_VAL;
        else
            valid &= read_number(&one, item, value);
    }
    return valid;
}

static bool read_matrix(const struct reading *reading, const struct qkv_yaml_node *node,
                        struct qkv_matrix *field)
{
    if (node->kind != QKV_YAML_SEQUENCE)
        return refuse(reading, node, "a list of rows of numbers, [[a, b], [c, d]]");
    struct qkv_matrix matrix = {.rows = node->count};
    size_t columns = node->first && node->first->kind == QKV_YAML_SEQUENCE ? (size_t)node->first->count : 0;
    double *value = qkv_arena_allocate(reading->arena, (size_t)node->count * (columns + 1) * sizeof *value);
    if (!value) {
        qkv_collect_no_memory(reading->collector, reading->place.name);
        return false;
    }
    matrix.value = value;
    bool valid = true;
    int64_t number = 1;
    for (const struct qkv_yaml_node *row = node->first; row && valid; row = row->next, number++)
        valid = read_row(reading, row, number, &matrix, value + (number - 1) * matrix.columns);
    if (valid) *field = matrix;
    return valid;
}

/* Reads an enum through an int; key_rows.h asserts that both have the same size. */
static bool read_choice(const struct reading *reading, const struct qkv_yaml_node *node, void *field)
{
    const struct qkv_choices *choices = reading->key->choices;
    int count = 0;
    for (int i = 0; i < choices->count; i++) {
        if (!choices->list[i].help) continue;
        if (node->kind == QKV_YAML_SCALAR && !strcmp(node->text, choices->list[i].name)) {
            memcpy(field, &i, sizeof i);
            return true;
        }
        count++;
    }
    char names[QKV_CHOICES_SIZE], wanted[QKV_CHOICES_SIZE + 8];
    snprintf(wanted, sizeof wanted, "%s%s", count > 1 ? "one of " : "",
             qkv_choices_text(names, choices, UINT32_MAX, "", ", "));
    return refuse(reading, node, wanted);
}

bool qkv_value_read(const struct qkv_key *key, const struct qkv_yaml_node *node, struct qkv_place place,
                    void *config, struct qkv_arena *arena, struct qkv_collector *collector)
{
    struct reading reading = {key, place, arena, collector};
    void *field = qkv_key_field(key, config);
    switch (key->kind) {
    case QKV_KEY_TEXT:
        return key->is_path ? read_path(&reading, node, field) : read_text(&reading, node, field);
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
    case QKV_KEY_TEXTS:
        return read_texts(&reading, node, field);
    case QKV_KEY_MATRIX:
        return read_matrix(&reading, node, field);
    }
    return false;
}

/* Splits "[a, b]" or "a, b" into a list of two items. Any other text is left unchanged and refused later. */
static void split_pair(char *text, struct qkv_yaml_node *list, struct qkv_yaml_node item[2])
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
    list->kind = QKV_YAML_SEQUENCE;
    list->count = 2;
    list->first = &item[0];
    list->last = &item[1];
}

bool qkv_value_read_text(const struct qkv_key *key, const char *text, struct qkv_place place, void *config,
                         struct qkv_arena *arena, struct qkv_collector *collector)
{
    struct qkv_yaml_node item[2] = {0};
    struct qkv_yaml_node node = {.kind = QKV_YAML_SCALAR, .plain = key->kind != QKV_KEY_TEXT, .text = text};
    char *copy = qkv_arena_string(arena, text);
    if (!copy) {
        qkv_collect_no_memory(collector, place.name);
        return false;
    }
    if (key->kind == QKV_KEY_PAIR) split_pair(copy, &node, item);
    if ((key->kind == QKV_KEY_TEXTS || key->kind == QKV_KEY_MATRIX) && !strcmp(text, "[]"))
        node.kind = QKV_YAML_SEQUENCE;
    return qkv_value_read(key, &node, place, config, arena, collector);
}
