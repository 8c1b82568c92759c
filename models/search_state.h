/* Private to models/: the state of a search, which search.c owns, and the functions that choose tokens. */
#ifndef QKV_MODELS_SEARCH_STATE_H
#define QKV_MODELS_SEARCH_STATE_H

#include "qkv/search.h"

/* One token of a hypothesis. The tokens of all hypotheses are a tree: a hypothesis is a node, and
 * its tokens are those on the path to the root. */
struct node {
    int64_t parent; /* index of the previous token; -1: none, the hypothesis begins here */
    int32_t token;
};

/* A hypothesis that is not finished: one row of the decoder. */
struct live {
    int64_t sentence, node;
    double log_probability;
    int64_t sample; /* sampling: its number among the samples of the sentence; otherwise 0 */
};

/* A token that may follow a row. */
struct candidate {
    int64_t row;
    int32_t token;
    double log_probability;
};

/* The state of one sentence. */
struct progress {
    int64_t max_length;    /* of its translations, in tokens with </s> */
    int64_t finished;      /* hypotheses in its list of finished ones */
    struct qkv_ids prefix; /* the tokens that its translations begin with */
};

/* A token that may continue a sample. */
struct choice {
    double logit, weight; /* weight: exp((logit - greatest logit) / temperature) */
    int32_t token;
};

/* Scores of one row that constraints have changed (constraints.c). */
struct constrained_row {
    double *logits;    /* [C]; -infinity: not allowed */
    double *group_max; /* [groups of C] */
    double sum;        /* log sum exp(logits) before tokens were excluded */
    int32_t *history;  /* [max_length]: the tokens of the hypothesis */
    struct qkv_next_scores next;
};

struct search {
    const struct qkv_search_options *options;
    struct qkv_decoding *decoding;
    int64_t width; /* greatest number of rows per sentence: beam_size, or the number of samples */
    int64_t sentences, step;
    bool scored;               /* false: greedy search by logits; log-probabilities stay 0 */
    bool constrained;          /* the scores of each row are copied to `row` and changed there */
    int32_t excluded;          /* a token that is never chosen, besides <s>: <unk>, or <s> again */
    struct progress *progress; /* [sentences] */
    /* [sentences * width]: finished hypotheses of each sentence, best first; samples in the order of their numbers */
    struct qkv_hypothesis *done;
    struct node *nodes;
    int64_t node_count, node_capacity;
    /* Rows of this step and of the next; those of a sentence are consecutive */
    struct live *live, *continued;
    int64_t rows, next_rows;
    int64_t capacity;             /* candidates of a sentence: 1 in greedy search, else 2 * width */
    struct candidate *candidates; /* [capacity], or a row each */
    double *bounds;               /* [capacity], of raise_bounds in candidates.c */
    int32_t *ids;                 /* [rows]: token that each row feeds to qkv_decoding_step */
    int64_t *sentence_of;         /* [rows] */
    int64_t *parents;             /* [next_rows], for qkv_decoding_reorder */
    struct constrained_row row;
    struct choice *choices; /* [C]; only for sampling */
    struct qkv_arena *arena;
};

/* Writes the last `length` tokens of a hypothesis that ends with `node`. */
static inline void qkv_search_tokens(const struct search *s, int64_t node, int64_t length, int32_t *ids)
{
    for (int64_t i = length - 1; i >= 0; i--, node = s->nodes[node].parent) ids[i] = s->nodes[node].token;
}

/* constraints.c */

/* Whether the options change or exclude scores of tokens. */
bool qkv_search_is_constrained(const struct qkv_search_options *options);

/* Allocates s->row, for C tokens and hypotheses of `length` tokens. False when memory runs out. */
bool qkv_search_allocate_row(struct search *s, int64_t classes, int64_t length);

/* Applies the constraints of the options to a row of `next`: returns a struct with only the changed row, valid until the
 * next call. */
const struct qkv_next_scores *qkv_search_constrain(struct search *s, const struct qkv_next_scores *next,
                                                   int64_t row);

/* candidates.c: stores the best continuations of rows first .. end-1, the rows of one sentence, in s->candidates
 * and returns their number: 1 in greedy search, else up to 2 * width; 0 if scores are not finite. */
int64_t qkv_search_best(struct search *s, const struct qkv_next_scores *next, int64_t first, int64_t end);

/* sampling.c: stores one candidate for each of these rows, drawn at random, and returns their number; 0 if scores are
 * not finite. */
int64_t qkv_search_draw(struct search *s, const struct qkv_next_scores *next, int64_t first, int64_t end);

#endif
