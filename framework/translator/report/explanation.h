/* Private: functions on explanations that their writers share. */
#pragma once

#include "report/writer.h"

/* Fails when the heads of a step differ between explanations that have it. */
enum qkv_status qkv_explanations_check(const struct qkv_explanation *explanations, int count,
                                       struct qkv_error *error);

/* Returns the first step with that content; NULL if there is none. */
const struct qkv_step *qkv_explanation_content(const struct qkv_explanation *explanation,
                                               enum qkv_step_content content);

/* Returns the step of explanation `index` that has the same name as step `at` of explanation 0;
 * NULL if there is none. */
const struct qkv_step *qkv_step_counterpart(const struct format_job *job, int index, int64_t at);

/* Returns the number, counted from 1, of an earlier step with the same numbers as step `at`; 0 if there is
 * none, or if options.full is set, which shows every step in full. */
int64_t qkv_step_repeated(const struct format_job *job, int64_t at);

/* True if the values of the step have an axis of heads: those of a single head are a plain matrix. */
bool qkv_step_has_heads(const struct qkv_explanation *explanation, const struct qkv_step *step);

/* Formats the shape of a step: "[5, 4, 6]". */
void qkv_step_shape(const struct qkv_explanation *explanation, const struct qkv_step *step, char text[64]);

/* How to print the numbers of a step: the same for all heads and explanations. */
struct number_style {
    int digits;      /* after the decimal point */
    bool scientific; /* 1.2e-07 */
};
struct number_style qkv_step_number_style(const struct format_job *job, int64_t at);
void qkv_number_text(char text[40], struct number_style style, double value);

/* Returns the largest finite absolute value of a step in all explanations. */
double qkv_step_largest(const struct format_job *job, int64_t at);

/* The name of row or column `i`: a label, or the number i + 1 if `names` is NULL. "?" if memory runs out. */
const char *qkv_step_label(const struct format_job *job, const char *const *names, int64_t i);

/* Which of `count` rows or columns to show if not all fit: the first `head`, a gap, and the last `tail`.
 * If head + tail == count, all of them are shown, without a gap. */
struct elision {
    int64_t head, tail;
};
/* Chooses at most `max` places, one of them for the gap, with `tail` rows or columns after it. */
struct elision qkv_elide(int64_t count, int64_t max, int64_t tail);

/* Returns the row or column at place `i` of those shown; -1 at the gap. */
int64_t qkv_elision_at(struct elision elision, int64_t count, int64_t i);

/* Returns the number of places, with the gap. */
static inline int64_t qkv_elision_places(struct elision elision, int64_t count)
{
    return elision.head + elision.tail + (elision.head + elision.tail < count);
}

/* Returns the caption of the matrix of one head (counted from 0): "head 2", "random, head 2", "random", or "". */
const char *qkv_step_caption(const struct format_job *job, int index, const struct qkv_step *step,
                             int64_t head);
