/* Looks keys up in a table, and writes their values and the table itself. */
#include "config/schema.h"

#include "core/memory.h"
#include "core/text.h"

#include <math.h>
#include <strings.h>
#include <utf8proc.h>

/* ---- keys ---- */

const struct qkv_key *qkv_schema_find(const struct qkv_schema *schema, const char *path)
{
    for (int i = 0; i < schema->count; i++)
        if (!strcmp(schema->keys[i].path, path)) return &schema->keys[i];
    return NULL;
}

const struct qkv_key *qkv_key_at(const struct qkv_schema *schema, const char *path)
{
    const struct qkv_key *key = qkv_schema_find(schema, path);
    QKV_BUG(!key, "there is no key %s", path);
    return key;
}

bool qkv_schema_is_section(const struct qkv_schema *schema, const char *path)
{
    char text[QKV_SECTION_SIZE];
    return *qkv_schema_keys_of(schema, path, '.', text);
}

const char *qkv_schema_keys_of(const struct qkv_schema *schema, const char *path, char separator,
                               char text[static QKV_SECTION_SIZE])
{
    size_t length = strlen(path), used = 0;
    int count = 0;
    *text = '\0';
    for (int i = 0; i < schema->count; i++) {
        const char *key = schema->keys[i].path;
        if (strncmp(key, path, length) != 0 || key[length] != separator) continue;
        if (count++ >= QKV_SECTION_KEYS) continue;
        used += (size_t)snprintf(text + used, QKV_SECTION_SIZE - used, "%s%s", used ? ", " : "", key);
    }
    if (count > QKV_SECTION_KEYS)
        snprintf(text + used, QKV_SECTION_SIZE - used, " and %d more", count - QKV_SECTION_KEYS);
    return text;
}

/* ---- keys without effect ---- */

/* Whether a list of paths, as in struct qkv_choice, contains `path`. */
static bool paths_hold(const char *const *paths, const char *path)
{
    for (; paths && *paths && **paths; paths++)
        if (!strcmp(*paths, path)) return true;
    return false;
}

struct qkv_condition qkv_key_use(const struct qkv_schema *schema, const struct qkv_key *key)
{
    struct qkv_condition use = {0};
    for (int i = 0; i < schema->count && !use.key; i++) {
        const struct qkv_choices *choices = schema->keys[i].choices;
        for (int c = 0; choices && c < choices->count; c++)
            if (paths_hold(choices->list[c].uses, key->path)) use.values |= UINT32_C(1) << c;
        if (use.values) use.key = schema->keys[i].path;
    }
    /* A key of another role, such as training.updates, is not only read with these choices. */
    use.otherwise = key->role == QKV_ROLE_TRAJECTORY ? QKV_WITHOUT_EFFECT_NOTED : QKV_WITHOUT_EFFECT_ACCEPTED;
    return use;
}

struct qkv_condition qkv_key_condition(const struct qkv_schema *schema, const struct qkv_key *key)
{
    return key->condition.key ? key->condition : qkv_key_use(schema, key);
}

struct qkv_condition qkv_key_unmet(const struct qkv_schema *schema, const struct qkv_key *key,
                                   const void *config, enum qkv_without_effect otherwise)
{
    const struct qkv_condition condition = qkv_key_condition(schema, key), none = {0};
    if (!condition.key || condition.otherwise != otherwise) return none;
    const struct qkv_key *decides = qkv_key_at(schema, condition.key);
    QKV_BUG(decides->kind != (condition.values ? QKV_KEY_CHOICE : QKV_KEY_NUMBER),
            "%s: %s is of another kind", key->path, condition.key);
    const struct qkv_condition earlier = qkv_key_unmet(schema, decides, config, otherwise);
    if (earlier.key) return earlier;
    bool holds = condition.values ? qkv_key_is_one_of(decides, config, condition.values)
                                  : *(const double *)qkv_key_value(decides, config) > 0;
    return holds ? none : condition;
}

const char *qkv_key_without_effect(const struct qkv_schema *schema, const struct qkv_key *key,
                                   struct qkv_condition unmet, const void *config, struct qkv_arena *arena)
{
    char values[QKV_CHOICES_SIZE] = "above 0";
    const struct qkv_key *decides = qkv_key_at(schema, unmet.key);
    const char *value = qkv_value_text(key, config, arena), *chosen = qkv_value_text(decides, config, arena);
    if (!value || !chosen) return NULL;
    if (unmet.values) qkv_choices_text(values, decides->choices, unmet.values, "", " or ");
    return qkv_arena_format(arena, "%s is %s, but has an effect only when %s is %s (it is %s)", key->path,
                            value, unmet.key, values, chosen);
}

/* ---- choices ---- */

bool qkv_choice_exists(const struct qkv_choices *choices, int value)
{
    return value >= 0 && value < choices->count;
}

const char *qkv_choice_name(const struct qkv_choices *choices, int value)
{
    return qkv_choice_exists(choices, value) ? choices->list[value].name : "unknown";
}

