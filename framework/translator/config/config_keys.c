/* The table of the keys of a config, and what is listed and written from it. */
#include "config/config_keys.h"
#include "core/memory.h"

#include "config/path.h"
#include "core/text.h"

#include <errno.h>

/* ---- the enums of the engine, whose names core/choices.c defines ---- */

#define CHOICES(type)                                     static const struct qkv_choice type##_list[] = {
#define CHOICE(value, name, help)                         [value] = {name, help, NULL, NULL},
#define INTERNAL(value, name)                             [value] = {name, NULL, NULL, NULL},
#define CHOICE_OF_OPTIONS(value, name, uses, needs, help) [value] = {name, help, uses, needs},
/* A list of keys, which ends with NULL or "". The compiler joins the "" before the arguments with the first key; without
 * arguments, it is the end of an empty list. */
#define USES(...)    ((const char *const[]){"" __VA_ARGS__, NULL})
#define NEEDS(...)   USES(__VA_ARGS__)
#define OPTION(name) "training." #name
#define VALIDATIONS                                                                                          \
    "training.validation_freq", "testing.beam_size", "testing.beam_alpha", "testing.max_output_length"
#define VALIDATED_DATA "data.dev"
#define CHOICES_END(type)                                                                                    \
    }                                                                                                        \
    ;                                                                                                        \
    const struct qkv_choices type##_choices = {type##_list, sizeof type##_list / sizeof *type##_list};
#include "qkv/engine_choices.def"

CHOICES(qkv_alignment_reading)
CHOICE(QKV_READING_PREDICTED, "predicted", "the step that predicts it")
CHOICE(QKV_READING_READ, "read", "the step that reads it, which is the next one")
CHOICES_END(qkv_alignment_reading)

CHOICES(qkv_attention_kernel)
CHOICE(QKV_KERNEL_AUTO, "auto", "`flash` for long sentences, `exact` for short ones")
CHOICE(QKV_KERNEL_EXACT, "exact",
       "keeps the attention weights for the gradient: memory grows with the square of the length")
CHOICE(QKV_KERNEL_FLASH, "flash",
       "recomputes the weights for the gradient: memory grows linearly with the length")
CHOICES_END(qkv_attention_kernel)

CHOICES(qkv_precision)
CHOICE(QKV_PRECISION_FLOAT32, "float32", "")
CHOICE(
    QKV_PRECISION_BFLOAT16, "bfloat16",
    "8 bits of mantissa; faster where `qkv --version` names an instruction for it, a little slower elsewhere")
CHOICE(QKV_PRECISION_AUTO, "auto",
       "the one in which the products of this model take less time on this machine, measured when training "
       "starts; the run's "
       "config names it, so a resumed or copied run computes the same everywhere")
INTERNAL(QKV_PRECISION_INT8, "int8")
CHOICES_END(qkv_precision)

/* ---- the enums of the translator, with their names ---- */

