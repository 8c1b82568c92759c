/* The table of configs, and how any table is searched. */
#define KEY_STRUCT struct qkv_config
#define KEY_TABLE  "config/keys.def"
#include "config/key_rows.h"

#include "qkv/nearest.h"

#include <string.h>

const struct qkv_key qkv_keys[] = {
#include KEY_TABLE
};
const int qkv_key_count = sizeof qkv_keys / sizeof qkv_keys[0];
const struct qkv_schema qkv_config_schema = {qkv_keys, sizeof qkv_keys / sizeof qkv_keys[0]};

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

bool qkv_key_is_fixed(const struct qkv_key *key, enum qkv_config_fixed when, const struct qkv_config *config)
{
    enum qkv_schedule_kind schedule = config->training.scheduling;
    if (key->role == QKV_ROLE_MODEL || when == QKV_FIXED_FOR_GOOD) return key->role == QKV_ROLE_MODEL;
    switch (key->role) {
    case QKV_ROLE_LENGTH:
        return schedule == QKV_SCHEDULE_LINEAR || schedule == QKV_SCHEDULE_COSINE;
    case QKV_ROLE_VALIDATION:
        return schedule == QKV_SCHEDULE_PLATEAU;
    default:
        return key->role == QKV_ROLE_TRAJECTORY;
    }
}

static const char *last_part(const char *path)
{
    const char *dot = strrchr(path, '.');
    return dot ? dot + 1 : path;
}

/* How far `path` is from a key or section; a key of the right name in another section is near. */
static int distance(const char *path, const char *candidate)
{
    enum { OTHER_SECTION = 2 };
    int edits = qkv_name_distance(path, candidate);
    bool same_name = !strcmp(last_part(path), last_part(candidate));
    return same_name && edits > OTHER_SECTION ? OTHER_SECTION : edits;
}

const char *qkv_schema_nearest(const struct qkv_schema *schema, const char *path,
                               char memory[static QKV_KEY_LONGEST])
{
    if (strlen(path) >= QKV_KEY_LONGEST) return "";
    int best = QKV_KEY_LONGEST;
    char candidate[QKV_KEY_LONGEST];
    for (int i = 0; i < schema->count; i++) {
        /* The sections that hold the key, then the key itself. */
        const char *whole = schema->keys[i].path, *end = whole;
        do {
            end += strcspn(end, ".");
            memcpy(candidate, whole, (size_t)(end - whole));
            candidate[end - whole] = '\0';
            int far = distance(path, candidate);
            if (far >= best) continue;
            best = far;
            strcpy(memory, candidate);
        } while (*end++);
    }
    return qkv_names_are_near(last_part(path), last_part(memory), best) ? memory : "";
}
