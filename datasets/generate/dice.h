/* Random choices of the generators. All depend only on the seed, the sub-stream and the step, so
 * that the same seed gives the same data everywhere. */
#ifndef QKV_DATASETS_DICE_H
#define QKV_DATASETS_DICE_H

#include "qkv/random.h"

#include <stdbool.h>
#include <stdint.h>

/* Each part of the generators has random numbers of its own: a sub-stream of QKV_STREAM_GENERATE (qkv/random.h). */
enum { STREAM_HELD_OUT = 1, STREAM_CLAUSE, STREAM_SEQUENCE, STREAM_SENTENCE };

/* The random numbers of a sub-stream (STREAM_...) and a step: a split, SPLITS + a split for the order of its lines, or a
 * kind of combination. */
struct qkv_random generate_random(uint64_t seed, int stream, int step);

/* A sequence of random choices. */
struct dice {
    struct qkv_random random;
    uint64_t rolls; /* choices so far */
};

/* A number from 0 to bound - 1. */
int64_t dice_below(struct dice *dice, int64_t bound);

/* True with this probability, in percent. */
bool dice_percent(struct dice *dice, int percent);

/* One in so many combinations of two words is held out of training. */
enum { HELD_OUT_ONE_IN = 8 };

enum combination { ADJECTIVE_NOUN, VERB_OBJECT };

/* True when a combination of two words is held out. `first` and `second` are their indices in the
 * lists of the lexicon: adjective and noun, or verb and noun. */
bool is_held_out(uint64_t seed, enum combination kind, int64_t first, int64_t second);

#endif
