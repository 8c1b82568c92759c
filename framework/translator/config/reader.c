/* Reads YAML files, and overrides, into the struct of a schema: each value into the field of its key, if its type and range are
 * right. */
#include "config/path.h"
#include "config/schema.h"
#include "core/memory.h"
#include "core/text.h"

#include <errno.h>
#include <math.h>
#include <sys/stat.h>

/* ---- a value ---- */

/* The key to read, the place of its value, and where errors and texts go. */
struct value {
    const struct qkv_key *key;
    struct qkv_place place;
    struct qkv_collector *collector;
};

/* Whether a node is a scalar without a value: `key:`, `key: ~` or `key: null`. */
static bool is_null(const struct qkv_yaml_node *node)
{
    return node->kind == QKV_YAML_SCALAR && node->plain &&
           (!*node->text || !strcmp(node->text, "~") || !strcmp(node->text, "null"));
}

/* The kind of number that a node is; a quoted number is a text. */
static enum qkv_number_kind number_kind(const struct qkv_yaml_node *node)
{
    return node->kind == QKV_YAML_SCALAR && node->plain ? qkv_number_kind(node->text) : QKV_NUMBER_NONE;
}

/* Collects "<key> is <the node>, but must be <wanted>"; returns false. */
static bool refuse(const struct value *value, const struct qkv_yaml_node *node, const char *wanted)
{
    const char *path = value->key->path, *shown = node->kind == QKV_YAML_SEQUENCE ? "a list" : "a section";
    if (node->kind == QKV_YAML_REFUSED) return false;
    if (is_null(node))
        return qkv_collect(value->collector, value->place, "%s has no value, but must be %s", path, wanted);
    if (node->kind == QKV_YAML_SCALAR)
        shown = QKV_KEPT(value->collector,
                         !node->plain        ? "the text \"%s\""
                         : number_kind(node) ? "%s"
                                             : "'%s'",
                         qkv_printable(value->collector->arena, node->text));
    return qkv_collect(value->collector, value->place, "%s is %s, but must be %s", path, shown, wanted);
}

static bool check_range(const struct value *value, const struct qkv_yaml_node *node, double number)
{
    const struct qkv_range *range = &value->key->range;
    char wanted[QKV_RANGE_SIZE];
    bool is_high_enough = range->open_below ? number > range->lowest : number >= range->lowest;
    bool is_low_enough = range->open_above ? number < range->highest : number <= range->highest;
    return (is_high_enough && is_low_enough) || refuse(value, node, qkv_range_text(wanted, range));
}

static bool read_integer(const struct value *value, const struct qkv_yaml_node *node, int64_t *field)
{
    int64_t number;
    if (number_kind(node) != QKV_NUMBER_INTEGER) return refuse(value, node, "an integer");
    if (!qkv_integer_read(node->text, &number)) return refuse(value, node, "an integer of 64 bits");
    if (!check_range(value, node, (double)number)) return false;
    *field = number == value->key->none ? 0 : number;
    return true;
}

static bool read_number(const struct value *value, const struct qkv_yaml_node *node, double *field)
{
    double number;
    if (!number_kind(node)) return refuse(value, node, "a number");
    if (!qkv_number_read(node->text, &number)) return refuse(value, node, "a number that a double can hold");
    if (!check_range(value, node, number)) return false;
    *field = number;
    return true;
}

/* An item of a list: errors are reported at the item, unless the list comes from an override. */
static struct value value_of_item(const struct value *value, const struct qkv_yaml_node *item)
{
    struct value one = *value;
    if (one.place.line) one.place = (struct qkv_place){one.place.name, item->line, item->column};
    return one;
}

/* Reads the numbers of a list; errors are reported at each. */
static bool read_numbers(const struct value *value, const struct qkv_yaml_node *list, double *to)
{
    bool valid = true;
    for (const struct qkv_yaml_node *item = list->first; item; item = item->next, to++) {
        const struct value one = value_of_item(value, item);
        /* Masks of scenes consist of -infinity, which is not a number as qkv_number_kind defines it. */
        bool infinite = value->key->kind == QKV_KEY_MATRIX && item->kind == QKV_YAML_SCALAR && item->plain &&
                        !strcmp(item->text, "-.inf");
        if (infinite)
            *to = -HUGE_VAL;
        else
            valid &= read_number(&one, item, to);
    }
    return valid;
}

