/* Finds keys that a config sets although nothing reads them. */
#include "config/config_keys.h"
#include "config/finish.h"
#include "config/value.h"

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

/* Writes the sentence about a key that is read only when the choice key `reader` has one of `values`. False: memory runs out. */
static bool describe(const struct qkv_config *config, const struct qkv_key *key, const struct qkv_key *reader,
                     uint32_t values, struct qkv_arena *arena, struct qkv_error *sentence)
{
    char readers[QKV_CHOICES_SIZE];
    const char *value = qkv_value_text(key, config, arena), *chosen = qkv_value_text(reader, config, arena);
    if (!value || !chosen) return false;
    qkv_error_set(sentence, "%s is %s, but has an effect only when %s is %s (it is %s)", key->path, value,
                  reader->path, qkv_choices_text(readers, reader->choices, values, "", " or "), chosen);
    return true;
}

enum qkv_status qkv_config_each_unread(const struct qkv_config *config,
                                       void (*each)(void *context, const char *sentence), void *context)
{
    struct qkv_arena arena = {0};
    bool done = true;
    for (int i = 0; i < qkv_config_schema.count && done; i++) {
        const struct qkv_key *key = &qkv_config_schema.keys[i];
        uint32_t values;
        const struct qkv_key *reader = qkv_key_used_by_choice(&qkv_config_schema, key, &values);
        struct qkv_error sentence;
        /* A key of another role, such as training.updates, is not only read with these choices. */
        if (!reader || key->role != QKV_ROLE_TRAJECTORY || qkv_key_is_one_of(reader, config, values) ||
            is_default(config, key, &arena, &done))
            continue;
        done = done && describe(config, key, reader, values, &arena, &sentence);
        if (done) each(context, sentence.message);
    }
    qkv_arena_release(&arena);
    return done ? QKV_OK : QKV_INVALID;
}
