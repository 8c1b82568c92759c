/* Tables of keys. A schema is one table, whose rows are the fields of one struct: that of configs stands in
 * keys.def, that of scenes in scene.def. */
#ifndef QKV_CONFIG_KEYS_H
#define QKV_CONFIG_KEYS_H

#include "config/choices.h"

#include <stddef.h>

enum qkv_key_kind {
    QKV_KEY_TEXT,    /* const char * */
    QKV_KEY_INTEGER, /* int64_t */
    QKV_KEY_NUMBER,  /* double */
    QKV_KEY_BOOLEAN, /* bool */
    QKV_KEY_CHOICE,  /* an enum */
    QKV_KEY_PAIR,    /* double[2] */
    QKV_KEY_TEXTS,   /* struct qkv_texts */
    QKV_KEY_MATRIX,  /* struct qkv_matrix */
};

/* What a change of the value does to a trained run; keys.def explains them. No row goes without. */
enum qkv_key_role {
    QKV_ROLE_MODEL = 1,
    QKV_ROLE_TRAJECTORY,
    QKV_ROLE_LENGTH,
    QKV_ROLE_VALIDATION,
    QKV_ROLE_FREE,
};

struct qkv_range {
    double lowest, highest;      /* may be infinite */
    bool open_below, open_above; /* whether the bound itself is outside */
};

struct qkv_key {
    const char *path; /* "training.learning_rate" */
    enum qkv_key_kind kind;
    enum qkv_key_role role;
    size_t offset; /* of its field in the struct of its schema */
    struct qkv_range range;
    const struct qkv_choices *choices;
    const char *unit;     /* "" when it has none */
    const char *fallback; /* the default, as a config would write it; NULL: required */
    const char *help;
};

struct qkv_schema {
    const struct qkv_key *keys;
    int count;
};

/* The table of configs, as a schema and by itself. */
extern const struct qkv_schema qkv_config_schema;
extern const struct qkv_key qkv_keys[];
extern const int qkv_key_count;

/* The table of scenes. */
extern const struct qkv_schema qkv_scene_schema;

/* The row of a path, or NULL. */
const struct qkv_key *qkv_schema_find(const struct qkv_schema *schema, const char *path);

/* The same in the table of configs. */
static inline const struct qkv_key *qkv_key_find(const char *path)
{
    return qkv_schema_find(&qkv_config_schema, path);
}

/* Whether a path names a section, "training" or "model.encoder". */
bool qkv_schema_is_section(const struct qkv_schema *schema, const char *path);

/* Whether a run with that config holds on to the value of the key. */
bool qkv_key_is_fixed(const struct qkv_key *key, enum qkv_config_fixed when, const struct qkv_config *config);

/* The key or section that `path` was probably meant to be, written into `memory`; "" when none is near. */
enum { QKV_KEY_LONGEST = 64 };
const char *qkv_schema_nearest(const struct qkv_schema *schema, const char *path,
                               char memory[static QKV_KEY_LONGEST]);

/* The field of a key in the struct of its schema. */
static inline void *qkv_key_field(const struct qkv_key *key, void *config)
{
    return (char *)config + key->offset;
}
static inline const void *qkv_key_value(const struct qkv_key *key, const void *config)
{
    return (const char *)config + key->offset;
}

#endif
