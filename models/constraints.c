/* Constraints on the tokens of a translation: the scores of a row are copied, changed and some of them excluded. */
#include "models/search_state.h"

#include "qkv/scalar_math.h"
#include "qkv/vocabulary.h"

#include <math.h>

static bool penalizes_repetition(const struct qkv_search_options *options)
{
    return options->repetition_penalty > 0 &&
           (options->repetition_penalty < 1 || options->repetition_penalty > 1);
}

bool qkv_search_is_constrained(const struct qkv_search_options *options)
{
    return penalizes_repetition(options) || options->no_repeat_ngram > 0 || options->min_output_length > 0;
}

bool qkv_search_allocate_row(struct search *s, int64_t classes, int64_t length)
{
    struct constrained_row *row = &s->row;
    row->next = (struct qkv_next_scores){.dtype = QKV_FLOAT64, .rows = 1, .classes = classes};
    row->logits = qkv_arena_allocate(s->arena, (size_t)classes * sizeof *row->logits);
    row->group_max =
        qkv_arena_allocate(s->arena, (size_t)qkv_next_groups(&row->next) * sizeof *row->group_max);
    row->history = qkv_arena_allocate(s->arena, (size_t)length * sizeof *row->history);
    row->next.logits = row->logits;
    row->next.group_max = row->group_max;
    row->next.log_sum_exp = &row->sum;
    return row->logits && row->group_max && row->history;
}

static double log_sum_exp(int64_t count, const double *values)
{
    double greatest = -HUGE_VAL, sum = 0;
    for (int64_t i = 0; i < count; i++)
        if (values[i] > greatest) greatest = values[i];
    for (int64_t i = 0; i < count; i++) sum += qkv_scalar_exp(values[i] - greatest);
    return greatest + qkv_scalar_log(sum);
}

/* Makes every token of the history less likely (Keskar et al. 2019, section 4.1): its logit x becomes x / penalty if
 * x > 0. A negative logit becomes x * penalty, since x / penalty would make its token more likely. A token that
 * occurs several times is penalized once. */
static void penalize_repetition(struct search *s, const struct qkv_next_scores *next, int64_t row)
{
    double penalty = s->options->repetition_penalty;
    for (int64_t i = 0; i < s->step; i++) {
        int32_t token = s->row.history[i];
        double logit = qkv_dtype_get(next->dtype, next->logits, row * next->classes + token);
        s->row.logits[token] = logit > 0 ? logit / penalty : logit * penalty;
    }
    if (s->scored) s->row.sum = log_sum_exp(next->classes, s->row.logits);
}

/* Excludes each token that would repeat an n-gram of `size` tokens. */
static void exclude_repeated_ngrams(struct search *s, int64_t size)
{
    const int32_t *history = s->row.history;
    if (size > s->step) return;
    const int32_t *last = history + s->step - (size - 1); /* the tokens that the next one would follow */
    for (int64_t begin = 0; begin + size <= s->step; begin++) {
        int64_t same = 0;
        while (same < size - 1 && history[begin + same] == last[same]) same++;
        if (same == size - 1) s->row.logits[history[begin + same]] = -HUGE_VAL;
    }
}

/* Computes the maxima of the groups. If no allowed token is left, allows </s>. */
static void finish_row(struct search *s, double end)
{
    struct constrained_row *row = &s->row;
    bool is_empty = true;
    for (int64_t token = 0; token < row->next.classes && is_empty; token++)
        is_empty = token == QKV_BEGIN || token == s->excluded || row->logits[token] <= -HUGE_VAL;
    if (is_empty) row->logits[QKV_END] = end;
    for (int64_t group = 0; group < qkv_next_groups(&row->next); group++) {
        int64_t begin = group * QKV_GROUP, stop = begin + QKV_GROUP;
        double greatest = row->logits[begin];
        for (int64_t token = begin + 1; token < stop && token < row->next.classes; token++)
            if (row->logits[token] > greatest) greatest = row->logits[token];
        row->group_max[group] = greatest;
    }
}

const struct qkv_next_scores *qkv_search_constrain(struct search *s, const struct qkv_next_scores *next,
                                                   int64_t row)
{
    const struct qkv_search_options *options = s->options;
    for (int64_t token = 0; token < next->classes; token++)
        s->row.logits[token] = qkv_dtype_get(next->dtype, next->logits, row * next->classes + token);
    if (s->scored) s->row.sum = qkv_dtype_get(next->dtype, next->log_sum_exp, row);
    qkv_search_tokens(s, s->live[row].node, s->step, s->row.history);
    if (penalizes_repetition(options)) penalize_repetition(s, next, row);
    double end = s->row.logits[QKV_END];
    if (s->step < options->min_output_length) s->row.logits[QKV_END] = -HUGE_VAL;
    if (options->no_repeat_ngram > 0) exclude_repeated_ngrams(s, options->no_repeat_ngram);
    finish_row(s, end);
    return &s->row.next;
}