/* The number that a choice key has in a struct. */
static int number_of_choice(const struct qkv_key *key, const void *config)
{
    int value;
    memcpy(&value, qkv_key_value(key, config), sizeof value);
    return value;
}

const struct qkv_choice *qkv_key_choice(const struct qkv_key *key, const void *config)
{
    static const struct qkv_choice none;
    int value = number_of_choice(key, config);
    return qkv_choice_exists(key->choices, value) ? &key->choices->list[value] : &none;
}

bool qkv_key_is_one_of(const struct qkv_key *choice, const void *config, uint32_t values)
{
    int value = number_of_choice(choice, config);
    return qkv_choice_exists(choice->choices, value) && values >> value & 1;
}

const char *qkv_choices_text(char text[static QKV_CHOICES_SIZE], const struct qkv_choices *choices,
                             uint32_t values, const char *quote, const char *last_separator)
{
    int used = 0, last = choices->count - 1;
    while (last > 0 && !(choices->list[last].help && values >> last & 1)) last--;
    for (int i = 0; i <= last; i++) {
        if (!choices->list[i].help || !(values >> i & 1)) continue;
        const char *separator = !used ? "" : i == last ? last_separator : ", ";
        used += snprintf(text + used, QKV_CHOICES_SIZE - (size_t)used, "%s%s%s%s", separator, quote,
                         choices->list[i].name, quote);
    }
    return text;
}

/* ---- values as text ---- */

const char *qkv_range_text(char text[static QKV_RANGE_SIZE], const struct qkv_range *range)
{
    char low[QKV_NUMBER_SIZE], high[QKV_NUMBER_SIZE];
    qkv_number_format(low, range->lowest);
    qkv_number_format(high, range->highest);
    if (isinf(range->highest))
        snprintf(text, QKV_RANGE_SIZE, range->open_below ? "greater than %s" : "at least %s", low);
    else if (!range->open_below && !range->open_above)
        snprintf(text, QKV_RANGE_SIZE, "between %s and %s", low, high);
    else
        snprintf(text, QKV_RANGE_SIZE, "%s %s and %s %s", range->open_below ? "greater than" : "at least",
                 low, range->open_above ? "less than" : "at most", high);
    return text;
}

/* True when every YAML parser reads the text without quotes as a text, not as a number, boolean or
 * list. */
