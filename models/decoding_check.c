/* Checks that the decoding of a network gives the same numbers as its forced pass: both decode two short sentences side by
 * side, first without reordering, then with rows that are reordered between steps. */
#include "models/network.h"

#include <math.h>

enum { SENTENCES = 2, WORDS_MAX = 3, ROWS = 4, STEPS_MAX = 4 };

struct comparison {
    const struct qkv_model *model;
    struct qkv_decoding *faster, *plain;
    int64_t steps;
    int64_t words[SENTENCES]; /* of each source */
    bool reorders;            /* rows are reordered between steps */
};

/* The parents of the rows of each step. As in a beam, the first step has one row per sentence; later some rows are
 * continued twice or not at all, and the last step has one row fewer. */
static const struct {
    int64_t rows, parents[ROWS];
} REORDERED[STEPS_MAX] = {{2, {0, 1}}, {4, {1, 0, 0, 1}}, {4, {2, 2, 0, 1}}, {3, {3, 1, 0}}};
static const int64_t SENTENCE_OF_ROW[ROWS] = {1, 0, 0, 1}; /* when rows are not reordered */

/* Log-probabilities that differ by less than this times (1 + their absolute value) differ only by rounding. */
static double rounding_of(const struct qkv_model *model)
{
    return model->parameters.dtype == QKV_FLOAT32 ? 1e-4 : 1e-9;
}

/* Compares the scores of the tokens that may follow each row. */
static enum qkv_status compare(const struct comparison *c, const struct qkv_next_scores *faster,
                               const struct qkv_next_scores *plain, struct qkv_error *error)
{
    const double rounding = rounding_of(c->model);
    for (int64_t row = 0; row < plain->rows; row++)
        for (int32_t token = 0; token < c->model->target_size; token++) {
            const double found = qkv_next_log_probability(faster, row, token),
                         expected = qkv_next_log_probability(plain, row, token);
            if (fabs(found - expected) <= rounding * (1 + fabs(expected))) continue;
            return qkv_error_set(
                error,
                "network %s: step %lld of its decoding gives token %d of row %lld the log-probability %g, "
                "but hidden gives %g%s",
                c->model->interface->name, (long long)c->faster->step, (int)token, (long long)row, found,
                expected,
                c->reorders ? "; without reordering they agree, so reorder must move more, or move it "
                              "elsewhere"
                            : "");
        }
    return QKV_OK;
}

static enum qkv_status run(const struct comparison *c, const struct qkv_batch_view *batch,
                           struct qkv_error *error)
{
    int64_t sentences[ROWS], moved[ROWS];
    if (qkv_decoding_start(c->faster, batch, ROWS, c->steps, true, error) ||
        qkv_decoding_start(c->plain, batch, ROWS, c->steps, true, error))
        return QKV_INVALID;
    for (int64_t step = 0; step < c->steps; step++) {
        const int64_t rows = c->reorders ? REORDERED[step].rows : ROWS, *parents = REORDERED[step].parents;
        int32_t ids[ROWS];
        for (int64_t row = 0; row < rows; row++) {
            ids[row] = (row + step) % 2 ? QKV_UNKNOWN : c->model->target_size - 1;
            if (step == 0) ids[row] = QKV_BEGIN;
            moved[row] = !c->reorders ? SENTENCE_OF_ROW[row] : step ? sentences[parents[row]] : parents[row];
        }
        for (int64_t row = 0; row < rows; row++) sentences[row] = moved[row];
        if (c->reorders && step) {
            qkv_decoding_reorder(c->faster, rows, parents);
            qkv_decoding_reorder(c->plain, rows, parents);
        }
        const struct qkv_next_scores *faster = qkv_decoding_step(c->faster, rows, ids, sentences, error),
                                     *plain = faster
                                                  ? qkv_decoding_step(c->plain, rows, ids, sentences, error)
                                                  : NULL;
        if (!plain || compare(c, faster, plain, error)) return QKV_INVALID;
    }
    return QKV_OK;
}

static enum qkv_status run_both(struct comparison *c, struct qkv_batch *batch, struct qkv_error *error)
{
    int32_t words[WORDS_MAX];
    struct qkv_ids sources[SENTENCES];
    struct qkv_batch_view view;
    for (int i = 0; i < WORDS_MAX; i++) words[i] = i % 2 ? QKV_UNKNOWN : c->model->source_size - 1;
    for (int s = 0; s < SENTENCES; s++) sources[s] = (struct qkv_ids){c->words[s], words};
    if (qkv_batch_make(batch, SENTENCES, sources, NULL, error)) return QKV_INVALID;
    qkv_batch_shard(batch, 0, 1, &view);
    for (int reorders = 0; reorders < 2; reorders++) {
        c->reorders = reorders;
        if (run(c, &view, error)) return QKV_INVALID;
    }
    return QKV_OK;
}

enum qkv_status qkv_network_check_decoding(const struct qkv_model *model, struct qkv_error *error)
{
    const int64_t longest = qkv_model_max_length(model),
                  words = longest - 1 < WORDS_MAX ? longest - 1 : WORDS_MAX;
    bool is_narrow = model->parameters.products != QKV_PRECISION_FLOAT32;
    if (!model->interface->decoding || words < 1 || is_narrow) return QKV_OK;
    struct comparison c = {.model = model, .words = {words, 1}};
    struct qkv_batch batch = {0};
    c.steps = longest < STEPS_MAX ? longest : STEPS_MAX;
    c.faster = qkv_decoding_new(model);
    c.plain = qkv_decoding_new_plain(model);
    enum qkv_status status =
        c.faster && c.plain ? run_both(&c, &batch, error) : qkv_error_set(error, "out of memory for a model");
    qkv_decoding_free(c.faster);
    qkv_decoding_free(c.plain);
    qkv_batch_release(&batch);
    return status;
}
