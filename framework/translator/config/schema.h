/* The keys of a YAML file as a table, and how a file is read into the struct whose fields the keys are. A schema is one
 * table; each row names a field of a struct and defines its allowed values. The table for configs is config_keys.def, the
 * one for scenes is explain/scene_keys.def. Private to config, and to explain, which reads scenes. */
#pragma once

#include "qkv/config.h"

/* ---- the table of keys ---- */

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

/* When a key has an effect, and what becomes of a config that sets the key without effect. */
struct qkv_condition {
    const char *key; /* path of the key that decides; NULL: the condition always holds */
    uint32_t
        values; /* a choice key: the bits of the values with which the condition holds; 0: a number key, above 0 */
    enum qkv_without_effect {
        QKV_WITHOUT_EFFECT_REFUSED,
        QKV_WITHOUT_EFFECT_NOTED,    /* training says so: run folders that have such keys can be opened */
        QKV_WITHOUT_EFFECT_ACCEPTED, /* the key has another effect */
    } otherwise;
};

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
    int64_t
        none; /* of a QKV_KEY_INTEGER: what texts and files have for 0, which means none; 0: there is no such number */
    struct qkv_condition condition; /* as the row has it; qkv_key_condition has those of choices, too */
};

/* A row of other_names.def; `names` ends with NULL. */
struct qkv_other_names {
    const char *key;
    const char *const *names;
};

struct qkv_schema {
    const struct qkv_key *keys;
    int count;
    size_t size; /* of the struct */
    const struct qkv_other_names *other_names;
    int other_name_count;
    const char *twins[2]; /* sections with the same keys, which the reference lists once; NULL: none */
};

/* The field of a key in the struct of its schema, for writing and for reading. */
static inline void *qkv_key_field(const struct qkv_key *key, void *config)
{
    return (char *)config + key->offset;
}
static inline const void *qkv_key_value(const struct qkv_key *key, const void *config)
{
    return (const char *)config + key->offset;
}

/* An integer as files have it. */
static inline long long qkv_key_integer(const struct qkv_key *key, const void *config)
{
    int64_t value = *(const int64_t *)qkv_key_value(key, config);
    return value ? value : key->none;
}

/* The row of a path; NULL, or a bug where the key must exist. */
const struct qkv_key *qkv_schema_find(const struct qkv_schema *schema, const char *path);
const struct qkv_key *qkv_key_at(const struct qkv_schema *schema, const char *path);

/* True when a path names a section, such as "training" or "model.encoder". */
bool qkv_schema_is_section(const struct qkv_schema *schema, const char *path);

enum {
    QKV_KEY_LONGEST = 64,
    QKV_HINT_SIZE = 4 * QKV_KEY_LONGEST,
    QKV_SECTION_KEYS = 8, /* keys of a section that a message names */
    QKV_SECTION_SIZE = (QKV_SECTION_KEYS + 1) * QKV_KEY_LONGEST,
    QKV_CHOICES_SIZE = 512,
    QKV_RANGE_SIZE = 128,
};

/* Writes the keys whose path continues `path` with `separator`: with '.' those of a section, "mask.type, mask.values,
 * mask.padding"; at most QKV_SECTION_KEYS and the number of the others. "": there are none. Returns `text`. */
const char *qkv_schema_keys_of(const struct qkv_schema *schema, const char *path, char separator,
                               char text[static QKV_SECTION_SIZE]);

/* Writes every key with type, values, default and meaning, a Markdown table for each section or both twins. QKV_INVALID when
 * the file cannot be written. */
enum qkv_status qkv_schema_write_reference(const struct qkv_schema *schema, FILE *file);

/* The condition that follows from the choices that list the key in `uses`; its `key` is NULL if there are none. */
struct qkv_condition qkv_key_use(const struct qkv_schema *schema, const struct qkv_key *key);

/* The condition of the row of a key or, if it has none, of the choices that use the key. */
struct qkv_condition qkv_key_condition(const struct qkv_schema *schema, const struct qkv_key *key);

/* The condition that fails where `key` has no effect in this struct, of those with this `otherwise`: its own, or that of
 * the key that decides. If all hold, the `key` of the condition is NULL. */
struct qkv_condition qkv_key_unmet(const struct qkv_schema *schema, const struct qkv_key *key,
                                   const void *config, enum qkv_without_effect otherwise);

/* "momentum is 0.5, but has an effect only when optimizer is sgd (it is adam)", of a condition that fails; in the arena,
 * NULL when memory runs out. */