static bool read_pair(const struct value *value, const struct qkv_yaml_node *node, double *field)
{
    const char *wanted = "a list of two numbers, [a, b]";
    double number[2];
    if (node->kind != QKV_YAML_SEQUENCE) return refuse(value, node, wanted);
    if (node->count != 2)
        return qkv_collect(value->collector, value->place, "%s is a list of %d, but must be %s",
                           value->key->path, node->count, wanted);
    bool valid = read_numbers(value, node, number);
    if (valid) memcpy(field, number, sizeof number);
    return valid;
}

static bool read_boolean(const struct value *value, const struct qkv_yaml_node *node, bool *field)
{
    bool plain = node->kind == QKV_YAML_SCALAR && node->plain;
    bool yes = plain && !strcmp(node->text, "true");
    if (!yes && !(plain && !strcmp(node->text, "false"))) return refuse(value, node, "true or false");
    *field = yes;
    return true;
}

static bool read_text(const struct value *value, const struct qkv_yaml_node *node, const char **field)
{
    const struct qkv_key *key = value->key;
    if (node->kind != QKV_YAML_SCALAR) return refuse(value, node, "a text");
    bool missing = is_null(node);
    if (!missing && (*node->text || key->fallback)) {
        *field = qkv_kept(qkv_arena_string(value->collector->arena, node->text));
        return !value->collector->arena->failed;
    }
    return qkv_collect(value->collector, value->place,
                       !missing        ? "%s must not be empty"
                       : key->fallback ? "%s has no value; write \"\" for an empty text"
                                       : "%s has no value",
                       key->path);
}

/* Reads a path, or a list of paths: takes the first one that exists or, if none exists, the first of the list. */
static bool read_path(const struct value *value, const struct qkv_yaml_node *node, const char **field)
{
    bool list = node->kind == QKV_YAML_SEQUENCE, found = false;
    const char *path = NULL;
    if (list && !node->count) return refuse(value, node, "a path or a list of paths");
    for (const struct qkv_yaml_node *item = list ? node->first : node; item && !found;
         item = list ? item->next : NULL) {
        const struct value one = list ? value_of_item(value, item) : *value;
        const char *text;
        if (!read_text(&one, item, &text)) return false;
        if (one.place.line) text = qkv_path_of_file(value->collector->arena, one.place.name, text);
        if (!text) return false;
        found = list && qkv_path_is_text(text);
        if (!path || found) path = text;
    }
    *field = path;
    return true;
}

/* Reads a list of texts, or one text, which is split at white space. */
static bool read_texts(const struct value *value, const struct qkv_yaml_node *node, struct qkv_texts *field)
{
    struct qkv_arena *arena = value->collector->arena;
    bool words = node->kind == QKV_YAML_SCALAR && !is_null(node), valid = true;
    if (!words && node->kind != QKV_YAML_SEQUENCE)
        return refuse(value, node, "a list of texts, or a text of words");
    size_t capacity = words ? strlen(node->text) / 2 + 1 : (size_t)node->count;
    const char **text = qkv_arena_allocate(arena, capacity * sizeof *text);
    char *rest = words ? qkv_arena_string(arena, node->text) : NULL;
    if (arena->failed) return false;
    int64_t count = 0;
    for (char *word; words && (word = strtok_r(count ? NULL : rest, " \t\r\n", &rest));) text[count++] = word;
    for (const struct qkv_yaml_node *item = words ? NULL : node->first; item; item = item->next) {
        const struct value one = value_of_item(value, item);
        if (item->kind != QKV_YAML_SCALAR || is_null(item) || !*item->text)
            valid = refuse(&one, item, "made of texts");
        else
            text[count++] = item->text;
    }
    if (valid && !count && !value->key->fallback)
        return qkv_collect(value->collector, value->place, "%s must hold at least one word",
                           value->key->path);
    if (valid) *field = (struct qkv_texts){count, text};
    return valid;
}

static const char A_MATRIX[] = "a list of rows of numbers, [[a, b], [c, d]]";

