/* Fuzz target: a scene. One that is accepted and small is explained; the length of the input chooses the format. */
#include "harness.h"

#include "explain/explain.h"

/* Whether explaining takes milliseconds: large scenes are allowed, and slow. A scene with a run reads other files. */
static bool is_small(const struct qkv_scene *scene)
{
    int64_t words = scene->tokens.count + scene->source.count + scene->positions.rows;
    int64_t width = scene->width + scene->source_width + scene->attention.key_width +
                    scene->attention.value_width + scene->attention.hidden_width +
                    scene->weights.output.columns;
    return words <= 64 && width <= 64 && scene->attention.heads <= 16 && !*scene->run.path;
}

static void render(const struct qkv_explanation *explanation, const struct qkv_format *format)
{
    char *bytes RELEASED(free_memory) = NULL;
    size_t size;
    struct qkv_error error = {""};
    struct qkv_format_options options = {.full = true, .annotate = true};
    if (qkv_explanation_render(explanation, 1, format, &options, &bytes, &size, &error)) {
        require_message(&error);
        return;
    }
    if (!format->binary) require_text(bytes, size, TEXT_XML);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct qkv_arena arena RELEASED(qkv_arena_release) = {0};
    struct qkv_scene scene;
    struct qkv_messages messages;
    struct qkv_explanation explanation;
    struct qkv_error error = {""};
    int64_t formats = 0;
    while (qkv_format(formats)) formats++;
    if (qkv_scene_read(&scene, &arena, write_file("scene.yaml", data, size), NULL, NULL, 0, &messages))
        require_messages(&messages);
    else if (is_small(&scene) && qkv_explain_scene(&scene, &arena, &explanation, &error))
        require_message(&error);
    else if (is_small(&scene))
        render(&explanation, qkv_format((int64_t)size % formats));
    return 0;
}
