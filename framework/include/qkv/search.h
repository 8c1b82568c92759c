/* Translating: greedy and beam search over any model, many sentences at once. */
#ifndef QKV_SEARCH_H
#define QKV_SEARCH_H

#include "qkv/arena.h"
#include "qkv/batch.h"
#include "qkv/model.h"

struct qkv_search_options {
    int64_t beam_size;         /* hypotheses kept per sentence; 1: greedy */
    double length_penalty;     /* alpha of ((5 + length) / 6)^alpha, which divides the log-probability
                                  (Wu et al. 2016, 7); length counts </s> */
    int64_t n_best;            /* 1 .. beam_size translations per sentence */
    int64_t max_output_length; /* tokens; 0: 2 * source + 10. Never beyond what the model has positions for */
    bool unscored;             /* greedy search leaves log-probability and score 0, which takes less time */
};

struct qkv_hypothesis {
    int64_t length;
    const int32_t *ids;     /* [length], without <s> and </s> */
    double log_probability; /* nats, with </s> where it was reached */
    double score;           /* log-probability / length penalty */
    bool finished;          /* false: cut at the greatest length */
};

/* The translations of a batch; caller's storage, all zero at first. Searching again reuses the memory. */
struct qkv_translations {
    int64_t count;               /* sentences */
    struct qkv_hypothesis *best; /* [count * n_best]: of sentence s, best first, from s * n_best; where a
                                    sentence has fewer, the rest have ids NULL */
    struct qkv_arena arena;
};

/* Translates the sources of a batch. Deterministic: equal scores are ordered by hypothesis and token. The
 * result of a sentence does not depend on the others in its batch but for rounding. */
QKV_API enum qkv_status qkv_search(struct qkv_decoding *decoding, const struct qkv_batch_view *batch,
                                   const struct qkv_search_options *options,
                                   struct qkv_translations *translations, struct qkv_error *error);

QKV_API void qkv_translations_release(struct qkv_translations *translations);

#endif
