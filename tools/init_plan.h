/* Chooses the sizes of a first config by the data. */
#ifndef QKV_TOOLS_INIT_PLAN_H
#define QKV_TOOLS_INIT_PLAN_H

#include "qkv/config.h"
#include "qkv/pairs_set.h"
#include "qkv/trainer.h"

/* A row of init_sizes.def. */
struct init_sizes {
    int64_t pairs;
    enum qkv_level level;
    int64_t merges, layers, width, inner, heads;
    double dropout, rate;
    int64_t warmup, tokens, epochs;
};

enum { INIT_LENGTH_MAX = 250 /* tokens of a sentence: longer ones cost more than they teach */ };

/* The pairs, and the part of the split that each belongs to. */
struct init_data {
    const struct qkv_pairs *pairs;
    const struct qkv_pairs_statistics *facts;
    enum qkv_pairs_part *part;      /* QKV_PAIRS_PARTS: none */
    int64_t count[QKV_PAIRS_PARTS]; /* pairs of each part */
};

/* The settings of the config. */
struct init_plan {
    const struct init_sizes *sizes;
    double dropout; /* chosen by the amount of data, even if the sizes are reduced for lack of time */
    enum qkv_level level[2];
    bool split_punctuation[2]; /* false: the text is tokenized */
    bool is_joint;             /* both sides share their pieces of words */
    int64_t merges;            /* of a side, or of both together; 0: none */
    int64_t max_length[2];     /* tokens */
    double left_out;           /* share of the training pairs that are longer on a side */
    int64_t taken_out;   /* pairs of more than INIT_LENGTH_MAX tokens on a side, taken out of dev and test */
    int64_t updates;     /* 0: not known yet */
    int64_t validations; /* maximal number of validations in the complete training */
};

/* Chooses sizes, tokenizer and lengths; updates stay 0. Takes pairs that are far too long out of dev and test. Fails when all pairs
 * are too long, or memory runs out. */
enum qkv_status init_plan_choose(struct init_plan *plan, struct init_data *data, struct qkv_error *error);

/* Whether the config converts a side to lower case: the source at level word. */
bool init_is_lowercase(const struct init_plan *plan, int side);

/* Whether max_length leaves out more than a few of the pairs. */
bool init_leaves_out_many(const struct init_plan *plan);

/* Chooses the next smaller sizes; false when there are none. Tokenizer and dropout stay as they are. */
bool init_plan_shrink(struct init_plan *plan);

/* Chooses plan->validations so that they take at most a third of the time, if one validation does, and returns the number of
 * updates that fit into the rest of `seconds`, at most that of the longest training that the sizes allow. */
int64_t init_plan_updates(struct init_plan *plan, const struct qkv_train_cost *cost, double seconds);

/* Minutes of training in which so many epochs and their validations fit, rounded up to one or two digits. */
int64_t init_plan_minutes(const struct qkv_train_cost *cost, int64_t epochs);

/* Updates between two validations, rounded up to one or two digits. */
int64_t init_validation_freq(const struct init_plan *plan);

#endif
