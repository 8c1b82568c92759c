/* Attention maps from a model: every head of every layer, for targets that are given (forced). A translation
 * of the model's own is looked at in the same way, by forcing it: the decoder then sees what it saw while
 * searching, so the maps are those of the search but for rounding, for greedy and beam search alike. */
#ifndef QKV_ATTENTION_COLLECT_H
#define QKV_ATTENTION_COLLECT_H

#include "qkv/attention_map.h"
#include "qkv/batch.h"
#include "qkv/model.h"

/* A sentence pair; borrowed. */
struct qkv_attention_pair {
    struct qkv_ids source, target;                           /* without <s> and </s> */
    const char *const *source_tokens, *const *target_tokens; /* their texts, as the maps shall show them */
    bool unfinished; /* the translation was cut before </s> (qkv_hypothesis.finished is false): its last token
                        is output, but no step takes it in */
};

struct qkv_attention_collector;

/* A collector with a graph and a batch that it uses again in each pass. The model must outlive it; its
 * parameters are read anew in each pass. NULL with a sentence when memory is out. */
QKV_API struct qkv_attention_collector *qkv_attention_collector_new(const struct qkv_model *model,
                                                                    struct qkv_error *error);
QKV_API void qkv_attention_collector_free(struct qkv_attention_collector *collector);

/* Runs `count` pairs through the model in one pass, without dropout and gradients, and fills reports[count]
 * with the maps of the kinds in `kinds` (bits 1u << kind; 0: all), ordered by kind, layer, head. A report
 * shows the source with </s> at its end and the target from <s>, or up to </s>; title and model are left NULL
 * for the caller. Reports live until the next pass or the end of the collector, and borrow the tokens of
 * their pair. Fails when a sentence has more tokens than the model has positions for, and out of memory. */
QKV_API enum qkv_status qkv_attention_collect(struct qkv_attention_collector *collector, int64_t count,
                                              const struct qkv_attention_pair *pairs, unsigned kinds,
                                              struct qkv_attention_report *reports, struct qkv_error *error);

#endif