const char *qkv_key_without_effect(const struct qkv_schema *schema, const struct qkv_key *key,
                                   struct qkv_condition unmet, const void *config, struct qkv_arena *arena);

/* ---- values ---- */

/* The name of a value; "unknown" when the enum has no such value. */
const char *qkv_choice_name(const struct qkv_choices *choices, int value);

/* Whether the enum has this value; internal values count, too. */
bool qkv_choice_exists(const struct qkv_choices *choices, int value);

/* The value of a choice key in a struct; all zero if the number is not a value of the enum. */
const struct qkv_choice *qkv_key_choice(const struct qkv_key *key, const void *config);

/* Whether a choice key has one of the values whose bits are set. */
bool qkv_key_is_one_of(const struct qkv_key *choice, const void *config, uint32_t values);

/* Writes the names of the choices whose bits are set in `values`, separated by commas and, before the last, by
 * `last_separator`, each between two `quote`. Returns `text`. */
const char *qkv_choices_text(char text[static QKV_CHOICES_SIZE], const struct qkv_choices *choices,
                             uint32_t values, const char *quote, const char *last_separator);

/* The value of a text key in a struct; "" if the field is NULL. */
const char *qkv_key_text(const struct qkv_key *key, const void *config);

/* The value as it is written in a file, in the arena; NULL when there is no memory. */
const char *qkv_value_text(const struct qkv_key *key, const void *config, struct qkv_arena *arena);

/* A text as it is written in a file, with quotes if it needs them; NULL when there is no memory. */
const char *qkv_yaml_text(const char *text, struct qkv_arena *arena);

/* True when two structs have the same value of a key. Not for TEXTS and MATRIX. */
bool qkv_value_equal(const struct qkv_key *key, const void *a, const void *b);

/* A range in words: "at least 1", "between 1 and 1024". Returns `text`. */
const char *qkv_range_text(char text[static QKV_RANGE_SIZE], const struct qkv_range *range);

/* ---- messages: errors about files, collected in any order, returned file by file in the order of lines ---- */

/* A place in a file: `name:line:column`, or only `name` when line is 0. */
struct qkv_place {
    const char *name;
    int line, column;
};

/* Caller's storage; set the arena, and the rest to zero. Where memory runs out, the arena has failed, which is an error. */
struct qkv_collector {
    struct qkv_arena *arena;
    int count;    /* of `finding` */
    int left_out; /* errors beyond the capacity of `finding` */
    struct qkv_finding {
        const char *text;
        struct qkv_place place;
        int file; /* number of the file, in the order of their first errors */
    } finding[QKV_MESSAGES_MAX];
};

/* Adds one error. Its message is the place, followed by the formatted text. Returns false, so that a reader can return it. */
bool qkv_collect(struct qkv_collector *collector, struct qkv_place place, const char *format, ...)
    QKV_PRINTF(3, 4);

/* A text that was made in the arena; "" if memory ran out. */
static inline const char *qkv_kept(const char *text)
{
    return text ? text : "";
}

/* The same for a text that is formatted as by printf. */
#define QKV_KEPT(collector, ...) qkv_kept(qkv_arena_format((collector)->arena, __VA_ARGS__))

/* Returns a text of the user as it is shown in error messages: control characters as \xNN, cut after 60
 * bytes. The result is in the arena and never NULL. */
const char *qkv_printable(struct qkv_arena *arena, const char *text);

/* Whether there is an error. */
bool qkv_collector_failed(const struct qkv_collector *collector);

/* Writes the errors to `messages`, sorted by file and line. If there are more than QKV_MESSAGES_MAX, the last message tells
 * how many are not shown. That message, and that of missing memory, begin with the file `name`. Returns whether there are
 * none. */
enum qkv_status qkv_collector_finish(struct qkv_collector *collector, const char *name,
                                     struct qkv_messages *messages);

/* Collects the error about an unknown key, with what it may mean: the keys that have this name in another program, or else the
 * most similar key or section. */
void qkv_collect_unknown(struct qkv_collector *collector, const struct qkv_schema *schema,
                         struct qkv_place place, const char *path);

/* The origin of the value of a key; there is one for each row of the schema. */
struct qkv_key_source {
    struct qkv_place place; /* the key, or its override `-s key=value`; the file if the key was not given */
    int extended; /* 0: from the caller's file, or an override; 1: from the file that it extends; ... */
    bool given;
    bool bad; /* the value was refused or is missing; its error is collected */
};