/* Reads a row of a matrix, which must be as long as row 1. */
static bool read_row(const struct value *value, const struct qkv_yaml_node *row, int64_t number,
                     struct qkv_matrix *matrix, double *to)
{
    const struct value here = value_of_item(value, row);
    if (row->kind != QKV_YAML_SEQUENCE) return refuse(&here, row, A_MATRIX);
    if (!row->count)
        return qkv_collect(value->collector, here.place, "%s: row %lld is empty", value->key->path,
                           (long long)number);
    if (number == 1) matrix->columns = row->count;
    if (row->count != matrix->columns)
        return qkv_collect(value->collector, here.place, "%s: row %lld has %d numbers, but row 1 has %lld",
                           value->key->path, (long long)number, row->count, (long long)matrix->columns);
    return read_numbers(value, row, to);
}

static bool read_matrix(const struct value *value, const struct qkv_yaml_node *node, struct qkv_matrix *field)
{
    if (node->kind != QKV_YAML_SEQUENCE) return refuse(value, node, A_MATRIX);
    struct qkv_matrix matrix = {.rows = node->count};
    size_t columns = node->first && node->first->kind == QKV_YAML_SEQUENCE ? (size_t)node->first->count : 0;
    double *number =
        qkv_arena_allocate(value->collector->arena, (size_t)node->count * (columns + 1) * sizeof *number);
    if (!number) return false;
    matrix.value = number;
    bool valid = true;
    int64_t at = 1;
    for (const struct qkv_yaml_node *row = node->first; row && valid; row = row->next, at++)
        valid = read_row(value, row, at, &matrix, number + (at - 1) * matrix.columns);
    if (valid) *field = matrix;
    return valid;
}

static bool refuse_choice(const struct value *value, const struct qkv_yaml_node *node)
{
    const struct qkv_choices *choices = value->key->choices;
    char names[QKV_CHOICES_SIZE], wanted[QKV_CHOICES_SIZE + 8];
    qkv_choices_text(names, choices, UINT32_MAX, "", ", ");
    snprintf(wanted, sizeof wanted, "%s%s", strchr(names, ',') ? "one of " : "", names);
    return refuse(value, node, wanted);
}

/* Reads an enum through an int; key_rows.h asserts that both have the same size. */
static bool read_choice(const struct value *value, const struct qkv_yaml_node *node, void *field)
{
    const struct qkv_choices *choices = value->key->choices;
    for (int i = 0; i < choices->count && node->kind == QKV_YAML_SCALAR; i++)
        if (choices->list[i].help && !strcmp(node->text, choices->list[i].name)) {
            memcpy(field, &i, sizeof i);
            return true;
        }
    return refuse_choice(value, node);
}

/* Reads a node into the field of its key. False after collecting an error; the field is then unchanged. */
static bool read_value(const struct value *value, const struct qkv_yaml_node *node, void *config)
{
    void *field = qkv_key_field(value->key, config);
    switch (value->key->kind) {
    case QKV_KEY_TEXT:
        return value->key->is_path ? read_path(value, node, field) : read_text(value, node, field);
    case QKV_KEY_INTEGER:
        return read_integer(value, node, field);
    case QKV_KEY_NUMBER:
        return read_number(value, node, field);
    case QKV_KEY_BOOLEAN:
        return read_boolean(value, node, field);
    case QKV_KEY_CHOICE:
        return read_choice(value, node, field);
    case QKV_KEY_PAIR:
        return read_pair(value, node, field);
    case QKV_KEY_TEXTS:
        return read_texts(value, node, field);
    case QKV_KEY_MATRIX:
        return read_matrix(value, node, field);
    }
    return false;
}

static char *without_spaces(char *text)
{
    text += strspn(text, " ");
    size_t used = strlen(text);
    while (used && text[used - 1] == ' ') text[--used] = '\0';
    return text;
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
    item[0] = (struct qkv_yaml_node){.plain = true, .text = without_spaces(text), .next = &item[1]};
    item[1] = (struct qkv_yaml_node){.plain = true, .text = without_spaces(comma + 1)};
    *list = (struct qkv_yaml_node){.kind = QKV_YAML_SEQUENCE, .count = 2, .first = &item[0]};
}

