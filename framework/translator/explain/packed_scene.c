#include "explain/packed_scene.h"

#include "explain/scene_keys.h"

#include <string.h>

enum { LONGEST = 1 << 24 }; /* bytes of a text, numbers of a matrix: far more than a page can show */

struct passing {
    qkv_pass pass;
    void *context;
    struct qkv_arena *arena;
};

static bool pass(const struct passing *p, void *bytes, size_t size)
{
    return p->pass(p->context, bytes, size);
}

/* Returns the memory `there` of a scene that is packed; allocates it for a scene that is unpacked. */
static void *storage(const struct passing *p, const void *there, int64_t count, size_t size)
{
    if (count < 0 || count > LONGEST) return NULL;
    return there ? (void *)there : qkv_arena_zeroed(p->arena, (size_t)count * size + 1);
}

static bool pass_text(const struct passing *p, const char **text)
{
    int64_t length = *text ? (int64_t)strlen(*text) : 0;
    if (!pass(p, &length, sizeof length)) return false;
    char *bytes = storage(p, *text, length, 1);
    *text = bytes;
    return bytes && pass(p, bytes, (size_t)length);
}

static bool pass_texts(const struct passing *p, struct qkv_texts *texts)
{
    if (!pass(p, &texts->count, sizeof texts->count)) return false;
    const char **list = storage(p, texts->text, texts->count, sizeof *list);
    bool passed = list != NULL;
    texts->text = list;
    for (int64_t i = 0; passed && i < texts->count; i++) passed = pass_text(p, &list[i]);
    return passed;
}

static bool pass_matrix(const struct passing *p, struct qkv_matrix *matrix)
{
    if (!pass(p, &matrix->rows, sizeof matrix->rows) || !pass(p, &matrix->columns, sizeof matrix->columns))
        return false;
    bool fits = matrix->rows >= 0 && matrix->columns >= 0 && matrix->rows <= LONGEST &&
                (!matrix->rows || matrix->columns <= LONGEST / matrix->rows);
    int64_t count = fits ? matrix->rows * matrix->columns : -1;
    double *values = storage(p, matrix->value, count, sizeof *values);
    matrix->value = values;
    return values && pass(p, values, (size_t)count * sizeof *values);
}

static bool pass_key(const struct passing *p, const struct qkv_key *key, struct qkv_scene *scene)
{
    void *field = qkv_key_field(key, scene);
    switch (key->kind) {
    case QKV_KEY_TEXT:
        return pass_text(p, field);
    case QKV_KEY_TEXTS:
        return pass_texts(p, field);
    case QKV_KEY_MATRIX:
        return pass_matrix(p, field);
    case QKV_KEY_INTEGER:
        return pass(p, field, sizeof(int64_t));
    case QKV_KEY_NUMBER:
        return pass(p, field, sizeof(double));
    case QKV_KEY_BOOLEAN:
        return pass(p, field, sizeof(bool));
    case QKV_KEY_CHOICE:
        return pass(p, field, sizeof(int));
    case QKV_KEY_PAIR:
        return pass(p, field, 2 * sizeof(double));
    }
    return false;
}

bool qkv_scene_pass(struct qkv_scene *scene, qkv_pass pass_bytes, void *context, struct qkv_arena *arena)
{
    const struct passing p = {pass_bytes, context, arena};
    bool passed = true;
    for (int i = 0; passed && i < qkv_scene_schema.count; i++) {
        const struct qkv_key *key = &qkv_scene_schema.keys[i];
        if (!key->is_path) passed = pass_key(&p, key, scene);
    }
    if (!passed || !pass(&p, &scene->query_count, sizeof scene->query_count) ||
        !pass(&p, &scene->width, sizeof scene->width) ||
        !pass(&p, &scene->source_width, sizeof scene->source_width))
        return false;
    int32_t *rows = storage(&p, scene->query_rows, scene->query_count, sizeof *rows);
    scene->query_rows = rows;
    if (!scene->run.path) scene->run.path = "";
    return rows && pass(&p, rows, (size_t)scene->query_count * sizeof *rows);
}
