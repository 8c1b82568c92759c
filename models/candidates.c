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

/* The log-probability of a row of the search, minus log sum exp of its logits; a continuation's log-probability is this plus
 * its logit. `at` is the number of the row in `next`. */
static double log_probability_so_far(const struct search *s, const struct qkv_next_scores *next, int64_t row,
                                     int64_t at)
{
    double so_far = s->live[row].log_probability;
    return s->scored ? so_far - number_at(next, next->log_sum_exp, at) : so_far;
}

/* Raises s->bounds, the greatest log-probabilities that groups of tokens reach, descending, by the groups of one row. Group
 * 0 is left out, because it contains <s> and <unk>, which are not chosen. */
static void raise_bounds(struct search *s, const struct qkv_next_scores *next, int64_t row, int64_t at)
{
    double so_far = log_probability_so_far(s, next, row, at), *bounds = s->bounds;
    int64_t last = s->capacity - 1, groups = qkv_next_groups(next);
    for (int64_t group = 1; group < groups; group++) {
        double value = so_far + number_at(next, next->group_max, at * groups + group);
        if (!(value > bounds[last])) continue;
        for (int64_t i = last; i > 0; i--) { /* in sorted order, without branches */
            double above = value < bounds[i - 1] ? value : bounds[i - 1];
            bounds[i] = above > bounds[i] ? above : bounds[i];
        }
        bounds[0] = value > bounds[0] ? value : bounds[0];
    }
}

/* A number that the float32 logit of a token reaches if so_far + logit reaches the bound; the margin is for rounding. */
static float least_logit(double so_far, double bound)
{
    return (float)(bound - so_far - 1e-6 * (fabs(bound) + fabs(so_far)));
}

/* The first token from `token` to stop - 1 whose logit is not below the least one, or stop. */
static inline int64_t next_reaching(const struct qkv_next_scores *next, int64_t at, int64_t token,
                                    int64_t stop, float least)
{
    if (next->dtype != QKV_FLOAT32) return token;
    const float *logits = (const float *)next->logits + at * next->classes;
    while (token < stop && logits[token] < least) token++;
    return token;
}

/* Inserts the best continuations of one row into s->candidates. `row` is its number in the search, `at` its number in
 * `next`. Skips the tokens below the last bound, since s->capacity others reach it. False if the scores of the row are not
 * finite. */
static bool insert_row(struct search *s, const struct qkv_next_scores *next, int64_t row, int64_t at,
                       int64_t *count)
{
    int64_t groups = qkv_next_groups(next);
    double so_far = log_probability_so_far(s, next, row, at), bound = s->bounds[s->capacity - 1];
    float least = least_logit(so_far, bound);
    if (!isfinite(so_far)) return false;
    for (int64_t group = 0; group < groups; group++) {
        double greatest = so_far + number_at(next, next->group_max, at * groups + group);
        bool is_full = *count == s->capacity;
        if (greatest < bound || (is_full && !(greatest > s->candidates[s->capacity - 1].log_probability)))
            continue;
        int64_t stop = (group + 1) * QKV_GROUP < next->classes ? (group + 1) * QKV_GROUP : next->classes;
        for (int64_t token = group * QKV_GROUP; (token = next_reaching(next, at, token, stop, least)) < stop;
             token++) {
            if (token == QKV_BEGIN || token == s->excluded) continue;
            double value = so_far + number_at(next, next->logits, at * next->classes + token);
            insert(s->candidates, count, s->capacity, (struct candidate){row, (int32_t)token, value});
        }
    }
    return true;
}

/* Each of the at most s->width rows can end with </s> only once, so at least s->width of the 2 * s->width candidates
 * continue, unless constraints exclude tokens. */
int64_t qkv_search_best(struct search *s, const struct qkv_next_scores *next, int64_t first, int64_t end)
{
    int64_t count = 0;
    for (int64_t i = 0; i < s->capacity; i++) s->bounds[i] = -HUGE_VAL;
    for (int64_t row = first; row < end && !s->constrained; row++) raise_bounds(s, next, row, row);
    for (int64_t row = first; row < end; row++) {
        const struct qkv_next_scores *scores = s->constrained ? qkv_search_constrain(s, next, row) : next;
        int64_t at = s->constrained ? 0 : row;
        if (s->constrained) raise_bounds(s, scores, row, at);
        if (!insert_row(s, scores, row, at, &count)) return 0;
    }
    while (s->constrained && count && s->candidates[count - 1].log_probability <= -HUGE_VAL) count--;
    return count && isfinite(s->candidates[0].log_probability) ? count : 0;
}
