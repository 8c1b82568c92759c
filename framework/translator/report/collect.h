/* Private to report, explain and the tools: forced passes through a model, and what they recorded beside the weights. */
#pragma once

#include "qkv/attention_map.h"

/* The token that the decoder reads before the target of a pair. */
static inline int32_t qkv_pair_first(const struct qkv_attention_pair *pair)
{
    return pair->before ? *pair->before : QKV_BEGIN;
}

/* ---- parts of a pass (recorded.c) ---- */

/* A pass whose parts are wanted. A network that is defined by another program may not have recorded them, or with a shape that
 * does not fit its layers. */
struct recorded_pass {
    const struct qkv_model *model;
    const struct qkv_trace *trace;
    const char *purpose; /* what the parts are needed for, in plural, for messages: "norms of values" */
    struct qkv_error *error;
};

/* The shape [rows, columns] that a part must have. */
struct part_shape {
    int64_t rows, columns; /* columns 0: any */
};

/* The part with this role of an attention layer (from 1), or of a stack. NULL, with a message that names the network and
 * the part, when the pass has no such part of this shape. */
const struct qkv_part *qkv_recorded_attention(const struct recorded_pass *pass, enum qkv_part_role role,
                                              enum qkv_attention_kind kind, int64_t layer,
                                              struct part_shape shape);
const struct qkv_part *qkv_recorded_stack(const struct recorded_pass *pass, enum qkv_part_role role,
                                          enum qkv_stack_id stack, struct part_shape shape);

/* ---- collectors and their passes (collect.c) ---- */

struct qkv_attention_collector {
    const struct qkv_model *model;
    struct qkv_graph *graph; /* without gradients, and bound to the parameters */
    struct qkv_batch batch;
    /* Of the last pass, valid until the next one: */
    struct qkv_trace trace;
    struct qkv_tensor *hidden;              /* of the decoder */
    const struct qkv_tensor *probabilities; /* of the next tokens; NULL: not computed */
    bool has_norms;                         /* maps hold weights times norms; false: weights */
    const double **gram; /* of each head of the model, for norms (recorded.c); NULL: not computed yet */
    struct qkv_arena gram_arena;
    struct qkv_arena arena; /* of the reports of the last call */
};

/* Runs the forced pass of `count` pairs, without making reports. Fails as qkv_attention_collect does. */
enum qkv_status qkv_attention_collector_run(struct qkv_attention_collector *collector, int64_t count,
                                            const struct qkv_attention_pair *pairs, struct qkv_error *error);

/* From the next pass on, maps hold norms (false: weights): each weight times the norm of the vector that it multiplies, which is
 * the value after the output projection of its head (Kobayashi et al. 2020, "Attention is Not Only a Weight"). All passes use the
 * output projections as they are in the first one. A pass fails if a program's own network does not record the values
 * (qkv_trace_record in model.h), or has no attentional layer after its single head. */
void qkv_attention_collector_measure_norms(struct qkv_attention_collector *collector, bool norms);

/* Replaces the maps of `count` reports, which must be those of the last pass, in its order, by maps of weights times norms, as
 * long as the reports live. Fails as such a pass does. */
enum qkv_status qkv_value_norms_apply(struct qkv_attention_collector *collector, int64_t count,
                                      struct qkv_attention_report *reports, struct qkv_error *error);

/* ---- sentences that a user gives to a run (collect.c) ---- */

/* Tokenises a source or target sentence, which messages call `what`. Fails for text that is not valid UTF-8, that has no words,
 * or that has more tokens than the model has positions. */
enum qkv_status qkv_user_sentence_encode(struct qkv_sentence *sentence, const struct qkv_run *run,
                                         bool is_target, const char *what, const char *text,
                                         struct qkv_error *error);

/* Sets the error that `what` has more tokens than the model has positions. Both numbers are without </s> and <s>. Returns
 * QKV_INVALID. */
enum qkv_status qkv_too_many_tokens(const char *what, int64_t count, int64_t longest,
                                    struct qkv_error *error);

/* Refuses a pair of which one side has more tokens than the model has positions; messages call the sides `source` and `target`.
 * The graph would refuse it, too, but could not name the side. */
enum qkv_status qkv_pair_check_length(const struct qkv_model *model, const struct qkv_attention_pair *pair,
                                      const char *source, const char *target, struct qkv_error *error);

/* ---- passes over many pairs of texts, on all threads (forced.c) ---- */

/* Maximal number of pairs of a pass. It is fixed, because the last bits of results may depend on it. */
enum { FORCED_MAX = 64 };

/* The memory for passes through the model of a run, which is reused. For one thread at a time. */
struct forced_passes {
    const struct qkv_run *run;
    unsigned kinds; /* of the maps; cross attention at first */
    bool has_texts; /* reports have the texts of tokens; false: "" instead, except for <s> and </s> */
    struct qkv_attention_collector *collector;
    struct qkv_sentence sentence;
    struct qkv_arena arena; /* of the last pass */
};

/* The result for a pair. */
struct forced_pair {
    bool has_report;
    const char *reason; /* why there is no report: "the source has 9 tokens, ..."; NULL: a side is empty */
    struct qkv_attention_pair pair;
    struct qkv_attention_words words;
    struct qkv_attention_report report;
};

/* Working memory of a thread. Slot j computes the groups j, j + slots, j + 2 slots, ... */
struct forced_slot {
    struct forced_passes passes[2];
    struct qkv_arena scratch; /* of one pair */
    struct qkv_arena results; /* of one run */
    enum qkv_status status;
    struct qkv_error error;
};

struct forced_slots {
    struct qkv_workers *workers; /* NULL: one thread */
    int count;
    struct forced_slot *slot; /* [count] */
};

/* Makes the slots for one or two runs (the second NULL). norms: maps hold weights times norms. Slots that are all zero can be
 * closed. Fails when memory runs out. */
enum qkv_status qkv_forced_open(struct forced_slots *slots, struct qkv_workers *workers,
                                const struct qkv_run *const runs[2], bool norms, struct qkv_error *error);
void qkv_forced_close(struct forced_slots *slots);

/* Processes one group of at most FORCED_MAX pairs: first .. first + count - 1. Errors go to slot->error. */
typedef enum qkv_status forced_function(void *context, struct forced_slot *slot, int64_t first,
                                        int64_t count);

/* Splits `count` pairs into groups and calls the function for each, on all threads. Returns the error of the first slot that
 * has one. */
enum qkv_status qkv_forced_run(struct forced_slots *slots, int64_t count, forced_function *function,
                               void *context, struct qkv_error *error);

/* Collects the attention of at most FORCED_MAX pairs, with passes[direction] of the slot. The second run translates targets to
 * sources, and its reports have them exchanged, too. Results are valid until the next pass. Fails for text that is not valid
 * UTF-8, for a run without attention, and when memory runs out. */
enum qkv_status qkv_forced_collect(struct forced_slot *slot, int direction, int64_t count,
                                   const struct qkv_pair_texts *texts, struct forced_pair *pairs);

/* The same for the pairs first .. first + count - 1 of a corpus, which must have kept its raw lines. Fails, too, for a pair
 * that has no report. */
enum qkv_status qkv_forced_corpus(struct forced_slot *slot, const struct qkv_corpus *corpus, int64_t first,
                                  int64_t count, struct forced_pair *pairs);
