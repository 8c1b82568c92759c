/* Reads a config: defaults, file, overrides, then the rules between keys. */
#include "config/config_keys.h"
#include "config/key_check.h"
#include "config/normalise.h"
#include "config/path.h"
#include "config/rules.h"

enum qkv_status qkv_config_read(struct qkv_config *config, struct qkv_arena *arena, const char *path,
                                const char *const *overrides, int override_count,
                                struct qkv_messages *messages)
{
    struct qkv_collector collector = {.arena = arena};
    struct qkv_reading reading = {.schema = &qkv_config_schema,
                                  .config = config,
                                  .path = path,
                                  .overrides = overrides,
                                  .override_count = override_count,
                                  .extends = true,
                                  .arena = arena,
                                  .collector = &collector};
    qkv_schema_read(&reading);
    if (reading.complete) qkv_config_check_rules(config, reading.sources, QKV_RULES_OF_TRAINING, &collector);
    /* The config of a run names the folder where it was trained, but the run may have been moved since. */
    const struct qkv_key_check check = {&qkv_config_schema, reading.sources, &collector};
    const char *run = reading.complete ? qkv_path_run_folder(arena, path) : NULL;
    if (run && qkv_key_source_of(&check, "training.model_dir")->place.line) config->training.model_dir = run;
    if (!collector.count && !qkv_config_normalise(config, arena)) qkv_collect_no_memory(&collector, path);
    qkv_collector_finish(&collector, path, messages);
    return messages->count ? QKV_INVALID : QKV_OK;
}

int64_t qkv_stack_max_length(const struct qkv_stack_config *stack)
{
    enum qkv_position_kind kind = stack->positions.type;
    bool table =
        kind == QKV_POSITION_SINUSOIDAL || kind == QKV_POSITION_LEARNED || kind == QKV_POSITION_ROTARY;
    return stack->type == QKV_NETWORK_TRANSFORMER && table ? stack->positions.max_length : INT32_MAX;
}

enum qkv_status qkv_config_default(struct qkv_config *config, struct qkv_arena *arena, const char *name)
{
    if (!qkv_schema_defaults(&qkv_config_schema, config, arena)) return QKV_INVALID;
    config->name = name;
    return QKV_OK;
}
