/* Words of a lexicon picked at random: each that fits with the same chance, or by its weight. NULL when none
 * fits. */
#ifndef QKV_DATASETS_RANDOM_WORDS_H
#define QKV_DATASETS_RANDOM_WORDS_H

#include "datasets/generate/random_sentence.h"

/* What a noun phrase may be like. */
struct noun_request {
    uint64_t tags;
    const struct noun *except; /* not this noun: "the dog sees the dog"; may be NULL */
    bool definite, indefinite; /* only */
    bool bare;                 /* "eats apples" is fine */
    bool general;              /* "likes apples" is fine, and Spanish then wants an article */
    bool plain;                /* neither joined with another one nor with a relative clause */
};

/* Whether a determiner may stand before the noun. */
bool determiner_fits(const struct determiner *determiner, const struct noun_request *request,
                     const struct noun *noun, enum number number);

const struct noun *pick_noun(struct sampler *sampler, uint64_t tags, const struct noun *except);
const struct adjective *pick_adjective(struct sampler *sampler, const struct noun *noun, bool before,
                                       bool definite);

/* An adjective that can stand behind "is"; of this noun, or of any when it is NULL. */
const struct adjective *pick_predicate(struct sampler *sampler, const struct noun *noun);

/* A preposition; of a place where something with such tags can be, unless they are 0. */
const struct preposition *pick_preposition(struct sampler *sampler, enum preposition_kind kind,
                                           uint64_t subject);

const struct adverb *pick_adverb(struct sampler *sampler, enum adverb_kind kind);

/* A state of someone with such tags, or of anyone when they are 0. */
const struct state *pick_state(struct sampler *sampler, uint64_t subject);

const struct verb *pick_verb(struct sampler *sampler, bool transitive, bool dative);

/* A verb that is not dative, of what such a noun does, or of what is done to it ("the dog that ..."). */
const struct verb *pick_verb_of(struct sampler *sampler, uint64_t subject, bool transitive);
const struct verb *pick_verb_to(struct sampler *sampler, uint64_t object);

const struct determiner *pick_determiner(struct sampler *sampler, const struct noun_request *request,
                                         const struct noun *noun, enum number number);
const struct pronoun *pick_pronoun(struct sampler *sampler);

#endif