/* For errors about keys, at the place where a file or an override gives them. */
struct qkv_key_check {
    const struct qkv_schema *schema;
    const struct qkv_key_source *sources; /* [schema->count], of qkv_schema_read */
    struct qkv_collector *collector;
};

/* Where the value of a key that exists came from. */
const struct qkv_key_source *qkv_key_source_of(const struct qkv_key_check *check, const char *path);

/* Collects an error about the key `path`, unless the value of `path` or of the key `other` has been refused already, or the
 * same error has been collected. Its place is that of `path`; or that of `other` if `path` was not given, or was given only in
 * a file that the file of `other` extends. */
void qkv_key_report(const struct qkv_key_check *check, const char *path, const char *other,
                    const char *format, ...) QKV_PRINTF(4, 5);

/* ---- YAML ---- */

enum { QKV_YAML_DEEPEST = 64, QKV_YAML_MAX_KEYS = 10000, QKV_YAML_LARGEST = 16 << 20 };

enum qkv_yaml_kind {
    QKV_YAML_SCALAR,
    QKV_YAML_SEQUENCE,
    QKV_YAML_MAPPING,
    QKV_YAML_REFUSED, /* a node whose error is already collected; report no second one */
};

/* A scalar has no type here: its key decides, so that the language code `no` is a text and not a boolean. */
struct qkv_yaml_node {
    enum qkv_yaml_kind kind;
    int line, column;            /* of its first character, from 1; column in characters */
    int count;                   /* sequence: items; mapping: values */
    bool plain;                  /* scalar: written without quotes; only then can it be null or a number */
    const char *text;            /* scalar: UTF-8 without NUL */
    struct qkv_yaml_node *key;   /* value of a mapping: its key, a scalar */
    struct qkv_yaml_node *first; /* sequence: items; mapping: values, in the order of the file */
    struct qkv_yaml_node *next;  /* the next item or value of the same parent */
};

/* Reads a YAML file into a tree of nodes with line and column. The file must be one document of scalars, sequences and
 * mappings whose keys are scalars. Duplicate keys, anchors, aliases and tags are errors, because people who read the file
 * can overlook their effect; so are NUL bytes, invalid UTF-8, empty files, more than QKV_YAML_DEEPEST levels and more than
 * QKV_YAML_LARGEST bytes. Returns the root, in the arena of the collector, or NULL when nothing could be read. All errors
 * are collected. Some, such as syntax errors, end reading: the tree then has only the part before the error, and *complete
 * is false. text: the contents of the file, if they are in memory; NULL: the file is read. */
struct qkv_yaml_node *qkv_yaml_read(const char *path, const char *text, struct qkv_collector *collector,
                                    bool *complete);

/* ---- reading ---- */

struct qkv_reading {
    const struct qkv_schema *schema;
    void *config;                 /* the struct of the schema, to be filled */
    const char *path;             /* of the YAML file, not of a key */
    const char *text;             /* contents of the file, if they are in memory; NULL: the file is read */
    const char *const *overrides; /* "training.learning_rate=1e-3"; read after the file */
    int override_count;
    bool extends; /* the key `extends` may name another file, whose values are read first */
    struct qkv_collector *collector; /* texts of the struct live in its arena */
    /* Results; zero them before the call: */
    struct qkv_key_source *sources; /* [schema->count], in the arena; NULL when there was no memory */
    bool complete; /* all files were read to their end; only then can rules between keys be checked */
    const struct qkv_open_file *file; /* private: the file that is being read */
};

/* Fills a struct with the defaults of its schema. False when there is no memory. */
bool qkv_schema_defaults(const struct qkv_schema *schema, void *config, struct qkv_arena *arena);

/* Fills the struct with the defaults, then with the values of the file that the given file extends, if any, then with those of
 * the given file, and then with the overrides. Collects all errors. */
void qkv_schema_read(struct qkv_reading *reading);

/* Reads the text of an override or a default into the field of a key, in the arena of the collector. False after collecting an
 * error at `place`; the field is then unchanged. */
bool qkv_value_read_text(const struct qkv_key *key, const char *text, struct qkv_place place, void *config,
                         struct qkv_collector *collector);

/* Checks the value of a key that a program has set; false after collecting an error at `place`. is_required: the texts without
 * default must not be empty. Not for TEXTS and MATRIX. */
bool qkv_value_check(const struct qkv_key *key, const void *config, struct qkv_place place, bool is_required,
                     struct qkv_collector *collector);
