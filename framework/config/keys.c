#include "keys.h"

#include "qkv/nearest.h"

#include <math.h>
#include <string.h>

#define FIELD(path)       (((struct qkv_config *)0)->path)
#define TO_STRING(tokens) #tokens
#define NAME(path)        TO_STRING(path)

/* The type of each field is what its row says. */
#define IS(type, path)     _Static_assert(_Generic(FIELD(path), type : 1, default : 0), NAME(path));
#define TEXT(path, ...)    IS(const char *, path)
#define INTEGER(path, ...) IS(int64_t, path)
#define NUMBER(path, ...)  IS(double, path)
#define BOOLEAN(path, ...) IS(bool, path)
#define PAIR(path, ...)                                                                                      \
    IS(double *, path) _Static_assert(sizeof FIELD(path) == 2 * sizeof(double), NAME(path));
#define CHOICE(path, ...) _Static_assert(sizeof FIELD(path) == sizeof(int), NAME(path));
#include "keys.def"
#undef TEXT
#undef INTEGER
#undef NUMBER
#undef BOOLEAN
#undef PAIR
#undef CHOICE

#define REQUIRED NULL
/* On one line each; the formatter would take four. */
/* clang-format off */
#define ANY           {-HUGE_VAL, HUGE_VAL, false, false}
#define FROM(a)       {(a), HUGE_VAL, false, false}
#define ABOVE(a)      {(a), HUGE_VAL, true, false}
#define WITHIN(a, b)  {(a), (b), false, false}
#define BELOW(a, b)   {(a), (b), false, true}
#define BETWEEN(a, b) {(a), (b), true, true}
/* clang-format on */

#define ROW(key_kind, key_path, key_role, key_fallback, key_help, ...)                                       \
    {.path = NAME(key_path),                                                                                 \
     .kind = key_kind,                                                                                       \
     .role = QKV_ROLE_##key_role,                                                                            \
     .offset = offsetof(struct qkv_config, key_path),                                                        \
     .fallback = key_fallback,                                                                               \
     .help = key_help,                                                                                       \
     __VA_ARGS__},
#define TEXT(path, role, fallback, help)                                                                     \
    ROW(QKV_KEY_TEXT, path, role, fallback, help, .range = ANY, .unit = "")
#define BOOLEAN(path, role, fallback, help)                                                                  \
    ROW(QKV_KEY_BOOLEAN, path, role, fallback, help, .range = ANY, .unit = "")
#define INTEGER(path, role, limits, of_unit, fallback, help)                                                 \
    ROW(QKV_KEY_INTEGER, path, role, fallback, help, .range = limits, .unit = of_unit)
#define NUMBER(path, role, limits, of_unit, fallback, help)                                                  \
    ROW(QKV_KEY_NUMBER, path, role, fallback, help, .range = limits, .unit = of_unit)
#define PAIR(path, role, limits, fallback, help)                                                             \
    ROW(QKV_KEY_PAIR, path, role, fallback, help, .range = limits, .unit = "")
#define CHOICE(path, role, fallback, help)                                                                   \
    ROW(QKV_KEY_CHOICE, path, role, fallback, help, .range = ANY, .unit = "",                                \
        .choices = QKV_CHOICES_OF(FIELD(path)))

const struct qkv_key qkv_keys[] = {
#include "keys.def"
};
const int qkv_key_count = sizeof qkv_keys / sizeof qkv_keys[0];

const struct qkv_key *qkv_key_find(const char *path)
{
    for (int i = 0; i < qkv_key_count; i++)
        if (!strcmp(qkv_keys[i].path, path)) return &qkv_keys[i];
    return NULL;
}

bool qkv_key_is_section(const char *path)
{
    size_t length = strlen(path);
    for (int i = 0; i < qkv_key_count; i++)
        if (!strncmp(qkv_keys[i].path, path, length) && qkv_keys[i].path[length] == '.') return true;
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
        return key->role == QKV_ROLE_COURSE;
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

const char *qkv_key_nearest(const char *path, char memory[static QKV_KEY_LONGEST])
{
    if (strlen(path) >= QKV_KEY_LONGEST) return "";
    int best = QKV_KEY_LONGEST;
    char candidate[QKV_KEY_LONGEST];
    for (int i = 0; i < qkv_key_count; i++) {
        /* The sections that hold the key, then the key itself. */
        const char *whole = qkv_keys[i].path, *end = whole;
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
