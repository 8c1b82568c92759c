#include "explain/write.h"
#include "report/archive.h"

#include <string.h>

static void append_step(const struct explain_job *job, int walk, const struct qkv_step *step,
                        struct archive *archive)
{
    const struct qkv_explanation *explanation = &job->walks[walk];
    const char *label = job->count > 1 && explanation->label ? explanation->label : "";
    const char *name = qkv_arena_format(job->arena, "%s%s%s.npy", label, *label ? "." : "", step->name);
    const int64_t shape[] = {step->heads, step->rows, step->columns};
    bool apart = step->heads && explanation->heads > 1;
    if (!name) {
        archive->out->failed = true;
        return;
    }
    /* Of the words the words themselves, not their numbers. */
    bool words = step->column_names && strstr(step->name, "tokens");
    if (words && walk > 0) return; /* the same in all walks */
    if (words)
        qkv_npz_append_tokens(archive, strcmp(step->name, "tokens") ? "source_tokens.npy" : "tokens.npy",
                              step->column_names, step->columns);
    else
        qkv_npz_append_numbers(archive, name, apart ? shape : shape + 1, apart ? 3 : 2, step->values);
}

enum qkv_status qkv_explain_npz(const struct explain_job *job, struct bytes *out, struct qkv_error *error)
{
    struct archive archive = {.out = out};
    for (int w = 0; w < job->count; w++)
        for (int64_t i = 0; i < job->walks[w].step_count; i++)
            append_step(job, w, &job->walks[w].steps[i], &archive);
    return qkv_npz_finish(&archive, error);
}
