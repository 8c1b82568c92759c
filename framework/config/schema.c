/* Looks keys up in a table. */
#include "config/schema.h"

#include "qkv/nearest.h"

#include <string.h>

const char *qkv_choice_name(const struct qkv_choices *choices, int value)
{
    return value >= 0 && value < choices->count ? choices->list[value].name : "unknown";
}

const struct qkv_key *qkv_schema_find(const struct qkv_schema *schema, const char *path)
{
    for (int i = 0; i < schema->count; i++)
        if (!strcmp(schema->keys[i].path, path)) return &schema->keys[i];
    return NULL;
}

bool qkv_schema_is_section(const struct qkv_schema *schema, const char *path)
{
    size_t length = strlen(path);
    for (int i = 0; i < schema->count; i++)
        if (!strncmp(schema->keys[i].path, path, length) && schema->keys[i].path[length] == '.') return true;
    return false;
}

const struct qkv_key *qkv_key_without_effect(const struct qkv_schema *schema, const struct qkv_key *key,
                                             const void *config)
{
    if (!key->used_by) return NULL;
    const struct qkv_key *choice = qkv_schema_find(schema, key->used_by);
    QKV_BUG(!choice || choice->kind != QKV_KEY_CHOICE, "%s: %s is not a choice", key->path, key->used_by);
    const struct qkv_key *earlier = qkv_key_without_effect(schema, choice, config);
    if (earlier) return earlier;
    int value;
    memcpy(&value, qkv_key_value(choice, config), sizeof value);
    bool is_choice = value >= 0 && value < choice->choices->count;
    return is_choice && key->used_values >> value & 1 ? NULL : key;
}

const char *qkv_key_text(const struct qkv_key *key, const void *config)
{
    const char *text = *(const char *const *)qkv_key_value(key, config);
    return text ? text : "";
}

const struct qkv_choice *qkv_key_choice(const struct qkv_key *key, const void *config)
{
    static const struct qkv_choice none;
    int value;
    memcpy(&value, qkv_key_value(key, config), sizeof value);
    return value >= 0 && value < key->choices->count ? &key->choices->list[value] : &none;
}

bool qkv_paths_hold(const char *const *paths, const char *path)
{
    for (; paths && *paths && **paths; paths++)
        if (!strcmp(*paths, path)) return true;
    return false;
}

const char *qkv_choices_text(char text[static QKV_CHOICES_SIZE], const struct qkv_choices *choices,
                             uint32_t values, const char *quote, const char *last_separator)
{
    int used = 0, last = choices->count - 1;
    while (last > 0 && !(choices->list[last].help && values >> last & 1)) last--;
    for (int i = 0; i <= last; i++) {
        if (!choices->list[i].help || !(values >> i & 1)) continue;
        used += snprintf(text + used, QKV_CHOICES_SIZE - (size_t)used, "%s%s%s%s",
                         !used       ? ""
                         : i == last ? last_separator
                                     : ", ",
                         quote, choices->list[i].name, quote);
    }
    return text;
}

static const char *last_part(const char *path)
{
    const char *dot = strrchr(path, '.');
    return dot ? dot + 1 : path;
}

/* Number of edits between `path` and the path of a key or section. The right name in the wrong section counts as at most
 * 2 edits. */
static int distance(const char *path, const char *candidate)
{
    enum { OTHER_SECTION = 2 };
    int edits = qkv_name_distance(path, candidate);
    bool same_name = !strcmp(last_part(path), last_part(candidate));
    return same_name && edits > OTHER_SECTION ? OTHER_SECTION : edits;
}

const char *qkv_schema_nearest(const struct qkv_schema *schema, const char *path,
                               char nearest[static QKV_KEY_LONGEST])
{
    if (strlen(path) >= QKV_KEY_LONGEST) return "";
    int best = QKV_KEY_LONGEST;
    char candidate[QKV_KEY_LONGEST];
    for (int i = 0; i < schema->count; i++) {
        /* The sections that hold the key, then the key itself. */
        const char *start = schema->keys[i].path, *end = start;
        do {
            end += strcspn(end, ".");
            memcpy(candidate, start, (size_t)(end - start));
            candidate[end - start] = '\0';
            int edits = distance(path, candidate);
            if (edits >= best) continue;
            best = edits;
            strcpy(nearest, candidate);
        } while (*end++);
    }
    return qkv_names_are_near(last_part(path), last_part(nearest), best) ? nearest : "";
}
