/* Fuzz target: overrides, as in `qkv train -s KEY=VALUE`; one a line. The same lines override a config and a scene. */
#include "harness.h"

#include "explain/explain.h"

static const char CONFIG[] = "name: a\n"
                             "data: {train: a.tsv, src: {lang: en}, trg: {lang: es}}\n"
                             "training: {updates: 1}\n";
static const char SCENE[] = "tokens: [a, b]\n"
                            "embeddings: {from: random, width: 2}\n"
                            "weights: {from: random}\n";

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    enum { CAPACITY = 64 };
    struct input input = {data, size};
    struct qkv_arena arena RELEASED(qkv_arena_release) = {0};
    const char *overrides[CAPACITY];
    const int count = take_lines(&input, CAPACITY, overrides, &arena);
    struct qkv_config config;
    struct qkv_scene scene;
    struct qkv_messages messages;
    const char *path = write_file("config.yaml", CONFIG, sizeof CONFIG - 1);
    if (qkv_config_read(&config, &arena, path, overrides, count, &messages)) require_messages(&messages);
    path = write_file("scene.yaml", SCENE, sizeof SCENE - 1);
    if (qkv_scene_read(&scene, &arena, path, NULL, overrides, count, &messages)) require_messages(&messages);
    return 0;
}
