#include "config/finish.h"

#include "config/config_keys.h"
#include "config/normalise.h"
#include "config/rules.h"
#include "config/value.h"

#include <math.h>
#include <string.h>

static const struct qkv_place PLACE = {.name = "config"};

/* Collects an error and returns false when a text is missing. */
static bool check_text(const struct qkv_key *key, const char *text, bool is_required,
                       struct qkv_collector *collector)
{
    if (!text)
        qkv_collect(collector, PLACE, "%s is NULL, but must be a text", key->path);
    else if (is_required && !key->fallback && !*text)
        qkv_collect(collector, PLACE, "%s must not be empty", key->path);
    else
        return true;
    return false;
}

/* Collects an error and returns false when the value of a key is not allowed in a file. */
static bool check_value(const struct qkv_key *key, const struct qkv_config *config, bool is_required,
                        struct qkv_collector *collector)
{
    const void *value = qkv_key_value(key, config);
    int numbers = key->kind == QKV_KEY_NUMBER ? 1 : key->kind == QKV_KEY_PAIR ? 2 : 0;
    if (key->kind == QKV_KEY_TEXT)
        return check_text(key, *(const char *const *)value, is_required, collector);
    for (int i = 0; i < numbers; i++) {
        if (isfinite(((const double *)value)[i])) continue;
        qkv_collect(collector, PLACE, "%s is not a finite number", key->path);
        return false;
    }
    struct qkv_config same = *config;
    const char *text = qkv_value_text(key, config, collector->arena);
    if (text) return qkv_value_read_text(key, text, PLACE, &same, collector->arena, collector);
    qkv_collect_no_memory(collector, PLACE.name);
    return false;
}

/* Among the keys whose path begins with `prefix`, checks either the choices or all other keys. In the config of a model alone,
 * a key that has no effect may have any value. */
static bool check_values(const struct qkv_config *config, const char *prefix, bool choices,
                         enum qkv_rules rules, struct qkv_collector *collector)
{
    bool good = true;
    for (int i = 0; i < qkv_config_schema.count; i++) {
        const struct qkv_key *key = &qkv_config_schema.keys[i];
        if ((key->kind == QKV_KEY_CHOICE) != choices || strncmp(key->path, prefix, strlen(prefix)) != 0)
            continue;
        if (!choices && rules == QKV_RULES_OF_MODEL &&
            qkv_key_without_effect(&qkv_config_schema, key, config))
            continue;
        good &= check_value(key, config, rules == QKV_RULES_OF_TRAINING, collector);
    }
    return good;
}

/* Checks the keys whose path begins with `prefix`, choices first, because they decide which keys have an effect. If all are
 * valid, checks the rules between keys. */
static void check(const struct qkv_config *config, const char *prefix, enum qkv_rules rules,
                  struct qkv_collector *collector)
{
    const struct qkv_schema *schema = &qkv_config_schema;
    bool good = check_values(config, prefix, true, rules, collector);
    good = good && check_values(config, prefix, false, rules, collector);
    struct qkv_key_source *sources =
        qkv_arena_zeroed(collector->arena, (size_t)schema->count * sizeof *sources);
    for (int i = 0; sources && i < schema->count; i++) sources[i].place = PLACE;
    if (!sources)
        qkv_collect_no_memory(collector, PLACE.name);
    else if (good)
        qkv_config_check_rules(config, sources, rules, collector);
}

/* Replaces NULL by "" in the texts that a program may leave out. */
static void replace_null(struct qkv_model_config *model, struct qkv_training_config *training)
{
    if (!model->network) model->network = "";
    if (!model->settings) model->settings = "";
    if (training && !training->parameter_rates) training->parameter_rates = "";
}

static enum qkv_status finish(struct qkv_config *config, enum qkv_rules rules, struct qkv_arena *arena,
                              struct qkv_messages *messages)
{
    struct qkv_collector collector = {.arena = arena};
    replace_null(&config->model, &config->training);
    check(config, "", rules, &collector);
    if (!collector.count && !qkv_config_normalise(config, arena))
        qkv_collect_no_memory(&collector, PLACE.name);
    qkv_collector_finish(&collector, PLACE.name, messages);
    return messages->count ? QKV_INVALID : QKV_OK;
}

enum qkv_status qkv_config_finish(struct qkv_config *config, struct qkv_arena *arena,
                                  struct qkv_messages *messages)
{
    return finish(config, QKV_RULES_OF_CONFIG, arena, messages);
}

enum qkv_status qkv_config_finish_training(struct qkv_config *config, struct qkv_arena *arena,
                                           struct qkv_messages *messages)
{
    return finish(config, QKV_RULES_OF_TRAINING, arena, messages);
}

/* Turns the first error of the collector into `error`, and releases the arena. */
static enum qkv_status first_error(struct qkv_collector *collector, struct qkv_error *error)
{
    enum qkv_status status =
        collector->count ? qkv_error_set(error, "%s", collector->finding[0].text) : QKV_OK;
    qkv_arena_release(collector->arena);
    return status;
}

enum qkv_status qkv_model_config_finish(struct qkv_model_config *model, struct qkv_error *error)
{
    struct qkv_arena arena = {0};
    struct qkv_collector collector = {.arena = &arena};
    replace_null(model, NULL);
    /* A config with nothing but the model: its vocabularies and sentences are up to the caller. */
    const struct qkv_config config = {.model = *model, .data.joint_vocabulary = true};
    check(&config, "model.", QKV_RULES_OF_MODEL, &collector);
    if (!collector.count) qkv_model_config_normalise(model);
    return first_error(&collector, error);
}
