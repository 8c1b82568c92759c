/* Private to explain: what the writers share. */
#ifndef QKV_EXPLAIN_WRITE_H
#define QKV_EXPLAIN_WRITE_H

#include "report/report.h"

#include "qkv/explain.h"

/* What to render: walks through the same steps. */
struct explain_job {
    const struct qkv_explanation *walks;
    int count;
    struct qkv_explain_options options; /* defaults filled in */
    struct qkv_arena *arena;            /* scratch of this rendering */
};

#define FORMAT(name, extension, binary, help)                                                                \
    enum qkv_status qkv_explain_##name(const struct explain_job *job, struct bytes *out,                     \
                                       struct qkv_error *error);
#include "explain/formats.def"
#undef FORMAT

/* The step of walk `walk` that stands beside step `at` of the first; NULL where it has none. */
const struct qkv_step *qkv_explain_counterpart(const struct explain_job *job, int walk, int64_t at);

/* The number, from 1, of the earlier step that holds the same numbers, where they are not to be written
 * again; 0: there is none. */
int64_t qkv_explain_repeated(const struct explain_job *job, int64_t at);

/* "[5, 4, 6]"; heads are not shown where the walk has only one. */
void qkv_explain_shape(const struct qkv_explanation *walk, const struct qkv_step *step, char text[64]);

/* How the numbers of a step are written: the same for all heads and walks. */
struct number_style {
    int digits;      /* behind the point */
    bool scientific; /* 1.2e-07 */
};
struct number_style qkv_explain_number_style(const struct explain_job *job, int64_t at);
void qkv_explain_number(char text[40], struct number_style style, double value);

/* The largest absolute number of a step in all walks that is finite. */
double qkv_explain_largest(const struct explain_job *job, int64_t at);

/* Which of `count` rows or columns to show where not all fit: the first `head`, then, behind a gap, the last
 * `tail`. head + tail == count: all. */
struct elision {
    int64_t head, tail;
};
struct elision qkv_explain_elide(int64_t count, int64_t most, int64_t tail);

/* The row or column that is shown at place `i`; -1 at the gap. */
int64_t qkv_explain_shown(struct elision elision, int64_t count, int64_t i);
static inline int64_t qkv_explain_places(struct elision elision, int64_t count)
{
    return elision.head + elision.tail + (elision.head + elision.tail < count);
}

/* "head 2", "random, head 2", "random" or "" */
const char *qkv_explain_caption(const struct explain_job *job, int walk, const struct qkv_step *step,
                                int64_t head);

#endif
