/* Private to report and the tools: attribution (attribution.c), the passes that it makes (copies.c), what layers would predict and
 * what changes when their outputs are replaced (states.c), and how attention mixes tokens from layer to layer (flow.c). */
#pragma once

#include "metrics/alignment.h"
#include "report/collect.h"
#include "report/steps.h"

/* ---- passes over copies of a pair (copies.c) ---- */

/* What a copy computes otherwise than the pair: rows of a part are at a point of the straight line from a base, 0, to the rows as
 * they were computed, 1. The base of an embedding is that of <unk>, of a value 0, and of other parts the same row of the base
 * (struct copies). */
struct change {
    int64_t copy;
    struct qkv_part of; /* role, layer, and stack or kind of attention */
    int64_t row, rows;  /* the first one in the copy, and how many */
    int64_t head;       /* changes its columns alone; 0: all */
    double point;
    bool hides; /* no attention sees the row, either: an embedding */
};

/* Copies to pass, as many at once as need little memory. */
struct copies {
    int64_t count;
    const struct change *changes;
    int64_t change_count;
    const struct qkv_attention_pair *base; /* is passed before those of each pass; NULL: none is */
    int64_t first, passed;                 /* the copies of the last pass; 0 at first */
};

/* A pair, and passes over copies of it. S: source tokens with </s>; T: tokens that the decoder reads, as many as it predicts. */
struct attribution {
    struct qkv_attention_collector *collector;
    const struct qkv_attention_pair *pair;
    const struct qkv_attribution_options *options;
    struct qkv_attention_report *report;
    struct qkv_error *error;
    struct qkv_arena *arena;         /* of the collector */
    int64_t sources, steps, columns; /* S, T, S + T */
    int32_t *labels;                 /* [T]: the predicted tokens */
    double *log_probability;         /* [T]: of these */
    double *result;                  /* [T, S + T] */
    struct copies copies;
    enum qkv_status status;
};

/* Begins: collects maps of these kinds (as in qkv_attention_collect) into the report, and reads what the model predicts. */
enum qkv_status qkv_copies_begin(struct attribution *a, unsigned kinds);

/* Passes the next ones of a->copies. False: all have been passed, or a->status says why not. */
bool qkv_copies_pass(struct attribution *a);

/* The first row of a copy, or of the base (-1), in the rows of the sources, or of the targets, of the last pass. */
int64_t qkv_copies_row(const struct attribution *a, bool of_source, int64_t copy);

/* Reads the log-probabilities of the predicted tokens in each copy of the last pass: [passed, T]. */
enum qkv_status qkv_copies_read(const struct attribution *a, double *result);

/* Passes all copies, and reads the same of each: [copies.count, T]. */
enum qkv_status qkv_copies_measure(struct attribution *a, struct copies copies, double *result);

/* The same of copies without the hidden tokens, [count, S + T]. */
enum qkv_status qkv_copies_without(struct attribution *a, int64_t count, const bool *hidden, double *result);

/* Erasure: sets a->result to what each token adds to the log-probability of each prediction. */
enum qkv_status qkv_copies_erase(struct attribution *a);

/* Column d of the embedding that a token has in a stack. */
double qkv_copies_embedding(const struct attribution *a, enum qkv_stack_id stack, int64_t token, int64_t d);

/* ---- states of layers (states.c) ---- */

/* The logit lens (nostalgebraist 2020): what the output layer, and the norm before it, make of the state after each layer of the
 * decoder. Makes a matrix for each step [layers, tokens] of probabilities: of the token that is there, and of the most probable
 * ones after each layer, which pair->vocabulary names. Fails for a network that does not record the states of its decoder. The
 * explanation is in the arena of the collector. */
enum qkv_status qkv_lens(struct qkv_attention_collector *collector, const struct qkv_attention_pair *pair,
                         struct qkv_explanation *explanation, struct qkv_error *error);

/* Activation patching (Meng et al. 2022; Wang et al. 2023): what the pass over another source (without a source: another target),
 * which must have as many tokens, computes for one head, or for one token after one layer, replaces the same in the pass over the
 * pair. Makes a matrix for each kind of attention [layers, heads], and one for each stack [layers, tokens]: by how much that
 * changes the probability of the token that step `step` (from 0) predicts. The explanation is in the arena of the collector. */
enum qkv_status qkv_patch(struct qkv_attention_collector *collector, const struct qkv_attention_pair *pair,
                          struct qkv_ids other, int64_t step, struct qkv_explanation *explanation,
                          struct qkv_error *error);

/* ---- rollout and flow (flow.c) ---- */

/* How layers mix tokens: a network of nodes, which take shares of nodes before them. The first nodes are the tokens: S of the
 * source, then T that the decoder reads. */
struct mixture;

/* Begins a mixture of at most `layers` layers, in the arena; NULL: memory is out. */
struct mixture *qkv_mixture_new(struct qkv_arena *arena, int64_t sources, int64_t targets, int64_t layers);

/* Adds a layer, which makes each row of the source (false: of the target) a mixture: `keep` of the row itself, and 1 - keep of
 * those that `own` [S, S], or [T, T], and `other` name: [T, S], of targets, from the present rows of the source. NULL: none; a
 * layer that has neither changes nothing. Where `keep` is 0, divides each row by its sum; a row of zeros stays what it was. */
void qkv_mixture_add(struct mixture *mixture, bool of_source, double keep, const double *own,
                     const double *other);

/* Attention rollout and attention flow (Abnar and Zuidema 2020). result [T, S + T]: how much of each row of the target, after
 * the last layer, comes from each token: the share of it, or the maximum flow between both, where shares are capacities. When
 * memory runs out, the arena fails. */
void qkv_rollout(struct mixture *mixture, double *result);
void qkv_flow(struct mixture *mixture, double *result);
