#include "sweep_grid.h"

#include <string.h>

/* The last `parts` names of a key. */
static const char *end_of(const char *key, int parts)
{
    const char *at = key + strlen(key);
    while (at > key && parts > 0) {
        at--;
        if (*at == '.' && --parts == 0) return at + 1;
    }
    return at;
}

static void shorten(struct grid *grid)
{
    for (int i = 0; i < grid->keys; i++)
        for (int parts = 1; parts <= 8; parts++) {
            bool is_alone = true;
            grid->key[i].short_name = end_of(grid->key[i].key, parts);
            for (int j = 0; j < grid->keys; j++)
                is_alone = is_alone &&
                           (i == j || strcmp(end_of(grid->key[j].key, parts), grid->key[i].short_name) != 0);
            if (is_alone) break;
        }
}

static enum qkv_status add_value(struct grid_key *key, const char *text, int length, struct qkv_arena *arena,
                                 struct qkv_error *error)
{
    const char *value = qkv_arena_format(arena, "%.*s", length, text);
    if (!value) return qkv_error_set(error, "out of memory");
    if (!*value) return qkv_error_set(error, "--grid %s: a value is empty; write KEY=VALUE,VALUE", key->key);
    for (int i = 0; i < key->values; i++)
        if (!strcmp(key->value[i], value))
            return qkv_error_set(error, "--grid %s: the value %s is named twice", key->key, value);
    if (key->values == GRID_MAX_VALUES)
        return qkv_error_set(error, "--grid %s: too many values; at most %d", key->key, GRID_MAX_VALUES);
    key->value[key->values++] = value;
    return QKV_OK;
}

static enum qkv_status add_key(struct grid *grid, const char *option, struct qkv_arena *arena,
                               struct qkv_error *error)
{
    const char *equals = strchr(option, '=');
    if (!equals || equals == option)
        return qkv_error_set(
            error, "--grid %s: must be KEY=VALUE,VALUE, such as training.learning_rate=1e-3,3e-3", option);
    if (grid->keys == GRID_MAX_KEYS)
        return qkv_error_set(error, "--grid: too many keys; at most %d", GRID_MAX_KEYS);
    struct grid_key *key = &grid->key[grid->keys++];
    *key = (struct grid_key){.key = qkv_arena_format(arena, "%.*s", (int)(equals - option), option)};
    if (!key->key) return qkv_error_set(error, "out of memory");
    if (!strcmp(key->key, "training.random_seed"))
        return qkv_error_set(error, "--grid training.random_seed: several seeds are --seeds N");
    if (!strcmp(key->key, "training.model_dir") || !strcmp(key->key, "name"))
        return qkv_error_set(error, "--grid %s: the sweep names its runs itself", key->key);
    for (int i = 0; i + 1 < grid->keys; i++)
        if (!strcmp(grid->key[i].key, key->key))
            return qkv_error_set(error, "--grid %s: the key is named twice; name all its values at once",
                                 key->key);
    int depth = 0;
    for (const char *begin = equals + 1, *at = begin;; at++) {
        depth += *at == '[' ? 1 : *at == ']' ? -1 : 0;
        if (*at && (*at != ',' || depth > 0)) continue;
        if (add_value(key, begin, (int)(at - begin), arena, error)) return QKV_INVALID;
        if (!*at) return QKV_OK;
        begin = at + 1;
    }
}

enum qkv_status grid_read(struct grid *grid, const struct option_list *options, struct qkv_arena *arena,
                          struct qkv_error *error)
{
    *grid = (struct grid){0};
    for (int i = 0; i < options->count; i++)
        if (add_key(grid, options->value[i], arena, error)) return QKV_INVALID;
    shorten(grid);
    return QKV_OK;
}

int grid_count(const struct grid *grid, int max)
{
    int count = 1;
    for (int i = 0; i < grid->keys && count <= max; i++) count *= grid->key[i].values;
    return count;
}

/* Removes brackets and spaces, and replaces all other characters that do not belong in the name of a folder by `_`. */
static const char *folder_name(char *name)
{
    static const char plain[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._=,+-";
    char *to = name;
    for (const char *at = name; *at; at++)
        if (!strchr("[] ", *at)) *to++ = strchr(plain, *at) ? *at : '_';
    *to = '\0';
    return name;
}

bool grid_combination(const struct grid *grid, int index, struct qkv_arena *arena,
                      const char *settings[GRID_MAX_KEYS], const char **name)
{
    char *text = qkv_arena_format(arena, "%s", "");
    for (int i = grid->keys - 1; i >= 0 && text; i--) { /* the last key varies fastest */
        const struct grid_key *key = &grid->key[i];
        const char *value = key->value[index % key->values];
        index /= key->values;
        settings[i] = qkv_arena_format(arena, "%s=%s", key->key, value);
        text = settings[i]
                   ? qkv_arena_format(arena, "%s=%s%s%s", key->short_name, value, *text ? "," : "", text)
                   : NULL;
    }
    *name = text ? folder_name(text) : NULL;
    return text != NULL;
}