#undef CHOICES_END
#define CHOICES_END(type)                                                                                    \
    }                                                                                                        \
    ;                                                                                                        \
    const struct qkv_choices type##_choices = {type##_list, sizeof type##_list / sizeof *type##_list};       \
    const char *type##_name(enum type value)                                                                 \
    {                                                                                                        \
        return qkv_choice_name(&type##_choices, (int)value);                                                 \
    }
#include "qkv/choices.def"

/* ---- the keys ---- */

#undef CHOICES
#undef CHOICE
#undef CHOICE_OF_OPTIONS
#undef INTERNAL
#undef CHOICES_END
#define KEY_STRUCT struct qkv_config
#define KEY_TABLE  "config/config_keys.def"
#include "config/key_rows.h"

static const struct qkv_key keys[] = {
#include KEY_TABLE
};

static const struct qkv_other_names other_names[] = {
#define OTHER_NAMES(key, ...) {key, (const char *const[]){__VA_ARGS__, NULL}},
#include "config/other_names.def"
#undef OTHER_NAMES
};

const struct qkv_schema qkv_config_schema = {
    .keys = keys,
    .count = sizeof keys / sizeof *keys,
    .size = sizeof(KEY_STRUCT),
    .other_names = other_names,
    .other_name_count = sizeof other_names / sizeof *other_names,
    .twins = {"data.src", "data.trg"},
};

const char *qkv_config_key(const void *context, int64_t index)
{
    (void)context;
    return index >= 0 && index < qkv_config_schema.count ? keys[index].path : NULL;
}

static bool is_selected(const struct qkv_key *key, enum qkv_config_selection selection,
                        const struct qkv_config *config)
{
    if (selection == QKV_KEYS_WITH_EFFECT)
        return !qkv_key_unmet(&qkv_config_schema, key, config, QKV_WITHOUT_EFFECT_REFUSED).key;
    if (selection == QKV_KEYS_FIXED_BY_MODEL || key->role == QKV_ROLE_MODEL)
        return key->role == QKV_ROLE_MODEL;
    /* A resumed run must keep what its parameters depend on; a key in the USES() of some choice only while the config selects
     * such a choice. */
    const struct qkv_condition use = qkv_key_use(&qkv_config_schema, key);
    return use.key ? qkv_key_is_one_of(qkv_key_at(&qkv_config_schema, use.key), config, use.values)
                   : key->role == QKV_ROLE_TRAJECTORY;
}

enum qkv_status qkv_config_each(const struct qkv_config *config, enum qkv_config_selection selection,
                                bool (*each)(void *context, const char *path, const char *value),
                                void *context)
{
    struct qkv_arena arena = {0};
    bool done = true;
    for (int i = 0; i < qkv_config_schema.count && done; i++) {
        if (!is_selected(&keys[i], selection, config)) continue;
        const char *value = qkv_value_text(&keys[i], config, &arena);
        done = value && each(context, keys[i].path, value);
    }
    qkv_arena_release(&arena);
    return done ? QKV_OK : QKV_INVALID;
}

/* ---- YAML ---- */

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

/* The value of a key as it is written to a file in `folder`. A path is written in two forms: a relative one, which stays valid
 * when the folder is moved together with the file that it names, and an absolute one, for when the folder is moved alone. The
 * second is left out if it is not valid UTF-8, which YAML must be. folder NULL: the value is written unchanged. */
static const char *value_for(const struct qkv_key *key, const struct qkv_config *config, const char *folder,
                             struct qkv_arena *arena, struct qkv_error *error)
{
    const char *path = folder && key->is_path ? qkv_key_text(key, config) : "", *relative, *absolute;
    if (!*path || !strcmp(path, "-")) return qkv_value_text(key, config, arena);
    if (!qkv_path_in_folder(arena, folder, path, &relative, &absolute)) {
        qkv_error_set(error, "%s: cannot be resolved: %s", path, strerror(errno));
        return NULL;
    }
    if (!qkv_is_utf8(relative)) {
        qkv_error_set(error,
                      "%s is %s, which the config of the run cannot name, because it is not valid UTF-8: "
                      "rename the file or its folder",
                      key->path, path);
        return NULL;
    }
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
        const struct qkv_key *key = &keys[i];
        bool is_absent = !key->fallback && !*qkv_key_text(key, config) &&
                         qkv_key_unmet(&qkv_config_schema, key, config, QKV_WITHOUT_EFFECT_REFUSED).key;
        if (is_absent || (!full && qkv_key_is_derivable(key, config, &arena))) continue;
        const char *value = value_for(key, config, folder, &arena, NULL);
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
    qkv_no_memory(error); /* unless another reason is found */
    for (int i = 0; i < qkv_config_schema.count && !status; i++)
        if (!value_for(&keys[i], config, folder, &arena, error)) status = QKV_INVALID;
    qkv_arena_release(&arena);
    return status;
}
