/* The keys of a YAML file as a table. A schema is one table; each row names a field of a struct and defines its allowed
 * values. The table for configs is config_keys.def, the one for scenes is explain/scene_keys.def. */
#ifndef QKV_CONFIG_SCHEMA_H
#define QKV_CONFIG_SCHEMA_H

#include "qkv/error.h"
#include "qkv/matrix.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

enum qkv_key_kind {
    QKV_KEY_TEXT,    /* const char * */
    QKV_KEY_INTEGER, /* int64_t */
    QKV_KEY_NUMBER,  /* double */
    QKV_KEY_BOOLEAN, /* bool */
    QKV_KEY_CHOICE,  /* an enum, of the size of int */
    QKV_KEY_PAIR,    /* double[2] */
    QKV_KEY_TEXTS,   /* struct qkv_texts */
    QKV_KEY_MATRIX,  /* struct qkv_matrix */
};

/* When the value may be changed after training; config_keys.def explains the roles. */
enum qkv_key_role {
    QKV_ROLE_MODEL,      /* never: the parameters would mean something else */
    QKV_ROLE_TRAJECTORY, /* not when the run is resumed */
    QKV_ROLE_FREE,       /* always */
};

struct qkv_range {
    double lowest, highest;      /* may be infinite */
    bool open_below, open_above; /* true: the bound itself is outside the range */
};

/* One value of an enum. Lists of paths end with NULL or an empty text; NULL: none. */
struct qkv_choice {
    const char *name, *help;  /* help "": the name needs none; NULL: an internal value, not for files */
    const char *const *uses;  /* keys that are read with this value, but not with every value of the enum */
    const char *const *needs; /* keys that must be set: integers above 0, texts not empty */
};

/* The values of an enum: list[value]. */
struct qkv_choices {
    const struct qkv_choice *list;
    int count;
};

/* The name of a value; "unknown" when the enum has no such value. */
const char *qkv_choice_name(const struct qkv_choices *choices, int value);

/* Whether the enum has this value; internal values count, too. */
bool qkv_choice_exists(const struct qkv_choices *choices, int value);

struct qkv_key {
    const char *path; /* "training.learning_rate" */
    enum qkv_key_kind kind;
    enum qkv_key_role role;
    size_t offset;                     /* of its field in the struct of its schema */
    struct qkv_range range;            /* of integers, numbers and both numbers of a pair */
    const struct qkv_choices *choices; /* of a QKV_KEY_CHOICE; otherwise NULL */
    const char *unit;                  /* "" when it has none */
    const char *fallback;              /* the default, as written in a file; NULL: the key is required */
    const char *help;
    /* Of a QKV_KEY_TEXT: it is the path of a file or folder (path.h), in a file also a list of paths. */
    bool is_path;
    const char *used_by;   /* path of a choice key; NULL: the key always has an effect */
    uint32_t used_values;  /* the key has an effect only while used_by has a value whose bit is set here */
    const char *read_with; /* path of a number key that, while it is 0, leaves this key unread; NULL: none */
};

/* The name of a key in another program. */
struct qkv_other_name {
    const char *name, *path;
};

struct qkv_schema {
    const struct qkv_key *keys;
    int count;
    size_t size; /* of the struct */
    const struct qkv_other_name *other_names;
    int other_name_count;
};

/* The row of a path, or NULL. */
const struct qkv_key *qkv_schema_find(const struct qkv_schema *schema, const char *path);

/* True when a path names a section, such as "training" or "model.encoder". */
bool qkv_schema_is_section(const struct qkv_schema *schema, const char *path);

enum {
    QKV_KEY_LONGEST = 64,
    QKV_HINT_SIZE = 4 * QKV_KEY_LONGEST,
    QKV_SECTION_KEYS = 8, /* keys of a section that a message names */
    QKV_SECTION_SIZE = (QKV_SECTION_KEYS + 1) * QKV_KEY_LONGEST,
};

/* Writes the keys whose path continues `path` with `separator`: with '.' those of a section, "mask.type, mask.values,
 * mask.padding"; at most QKV_SECTION_KEYS and the number of the others. "": there are none. Returns `text`. */
const char *qkv_schema_keys_of(const struct qkv_schema *schema, const char *path, char separator,
                               char text[static QKV_SECTION_SIZE]);

/* Writes to `hint` what an unknown `path` may mean: the keys that have this name in another program, or else the most similar
 * key or section; "" when there is none. Returns `hint`. */
const char *qkv_schema_hint(const struct qkv_schema *schema, const char *path,
                            char hint[static QKV_HINT_SIZE]);

/* NULL when `key` has an effect in this struct. Otherwise the key whose condition (used_by, used_values) fails: `key`
 * itself, or the choice key that its condition names. */
const struct qkv_key *qkv_key_without_effect(const struct qkv_schema *schema, const struct qkv_key *key,
                                             const void *config);

/* The value of a text key in a struct; "" if the field is NULL. */
const char *qkv_key_text(const struct qkv_key *key, const void *config);

/* The value of a choice key in a struct; all zero if the number is not a value of the enum. */
const struct qkv_choice *qkv_key_choice(const struct qkv_key *key, const void *config);

/* True when a list of paths, as in struct qkv_choice, contains `path`. */
bool qkv_paths_hold(const char *const *paths, const char *path);

/* If `key` is read only with some values of a choice key (qkv_choice.uses): returns that choice key, and sets a bit of *values
 * for each of these values. NULL: there is no such choice key. */
const struct qkv_key *qkv_key_used_by_choice(const struct qkv_schema *schema, const struct qkv_key *key,
                                             uint32_t *values);

/* True when a choice key has one of the values whose bits are set. */
bool qkv_key_is_one_of(const struct qkv_key *choice, const void *config, uint32_t values);

/* Writes the names of the choices whose bits are set in `values`, separated by commas and, before the last, by
 * `last_separator`, each between two `quote`. Returns `text`. */
enum { QKV_CHOICES_SIZE = 512 };
const char *qkv_choices_text(char text[static QKV_CHOICES_SIZE], const struct qkv_choices *choices,
                             uint32_t values, const char *quote, const char *last_separator);

/* Writes every key with type, values, default and meaning as a Markdown table. QKV_INVALID when the file cannot be
 * written. */
enum qkv_status qkv_schema_write_reference(const struct qkv_schema *schema, FILE *file);

/* The field of a key in the struct of its schema, for writing and for reading. */
static inline void *qkv_key_field(const struct qkv_key *key, void *config)
{
    return (char *)config + key->offset;
}
static inline const void *qkv_key_value(const struct qkv_key *key, const void *config)
{
    return (const char *)config + key->offset;
}

#endif
