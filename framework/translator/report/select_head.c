/* One head of an explanation. */
#include "report/explanation.h"

/* Sets `head` to the number of the head whose weights agree best with the mean of all heads. */
static enum qkv_status find_best_head(const struct qkv_explanation *explanation, int *head,
                                      struct qkv_arena *arena, struct qkv_error *error)
{
    const struct explanations_job job = {.explanations = explanation, .count = 1, .arena = arena};
    struct qkv_attention_report all, best;
    if (!qkv_explanation_content(explanation, QKV_STEP_WEIGHTS))
        return qkv_error_set(error, "the explanation has no attention weights: there is no best head");
    if (!qkv_report_of_explanations(&job, &all))
        return qkv_error_set(error, "out of memory for an explanation");
    if (qkv_attention_select(&all, 0, QKV_ATTENTION_EACH, QKV_ATTENTION_BEST, arena, &best, error))
        return QKV_INVALID;
    *head = best.maps[0].head;
    return QKV_OK;
}

enum qkv_status qkv_explanation_select_head(struct qkv_explanation *explanation, int head,
                                            struct qkv_arena *arena, struct qkv_error *error)
{
    if (qkv_explanations_check(explanation, 1, error)) return QKV_INVALID;
    if (head == QKV_ATTENTION_BEST && find_best_head(explanation, &head, arena, error)) return QKV_INVALID;
    if (head < explanation->first_head || head >= explanation->first_head + explanation->heads)
        return qkv_error_set(error, "there is no head %d: heads are %d to %lld", head,
                             explanation->first_head,
                             (long long)(explanation->first_head + explanation->heads - 1));
    struct qkv_step *steps = qkv_arena_allocate(arena, (size_t)explanation->step_count * sizeof *steps);
    if (!steps) return qkv_error_set(error, "out of memory for an explanation");
    for (int64_t i = 0; i < explanation->step_count; i++) {
        steps[i] = explanation->steps[i];
        if (steps[i].heads <= 1) continue;
        /* In grouped-query attention, several consecutive heads share one head of keys and values. */
        int64_t at = (head - explanation->first_head) * steps[i].heads / explanation->heads;
        steps[i].values += at * steps[i].rows * steps[i].columns;
        steps[i].heads = 1;
    }
    explanation->steps = steps;
    explanation->first_head = head;
    explanation->heads = 1;
    return QKV_OK;
}
