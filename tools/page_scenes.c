#include "page_scenes.h"

#include "config.h"
#include "explain/scene.h"
#include "page/page_files.h"
#include "print.h"

#include <cjson/cJSON.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct block {
    unsigned char *bytes;
    size_t size, capacity;
};

static bool add(void *context, void *bytes, size_t size)
{
    struct block *block = context;
    if (size > block->capacity - block->size) {
        size_t capacity = 2 * (block->size + size);
        unsigned char *grown = realloc(block->bytes, capacity);
        if (!grown) return false;
        block->bytes = grown;
        block->capacity = capacity;
    }
    if (size) memcpy(block->bytes + block->size, bytes, size);
    block->size += size;
    return true;
}

/* Whether two explanations of a scene have the same numbers. */
static bool is_same(const struct qkv_explanation *a, const struct qkv_explanation *b)
{
    for (int64_t i = 0; i < a->step_count; i++) {
        const struct qkv_step *step = &a->steps[i];
        int64_t count = (step->heads ? step->heads : 1) * step->rows * step->columns;
        if (memcmp(step->values, b->steps[i].values, (size_t)count * sizeof *step->values) != 0) return false;
    }
    return true;
}

/* Finds out whether the numbers of a scene depend on the seed. */
static enum qkv_status find_random(const struct qkv_scene *scene, struct qkv_arena *arena, bool *is_random,
                                   struct qkv_error *error)
{
    struct qkv_explanation with_seed, other;
    struct qkv_scene drawn = *scene;
    drawn.random.seed = scene->random.seed ? scene->random.seed - 1 : 1;
    if (qkv_explain_scene(scene, arena, &with_seed, error) || qkv_explain_scene(&drawn, arena, &other, error))
        return QKV_INVALID;
    *is_random = !is_same(&with_seed, &other);
    return QKV_OK;
}

static enum qkv_status read_scene(struct qkv_scene *scene, const char *path, const char *text,
                                  struct qkv_arena *arena, struct qkv_error *error)
{
    struct qkv_messages messages;
    if (qkv_scene_read(scene, arena, path, text, NULL, 0, &messages))
        return refuse_scene(path, &messages, arena, error);
    if (*scene->run.path)
        return qkv_error_set(error,
                             "%strained numbers cannot be in a page of scenes: `qkv page %s` makes the page "
                             "of that run",
                             qkv_scene_place(scene, "run.path", arena), scene->run.path);
    return QKV_OK;
}

/* Reads a scene, lists it and adds it to the block. text, tutorial: of a scene that is built into this program; otherwise
 * NULL. */
static enum qkv_status add_scene(struct block *block, cJSON *list, const char *path, const char *text,
                                 const char *tutorial, struct qkv_arena *arena, struct qkv_error *error)
{
    struct qkv_scene scene;
    bool is_random;
    if (read_scene(&scene, path, text, arena, error) || find_random(&scene, arena, &is_random, error))
        return QKV_INVALID;
    const char *slash = strrchr(path, '/'), *file = slash ? slash + 1 : path;
    cJSON *object = cJSON_CreateObject();
    cJSON_AddItemToArray(list, object);
    if (tutorial) cJSON_AddStringToObject(object, "tutorial", tutorial);
    cJSON_AddStringToObject(object, "file", file);
    cJSON_AddStringToObject(object, "name", *scene.name ? scene.name : file);
    cJSON_AddStringToObject(object, "about", scene.about);
    cJSON_AddNumberToObject(object, "seed", (double)scene.random.seed);
    cJSON_AddBoolToObject(object, "isRandom", is_random);
    if (!qkv_scene_pass(&scene, add, block, arena)) return qkv_error_set(error, "out of memory for the page");
    return QKV_OK;
}

static enum qkv_status add_scenes(struct block *block, cJSON *list, int count, char **files,
                                  struct qkv_arena *arena, struct qkv_error *error)
{
    int64_t total = count;
    while (!count && page_scene(total)) total++;
    if (!add(block, &total, sizeof total)) return qkv_error_set(error, "out of memory for the page");
    for (int64_t i = 0; i < total; i++) {
        const struct page_scene *built_in = count ? NULL : page_scene(i);
        if (add_scene(block, list, built_in ? built_in->file : files[i],
                      built_in ? (const char *)built_in->text : NULL, built_in ? built_in->tutorial : NULL,
                      arena, error))
            return QKV_INVALID;
    }
    return QKV_OK;
}

enum qkv_status page_scenes_collect(struct page_contents *contents, int count, char **files,
                                    struct qkv_arena *arena, struct qkv_error *error)
{
    struct block block = {0};
    cJSON *list = cJSON_CreateArray();
    enum qkv_status status = add_scenes(&block, list, count, files, arena, error);
    if (!status) contents->scenes = cJSON_PrintUnformatted(list);
    cJSON_Delete(list);
    contents->model = block.bytes;
    contents->model_size = block.size;
    contents->opening_sentence = contents->model_summary = "";
    if (!status && (!contents->scenes || json_memory_is_out()))
        status = qkv_error_set(error, "out of memory for the page");
    return status;
}
