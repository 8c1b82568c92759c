/* Conversion between attention maps and explanations, for formats that have a writer for only one of them. */
#include "report/explanation.h"

/* "cross attention, layer 2"; "self attention" if there is no layer. */
static const char *name_of(const struct explanations_job *job)
{
    const struct qkv_explanation *first = &job->explanations[0];
    const char *kind =
        first->layer || first->kind == QKV_ATTENTION_CROSS ? qkv_attention_kind_name(first->kind) : "self";
    const char *name = first->layer
                           ? qkv_arena_format(job->arena, "%s attention, layer %d", kind, first->layer)
                           : qkv_arena_format(job->arena, "%s attention", kind);
    return name ? name : "attention";
}

/* The title of a map; a single map is named in the subtitle. */
static const char *label_of(const struct explanations_job *job, int index, const struct qkv_step *step,
                            int64_t head)
{
    const char *caption = qkv_step_caption(job, index, step, head);
    if (step->heads > 1 || job->count > 1) return caption;
    return *caption ? qkv_arena_format(job->arena, "%s, %s", name_of(job), caption) : name_of(job);
}

/* The names of rows or columns; numbers from 1 where there are none. NULL if memory runs out. */
static const char *const *names_of(struct qkv_arena *arena, const char *const *names, int64_t count)
{
    if (names) return names;
    const char **numbers = qkv_arena_allocate(arena, (size_t)count * sizeof *numbers);
    for (int64_t i = 0; numbers && i < count; i++) {
        numbers[i] = qkv_arena_format(arena, "%lld", (long long)i + 1);
        if (!numbers[i]) return NULL;
    }
    return numbers;
}

bool qkv_report_of_explanations(const struct explanations_job *job, struct qkv_attention_report *report)
{
    const struct qkv_explanation *first = &job->explanations[0];
    const struct qkv_step *shown = qkv_explanation_content(first, QKV_STEP_WEIGHTS);
    int64_t heads = shown->heads ? shown->heads : 1;
    struct qkv_attention_map *maps =
        qkv_arena_zeroed(job->arena, (size_t)(heads * job->count) * sizeof *maps);
    const char *const *rows = names_of(job->arena, shown->row_names, shown->rows);
    const char *const *columns = names_of(job->arena, shown->column_names, shown->columns);
    int64_t count = 0;
    if (!maps || !rows || !columns) return false;
    for (int i = 0; i < job->count; i++) {
        const struct qkv_explanation *explanation = &job->explanations[i];
        const struct qkv_step *step = qkv_explanation_content(explanation, QKV_STEP_WEIGHTS);
        for (int64_t h = 0; step && h < heads; h++)
            maps[count++] = (struct qkv_attention_map){
                /* If only some words are followed, a map of self-attention has fewer rows than columns.
                 * Only cross maps may have such a shape. */
                .kind = QKV_ATTENTION_CROSS,
                .layer = explanation->layer ? explanation->layer : 1,
                .head = explanation->first_head + (int)h,
                .rows = step->rows,
                .columns = step->columns,
                .weights = step->values + h * step->rows * step->columns,
                .label = label_of(job, i, step, h),
            };
    }
    bool cross = first->kind == QKV_ATTENTION_CROSS;
    *report = (struct qkv_attention_report){
        .title = first->title,
        .model = first->model,
        .source = columns,
        .source_length = shown->columns,
        .target_input = rows,
        .target_output = rows,
        .target_length = shown->rows,
        .maps = maps,
        .map_count = count,
        .name = name_of(job),
        .row_axis = cross ? NULL : "query",
        .column_axis = cross ? NULL : "key",
    };
    return true;
}

bool qkv_explanation_of_report(const struct maps_job *job, struct qkv_explanation *explanation)
{
    const struct qkv_attention_report *report = job->report;
    struct qkv_step *steps = qkv_arena_zeroed(job->arena, (size_t)report->map_count * sizeof *steps);
    const char *about = report->model;
    if (report->value_name)
        about = qkv_arena_format(job->arena, "%s%scells: %s", about ? about : "", about ? "; " : "",
                                 report->value_name);
    if (!steps || (report->value_name && !about)) return false;
    for (int64_t i = 0; i < report->map_count; i++) {
        const struct qkv_attention_map *map = &report->maps[i];
        char name[64];
        qkv_attention_map_name(map, name, sizeof name);
        steps[i] = (struct qkv_step){
            .name = qkv_arena_format(job->arena, "%s%s%s", map->label_prefix ? map->label_prefix : "",
                                     map->label_prefix ? "." : "", name),
            .title = qkv_report_map_title(job->arena, map, true),
            .formula = map->kind == QKV_ATTENTION_CROSS ? "rows: target (output), columns: source"
                                                        : "rows: queries, columns: keys",
            .content = QKV_STEP_WEIGHTS,
            .rows = map->rows,
            .columns = map->columns,
            .values = map->weights,
            .row_names = qkv_attention_row_tokens(report, map->kind),
            .column_names = qkv_attention_column_tokens(report, map->kind),
        };
        if (!steps[i].name || !steps[i].title) return false;
    }
    *explanation = (struct qkv_explanation){.title = report->title,
                                            .about = about,
                                            .model = report->model,
                                            .kind = report->maps[0].kind,
                                            .first_head = 1,
                                            .heads = 1,
                                            .layer_heads = 1,
                                            .step_count = report->map_count,
                                            .steps = steps};
    return true;
}
