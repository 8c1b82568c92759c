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

/* ---- norms of transformed value vectors (Kobayashi et al. 2020; recorded.c) ---- */

/* The heads of a model. With v a value and W the rows of the output projection that belong to a head, norm(v W)^2 = v G v for
 * G = W W^T; this holds G of each head. */
struct value_norms {
    const struct qkv_model *model;
    struct head_norm {
        struct qkv_head head;
        int64_t width;      /* V: of a value */
        const double *gram; /* [V, V] */
    } * heads;              /* [count]: those of the wanted kinds */
    int64_t count;
    struct qkv_arena arena;
};

/* kinds: bits 1u << kind. Norms that are all zero can be released. Fails, with nothing to release, when memory runs out,
 * and when the network has no layer that multiplies the context of a head (qkv_model_head_rows). */
enum qkv_status qkv_value_norms_init(struct value_norms *norms, const struct qkv_model *model, unsigned kinds,
                                     struct qkv_error *error);
void qkv_value_norms_release(struct value_norms *norms);

/* Replaces the maps of reports by maps of weights times norms, in the arena; the norms must have the kinds of these maps. The
 * reports must be all reports of one pass, in its order, made by a collector, so that their maps fit the sentences; trace: of
 * that pass. Fails when memory runs out, and when the network has not recorded QKV_PART_VALUE for the layer of a map. */
enum qkv_status qkv_value_norms_apply(const struct value_norms *norms, const struct qkv_trace *trace,
                                      int64_t count, struct qkv_attention_report *reports,
                                      struct qkv_arena *arena, struct qkv_error *error);

/* ---- collectors and their passes (collect.c) ---- */

struct qkv_attention_collector {
    const struct qkv_model *model;
    struct qkv_graph *graph; /* without gradients, and bound to the parameters */
    struct qkv_batch batch;
    /* Of the last pass, valid until the next one: */
    struct qkv_trace trace;
    struct qkv_tensor *hidden;              /* of the decoder */
    const struct qkv_tensor *probabilities; /* of the next tokens; NULL: not computed */
    const struct value_norms *norms;        /* NULL: maps hold weights; otherwise weights times norms */
    struct value_norms own_norms;
    struct qkv_arena arena; /* of the reports of the last call */
};

/* Runs the forced pass of `count` pairs, without making reports. Fails as qkv_attention_collect does. */
enum qkv_status qkv_attention_collector_run(struct qkv_attention_collector *collector, int64_t count,
                                            const struct qkv_attention_pair *pairs, struct qkv_error *error);

/* From the next pass on, maps hold norms: each weight times the norm of the vector that it multiplies, which is the value
 * after the output projection of its head (Kobayashi et al. 2020, "Attention is Not Only a Weight"). All passes use the
 * output projections as they are at this call. Fails when memory runs out, and for a program's own network whose single head
 * has no attentional layer; maps then still hold weights. A pass fails if a program's own network does not record the
 * values (qkv_trace_record in model.h). */
enum qkv_status qkv_attention_collector_measure_norms(struct qkv_attention_collector *collector,
                                                      struct qkv_error *error);

/* Like qkv_attention_collector_measure_norms, but with norms that the caller owns, so that several collectors can share them.
 * NULL: maps hold weights. */
void qkv_attention_collector_set_norms(struct qkv_attention_collector *collector,
                                       const struct value_norms *norms);

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

/* Makes the slots for one or two runs (the second NULL). norms: maps of these runs hold weights times these norms, which must
 * outlive the slots; NULL: weights. Slots that are all zero can be closed. Fails when memory runs out. */
enum qkv_status qkv_forced_open(struct forced_slots *slots, struct qkv_workers *workers,
                                const struct qkv_run *const runs[2], const struct value_norms *const norms[2],
                                struct qkv_error *error);
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
