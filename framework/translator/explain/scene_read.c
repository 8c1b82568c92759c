/* Reads a scene file. */
#include "explain/scene_check.h"

struct qkv_scene_places {
    const char *file;
    const struct qkv_key_source *sources;
};

enum qkv_status qkv_scene_read(struct qkv_scene *scene, struct qkv_arena *arena, const char *path,
                               const char *const *overrides, int override_count,
                               struct qkv_messages *messages)
{
    return qkv_scene_read_text(scene, arena, path, NULL, overrides, override_count, messages);
}

enum qkv_status qkv_scene_read_text(struct qkv_scene *scene, struct qkv_arena *arena, const char *path,
                                    const char *text, const char *const *overrides, int override_count,
                                    struct qkv_messages *messages)
{
    struct qkv_collector collector = {.arena = arena};
    struct qkv_reading reading = {.schema = &qkv_scene_schema,
                                  .config = scene,
                                  .path = path,
                                  .text = text,
                                  .overrides = overrides,
                                  .override_count = override_count,
                                  .arena = arena,
                                  .collector = &collector};
    struct qkv_scene_places *places = qkv_arena_zeroed(arena, sizeof *places);
    qkv_schema_read(&reading);
    if (places) {
        *places = (struct qkv_scene_places){path, reading.sources};
        scene->places = places;
    } else {
        qkv_collect_no_memory(&collector, path);
    }
    /* The rules between keys are checked only when every key is valid. */
    const struct scene_check check = {scene, path, {&qkv_scene_schema, reading.sources, &collector}};
    if (reading.complete && !collector.count) qkv_scene_check(&check);
    qkv_collector_finish(&collector, path, messages);
    return messages->count ? QKV_INVALID : QKV_OK;
}

const char *qkv_scene_place(const struct qkv_scene *scene, const char *key, struct qkv_arena *arena)
{
    const struct qkv_scene_places *places = scene->places;
    const struct qkv_key *row = qkv_schema_find(&qkv_scene_schema, key);
    if (!places) return ""; /* the scene was not read */
    const struct qkv_place *place = row ? &places->sources[row - qkv_scene_schema.keys].place : NULL;
    const char *text = place && place->line
                           ? qkv_arena_format(arena, "%s:%d:%d: ", place->name, place->line, place->column)
                           : qkv_arena_format(arena, "%s: ", places->file);
    return text ? text : "";
}
