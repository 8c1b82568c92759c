/* Random sentences: clauses drawn from a lexicon, alone or joined to sentences of a wanted length. */
#pragma once

#include "datasets/generate/dataset.h"
#include "datasets/generate/grammar.h"

enum { MAX_OWNERS = 8, MAX_JOINED = 2, MAX_RELATIVES = 3 };

/* The source of random sentences, with storage for the parts of the current clause. Caller's storage. */
struct sampler {
    const struct lexicon *lexicon;
    uint64_t seed;
    bool rich; /* noun phrases may be joined ("the boy and the girl") and have relative clauses */
    struct dice dice;
    /* Parts of the current clause, which points to them. */
    struct noun_phrase owner[MAX_OWNERS], joined[MAX_JOINED];
    struct clause relative[MAX_RELATIVES];
    int owners, joined_count, relatives, depth; /* depth: nesting of relative clauses */
    int held_out;                               /* held-out combinations in the current clause */
};

/* Draws a clause. False when no word fits the choices made so far, or choices contradict each
 * other; another call makes other choices. */
bool draw_clause(struct sampler *sampler, struct clause *clause);

/* Draws a sentence of `words` English words into an empty phrase. `held_out`: one of its clauses must have held-out
 * combinations of words; otherwise none may. False as draw_clause. */
bool draw_sentence(struct sampler *sampler, int words, bool held_out, struct phrase *sentence);

/* The clause of an example of the lexicon. */
struct clause example_clause(const struct lexicon *lexicon, const struct example *example);