static bool safe_without_quotes(const char *text)
{
    static const char *const words[] = {"true", "false", "null", "yes", "no", "on", "off", "y", "n"};
    static const char first[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ_/";
    static const char all[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ_/0123456789.+-";
    if (!*text || !strchr(first, *text) || text[strspn(text, all)]) return false;
    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        if (!strcasecmp(text, words[i])) return false;
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
        if (length <= 0) { /* a folder may have any name, but YAML must be valid UTF-8 */
            *to++ = '?';
            at++;
            continue;
        }
        if (!qkv_is_plain((uint32_t)code) || code == 0xFEFF)
            to += sprintf(to, code < 0x10000 ? "\\u%04X" : "\\U%08X", (unsigned)code);
        else
            to += sprintf(to, "%s%.*s", *at == '"' || *at == '\\' ? "\\" : "", (int)length, at);
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

const char *qkv_key_text(const struct qkv_key *key, const void *config)
{
    const char *text = *(const char *const *)qkv_key_value(key, config);
    return text ? text : "";
}

const char *qkv_value_text(const struct qkv_key *key, const void *config, struct qkv_arena *arena)
{
    const void *field = qkv_key_value(key, config);
    const struct qkv_matrix *matrix = field;
    char number[2][QKV_NUMBER_SIZE];
    switch (key->kind) {
    case QKV_KEY_TEXT:
        return qkv_yaml_text(*(const char *const *)field, arena);
    case QKV_KEY_INTEGER:
        return qkv_arena_format(arena, "%lld", qkv_key_integer(key, config));
    case QKV_KEY_NUMBER:
        qkv_number_format(number[0], *(const double *)field);
        return qkv_arena_string(arena, number[0]);
    case QKV_KEY_BOOLEAN:
        return *(const bool *)field ? "true" : "false";
    case QKV_KEY_CHOICE:
        return qkv_choice_name(key->choices, number_of_choice(key, config));
    case QKV_KEY_PAIR:
        for (int i = 0; i < 2; i++) qkv_number_format(number[i], ((const double *)field)[i]);
        return qkv_arena_format(arena, "[%s, %s]", number[0], number[1]);
    case QKV_KEY_TEXTS: /* scenes only, which are never printed as YAML: enough for an error message */
        return qkv_arena_format(arena, "%lld words", (long long)((const struct qkv_texts *)field)->count);
    case QKV_KEY_MATRIX:
        return qkv_arena_format(arena, "[%lld, %lld]", (long long)matrix->rows, (long long)matrix->columns);
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
    return !memcmp(qkv_key_value(key, a), qkv_key_value(key, b), sizes[key->kind]);
}

/* ---- the reference ---- */

/* "integer, tokens", and the range or the choices. */
static void write_type(const struct qkv_key *key, FILE *file)
{
    static const char *const names[] = {
        [QKV_KEY_TEXT] = "text",       [QKV_KEY_INTEGER] = "integer", [QKV_KEY_NUMBER] = "number",
        [QKV_KEY_BOOLEAN] = "boolean", [QKV_KEY_CHOICE] = "choice",   [QKV_KEY_PAIR] = "two numbers",
        [QKV_KEY_TEXTS] = "texts",     [QKV_KEY_MATRIX] = "matrix",
    };
    char text[QKV_CHOICES_SIZE];
    fprintf(file, "%s%s%s | ", key->is_path ? "path" : names[key->kind], *key->unit ? ", " : "", key->unit);
    if (key->kind == QKV_KEY_BOOLEAN) fputs("`true`, `false`", file);
    if (key->choices) fputs(qkv_choices_text(text, key->choices, UINT32_MAX, "`", ", "), file);
    if (!isinf(key->range.lowest)) fputs(qkv_range_text(text, &key->range), file);
}

/* The bytes of a path that name its section: model.encoder of model.encoder.num_layers. */
static size_t section_size(const char *path)
{
    const char *name = strrchr(path, '.');
    return name ? (size_t)(name - path) : 0;
}

/* The key of the same name in the second of two sections with the same keys; NULL: `key` is not of the first. */
static const struct qkv_key *twin_of(const struct qkv_schema *schema, const struct qkv_key *key)
{
    char path[QKV_KEY_LONGEST];
    size_t size = section_size(key->path);
    if (!schema->twins[0] || size != strlen(schema->twins[0]) ||
        memcmp(key->path, schema->twins[0], size) != 0)
        return NULL;
    snprintf(path, sizeof path, "%s%s", schema->twins[1], key->path + size);
    return qkv_schema_find(schema, path);
}

/* Writes when the key has an effect, or its twin: a condition may be about the section of each, or for one of them. */
static void write_condition(const struct qkv_schema *schema, const struct qkv_key *key, FILE *file)
{
    const struct qkv_key *twin = twin_of(schema, key);
    const struct qkv_condition condition = qkv_key_condition(schema, key),
                               other = qkv_key_condition(schema, twin ? twin : key);
    char values[QKV_CHOICES_SIZE];
    bool is_refused = condition.otherwise == QKV_WITHOUT_EFFECT_REFUSED;
    if (!condition.key || condition.otherwise == QKV_WITHOUT_EFFECT_ACCEPTED) return;
    if (!condition.values) {
        fprintf(file, "; read only with `%s` above 0", condition.key);
        return;
    }
    qkv_choices_text(values, qkv_key_at(schema, condition.key)->choices, condition.values, "`",
                     is_refused ? " or " : ", ");
    bool is_own = other.key && strcmp(other.key, condition.key) != 0;
    fputs("; ", file);
    if (!other.key) fprintf(file, "`%s` ", key->path);
    if (is_refused)
        fprintf(file, "has an effect only with `%s` %s",
                is_own ? strrchr(condition.key, '.') + 1 : condition.key, values);
    else
        fprintf(file, "read by %s", values);
}

/* Writes the help of the key and of its choices, and the condition without which it has no effect. */
static void write_meaning(const struct qkv_schema *schema, const struct qkv_key *key, FILE *file)
{
    fputs(key->help, file);
    for (int i = 0; key->choices && i < key->choices->count; i++) {
        const struct qkv_choice *choice = &key->choices->list[i];
        if (choice->help && *choice->help) fprintf(file, "; `%s`: %s", choice->name, choice->help);
        for (const char *const *path = choice->needs; path && *path && **path; path++)
            fprintf(file, ", needs `%s`", *path);
    }
    write_condition(schema, key, file);
}

enum qkv_status qkv_schema_write_reference(const struct qkv_schema *schema, FILE *file)
{
    for (int i = 0; i < schema->count; i++) {
        const struct qkv_key *key = &schema->keys[i];
        const char *before = i ? schema->keys[i - 1].path : "";
        size_t size = section_size(key->path);
        const struct qkv_key *twin = twin_of(schema, key);
        if (schema->twins[1] && !strncmp(key->path, schema->twins[1], strlen(schema->twins[1]))) continue;
        bool begins = !i || size != section_size(before) || strncmp(before, key->path, size) != 0;
        if (begins && size)
            fprintf(file, "\n### `%.*s`%s%s%s\n\n", (int)size, key->path, twin ? " and `" : "",
                    twin ? schema->twins[1] : "", twin ? "`" : "");
        if (begins) fputs("| Key | Type | Values | Default | Meaning |\n|---|---|---|---|---|\n", file);
        fprintf(file, "| `%s`%s%s%s | ", key->path, twin ? ", `" : "", twin ? twin->path : "",
                twin ? "`" : "");
        write_type(key, file);
        if (!key->fallback)
            fputs(" | required | ", file);
        else
            fprintf(file, " | `%s` | ", *key->fallback ? key->fallback : "\"\"");
        write_meaning(schema, key, file);
        fputs(" |\n", file);
    }
    return ferror(file) ? QKV_INVALID : QKV_OK;
}
