/* Prints configs. */
#include "config/config_keys.h"
#include "config/finish.h"
#include "config/normalise.h"
#include "config/path.h"
#include "config/value.h"
#include "core/plain_text.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

bool qkv_key_is_derivable(const struct qkv_key *key, const struct qkv_config *config, struct qkv_arena *arena)
{
    if (!key->fallback) return false;
    struct qkv_collector collector = {.arena = arena};
    struct qkv_config without = *config;
    return qkv_value_read_text(key, key->fallback, (struct qkv_place){.name = key->path}, &without, arena,
                               &collector) &&
           qkv_config_normalise(&without, arena) && qkv_value_equal(key, config, &without);
}

/* Prints the heading of each section that contains the key `path` but not the key `previous`.
 * Returns the last name of `path`; *depth becomes the number of sections that contain it. */
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

/* The path that is the value of a key; NULL if it is not a path, or empty, or standard input. */
static const char *path_of(const struct qkv_key *key, const struct qkv_config *config)
{
    const char *path = key->is_path ? qkv_key_text(key, config) : "";
    return *path && strcmp(path, "-") != 0 ? path : NULL;
}

/* The value of a key as it is written to a file in `folder`. A path is written in two forms: a relative one, which stays valid
 * when the folder is moved together with the file that it names, and an absolute one, for when the folder is moved alone. The
 * second is left out if it is not valid UTF-8, which YAML must be. folder NULL: the value is written unchanged. */
static const char *value_for(const struct qkv_key *key, const struct qkv_config *config, const char *folder,
                             struct qkv_arena *arena)
{
    const char *path = folder ? path_of(key, config) : NULL;
    const char *relative, *absolute;
    if (!path) return qkv_value_text(key, config, arena);
    if (!qkv_path_in_folder(arena, folder, path, &relative, &absolute) || !qkv_is_utf8(relative)) return NULL;
    if (!strcmp(relative, ".")) return qkv_yaml_text(relative, arena);
    bool both = qkv_is_utf8(absolute);
    relative = qkv_yaml_text(relative, arena);
    if (!both) return relative ? qkv_arena_format(arena, "[%s]", relative) : NULL;
    absolute = qkv_yaml_text(absolute, arena);
    return relative && absolute ? qkv_arena_format(arena, "[%s, %s]", relative, absolute) : NULL;
}

static enum qkv_status write_keys(const struct qkv_config *config, FILE *file, bool full, const char *folder)
{
    struct qkv_arena arena = {0};
    const char *previous = "";
    bool done = true;
    for (int i = 0; i < qkv_config_schema.count && done; i++) {
        const struct qkv_key *key = &qkv_config_schema.keys[i];
        if (!full && qkv_key_is_derivable(key, config, &arena)) continue;
        const char *value = value_for(key, config, folder, &arena);
        int depth;
        const char *name = open_sections(key->path, previous, file, &depth);
        done = value && fprintf(file, "%*s%s: %s\n", 2 * depth, "", name, value) > 0;
        previous = key->path;
        qkv_arena_reset(&arena);
    }
    qkv_arena_release(&arena);
    return done && !ferror(file) ? QKV_OK : QKV_INVALID;
}

enum qkv_status qkv_config_write(const struct qkv_config *config, FILE *file, bool full)
{
    return write_keys(config, file, full, NULL);
}

enum qkv_status qkv_config_write_run(const struct qkv_config *config, FILE *file, const char *folder)
{
    return write_keys(config, file, true, folder);
}

enum qkv_status qkv_config_check_run_paths(const struct qkv_config *config, const char *folder,
                                           struct qkv_error *error)
{
    struct qkv_arena arena = {0};
    enum qkv_status status = QKV_OK;
    for (int i = 0; i < qkv_config_schema.count && !status; i++) {
        const struct qkv_key *key = &qkv_config_schema.keys[i];
        const char *path = path_of(key, config), *relative, *absolute;
        if (!path) continue;
        if (!qkv_path_in_folder(&arena, folder, path, &relative, &absolute))
            status = qkv_error_set(error, "%s: cannot be resolved: %s", path, strerror(errno));
        else if (!qkv_is_utf8(relative))
            status =
                qkv_error_set(error,
                              "%s is %s, which the config of the run cannot name, because it is not valid "
                              "UTF-8: rename the file or its folder",
                              key->path, path);
    }
    qkv_arena_release(&arena);
    return status;
}

/* True when a resumed run must keep the value of a key, because the trained parameters depend on
 * it. A key in the USES() of some choice is fixed only while the config selects such a choice. */
static bool is_fixed_on_resume(const struct qkv_key *key, const struct qkv_config *config)
{
    uint32_t values;
    if (key->role == QKV_ROLE_MODEL) return true;
    const struct qkv_key *reader = qkv_key_used_by_choice(&qkv_config_schema, key, &values);
    return reader ? qkv_key_is_one_of(reader, config, values) : key->role == QKV_ROLE_TRAJECTORY;
}

static bool is_selected(const struct qkv_key *key, enum qkv_config_selection selection,
                        const struct qkv_config *config)
{
    switch (selection) {
    case QKV_KEYS_FIXED_BY_MODEL:
        return key->role == QKV_ROLE_MODEL;
    case QKV_KEYS_FIXED_ON_RESUME:
        return is_fixed_on_resume(key, config);
    case QKV_KEYS_WITH_EFFECT:
        break;
    }
    return !qkv_key_without_effect(&qkv_config_schema, key, config);
}

enum qkv_status qkv_config_each(const struct qkv_config *config, enum qkv_config_selection selection,
                                bool (*each)(void *context, const char *path, const char *value),
                                void *context)
{
    struct qkv_arena arena = {0};
    bool done = true;
    for (int i = 0; i < qkv_config_schema.count && done; i++) {
        const struct qkv_key *key = &qkv_config_schema.keys[i];
        if (!is_selected(key, selection, config)) continue;
        const char *value = qkv_value_text(key, config, &arena);
        done = value && each(context, key->path, value);
    }
    qkv_arena_release(&arena);
    return done ? QKV_OK : QKV_INVALID;
}

enum qkv_status qkv_config_write_reference(FILE *file)
{
    return qkv_schema_write_reference(&qkv_config_schema, file);
}

const char *qkv_config_key(const void *context, int64_t index)
{
    (void)context;
    return index >= 0 && index < qkv_config_schema.count ? qkv_config_schema.keys[index].path : NULL;
}
