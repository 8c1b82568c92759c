#include "page/module/scenes.h"

#include "explain/packed_scene.h"

#include "qkv/scalar_math.h"

#include <math.h>
#include <string.h>

/* ---- packed scenes ---- */

struct packed {
    const unsigned char *bytes;
    size_t size;
};

static bool take(void *context, void *bytes, size_t size)
{
    struct packed *rest = context;
    if (size > rest->size) return false;
    memcpy(bytes, rest->bytes, size);
    rest->bytes += size;
    rest->size -= size;
    return true;
}

enum qkv_status page_scenes_open(struct page_scenes *scenes, const unsigned char *bytes, size_t size,
                                 struct qkv_error *error)
{
    struct packed rest = {bytes, size};
    int64_t count;
    bool good = take(&rest, &count, sizeof count) && count > 0 && count <= (int64_t)size;
    if (good) scenes->list = qkv_arena_zeroed(&scenes->arena, (size_t)count * sizeof *scenes->list);
    for (int64_t i = 0; good && scenes->list && i < count; i++)
        good = qkv_scene_pass(&scenes->list[i], take, &rest, &scenes->arena);
    if (!good || !scenes->list || rest.size)
        return qkv_error_set(error, "the scenes are damaged, or were packed by another version of qkv");
    scenes->count = count;
    return QKV_OK;
}

/* ---- the maps ---- */

/* Copies the weights of a head. Returns the mean entropy of its rows, in nats. Where `scores` are -infinity, a cell is hidden. */
static double copy_map(const struct qkv_step *weights, const struct qkv_step *scores, int64_t head, float *to)
{
    const int64_t count = weights->rows * weights->columns;
    double entropy = 0;
    for (int64_t i = 0; i < count; i++) {
        double weight = weights->values[head * count + i];
        bool hidden = scores && isinf(scores->values[(scores->heads ? head : 0) * count + i]);
        to[i] = hidden ? PAGE_HIDDEN_CELL : (float)weight;
        if (weight > 0) entropy -= weight * qkv_scalar_log(weight);
    }
    return weights->rows ? entropy / (double)weights->rows : 0;
}

static bool show_maps(struct page_scenes *scenes, const struct qkv_explanation *explanation)
{
    struct page_view *view = &scenes->view;
    struct qkv_arena *arena = &scenes->view_arena;
    const struct qkv_step *weights = qkv_explanation_content(explanation, QKV_STEP_WEIGHTS),
                          *scores = qkv_explanation_step(explanation, "masked_scores");
    if (!weights) return true;
    view->source_count = weights->columns;
    view->step_count = weights->rows;
    view->source_tokens = page_list(arena, weights->columns, weights->column_names);
    view->target_outputs = page_list(arena, weights->rows, weights->row_names);
    view->map_count = weights->heads ? weights->heads : 1;
    view->weight_count = view->map_count * weights->rows * weights->columns;
    view->maps = qkv_arena_allocate(arena, (size_t)view->map_count * PAGE_MAP_INTEGERS * sizeof *view->maps);
    view->silent = qkv_arena_zeroed(arena, (size_t)view->map_count * sizeof *view->silent);
    view->entropies = qkv_arena_allocate(arena, (size_t)view->map_count * sizeof *view->entropies);
    view->weights = qkv_arena_allocate(arena, (size_t)view->weight_count * sizeof *view->weights);
    if (!view->source_tokens || !view->target_outputs || !view->maps || !view->silent || !view->entropies ||
        !view->weights)
        return false;
    for (int64_t head = 0; head < view->map_count; head++) {
        const int32_t integers[PAGE_MAP_INTEGERS] = {QKV_ATTENTION_CROSS, 1, (int32_t)head + 1,
                                                     (int32_t)weights->rows, (int32_t)weights->columns};
        memcpy(view->maps + head * PAGE_MAP_INTEGERS, integers, sizeof integers);
        view->entropies[head] =
            copy_map(weights, scores, head, view->weights + head * weights->rows * weights->columns);
    }
    return true;
}

enum qkv_status page_scenes_show(struct page_scenes *scenes, int64_t number, int64_t seed,
                                 struct page_walk *walk, struct qkv_error *error)
{
    if (number < 0 || number >= scenes->count)
        return qkv_error_set(error, "there is no scene %lld", (long long)number + 1);
    struct qkv_scene scene = scenes->list[number];
    if (seed >= 0) scene.random.seed = seed;
    qkv_arena_reset(&scenes->view_arena);
    scenes->view = (struct page_view){0};
    if (page_walk_scene(walk, &scene, error)) return QKV_INVALID;
    return show_maps(scenes, &walk->explanation) ? QKV_OK : qkv_error_set(error, "out of memory");
}
