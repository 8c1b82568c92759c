/* Prints configs, and the table of keys itself. */
#include "config/check.h"
#include "config/number.h"
#include "config/value.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

/* Whether leaving the key out would give the same config. */
static bool follows_from_rest(const struct qkv_key *key, const struct qkv_config *config,
                              struct qkv_arena *arena)
{
    if (!key->fallback) return false;
    struct qkv_collector collector = {.arena = arena};
    struct qkv_config without = *config;
    return qkv_value_read_text(key, key->fallback, (struct qkv_place){.name = key->path}, &without, arena,
                               &collector) &&
           qkv_config_normalise(&without, arena) && qkv_value_equal(key, config, &without);
}

/* Opens the sections of `path` that `previous` was not in, and gives the key's own name and depth. */
static const char *open_sections(const char *path, const char *previous, FILE *file, int *depth)
{
    const char *name = path;
    bool same = true;
    *depth = 0;
    for (const char *dot; (dot = strchr(name, '.')); name = dot + 1, ++*depth) {
        size_t length = (size_t)(dot + 1 - path);
        same = same && !strncmp(path, previous, length);
        if (same) continue;
        if (!*depth && *previous) fputc('\n', file);
        fprintf(file, "%*s%.*s:\n", 2 * *depth, "", (int)(dot - name), name);
    }
    return name;
}

enum qkv_status qkv_config_write(const struct qkv_config *config, FILE *file, bool full)
{
    struct qkv_arena arena = {0};
    const char *previous = "";
    bool good = true;
    for (int i = 0; i < qkv_key_count && good; i++) {
        const struct qkv_key *key = &qkv_keys[i];
        if (!full && follows_from_rest(key, config, &arena)) continue;
        const char *value = qkv_value_text(key, config, &arena);
        int depth;
        const char *name = open_sections(key->path, previous, file, &depth);
        good = value && fprintf(file, "%*s%s: %s\n", 2 * depth, "", name, value) > 0;
        previous = key->path;
        qkv_arena_reset(&arena);
    }
    qkv_arena_release(&arena);
    return good && !ferror(file) ? QKV_OK : QKV_INVALID;
}

enum qkv_status qkv_config_each_fixed(const struct qkv_config *config, enum qkv_config_fixed when,
                                      bool (*each)(void *context, const char *path, const char *value),
                                      void *context)
{
    struct qkv_arena arena = {0};
    bool good = true;
    for (int i = 0; i < qkv_key_count && good; i++) {
        if (!qkv_key_is_fixed(&qkv_keys[i], when, config)) continue;
        const char *value = qkv_value_text(&qkv_keys[i], config, &arena);
        good = value && each(context, qkv_keys[i].path, value);
    }
    qkv_arena_release(&arena);
    return good ? QKV_OK : QKV_INVALID;
}

/* "integer, tokens" */
static void write_type(const struct qkv_key *key, FILE *file)
{
    static const char *const names[] = {
        [QKV_KEY_TEXT] = "text",       [QKV_KEY_INTEGER] = "integer", [QKV_KEY_NUMBER] = "number",
        [QKV_KEY_BOOLEAN] = "boolean", [QKV_KEY_CHOICE] = "choice",   [QKV_KEY_PAIR] = "two numbers",
        [QKV_KEY_TEXTS] = "texts",     [QKV_KEY_MATRIX] = "matrix",
    };
    fprintf(file, "%s%s%s", names[key->kind], *key->unit ? ", " : "", key->unit);
}

static void write_range(const struct qkv_key *key, FILE *file)
{
    if (key->kind == QKV_KEY_BOOLEAN) fputs("`true`, `false`", file);
    for (int i = 0; key->choices && i < key->choices->count; i++)
        fprintf(file, "%s`%s`", i ? ", " : "", key->choices->names[i]);
    if (isinf(key->range.lowest)) return;
    char text[QKV_RANGE_SIZE];
    qkv_range_text(text, &key->range);
    fputs(text, file);
}

static enum qkv_status write_reference(const struct qkv_schema *schema, FILE *file)
{
    fputs("| Key | Type | Values | Default | Meaning |\n|---|---|---|---|---|\n", file);
    for (int i = 0; i < schema->count; i++) {
        const struct qkv_key *key = &schema->keys[i];
        fprintf(file, "| `%s` | ", key->path);
        write_type(key, file);
        fputs(" | ", file);
        write_range(key, file);
        if (!key->fallback)
            fputs(" | required | ", file);
        else
            fprintf(file, " | `%s` | ", *key->fallback ? key->fallback : "\"\"");
        fprintf(file, "%s |\n", key->help);
    }
    return ferror(file) ? QKV_INVALID : QKV_OK;
}

enum qkv_status qkv_config_write_reference(FILE *file)
{
    return write_reference(&qkv_config_schema, file);
}

enum qkv_status qkv_scene_write_reference(FILE *file)
{
    return write_reference(&qkv_scene_schema, file);
}
