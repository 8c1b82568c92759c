/* Meanings drawn at random from a lexicon, and the combinations of words that are kept for testing. */
#ifndef QKV_DATASETS_DRAW_H
#define QKV_DATASETS_DRAW_H

#include "datasets/generate/grammar.h"
#include "qkv/random.h"

/* Sub-streams of QKV_STREAM_GENERATE. */
enum { STREAM_HELD_OUT = 1, STREAM_CLAUSE, STREAM_SEQUENCE, STREAM_SENTENCE };

/* The family of numbers of one use. */
struct qkv_random generate_random(uint64_t seed, int use, int step);

/* A sequence of random choices. */
struct dice {
    struct qkv_random random;
    uint64_t rolls;
};

int64_t dice_below(struct dice *dice, int64_t bound);
bool dice_percent(struct dice *dice, int percent);

/* One in HELD_OUT_SHARE combinations is kept out of training, whatever the number of words. */
enum { HELD_OUT_SHARE = 8 };

enum combination { ADJECTIVE_NOUN, VERB_OBJECT };

/* Whether the combination of two entries, by their positions in the lexicon, is held out. */
bool held_out(uint64_t seed, enum combination kind, int64_t first, int64_t second);

enum { MOST_OWNERS = 8, MOST_JOINED = 2, MOST_RELATIVES = 3 };

/* What a drawing needs and finds out; caller's storage. */
struct drawing {
    const struct lexicon *lexicon;
    uint64_t seed;
    bool rich; /* noun phrases may be joined ("the boy and the girl") and have relative clauses */
    struct dice dice;
    /* Of the noun phrases of the clause; they live as long as this. */
    struct noun_phrase owner[MOST_OWNERS], joined[MOST_JOINED];
    struct clause relative[MOST_RELATIVES];
    int owners, joints, relatives, depth; /* depth: of relative clauses in relative clauses */
    int held_out;                         /* combinations in this clause that are held out */
};

/* Draws a clause; false when the choices made do not lead to one, and the next attempt may. */
bool draw_clause(struct drawing *drawing, struct clause *clause);

/* The clause of an example of the lexicon. */
struct clause example_clause(const struct lexicon *lexicon, const struct example *example);

#endif