bool qkv_value_read_text(const struct qkv_key *key, const char *text, struct qkv_place place, void *config,
                         struct qkv_collector *collector)
{
    const struct value value = {key, place, collector};
    struct qkv_yaml_node item[2], node = {.plain = key->kind != QKV_KEY_TEXT, .text = text};
    char *copy = qkv_arena_string(collector->arena, text);
    if (!copy) return false;
    if (key->kind == QKV_KEY_PAIR) split_pair(copy, &node, item);
    if ((key->kind == QKV_KEY_TEXTS || key->kind == QKV_KEY_MATRIX) && !strcmp(text, "[]"))
        node.kind = QKV_YAML_SEQUENCE;
    return read_value(&value, &node, config);
}

/* ---- the value that a program has set ---- */

/* Checks an integer, a number, or the two of a pair. */
static bool check_numbers(const struct value *value, const void *config)
{
    const double *numbers = qkv_key_value(value->key, config);
    bool is_integer = value->key->kind == QKV_KEY_INTEGER, valid = true;
    for (int i = 0; i < (value->key->kind == QKV_KEY_PAIR ? 2 : 1); i++) {
        long long integer = is_integer ? qkv_key_integer(value->key, config) : 0;
        double number = is_integer ? (double)integer : numbers[i];
        char text[QKV_NUMBER_SIZE];
        if (!isfinite(number))
            return qkv_collect(value->collector, value->place, "%s is not a finite number", value->key->path);
        if (is_integer)
            snprintf(text, sizeof text, "%lld", integer);
        else
            qkv_number_format(text, number);
        valid &= check_range(value, &(struct qkv_yaml_node){.plain = true, .text = text}, number);
    }
    return valid;
}

bool qkv_value_check(const struct qkv_key *key, const void *config, struct qkv_place place, bool is_required,
                     struct qkv_collector *collector)
{
    const struct value value = {key, place, collector};
    if (key->kind == QKV_KEY_INTEGER || key->kind == QKV_KEY_NUMBER || key->kind == QKV_KEY_PAIR)
        return check_numbers(&value, config);
    if (key->kind == QKV_KEY_CHOICE && !qkv_key_choice(key, config)->help) {
        const char *name = qkv_value_text(key, config, collector->arena);
        return refuse_choice(&value, &(struct qkv_yaml_node){.plain = true, .text = name});
    }
    const char *text = key->kind == QKV_KEY_TEXT ? *(const char *const *)qkv_key_value(key, config) : "-";
    if (text && (*text || !is_required || key->fallback)) return true;
    return qkv_collect(collector, place, text ? "%s must not be empty" : "%s is NULL, but must be a text",
                       key->path);
}

/* ---- files and overrides ---- */

/* Longest chain of files that extend each other. */
enum { MAX_EXTENDED = 1000 };

/* A file that is being read. */
struct qkv_open_file {
    const char *path;
    const struct qkv_open_file *extended_by; /* NULL: the caller asked for this file */
    int extended;                            /* number of steps from that file, as in struct qkv_key_source */
    struct stat status;
};

static const char EXTENDS[] = "extends";

/* Defaults are parsed by the code that reads files, so that an invalid default cannot go unnoticed. */
bool qkv_schema_defaults(const struct qkv_schema *schema, void *config, struct qkv_arena *arena)
{
    struct qkv_collector collector = {.arena = arena};
    memset(config, 0, schema->size);
    for (int i = 0; i < schema->count; i++) {
        const struct qkv_key *key = &schema->keys[i];
        struct qkv_place place = {.name = key->path};
        if (!key->fallback) {
            QKV_BUG(key->kind != QKV_KEY_TEXT && key->kind != QKV_KEY_TEXTS, "%s: only texts can be required",
                    key->path);
            if (key->kind == QKV_KEY_TEXT) *(const char **)qkv_key_field(key, config) = "";
        } else if (!qkv_value_read_text(key, key->fallback, place, config, &collector)) {
            QKV_BUG(collector.count, "default: %s", collector.finding[0].text);
            return false; /* no memory */
        }
    }
    return true;
}

/* Notes where the value of a key came from. */
static void set_source(const struct qkv_reading *reading, const struct qkv_key *key, struct qkv_place place,
                       int extended, bool valid)
{
    reading->sources[key - reading->schema->keys] =
        (struct qkv_key_source){place, extended, .given = true, .bad = !valid};
}

