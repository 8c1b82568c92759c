/* NumPy arrays: one per map or step, and the tokens. */
#include "report/archive.h"
#include "report/explanation.h"

#include <string.h>

static enum qkv_status write_maps(const struct maps_job *job, struct bytes *out, struct qkv_error *error)
{
    const struct qkv_attention_report *report = job->report;
    const char *const value = qkv_report_value_name(report);
    struct archive archive = {.out = out};
    qkv_npz_append_tokens(&archive, "source.npy", report->source, report->source_length);
    qkv_npz_append_tokens(&archive, "target_input.npy", report->target_input, report->target_length);
    qkv_npz_append_tokens(&archive, "target_output.npy", report->target_output, report->target_length);
    qkv_npz_append_tokens(&archive, "value.npy", &value, 1);
    for (int64_t i = 0; i < report->map_count; i++) {
        const struct qkv_attention_map *map = &report->maps[i];
        const int64_t shape[] = {map->rows, map->columns};
        char name[64];
        qkv_attention_map_name(map, name, sizeof name - 4);
        strcat(name, ".npy");
        qkv_npz_append_numbers(&archive, name, shape, 2, map->weights);
    }
    return qkv_npz_finish(&archive, error);
}

static void append_step(const struct explanations_job *job, int index, const struct qkv_step *step,
                        struct archive *archive)
{
    const struct qkv_explanation *explanation = &job->explanations[index];
    const int64_t shape[] = {step->heads, step->rows, step->columns};
    bool heads = qkv_step_has_heads(explanation, step);
    bool tokens = step->column_names && step->content == QKV_STEP_TOKENS;
    bool has_label = job->count > 1 && explanation->label && *explanation->label && !tokens;
    const char *name = qkv_arena_format(job->arena, "%s%s%s.npy", has_label ? explanation->label : "",
                                        has_label ? "." : "", step->name);
    if (!name)
        archive->out->failed = true;
    else if (!tokens)
        qkv_npz_append_numbers(archive, name, heads ? shape : shape + 1, heads ? 3 : 2, step->values);
    else if (index == 0) /* all explanations have the same tokens */
        qkv_npz_append_tokens(archive, name, step->column_names, step->columns);
}

static enum qkv_status write_explanations(const struct explanations_job *job, struct bytes *out,
                                          struct qkv_error *error)
{
    struct archive archive = {.out = out};
    for (int index = 0; index < job->count; index++)
        for (int64_t i = 0; i < job->explanations[index].step_count; i++)
            append_step(job, index, &job->explanations[index].steps[i], &archive);
    return qkv_npz_finish(&archive, error);
}

const struct qkv_format_writer qkv_writer_npz = {
    .format = {"npz", "npz", "arrays of NumPy: numpy.load(file)['cross.1.2']", QKV_FORMAT_DATA,
               .binary = true},
    .write_maps = write_maps,
    .write_explanations = write_explanations,
};
