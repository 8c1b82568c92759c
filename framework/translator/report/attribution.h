/* Private to report and the tools: attribution (attribution.c), the passes that it makes (copies.c), what layers would predict and
 * what changes when their outputs are replaced (states.c), and how attention mixes tokens from layer to layer (flow.c). */
#pragma once

#include "metrics/alignment.h"
#include "report/collect.h"
#include "report/steps.h"

/* ---- passes over copies of a pair (copies.c) ---- */

/* A pair, and the pass over copies of it that runs. S: source tokens with </s>; T: tokens that the decoder reads, as many as it
 * predicts. */
struct attribution {
    struct qkv_attention_collector *collector;
    const struct qkv_attention_pair *pair;
    const struct qkv_attribution_options *options;
    struct qkv_attention_report *report;
    struct qkv_arena *arena; /* of the collector */
    struct qkv_error *error;
    int64_t sources, steps, columns; /* S, T, S + T */
    double *result;                  /* [T, S + T] */
    int32_t *labels;                 /* [T]: the predicted tokens */
    double *log_probability;         /* [T]: of these */
    /* Of the pass that runs: */
    int64_t copies;                         /* how many it has */
    const struct qkv_attention_pair *other; /* the first one instead, of equal lengths; NULL: a copy, too */
    const bool *hidden; /* [copies, S + T]: tokens that no attention sees; NULL: none is hidden */
    /* Changes the value of a part's node that has just been computed; NULL: nothing is changed. What it needs: */
    void (*change)(const struct attribution *a, const struct qkv_part *part);
    int64_t first;             /* value zeroing and patching: the number of the first change */
    const double *point;       /* [copies]: integrated gradients: where the embeddings are */
    struct qkv_part zeroed;    /* value zeroing: kind and layer of the values */
    const struct patch *patch; /* patching: what is replaced, */
    int64_t step;              /* and the step whose probability is wanted */
};

/* Begins: collects maps of these kinds (as in qkv_attention_collect) into the report, and counts the tokens of the pair. */
enum qkv_status qkv_copies_begin(struct attribution *a, unsigned kinds);

/* The state after a layer (from 1) of a stack in the last pass; NULL: it is not recorded. */
const struct qkv_part *qkv_copies_state(const struct attribution *a, enum qkv_stack_id stack, int64_t layer);

/* Passes the copies. */
enum qkv_status qkv_copies_pass(struct attribution *a);

/* How many copies, of `wanted` that are left, pass at once: one, or as many as need little memory. */
int64_t qkv_copies_at_once(const struct attribution *a, int64_t wanted, int64_t numbers_per_token);

/* The first row of a copy of the pair in the rows of its sources, or of its targets. */
int64_t qkv_copies_first_row(const struct attribution *a, bool of_source, int64_t copy);

/* Reads the log-probabilities of the predicted tokens in each copy: [copies, T]. all: [T, C], those of all tokens in the first
 * copy; NULL: not wanted. */
enum qkv_status qkv_copies_read(const struct attribution *a, double *result, double *all);

/* Sets the labels and their log-probabilities. */
enum qkv_status qkv_copies_predict(struct attribution *a);

/* Column d of the embedding that a token has in a stack. */
double qkv_copies_embedding(const struct attribution *a, enum qkv_stack_id stack, int64_t token, int64_t d);

/* Moves rows of embeddings on the straight line between that of <unk>, 0, and their own, 1. */
void qkv_copies_move(const struct attribution *a, const struct qkv_part *part, int64_t first, int64_t count,
                     double point);

/* The log-probabilities of the predicted tokens, [count, T], without the hidden ones, [count, S + T]: no attention sees them,
 * and in their own rows <unk> is read. */
enum qkv_status qkv_copies_without(struct attribution *a, int64_t count, const bool *hidden, double *result);

/* Erasure, after qkv_copies_predict: sets a->result to what each token adds to the log-probability of each prediction. */
enum qkv_status qkv_copies_erase(struct attribution *a);

/* ---- states of layers (states.c) ---- */

/* The logit lens (nostalgebraist 2020): what the output layer, and the norm before it, make of the state after each layer of the
 * decoder. Makes a matrix for each step [layers, tokens] of probabilities: of the token that is there, and of the most probable
 * ones after each layer, which pair->vocabulary names. Also fills the report with the tokens. Fails for a network that does not
 * record the states of its decoder. The explanation is in the arena of the collector. */
enum qkv_status qkv_lens(struct qkv_attention_collector *collector, const struct qkv_attention_pair *pair,
                         struct qkv_attention_report *report, struct qkv_explanation *explanation,
                         struct qkv_error *error);

/* Activation patching (Meng et al. 2022; Wang et al. 2023): what the pass over `other`, which must have as many tokens on each
 * side, computes for one head, or for one token after one layer, replaces the same in the pass over the pair. Makes a matrix for
 * each kind of attention [layers, heads], and one for each stack [layers, tokens]: by how much that changes the probability of
 * the token that step `step` (from 0) predicts. The explanation is in the arena of the collector. */
enum qkv_status qkv_patch(struct qkv_attention_collector *collector, const struct qkv_attention_pair *pair,
                          const struct qkv_attention_pair *other, int64_t step,
                          struct qkv_attention_report *report, struct qkv_explanation *explanation,
                          struct qkv_error *error);

/* ---- rollout and flow (flow.c) ---- */

/* A step in which each row becomes a mixture of rows: `keep` of the row itself, and 1 - keep of those that `own` and `other`
 * name. S: source tokens, T: tokens that the decoder reads. */
struct mixing {
    bool of_source;      /* changes the rows of the source; false: those of the target */
    double keep;         /* the share of the residual connection */
    const double *own;   /* [S, S], or [T, T]; NULL: none */
    const double *other; /* [T, S]: of targets, from the current rows of the source; NULL: none */
};

struct mixings {
    int64_t sources, targets; /* S and T */
    int64_t count;
    const struct mixing *step; /* [count], from the lowest layer */
};

/* Attention rollout and attention flow (Abnar and Zuidema 2020). result [T, S + T]: how much of each row of the target, after
 * the last step, comes from each token: the share of it, or the maximum flow between both, where the shares of each step are
 * capacities. False when memory runs out. */
bool qkv_rollout(const struct mixings *mixings, double *result);
bool qkv_flow(const struct mixings *mixings, double *result);
