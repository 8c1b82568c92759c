/* Checks that the forced pass of a network obeys the rules of qkv/network.h: runs it on two short sentences, then again
 * with some tokens changed, and compares the rows that must not depend on these tokens. */
#include "models/network.h"

#include <math.h>
#include <stdlib.h>

enum { SENTENCES = 2, WORDS_MAX = 3 };

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

static enum qkv_status run(struct probe *probe, const struct changes *changes, struct qkv_error *error)
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
static enum qkv_status compare(struct probe *probe, const struct changes *changes, struct qkv_error *error)
{
    const char *name = probe->model->interface->name;
    if (run(probe, changes, error)) return QKV_INVALID;
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

static enum qkv_status compare_all(struct probe *probe, struct qkv_error *error)
{
    double *first = probe->states;
    if (run(probe, &(struct changes){{false}, 0}, error)) return QKV_INVALID;
    probe->states = probe->expected;
    probe->expected = first;
    for (int64_t target = 1; target <= probe->words; target++)
        if (compare(probe, &(struct changes){{false}, target}, error)) return QKV_INVALID;
    for (int s = 0; s < SENTENCES; s++)
        if (compare(probe, &(struct changes){{s == 0, s == 1}, 0}, error)) return QKV_INVALID;
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
    if (!probe.states || !probe.expected || !probe.graph)
        status = qkv_error_set(error, "out of memory for a model");
    if (!status) {
        qkv_graph_set_gradients(probe.graph, false);
        qkv_graph_bind(probe.graph, &model->parameters, NULL, false);
        status = compare_all(&probe, error);
    }
    qkv_graph_free(probe.graph);
    qkv_batch_release(&probe.batch);
    free(probe.states);
    free(probe.expected);
    return status;
}
