/* Checks that a network obeys the rules of qkv/model.h, on two short sentences. */
#include "core/memory.h"
#include "models/network.h"

#include <math.h>

enum { SENTENCES = 2, WORDS_MAX = 3 };

/* ---- the forced pass: runs it, then again with some tokens changed, and compares the rows that must not depend on these ---- */

/* A row that changes by less than this, relative to the largest number of all rows, changes only by rounding. */
static const double ROUNDING = 1e-4;

struct probe {
    const struct qkv_model *model;
    struct qkv_graph *graph;
    struct qkv_batch batch;
    int64_t words, rows;       /* of each sentence: words, target tokens with </s> */
    double *states, *expected; /* [SENTENCES * rows, D]: of this pass, and of the first one */
};

/* Which tokens of a pass are changed: changed tokens are the last one of the vocabulary, all others are <unk>. */
struct changes {
    bool sentence[SENTENCES]; /* source and target of this sentence are changed */
    int64_t target;           /* changed row of target_input of sentence 0; 0, which is <s>: none */
};

static enum qkv_status run_pass(struct probe *probe, const struct changes *changes, struct qkv_error *error)
{
    const struct qkv_model *model = probe->model;
    int32_t source[SENTENCES][WORDS_MAX], target[SENTENCES][WORDS_MAX];
    struct qkv_ids sources[SENTENCES], targets[SENTENCES];
    struct qkv_batch_view view;
    for (int s = 0; s < SENTENCES; s++) {
        for (int64_t i = 0; i < probe->words; i++) {
            bool is_target = s == 0 && i + 1 == changes->target;
            source[s][i] = changes->sentence[s] ? model->source_size - 1 : QKV_UNKNOWN;
            target[s][i] = changes->sentence[s] || is_target ? model->target_size - 1 : QKV_UNKNOWN;
        }
        sources[s] = (struct qkv_ids){probe->words, source[s]};
        targets[s] = (struct qkv_ids){probe->words, target[s]};
    }
    if (qkv_batch_make(&probe->batch, SENTENCES, sources, targets, error)) return QKV_INVALID;
    qkv_batch_shard(&probe->batch, 0, 1, &view);
    qkv_graph_reset(probe->graph);
    struct qkv_tensor *hidden = qkv_model_forward(model, probe->graph, &view, NULL);
    qkv_forward(probe->graph);
    if (qkv_graph_check(probe->graph, error)) return QKV_INVALID;
    qkv_tensor_read(hidden, probe->states);
    return QKV_OK;
}

static bool has_changed(const struct probe *probe, int64_t row)
{
    const int64_t width = probe->model->config.decoder.hidden_size, count = SENTENCES * probe->rows * width;
    double largest = 0, difference = 0;
    for (int64_t i = 0; i < count; i++) largest = fmax(largest, fabs(probe->expected[i]));
    for (int64_t i = row * width; i < (row + 1) * width; i++)
        difference = fmax(difference, fabs(probe->states[i] - probe->expected[i]));
    return difference > ROUNDING * largest;
}

/* Runs a pass with changed tokens, and fails if rows change that must not depend on them. */
static enum qkv_status compare_rows(struct probe *probe, const struct changes *changes,
                                    struct qkv_error *error)
{
    const char *name = probe->model->interface->name;
    if (run_pass(probe, changes, error)) return QKV_INVALID;
    for (int64_t row = 0; row < changes->target; row++)
        if (has_changed(probe, row))
            return qkv_error_set(
                error,
                "network %s: forward looks ahead: row %lld of a sentence changes with row %lld "
                "of its target_input, but may depend on none after its own",
                name, (long long)row, (long long)changes->target);
    for (int64_t row = 0; row < SENTENCES * probe->rows; row++) {
        const int64_t sentence = row / probe->rows;
        bool is_own = changes->sentence[sentence] || (sentence == 0 && changes->target);
        if (!is_own && has_changed(probe, row))
            return qkv_error_set(
                error,
                "network %s: forward mixes sentences: row %lld of sentence %lld changes with the "
                "tokens of another sentence; give the ops the segments of the batch",
                name, (long long)(row % probe->rows), (long long)sentence);
    }
    return QKV_OK;
}

static enum qkv_status compare_passes(struct probe *probe, struct qkv_error *error)
{
    double *first = probe->states;
    if (run_pass(probe, &(struct changes){{false}, 0}, error)) return QKV_INVALID;
    probe->states = probe->expected;
    probe->expected = first;
    for (int64_t target = 1; target <= probe->words; target++)
        if (compare_rows(probe, &(struct changes){{false}, target}, error)) return QKV_INVALID;
    for (int s = 0; s < SENTENCES; s++)
        if (compare_rows(probe, &(struct changes){{s == 0, s == 1}, 0}, error)) return QKV_INVALID;
    return QKV_OK;
}

enum qkv_status qkv_network_check_forward(const struct qkv_model *model, struct qkv_error *error)
{
    const int64_t longest = qkv_model_max_length(model) - 1;
    struct probe probe = {.model = model, .words = longest < WORDS_MAX ? longest : WORDS_MAX};
    if (probe.words < 1) return QKV_OK;
    probe.rows = probe.words + 1;
    const size_t count = (size_t)(SENTENCES * probe.rows * model->config.decoder.hidden_size);
    probe.states = calloc(count, sizeof *probe.states);
    probe.expected = calloc(count, sizeof *probe.expected);
    probe.graph = qkv_graph_new(model->parameters.dtype);
    enum qkv_status status = QKV_OK;
    if (!probe.states || !probe.expected || !probe.graph) status = qkv_no_memory(error);
    if (!status) {
        qkv_graph_set_gradients(probe.graph, false);
        qkv_graph_bind(probe.graph, &model->parameters, NULL, false);
        status = compare_passes(&probe, error);
    }
    qkv_graph_free(probe.graph);
    qkv_batch_release(&probe.batch);
    free(probe.states);
    free(probe.expected);
    return status;
}

/* ---- the decoding gives the same numbers as the forced pass: both decode the sentences side by side, first without reordering,
 * then with rows that are reordered between steps ---- */

enum { ROWS = 4, STEPS_MAX = 4 };

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

/* Compares the scores of the tokens that may follow each row. */
static enum qkv_status compare_scores(const struct comparison *c, const struct qkv_next_scores *faster,
                                      const struct qkv_next_scores *plain, struct qkv_error *error)
{
    /* Log-probabilities that differ by less than this times (1 + their absolute value) differ only by rounding. */
    const double rounding = c->model->parameters.dtype == QKV_FLOAT32 ? 1e-4 : 1e-9;
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

static enum qkv_status decode_both(const struct comparison *c, const struct qkv_batch_view *batch,
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
        if (!plain || compare_scores(c, faster, plain, error)) return QKV_INVALID;
    }
    return QKV_OK;
}

static enum qkv_status compare_decodings(struct comparison *c, struct qkv_batch *batch,
                                         struct qkv_error *error)
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
        if (decode_both(c, &view, error)) return QKV_INVALID;
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
        c.faster && c.plain ? compare_decodings(&c, &batch, error) : qkv_no_memory(error);
    qkv_decoding_free(c.faster);
    qkv_decoding_free(c.plain);
    qkv_batch_release(&batch);
    return status;
}
