/* Greedy and beam search: the best tokens that may follow the hypotheses of a sentence. */
#include "models/search_state.h"

#include "qkv/vocabulary.h"

#include <math.h>

static double number_at(const struct qkv_next_scores *next, const void *values, int64_t i)
{
    return qkv_dtype_get(next->dtype, values, i);
}

/* Inserts a candidate into a sorted list of at most `capacity`; the earlier of equal candidates
 * comes first. */
static void insert(struct candidate *list, int64_t *count, int64_t capacity, struct candidate candidate)
{
    if (*count == capacity && !(candidate.log_probability > list[capacity - 1].log_probability)) return;
    int64_t i = *count < capacity ? (*count)++ : capacity - 1;
    for (; i > 0 && candidate.log_probability > list[i - 1].log_probability; i--) list[i] = list[i - 1];
    list[i] = candidate;
}

/* The first group of tokens that has the greatest logit of the row. */
static int64_t best_group(const struct qkv_next_scores *next, int64_t row)
{
    int64_t groups = qkv_next_groups(next), best = 0;
    double greatest = number_at(next, next->group_max, row * groups);
    for (int64_t group = 1; group < groups; group++) {
        double other = number_at(next, next->group_max, row * groups + group);
        if (!(other > greatest)) continue;
        greatest = other;
        best = group;
    }
    return best;
}

/* Inserts the best continuations of one row into s->candidates. `row` is its number in the search, `at` its number in
 * `next`. Skips groups of tokens whose greatest logit is too small. False if the scores of the row are not finite. */
static bool insert_row(struct search *s, const struct qkv_next_scores *next, int64_t row, int64_t at,
                       int64_t *count)
{
    bool greedy = s->width == 1;
    int64_t capacity = greedy ? 1 : 2 * s->width, groups = qkv_next_groups(next);
    double so_far = s->live[row].log_probability;
    if (s->scored) so_far -= number_at(next, next->log_sum_exp, at);
    if (!isfinite(so_far)) return false;
    /* Greedy search reads only the best group, unless that is group 0: group 0 contains <s> and <unk>, which are not
     * chosen, so the best allowed token may be in any group. */
    int64_t best = greedy ? best_group(next, at) : 0, last_group = best ? best : groups - 1;
    for (int64_t group = best; group <= last_group; group++) {
        if (*count == capacity && !(so_far + number_at(next, next->group_max, at * groups + group) >
                                    s->candidates[capacity - 1].log_probability))
            continue;
        int64_t begin = group * QKV_GROUP, stop = begin + QKV_GROUP;
        for (int64_t token = begin; token < stop && token < next->classes; token++) {
            if (token == QKV_BEGIN || token == s->excluded) continue;
            double value = so_far + number_at(next, next->logits, at * next->classes + token);
            insert(s->candidates, count, capacity, (struct candidate){row, (int32_t)token, value});
        }
    }
    return true;
}

/* Each of the at most `beam` rows can end with </s> only once, so at least `beam` of the 2 * beam candidates
 * continue, unless constraints exclude tokens. */
int64_t qkv_search_best(struct search *s, const struct qkv_next_scores *next, int64_t first, int64_t end)
{
    int64_t count = 0;
    for (int64_t row = first; row < end; row++) {
        bool finite = s->constrained ? insert_row(s, qkv_search_constrain(s, next, row), row, 0, &count)
                                     : insert_row(s, next, row, row, &count);
        if (!finite) return 0;
    }
    while (s->constrained && count && s->candidates[count - 1].log_probability <= -HUGE_VAL) count--;
    return count && isfinite(s->candidates[0].log_probability) ? count : 0;
}
