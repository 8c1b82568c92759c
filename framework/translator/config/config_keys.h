/* Private to the translator: the table of the keys of a config, and what follows from it. The schema's struct is struct
 * qkv_config. */
#pragma once

#include "config/schema.h"

extern const struct qkv_schema qkv_config_schema;

/* `<enum>_choices`, the values as a config names them, for each enum of qkv/choices.def and qkv/engine_choices.def. */
#define CHOICES(type)
#define CHOICE(value, name, help)
#define CHOICE_OF_OPTIONS(value, ...)
#define INTERNAL(value, name)
#define CHOICES_END(type) extern const struct qkv_choices type##_choices;
#include "qkv/choices.def"
#include "qkv/engine_choices.def"
#undef CHOICES
#undef CHOICE
#undef CHOICE_OF_OPTIONS
#undef INTERNAL
#undef CHOICES_END

/* The enums of qkv/config.h, qkv/graph.h and qkv/base.h. */
extern const struct qkv_choices qkv_alignment_reading_choices, qkv_attention_kernel_choices,
    qkv_precision_choices;

/* ---- config_check.c ---- */

/* True when a config without the key would have the same value: the default, or the value that finishing derives from it. */
bool qkv_key_is_derivable(const struct qkv_key *key, const struct qkv_config *config,
                          struct qkv_arena *arena);

/* Like qkv_config_finish, for a config that must have everything that training needs: the required texts, and an end. */
enum qkv_status qkv_config_finish_training(struct qkv_config *config, struct qkv_arena *arena,
                                           struct qkv_messages *messages);

/* Like qkv_config_finish, for the config of a model without data and training. */
enum qkv_status qkv_model_config_finish(struct qkv_model_config *model, struct qkv_error *error);

/* Calls `each` with a sentence for each key that is not at its default although the config does not read it. Such keys are not
 * refused, so that run folders that have them can be opened. Fails when memory runs out. */
enum qkv_status qkv_config_each_unread(const struct qkv_config *config,
                                       void (*each)(void *context, const char *sentence), void *context);

/* ---- config_to_engine.c ---- */

/* Returns the complete rule of one kind of attention of a transformer. Encoder self-attention
 * follows model.encoder; decoder self-attention and cross attention follow model.decoder. Cross
 * attention has no window, global tokens, ALiBi and buckets. */
struct qkv_attention_rule qkv_attention_rule_from_config(const struct qkv_model_config *model,
                                                         enum qkv_attention_kind kind);

/* The longest sentence of a side that the model has positions for, in tokens with </s>. INT32_MAX where there is no limit: in
 * recurrent stacks, and with positions that need no table (none, alibi, relative). */
int64_t qkv_max_length(const struct qkv_model_config *model, bool is_target);

/* The schedule of a training; `hidden_size`: of the decoder. */
struct qkv_schedule qkv_schedule_from_config(const struct qkv_training_config *training, int64_t hidden_size);

/* ---- config_keys.c ---- */

/* Which keys qkv_config_each visits. The row of a key in the table of keys says which selections the key belongs to. */
enum qkv_config_selection {
    QKV_KEYS_FIXED_BY_MODEL,  /* keys on which the meaning of trained parameters depends */
    QKV_KEYS_FIXED_ON_RESUME, /* also all other keys on which the result of training depends */
    QKV_KEYS_WITH_EFFECT,     /* keys that this config uses: num_heads of transformers only, for example */
};

/* Calls `each` with the path and the value of every selected key, in the order of the table; the value is
 * written as in a config and lives until `each` returns. Ends early when `each` returns false. QKV_INVALID when
 * `each` returned false or there is no memory. */
enum qkv_status qkv_config_each(const struct qkv_config *config, enum qkv_config_selection selection,
                                bool (*each)(void *context, const char *path, const char *value),
                                void *context);

/* Writes every key for the file config.yaml of the run `folder`, which exists. Each path is written as a list of two,
 * relative to the folder and absolute, so that the file is found after the folder was moved, whether or not the file was
 * moved along; an absolute path that is not valid UTF-8 is left out. QKV_INVALID when a relative path is not valid UTF-8,
 * the file cannot be written, or there is no memory. */
enum qkv_status qkv_config_write_run(const struct qkv_config *config, FILE *file, const char *folder);

/* Fails when the config.yaml of the run `folder`, which need not exist yet, cannot name one of the paths, because the path
 * relative to the folder is not valid UTF-8. */
enum qkv_status qkv_config_check_run_paths(const struct qkv_config *config, const char *folder,
                                           struct qkv_error *error);

/* The path of key number `index`, from 0: "model.encoder.num_heads". NULL after the last. A qkv_name_lister (core/text.h);
 * `context` is not used. */
const char *qkv_config_key(const void *context, int64_t index);
