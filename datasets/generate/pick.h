/* Words of a lexicon picked at random: each that fits with the same chance, or by its weight. NULL when none
 * fits. */
#ifndef QKV_DATASETS_PICK_H
#define QKV_DATASETS_PICK_H

#include "datasets/generate/draw.h"

/* What a noun phrase may be like. */
struct wish {
    uint64_t tags;
    const struct noun *unlike; /* not this noun: "the dog sees the dog"; may be NULL */
    bool definite, indefinite; /* only */
    bool bare;                 /* "eats apples" is fine */
    bool general;              /* "likes apples" is fine, and Spanish then wants an article */
    bool plain;                /* neither joined with another one nor with a relative clause */
};

/* Whether a determiner may stand before the noun. */
bool suits(const struct determiner *determiner, const struct wish *wish, const struct noun *noun,
           enum number number);

const struct noun *pick_noun(struct drawing *d, uint64_t tags, const struct noun *unlike);
const struct adjective *pick_adjective(struct drawing *d, const struct noun *noun, bool before,
                                       bool definite);

/* An adjective that can stand behind "is"; of this noun, or of any when it is NULL. */
const struct adjective *pick_predicate(struct drawing *d, const struct noun *noun);

/* A preposition; of a place where something with such tags can be, unless they are 0. */
const struct preposition *pick_preposition(struct drawing *d, enum preposition_kind kind, uint64_t subject);

const struct adverb *pick_adverb(struct drawing *d, enum adverb_kind kind);

/* A state of someone with such tags, or of anyone when they are 0. */
const struct state *pick_state(struct drawing *d, uint64_t subject);

const struct verb *pick_verb(struct drawing *d, bool transitive, bool dative);

/* A verb that is not dative, of what such a noun does, or of what is done to it ("the dog that ..."). */
const struct verb *pick_verb_of(struct drawing *d, uint64_t subject, bool transitive);
const struct verb *pick_verb_to(struct drawing *d, uint64_t object);

const struct determiner *pick_determiner(struct drawing *d, const struct wish *wish, const struct noun *noun,
                                         enum number number);
const struct pronoun *pick_pronoun(struct drawing *d);

#endif