/* Reads the entries of a section, each a key with its value or a subsection. */
static void read_section(struct qkv_reading *reading, const struct qkv_yaml_node *section, const char *prefix)
{
    const struct qkv_schema *schema = reading->schema;
    struct qkv_collector *collector = reading->collector;
    for (const struct qkv_yaml_node *node = section->first; node; node = node->next) {
        char names[QKV_SECTION_SIZE];
        const struct qkv_yaml_node *name = node->key;
        struct qkv_place place = {reading->file->path, name->line, name->column};
        if (reading->extends && !*prefix && !strcmp(name->text, EXTENDS))
            continue; /* read_file has read it */
        const char *path = QKV_KEPT(collector, "%s%s%s", prefix, *prefix ? "." : "", name->text);
        const struct qkv_key *key = qkv_schema_find(schema, path);
        bool is_mapping = node->kind == QKV_YAML_MAPPING;
        if (strchr(name->text, '.')) {
            qkv_collect(collector, place, "unknown key %s; a dot does not open a section here",
                        qkv_printable(collector->arena, path));
        } else if (key && is_mapping && *qkv_schema_keys_of(schema, path, '_', names)) {
            qkv_collect(collector, place, "%s is one value, not a section; keys beside it are %s", path,
                        names);
            reading->sources[key - schema->keys].bad = true;
        } else if (key) {
            /* A missing value is reported at its key. */
            struct qkv_place there = {reading->file->path, node->line, node->column};
            const struct value value = {key, is_null(node) && !*node->text ? place : there, collector};
            set_source(reading, key, place, reading->file->extended,
                       read_value(&value, node, reading->config));
        } else if (!qkv_schema_is_section(schema, path)) {
            qkv_collect_unknown(collector, schema, place, path);
        } else if (is_mapping) {
            read_section(reading, node, path);
        } else if (node->kind != QKV_YAML_REFUSED && !is_null(node)) {
            qkv_collect(collector, place, "%s must be a section of keys: %s", path,
                        qkv_schema_keys_of(schema, path, '.', names));
        }
    }
}

/* Reads one `key=value` of the command line. */
static void read_override(struct qkv_reading *reading, const char *text)
{
    struct qkv_collector *collector = reading->collector;
    struct qkv_arena *arena = collector->arena;
    const char *shown = QKV_KEPT(collector, "-s %s", qkv_printable(arena, text));
    const struct qkv_place place = {.name = shown};
    int size = (int)strcspn(text, "=");
    const char *path = QKV_KEPT(collector, "%.*s", size, text);
    const struct qkv_key *key = qkv_schema_find(reading->schema, path);
    char names[QKV_SECTION_SIZE];
    if (!size || !text[size])
        qkv_collect(collector, place, "must have the form key=value");
    else if (!qkv_is_utf8(text))
        qkv_collect(collector, (struct qkv_place){.name = "-s"}, "not valid UTF-8");
    else if (key)
        set_source(reading, key, place, 0,
                   qkv_value_read_text(key, text + size + 1, place, reading->config, collector));
    else if (reading->extends && !strcmp(path, EXTENDS))
        qkv_collect(collector, place, "extends can only be set in a file");
    else if (qkv_schema_is_section(reading->schema, path))
        qkv_collect(collector, place, "%s is a section; set one of its keys: %s", path,
                    qkv_schema_keys_of(reading->schema, path, '.', names));
    else
        qkv_collect_unknown(collector, reading->schema, place, path);
}

/* Collects the error that `file` extends `first`, which extends `file` directly or through others. */
static void collect_circle(struct qkv_reading *reading, struct qkv_place place,
                           const struct qkv_open_file *file, const struct qkv_open_file *first)
{
    const char *chain = first->path;
    for (; file != first; file = file->extended_by)
        chain = QKV_KEPT(reading->collector, "%s extends %s", file->path, chain);
    qkv_collect(reading->collector, place, "files extend each other in a circle: %s extends %s", first->path,
                chain);
}

static void read_file(struct qkv_reading *reading, const char *path, const struct qkv_open_file *extended_by);

