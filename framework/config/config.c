/* Reads a config: defaults, file, overrides, then the rules between keys. */
#include "config/config_keys.h"
#include "config/normalise.h"
#include "config/reader.h"
#include "config/rules.h"

enum qkv_status qkv_config_read(struct qkv_config *config, struct qkv_arena *arena, const char *path,
                                const char *const *overrides, int override_count,
                                struct qkv_messages *messages)
{
    struct qkv_collector collector = {.arena = arena};
    struct qkv_key_source *sources = NULL;
    bool complete = false;
    if (qkv_schema_defaults(&qkv_config_schema, config, sizeof *config, arena))
        sources = qkv_schema_read(&qkv_config_schema, config, arena, path, overrides, override_count,
                                  &collector, &complete);
    else
        qkv_collect_no_memory(&collector, path);
    if (sources && complete) qkv_config_check_rules(config, sources, &collector);
    if (!collector.count && !qkv_config_normalise(config, arena)) qkv_collect_no_memory(&collector, path);
    qkv_collector_finish(&collector, path, messages);
    return messages->count ? QKV_INVALID : QKV_OK;
}

int64_t qkv_stack_longest(const struct qkv_stack_config *stack)
{
    enum qkv_position_kind kind = stack->positions.type;
    bool table =
        kind == QKV_POSITION_SINUSOIDAL || kind == QKV_POSITION_LEARNED || kind == QKV_POSITION_ROTARY;
    return stack->type == QKV_NETWORK_TRANSFORMER && table ? stack->positions.max_length : INT32_MAX;
}

enum qkv_status qkv_config_default(struct qkv_config *config, struct qkv_arena *arena, const char *name)
{
    if (!qkv_schema_defaults(&qkv_config_schema, config, sizeof *config, arena)) return QKV_INVALID;
    config->name = name;
    return qkv_config_normalise(config, arena) ? QKV_OK : QKV_INVALID;
}
