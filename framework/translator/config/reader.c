#include "config/reader.h"

#include "config/path.h"
#include "config/value.h"
#include "core/plain_text.h"

#include <errno.h>
#include <stdint.h>
#include <string.h>
#include <sys/stat.h>

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
        } else if (!qkv_value_read_text(key, key->fallback, place, config, arena, &collector)) {
            /* Only texts need memory, so for other kinds a failure means an invalid default. */
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
    if (reading->collector->count == QKV_MESSAGES_MAX) { /* full: count it, without searching for a hint */
        reading->collector->left_out++;
        return;
    }
    const char *hint = qkv_schema_hint(reading->schema, path, buffer);
    qkv_collect(reading->collector, place, *hint ? "unknown key %s; did you mean %s" : "unknown key %s",
                qkv_printable(reading->arena, path), hint);
}

static void read_section(struct qkv_reading *reading, const struct qkv_yaml_node *section,
                         const char *prefix);

/* Reads one entry of a section: a key with its value, or a subsection. */
static void read_entry(struct qkv_reading *reading, const struct qkv_yaml_node *value, const char *prefix)
{
    char names[QKV_SECTION_SIZE];
    const struct qkv_yaml_node *name = value->key;
    struct qkv_place place = {reading->file->path, name->line, name->column};
    if (reading->extends && !*prefix && !strcmp(name->text, EXTENDS)) return; /* read_file has read it */
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
    if (key && value->kind == QKV_YAML_MAPPING && *qkv_schema_keys_of(reading->schema, path, '_', names)) {
        qkv_collect(reading->collector, place, "%s is one value, not a section; keys beside it are %s", path,
                    names);
        reading->sources[key - reading->schema->keys].bad = true;
    } else if (key) {
        struct qkv_place value_place = {reading->file->path, value->line, value->column};
        /* A missing value is reported at its key. */
        if (qkv_yaml_is_null(value) && !*value->text) value_place = place;
        bool valid =
            qkv_value_read(key, value, value_place, reading->config, reading->arena, reading->collector);
        reading->sources[key - reading->schema->keys] =
            (struct qkv_key_source){place, reading->file->extended, .given = true, .bad = !valid};
    } else if (!qkv_schema_is_section(reading->schema, path)) {
        collect_unknown(reading, place, path);
    } else if (value->kind == QKV_YAML_MAPPING) {
        read_section(reading, value, path);
    } else if (value->kind != QKV_YAML_REFUSED && !qkv_yaml_is_null(value)) {
        qkv_collect(reading->collector, place, "%s must be a section of keys: %s", path,
                    qkv_schema_keys_of(reading->schema, path, '.', names));
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
    char *path = qkv_arena_string(reading->arena, text), names[QKV_SECTION_SIZE];
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
    } else if (reading->extends && !strcmp(path, EXTENDS)) {
        qkv_collect(reading->collector, place, "extends can only be set in a file");
    } else if (qkv_schema_is_section(reading->schema, path)) {
        qkv_collect(reading->collector, place, "%s is a section; set one of its keys: %s", path,
                    qkv_schema_keys_of(reading->schema, path, '.', names));
    } else {
        collect_unknown(reading, place, path);
    }
}

static bool is_same_inode(const struct stat *a, const struct stat *b)
{
    return a->st_dev == b->st_dev && a->st_ino == b->st_ino;
}

/* Collects the error that `file` extends `first`, which extends `file` directly or through others. */
static void collect_circle(struct qkv_reading *reading, struct qkv_place place,
                           const struct qkv_open_file *file, const struct qkv_open_file *first)
{
    const char *chain = first->path;
    for (; chain && file != first; file = file->extended_by)
        chain = qkv_arena_format(reading->arena, "%s extends %s", file->path, chain);
    if (chain) chain = qkv_arena_format(reading->arena, "%s extends %s", first->path, chain);
    if (chain)
        qkv_collect(reading->collector, place, "files extend each other in a circle: %s", chain);
    else
        qkv_collect_no_memory(reading->collector, reading->path);
}

static void read_file(struct qkv_reading *reading, const char *path, const struct qkv_open_file *extended_by);

/* Reads the file that is named by `value`, the value of the key `extends` of `file`. */
static void read_extended(struct qkv_reading *reading, const struct qkv_open_file *file,
                          const struct qkv_yaml_node *value)
{
    struct qkv_place place = {file->path, value->line, value->column};
    struct stat status;
    bool is_text = value->kind == QKV_YAML_SCALAR && !qkv_yaml_is_null(value) && *value->text;
    const char *path = is_text ? qkv_path_of_file(reading->arena, file->path, value->text) : NULL;
    if (value->kind == QKV_YAML_REFUSED) {
        reading->complete = false;
    } else if (!is_text) {
        qkv_collect(reading->collector, place, "extends must be the path of one other config");
    } else if (!path) {
        qkv_collect_no_memory(reading->collector, reading->path);
    } else if (stat(path, &status)) {
        qkv_collect(reading->collector, place, "extends %s, which cannot be read: %s",
                    qkv_printable(reading->arena, path), strerror(errno));
    } else if (S_ISDIR(status.st_mode)) {
        qkv_collect(reading->collector, place, "extends %s, which is a folder",
                    qkv_printable(reading->arena, path));
    } else if (file->extended == MAX_EXTENDED) {
        qkv_collect(reading->collector, place, "more than %d files extend each other", MAX_EXTENDED);
    } else {
        const struct qkv_open_file *same = file;
        while (same && !is_same_inode(&same->status, &status)) same = same->extended_by;
        if (!same) {
            read_file(reading, path, file);
            return;
        }
        collect_circle(reading, place, file, same);
    }
    reading->complete = false;
}

static const struct qkv_yaml_node *find_extends(const struct qkv_yaml_node *root)
{
    const struct qkv_yaml_node *value = root->first;
    while (value && strcmp(value->key->text, EXTENDS) != 0) value = value->next;
    return value;
}

/* Reads a file, but first the one that it extends. */
static void read_file(struct qkv_reading *reading, const char *path, const struct qkv_open_file *extended_by)
{
    struct qkv_open_file file = {path, extended_by, extended_by ? extended_by->extended + 1 : 0, {0}};
    bool complete;
    stat(path, &file.status); /* a file that cannot be read is reported next */
    const struct qkv_yaml_node *root = qkv_yaml_read(path, extended_by ? NULL : reading->text, reading->arena,
                                                     reading->collector, &complete);
    reading->complete = reading->complete && complete && root->kind == QKV_YAML_MAPPING;
    if (!root) return;
    if (root->kind == QKV_YAML_MAPPING) {
        const struct qkv_yaml_node *extended = reading->extends ? find_extends(root) : NULL;
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
    reading->complete = true;
    read_file(reading, reading->path, NULL);
    for (int i = 0; i < reading->override_count; i++) read_override(reading, reading->overrides[i]);
    if (reading->complete) collect_missing(reading);
}
