/* Random choices of the generators. All depend only on the seed, the use and the step, so that the same seed gives the
 * same data everywhere. */
#ifndef QKV_DATASETS_DICE_H
#define QKV_DATASETS_DICE_H

#include "qkv/random.h"

#include <stdbool.h>
#include <stdint.h>

/* Sub-streams of QKV_STREAM_GENERATE. */
enum { STREAM_HELD_OUT = 1, STREAM_CLAUSE, STREAM_SEQUENCE, STREAM_SENTENCE };

/* The random numbers of one use. */
struct qkv_random generate_random(uint64_t seed, int use, int step);

/* A sequence of random choices. */
struct dice {
    struct qkv_random random;
    uint64_t rolls; /* choices so far */
};

/* A number from 0 to bound - 1. */
int64_t dice_below(struct dice *dice, int64_t bound);

/* True with this probability, in percent. */
bool dice_percent(struct dice *dice, int percent);

/* One in HELD_OUT_SHARE combinations of words is held out of training, whatever the number of words. */
enum { HELD_OUT_SHARE = 8 };

enum combination { ADJECTIVE_NOUN, VERB_OBJECT };

/* True when the combination of two entries, given by their positions in the lexicon, is held out. */
bool is_held_out(uint64_t seed, enum combination kind, int64_t first, int64_t second);

#endif
