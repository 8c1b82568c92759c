#include "config/reader.h"

#include "config/value.h"
#include "core/plain_text.h"

#include <stdint.h>
#include <string.h>

/* Defaults are read by the code that reads files, so that a wrong default cannot go unnoticed. */
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
        } else if (!qkv_value_read_text(key, key->fallback, place, config, arena, &collector)) {
            /* Only texts need memory, so any other failure is a wrong default. */
            QKV_BUG(key->kind != QKV_KEY_TEXT && key->kind != QKV_KEY_TEXTS, "default: %s",
                    collector.finding[0].text);
            return false;
        }
    }
    return true;
}

static void collect_unknown(const struct qkv_reading *reading, struct qkv_place place, const char *path)
{
    char buffer[QKV_HINT_SIZE];
    if (reading->collector->count == QKV_MESSAGES_MOST) { /* no place left: count it, without a long search */
        reading->collector->left_out++;
        return;
    }
    const char *hint = qkv_schema_hint(reading->schema, path, buffer);
    qkv_collect(reading->collector, place, *hint ? "unknown key %s; did you mean %s" : "unknown key %s",
                qkv_printable(reading->arena, path), hint);
}

static void read_section(struct qkv_reading *reading, const struct qkv_yaml_node *section,
                         const char *prefix);

/* Reads one entry of a section: a key with its value, or a section in the section. */
static void read_entry(struct qkv_reading *reading, const struct qkv_yaml_node *value, const char *prefix)
{
    const struct qkv_yaml_node *name = value->key;
    struct qkv_place place = {reading->path, name->line, name->column};
    const char *path = *prefix ? qkv_arena_format(reading->arena, "%s.%s", prefix, name->text) : name->text;
    if (!path) {
        qkv_collect_no_memory(reading->collector, reading->path);
        return;
    }
    if (strchr(name->text, '.')) {
        qkv_collect(reading->collector, place, "unknown key %s; a dot does not open a section here",
                    qkv_printable(reading->arena, path));
        return;
    }
    const struct qkv_key *key = qkv_schema_find(reading->schema, path);
    if (key) {
        struct qkv_place value_place = {reading->path, value->line, value->column};
        /* A value that is left out is reported at its key. */
        if (qkv_yaml_is_null(value) && !*value->text) value_place = place;
        bool valid =
            qkv_value_read(key, value, value_place, reading->config, reading->arena, reading->collector);
        reading->sources[key - reading->schema->keys] =
            (struct qkv_key_source){place, .given = true, .bad = !valid};
    } else if (!qkv_schema_is_section(reading->schema, path)) {
        collect_unknown(reading, place, path);
    } else if (value->kind == QKV_YAML_MAPPING) {
        read_section(reading, value, path);
    } else if (value->kind != QKV_YAML_REFUSED && !qkv_yaml_is_null(value)) {
        qkv_collect(reading->collector, place, "%s must be a section of keys", path);
    }
}

static void read_section(struct qkv_reading *reading, const struct qkv_yaml_node *section, const char *prefix)
{
    for (const struct qkv_yaml_node *value = section->first; value; value = value->next)
        read_entry(reading, value, prefix);
}

/* Reads one `key=value` of the command line. */
static void read_override(struct qkv_reading *reading, const char *text)
{
    struct qkv_place place = {.name = "-s"};
    const char *shown = qkv_arena_format(reading->arena, "-s %s", qkv_printable(reading->arena, text));
    const char *equals = strchr(text, '=');
    char *path = qkv_arena_string(reading->arena, text);
    if (!shown || !path) {
        qkv_collect_no_memory(reading->collector, reading->path);
        return;
    }
    place.name = shown;
    if (!equals || equals == text) {
        qkv_collect(reading->collector, place, "must have the form key=value");
        return;
    }
    path[equals - text] = '\0';
    if (!qkv_is_utf8(text)) {
        qkv_collect(reading->collector, (struct qkv_place){.name = "-s"}, "not valid UTF-8");
        return;
    }
    const struct qkv_key *key = qkv_schema_find(reading->schema, path);
    if (key) {
        bool valid =
            qkv_value_read_text(key, equals + 1, place, reading->config, reading->arena, reading->collector);
        reading->sources[key - reading->schema->keys] =
            (struct qkv_key_source){place, .given = true, .bad = !valid};
    } else if (qkv_schema_is_section(reading->schema, path)) {
        qkv_collect(reading->collector, place, "%s is a section; set one of its keys", path);
    } else {
        collect_unknown(reading, place, path);
    }
}

static void read_file(struct qkv_reading *reading)
{
    const struct qkv_yaml_node *root =
        qkv_yaml_read(reading->path, reading->arena, reading->collector, &reading->complete);
    if (!root) return;
    if (root->kind == QKV_YAML_MAPPING) {
        read_section(reading, root, "");
        return;
    }
    reading->complete = false;
    if (root->kind == QKV_YAML_REFUSED) return;
    qkv_collect(reading->collector, (struct qkv_place){reading->path, root->line, root->column},
                "the file must be a mapping of keys to values");
}

static void collect_missing(struct qkv_reading *reading)
{
    for (int i = 0; i < reading->schema->count; i++) {
        struct qkv_key_source *source = &reading->sources[i];
        if (reading->schema->keys[i].fallback || source->given) continue;
        source->bad = true;
        qkv_collect(reading->collector, (struct qkv_place){.name = reading->path},
                    "%s is missing, but is required", reading->schema->keys[i].path);
    }
}

void qkv_schema_read(struct qkv_reading *reading)
{
    const int count = reading->schema->count;
    reading->sources = qkv_arena_zeroed(reading->arena, (size_t)count * sizeof *reading->sources);
    if (!reading->sources || !qkv_schema_defaults(reading->schema, reading->config, reading->arena)) {
        qkv_collect_no_memory(reading->collector, reading->path);
        return;
    }
    for (int i = 0; i < count; i++) reading->sources[i].place.name = reading->path;
    read_file(reading);
    for (int i = 0; i < reading->override_count; i++) read_override(reading, reading->overrides[i]);
    if (reading->complete) collect_missing(reading);
}
