/* The weights of walks as pictures: maps for the writers of attention maps. */
#include "explain/write.h"

#include <stdlib.h>

static const char *name_of(const struct explain_job *job)
{
    const struct qkv_explanation *walk = &job->walks[0];
    const char *kind =
        walk->layer || walk->kind == QKV_ATTENTION_CROSS ? qkv_attention_kind_name(walk->kind) : "self";
    const char *name = walk->layer ? qkv_arena_format(job->arena, "%s attention, layer %d", kind, walk->layer)
                                   : qkv_arena_format(job->arena, "%s attention", kind);
    return name ? name : "attention";
}

/* What stands above a map, or, where it is the only one, below the title. */
static const char *label_of(const struct explain_job *job, int walk, const struct qkv_step *step,
                            int64_t head)
{
    const char *caption = qkv_explain_caption(job, walk, step, head);
    if (step->heads > 1 || job->count > 1) return caption;
    return *caption ? qkv_arena_format(job->arena, "%s, %s", name_of(job), caption) : name_of(job);
}

static enum qkv_status draw(const struct explain_job *job, const char *format, struct bytes *out,
                            struct qkv_error *error)
{
    const struct qkv_step *first = qkv_explain_step(&job->walks[0], "weights");
    struct qkv_attention_map *maps =
        qkv_arena_zeroed(job->arena, (size_t)(job->walks[0].heads * job->count) * sizeof *maps);
    enum qkv_attention_kind kind = job->walks[0].kind;
    int64_t count = 0;
    if (!maps) return qkv_error_set(error, "no memory for a picture");
    for (int w = 0; w < job->count; w++) {
        const struct qkv_step *step = qkv_explain_step(&job->walks[w], "weights");
        for (int64_t h = 0; h < step->heads; h++)
            maps[count++] = (struct qkv_attention_map){
                .kind = kind,
                .layer = job->walks[w].layer ? job->walks[w].layer : 1,
                .head = job->walks[w].first_head + (int)h,
                .rows = step->rows,
                .columns = step->columns,
                .weights = step->values + h * step->rows * step->columns,
                .label = label_of(job, w, step, h),
            };
    }
    struct qkv_attention_report report = {
        .title = job->walks[0].title,
        .model = job->walks[0].model,
        .source = first->column_names,
        .source_length = first->columns,
        .target_input = first->row_names,
        .target_output = first->row_names,
        .target_length = first->rows,
        .maps = maps,
        .map_count = count,
        .name = name_of(job),
    };
    /* Of self-attention rows may be fewer than columns, where words are followed: a cross map asks for less.
     */
    for (int64_t i = 0; i < count; i++) maps[i].kind = QKV_ATTENTION_CROSS;
    if (kind != QKV_ATTENTION_CROSS) {
        report.row_axis = "query";
        report.column_axis = "key";
    }
    char *bytes;
    size_t size;
    if (qkv_attention_render(&report, qkv_attention_format_find(format), &job->options.drawing, &bytes, &size,
                             error))
        return QKV_INVALID;
    qkv_bytes_append(out, bytes, size);
    free(bytes);
    return QKV_OK;
}

enum qkv_status qkv_explain_svg(const struct explain_job *job, struct bytes *out, struct qkv_error *error)
{
    return draw(job, "svg", out, error);
}

enum qkv_status qkv_explain_png(const struct explain_job *job, struct bytes *out, struct qkv_error *error)
{
    return draw(job, "png", out, error);
}
