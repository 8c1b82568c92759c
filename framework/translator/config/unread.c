/* Finds keys that a config sets although nothing reads them. */
#include "config/config_keys.h"
#include "config/finish.h"
#include "config/value.h"

#include <string.h>

/* Whether a key has its default. When memory runs out, returns false and sets *done to false. */
static bool is_default(const struct qkv_config *config, const struct qkv_key *key, struct qkv_arena *arena,
                       bool *done)
{
    struct qkv_config changed = *config;
    struct qkv_collector ignored = {.arena = arena};
    *done = qkv_value_read_text(key, key->fallback, (struct qkv_place){.name = key->path}, &changed, arena,
                                &ignored);
    return *done && qkv_value_equal(key, config, &changed);
}

/* Writes the sentence about a key that is read only when `reader` meets the condition. False: memory runs out. */
static bool describe(const struct qkv_config *config, const struct qkv_key *key, const struct qkv_key *reader,
                     const char *condition, struct qkv_arena *arena, struct qkv_error *sentence)
{
    const char *value = qkv_value_text(key, config, arena), *chosen = qkv_value_text(reader, config, arena);
    if (!value || !chosen) return false;
    qkv_error_set(sentence, "%s is %s, but has an effect only when %s is %s (it is %s)", key->path, value,
                  reader->path, condition, chosen);
    return true;
}

/* Returns the key that decides whether `key` is read, and writes the condition that it must meet but does not; otherwise
 * NULL. */
static const struct qkv_key *unmet_reader(const struct qkv_config *config, const struct qkv_key *key,
                                          char condition[static QKV_CHOICES_SIZE])
{
    uint32_t values;
    if (key->read_with) {
        const struct qkv_key *number = qkv_schema_find(&qkv_config_schema, key->read_with);
        QKV_BUG(!number || number->kind != QKV_KEY_NUMBER, "%s: %s is not a number", key->path,
                key->read_with);
        strcpy(condition, "above 0");
        return *(const double *)qkv_key_value(number, config) > 0 ? NULL : number;
    }
    const struct qkv_key *choice = qkv_key_used_by_choice(&qkv_config_schema, key, &values);
    /* A key of another role, such as training.updates, is not only read with these choices. */
    if (!choice || key->role != QKV_ROLE_TRAJECTORY || qkv_key_is_one_of(choice, config, values)) return NULL;
    qkv_choices_text(condition, choice->choices, values, "", " or ");
    return choice;
}

enum qkv_status qkv_config_each_unread(const struct qkv_config *config,
                                       void (*each)(void *context, const char *sentence), void *context)
{
    struct qkv_arena arena = {0};
    bool done = true;
    for (int i = 0; i < qkv_config_schema.count && done; i++) {
        const struct qkv_key *key = &qkv_config_schema.keys[i];
        char condition[QKV_CHOICES_SIZE];
        const struct qkv_key *reader = unmet_reader(config, key, condition);
        struct qkv_error sentence;
        if (!reader || is_default(config, key, &arena, &done)) continue;
        done = done && describe(config, key, reader, condition, &arena, &sentence);
        if (done) each(context, sentence.message);
    }
    qkv_arena_release(&arena);
    return done ? QKV_OK : QKV_INVALID;
}
