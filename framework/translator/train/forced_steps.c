#include "train/forced_steps.h"

/* The sentences that still have a target token at the current step. Row i belongs to sentence[i]. */
struct rows {
    int64_t count;
    int64_t *sentence, *parent; /* [count]; parent: the row of the sentence in the previous step */
    int32_t *ids;               /* [count]: input token of each row */
};

static bool allocate(struct rows *rows, int64_t capacity, struct qkv_arena *arena)
{
    rows->sentence = qkv_arena_allocate(arena, (size_t)capacity * sizeof *rows->sentence);
    rows->parent = qkv_arena_allocate(arena, (size_t)capacity * sizeof *rows->parent);
    rows->ids = qkv_arena_allocate(arena, (size_t)capacity * sizeof *rows->ids);
    return rows->sentence && rows->parent && rows->ids;
}

/* Drops the rows of sentences without a token at `step`. */
static void keep_rows(struct rows *rows, const struct qkv_batch_view *batch, int64_t step)
{
    int64_t kept = 0;
    for (int64_t i = 0; i < rows->count; i++) {
        int64_t sentence = rows->sentence[i];
        if (batch->target_length[sentence] <= step) continue;
        rows->parent[kept] = i;
        rows->ids[kept] = batch->target_input[batch->target_start[sentence] + step];
        rows->sentence[kept++] = sentence;
    }
    rows->count = kept;
}

/* Whether `token` is the most probable one of the row; of equally probable tokens, the lowest id counts. */
static bool is_best(const struct qkv_next_scores *next, int64_t row, int32_t token)
{
    int64_t at = row * next->classes;
    double logit_of_token = qkv_dtype_get(next->dtype, next->logits, at + token);
    for (int64_t other = 0; other < next->classes; other++) {
        double logit = qkv_dtype_get(next->dtype, next->logits, at + other);
        if (logit > logit_of_token || (logit >= logit_of_token && other < token)) return false;
    }
    return true;
}

enum qkv_status qkv_forced_steps(struct qkv_decoding *decoding, const struct qkv_batch_view *batch,
                                 struct qkv_arena *arena, double *negative_log_likelihood, double *correct,
                                 struct qkv_error *error)
{
    struct rows rows = {.count = batch->count};
    int64_t longest = 0;
    if (!allocate(&rows, batch->count, arena)) return qkv_error_set(error, "out of memory for an evaluation");
    for (int64_t i = 0; i < batch->count; i++) {
        rows.sentence[i] = i;
        if (batch->target_length[i] > longest) longest = batch->target_length[i];
    }
    if (qkv_decoding_start(decoding, batch, batch->count, longest, true, error)) return QKV_INVALID;
    for (int64_t step = 0; step < longest; step++) {
        keep_rows(&rows, batch, step);
        if (step) qkv_decoding_reorder(decoding, rows.count, rows.parent);
        const struct qkv_next_scores *next =
            qkv_decoding_step(decoding, rows.count, rows.ids, rows.sentence, error);
        if (!next) return QKV_INVALID;
        for (int64_t row = 0; row < rows.count; row++) {
            int64_t at = batch->target_start[rows.sentence[row]] + step;
            negative_log_likelihood[at] = -qkv_next_log_probability(next, row, batch->target_output[at]);
            correct[at] = is_best(next, row, batch->target_output[at]);
        }
    }
    return QKV_OK;
}
