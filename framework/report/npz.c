/* Attention maps as NumPy arrays: one a map, and the tokens. */
#include "report/archive.h"

#include <string.h>

enum qkv_status qkv_report_npz(const struct report_job *job, struct bytes *out, struct qkv_error *error)
{
    const struct qkv_attention_report *report = job->report;
    struct archive archive = {.out = out};
    qkv_npz_append_tokens(&archive, "source.npy", report->source, report->source_length);
    qkv_npz_append_tokens(&archive, "target_input.npy", report->target_input, report->target_length);
    qkv_npz_append_tokens(&archive, "target_output.npy", report->target_output, report->target_length);
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