/* Reads the file that is named by `value`, the value of the key `extends` of `file`. */
static void read_extended(struct qkv_reading *reading, const struct qkv_open_file *file,
                          const struct qkv_yaml_node *value)
{
    struct qkv_place place = {file->path, value->line, value->column};
    struct stat status;
    bool is_text = value->kind == QKV_YAML_SCALAR && !is_null(value) && *value->text;
    const char *path = is_text ? qkv_path_of_file(reading->collector->arena, file->path, value->text) : NULL;
    if (value->kind == QKV_YAML_REFUSED) {
        reading->complete = false;
    } else if (!is_text) {
        qkv_collect(reading->collector, place, "extends must be the path of one other config");
    } else if (!path) {
        reading->complete = false; /* no memory */
    } else if (stat(path, &status)) {
        qkv_collect(reading->collector, place, "extends %s, which cannot be read: %s",
                    qkv_printable(reading->collector->arena, path), strerror(errno));
    } else if (S_ISDIR(status.st_mode)) {
        qkv_collect(reading->collector, place, "extends %s, which is a folder",
                    qkv_printable(reading->collector->arena, path));
    } else if (file->extended == MAX_EXTENDED) {
        qkv_collect(reading->collector, place, "more than %d files extend each other", MAX_EXTENDED);
    } else {
        const struct qkv_open_file *same = file;
        while (same && (same->status.st_dev != status.st_dev || same->status.st_ino != status.st_ino))
            same = same->extended_by;
        if (!same) {
            read_file(reading, path, file);
            return;
        }
        collect_circle(reading, place, file, same);
    }
    reading->complete = false;
}

/* Reads a file, but first the one that it extends. */
static void read_file(struct qkv_reading *reading, const char *path, const struct qkv_open_file *extended_by)
{
    struct qkv_open_file file = {path, extended_by, extended_by ? extended_by->extended + 1 : 0, {0}};
    bool complete;
    stat(path, &file.status); /* a file that cannot be read is reported next */
    const struct qkv_yaml_node *root =
        qkv_yaml_read(path, extended_by ? NULL : reading->text, reading->collector, &complete);
    reading->complete = reading->complete && complete && root->kind == QKV_YAML_MAPPING;
    if (!root) return;
    if (root->kind == QKV_YAML_MAPPING) {
        const struct qkv_yaml_node *extended = reading->extends ? root->first : NULL;
        while (extended && strcmp(extended->key->text, EXTENDS) != 0) extended = extended->next;
        if (extended) read_extended(reading, &file, extended);
        reading->file = &file;
        read_section(reading, root, "");
        reading->file = extended_by;
    } else if (root->kind != QKV_YAML_REFUSED) {
        qkv_collect(reading->collector, (struct qkv_place){path, root->line, root->column},
                    "the file must be a mapping of keys to values");
    }
}

static void collect_missing(struct qkv_reading *reading)
{
    for (int i = 0; i < reading->schema->count; i++) {
        struct qkv_key_source *source = &reading->sources[i];
        const struct qkv_key *key = &reading->schema->keys[i];
        if (key->fallback || source->given ||
            qkv_key_unmet(reading->schema, key, reading->config, QKV_WITHOUT_EFFECT_REFUSED).key)
            continue;
        source->bad = true;
        const char *decides = key->condition.key,
                   *chosen = decides ? qkv_value_text(qkv_key_at(reading->schema, decides), reading->config,
                                                      reading->collector->arena)
                                     : NULL;
        qkv_collect(reading->collector, (struct qkv_place){.name = reading->path},
                    "%s is missing, but is required%s%s%s%s", key->path, chosen ? " while " : "",
                    chosen ? decides : "", chosen ? " is " : "", chosen ? chosen : "");
    }
}

void qkv_schema_read(struct qkv_reading *reading)
{
    const int count = reading->schema->count;
    struct qkv_arena *arena = reading->collector->arena;
    reading->sources = qkv_arena_zeros(arena, count, sizeof *reading->sources);
    if (!reading->sources || !qkv_schema_defaults(reading->schema, reading->config, arena)) return;
    for (int i = 0; i < count; i++) reading->sources[i].place.name = reading->path;
    reading->complete = true;
    read_file(reading, reading->path, NULL);
    for (int i = 0; i < reading->override_count; i++) read_override(reading, reading->overrides[i]);
    if (reading->complete) collect_missing(reading);
}
